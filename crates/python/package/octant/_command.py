"""The command `octant`, and commands whose results are wanted in Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import _native

PROGRAM = [sys.executable, "-m", "octant"]


def main() -> NoReturn:
    """The command line: the script `octant`, and `python -m octant`."""
    import signal

    # Python would only note the signal, and look at it when the command is over.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.run_command(PROGRAM, sys.argv[1:]))


def results(command: str, name: str, flags: dict[str, Any]) -> list[dict[str, Any]]:
    """The lines that a command prints as JSON. It runs in a process of its own, as its compilers may need."""
    # Importing octant is light: what few programs need is imported here.
    import json
    import subprocess

    words = [*PROGRAM, command, name, "--json"]
    for flag, value in flags.items():
        if value is None or value is False:
            # A flag that is left out is not looked at, so a misspelled one would be ignored.
            raise _native.OctantError(f"`{flag}` is {value}; leave it out, which means the same")
        words.append(f"--{flag.replace('_', '-')}")
        if isinstance(value, Sequence) and not isinstance(value, str):
            words.append(",".join(map(str, value)))
        elif value is not True:
            words.append(os.fspath(value) if isinstance(value, os.PathLike) else str(value))
    done = subprocess.run(words, capture_output=True, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 and not rows:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or [f"it ended with {done.returncode}"]
        sentence = next((line for line in lines if line.startswith(("octant: ", "error: "))), lines[-1])
        raise _native.OctantError(sentence.split(": ", 1)[-1])
    return rows


def plan(recipe: str, *, on: str | Sequence[str], **flags: Any) -> list[dict[str, Any]]:
    """What a recipe needs on machines that are not attached: memory, time and cost, a dictionary per machine.

    `on` are machines such as "v3-8" or "h200"; `flags` are those of `octant plan`.

    >>> [row] = octant.plan("glyphs", on="h200", batch_size=32)
    >>> row["batch_size"], row["fits"]
    (32, True)
    """
    return results("plan", recipe, {"on": on, **flags})


def bench(subject: str, **flags: Any) -> list[dict[str, Any]]:
    """The speed of a model or a recipe on data in memory: what `octant bench` measures, with its flags.

    >>> rows = octant.bench("resnet-tiny", device="cpu", mode="infer", batch_size=2)
    >>> rows[0]["model"]
    'resnet-tiny'
    """
    return results("bench", subject, flags)
