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
    """The program, and the paths of layers; a text has positions in its file beside them, which an artifact does not have."""
    with ir.Context() as context:
        module = stablehlo.deserialize_portable_artifact(context, artifact).operation
        lines = module.get_asm(large_elements_limit=None).splitlines()
        locations = [line for line in module.get_asm(enable_debug_info=True).splitlines() if line.startswith("#loc")]
    layers = {line.split(" = ", 1)[1] for line in locations if '"-":' not in line and "(unknown)" not in line}
    return lines + sorted(layers)


for path in sorted(folder.glob("*.mlir"), key=lambda path: int(path.stem)):
    try:
        # The text is written as an artifact, too, so that both have lost what version 1.0 does not have.
        wanted = printed(stablehlo.serialize_portable_artifact_str(path.read_text(), "1.0.0"))
        found = printed((folder / f"{path.stem}.mlirbc").read_bytes())
        differences = [pair for pair in zip(wanted, found) if pair[0] != pair[1]]
        if wanted == found:
            print(path.stem, "same")
        else:
            print(path.stem, f"{differences[:1] or 'another number of lines'}".replace("\n", " ")[:600])
    except Exception as error:  # Every pair is reported.
        print(path.stem, f"{type(error).__name__}: {error}".replace("\n", " ")[:600])
