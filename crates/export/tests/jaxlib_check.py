"""Executes exported StableHLO programs with jaxlib and prints how far each result is from the expected one.

usage: jaxlib_check.py FOLDER

The folder holds NAME.program, a portable artifact or a message of jax.export, NAME.x.npy, NAME.y.npy, and for some programs
their weights, NAME.program.safetensors.
"""

import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import numpy
from jax.extend import backend
from jaxlib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

folder = pathlib.Path(sys.argv[1])
client = backend.get_backend("cpu")
devices = xla_client.DeviceList(tuple(client.local_devices()[:1]))


def read_weights(path):
    contents = path.read_bytes()
    start = 8 + int.from_bytes(contents[:8], "little")
    tensors = {}
    for name, each in json.loads(contents[8:start]).items():
        if name != "__metadata__":
            first, last = each["data_offsets"]
            kind = {"F32": "<f4", "I32": "<i4", "I64": "<i8"}[each["dtype"]]
            tensors[name] = numpy.frombuffer(contents[start + first : start + last], kind).reshape(each["shape"])
    return tensors


def results(contents, images, weights):
    if not contents.startswith(b"ML\xefR"):
        exported = jax.export.deserialize(bytearray(contents))
        return jax.tree.leaves(exported.call(images, *([weights] if weights else [])))
    with ir.Context() as context:
        # The module verifies when it is read.
        stablehlo.deserialize_portable_artifact(context, contents)
    executable = client.compile_and_load(contents, devices, xla_client.CompileOptions())
    inputs = [jax.device_put(each) for each in [images, *(weights[name] for name in sorted(weights))]]
    parts = executable.execute_sharded(inputs).disassemble_into_single_device_arrays()
    return [part[0] for part in parts]


for path in sorted(folder.glob("*.program")):
    try:
        images, wanted = (numpy.load(folder / f"{path.stem}.{ending}.npy") for ending in "xy")
        beside = pathlib.Path(f"{path}.safetensors")
        found = numpy.asarray(results(path.read_bytes(), images, read_weights(beside) if beside.exists() else {})[0])
        if found.shape != wanted.shape:
            raise ValueError(f"{found.shape} instead of {wanted.shape}")
        print(path.stem, float(numpy.abs(found - wanted).max() / numpy.abs(wanted).max()), flush=True)
    except Exception as error:  # Every model is reported.
        print(path.stem, f"{type(error).__name__}: {error}".replace("\n", " ")[:400], flush=True)
