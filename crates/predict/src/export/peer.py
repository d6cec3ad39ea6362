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


try:
    import numpy

    version, run = {"onnxruntime": onnxruntime_model, "openvino": openvino_model}[runtime]()
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
