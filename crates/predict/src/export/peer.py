"""Executes a model file for Octant: batches come over standard input, results go to standard output.

A message is a line of JSON, followed by the bytes of the tensors that it lists. The first message names the runtime, or
says why it cannot be used.
"""

import json
import sys

_, runtime, path = sys.argv
output = sys.stdout.buffer


def reply(message, tensors=()):
    output.write(json.dumps(message).encode() + b"\n")
    for tensor in tensors:
        output.write(tensor.tobytes())
    output.flush()


def onnxruntime_model():
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    # Without it, sums of 8-bit products saturate at 16 bits on processors that lack VNNI.
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return onnxruntime.__version__, lambda batch: session.run(None, {name: batch})


def openvino_model():
    import openvino

    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    def run(batch):
        results = model(batch)
        return [results[each] for each in model.outputs]

    return openvino.__version__, run


def jaxlib_model():
    import os
    import pathlib

    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    contents = pathlib.Path(path).read_bytes()
    weights = pathlib.Path(path + ".safetensors")
    weights = [read_weights(weights)] if weights.exists() else []
    if not contents.startswith(b"ML\xefR"):
        exported = jax.export.deserialize(bytearray(contents))
        return jax.__version__, lambda batch: jax.tree.leaves(exported.call(batch, *weights))

    from jax.extend import backend
    from jaxlib import xla_client

    client = backend.get_backend("cpu")
    devices = client.local_devices()[:1]
    executable = client.compile_and_load(contents, xla_client.DeviceList(tuple(devices)), xla_client.CompileOptions())
    # Weights are the arguments behind the batch, in the order of their names.
    constants = [jax.device_put(each[name], devices[0]) for each in weights for name in sorted(each)]

    def run(batch):
        results = executable.execute_sharded([jax.device_put(batch, devices[0]), *constants])
        return [numpy.asarray(part[0]) for part in results.disassemble_into_single_device_arrays()]

    return jax.__version__, run


def read_weights(file):
    """The tensors of a safetensors file: the length of a JSON header, the header, the elements."""
    contents = file.read_bytes()
    start = 8 + int.from_bytes(contents[:8], "little")
    kinds = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
    tensors = {}
    for name, each in json.loads(contents[8:start]).items():
        if name != "__metadata__":
            first, last = each["data_offsets"]
            elements = numpy.frombuffer(contents[start + first : start + last], kinds[each["dtype"]])
            tensors[name] = elements.reshape(each["shape"])
    return tensors


try:
    import numpy

    models = {"onnxruntime": onnxruntime_model, "openvino": openvino_model, "jaxlib": jaxlib_model}
    version, run = models[runtime]()
except ImportError as error:
    reply({"missing": str(error)})
    sys.exit()
except Exception as error:
    reply({"error": f"{type(error).__name__}: {error}"[:600]})
    sys.exit()

reply({"runtime": f"{runtime} {version}"})
for line in iter(sys.stdin.buffer.readline, b""):
    message = json.loads(line)
    kind = numpy.dtype(message["dtype"])
    size = int(numpy.prod(message["dims"])) * kind.itemsize
    batch = numpy.frombuffer(sys.stdin.buffer.read(size), kind).reshape(message["dims"])
    try:
        found = [numpy.ascontiguousarray(each) for each in run(batch)]
    except Exception as error:
        reply({"error": f"{type(error).__name__}: {error}"[:600]})
        sys.exit()
    tensors = [{"dims": each.shape, "dtype": each.dtype.str} for each in found]
    reply({"tensors": tensors}, found)
