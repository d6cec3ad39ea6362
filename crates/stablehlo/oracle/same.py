"""Compares portable artifacts with programs in text, both as jaxlib reads them.

    python same.py DIRECTORY

DIRECTORY holds 0.mlir and 0.mlirbc, 1.mlir and 1.mlirbc, … Prints a line per pair: its number, and "same" or what is wrong.
"""

import pathlib
import sys

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

folder = pathlib.Path(sys.argv[1])


def printed(artifact):
    with ir.Context() as context:
        module = stablehlo.deserialize_portable_artifact(context, artifact)
        return module.operation.get_asm(enable_debug_info=True, large_elements_limit=None).splitlines()


def named(lines):
    """Without the positions that a text has in its file: a layer's path is the only location that both have."""
    kept = [line.split(" loc(")[0] for line in lines if not line.startswith("#loc")]
    return kept, sorted({line.split("loc(")[1] for line in lines if line.startswith("#loc") and '("-"' not in line})


for path in sorted(folder.glob("*.mlir"), key=lambda path: int(path.stem)):
    try:
        # The version of the text goes the same way, so that both have lost what a version does not have.
        wanted = named(printed(stablehlo.serialize_portable_artifact_str(path.read_text(), "1.0.0")))
        found = named(printed((folder / f"{path.stem}.mlirbc").read_bytes()))
        differences = [pair for pair in zip(*(sum(each, []) for each in (wanted, found))) if pair[0] != pair[1]]
        if wanted == found:
            print(path.stem, "same")
        else:
            print(path.stem, f"{differences[:1] or 'another number of lines'}".replace("\n", " ")[:600])
    except Exception as error:  # Every pair is reported.
        print(path.stem, f"{type(error).__name__}: {error}".replace("\n", " ")[:600])
