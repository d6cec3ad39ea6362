"""Drives a server with tritonclient, unchanged. Arguments: the address, the model, a folder with images.f32 (two normalized
images, little-endian, [2, 3, 32, 32]), logits.f32 (what the predictor returns), image.png and probabilities.f32."""

import sys

import numpy as np
import tritonclient.grpc as grpc
import tritonclient.http as http
from tritonclient.utils import InferenceServerException

address, model, folder = sys.argv[1:]
images = np.fromfile(f"{folder}/images.f32", "<f4").reshape(2, 3, 32, 32)
logits = np.fromfile(f"{folder}/logits.f32", "<f4").reshape(2, 3)
probabilities = np.fromfile(f"{folder}/probabilities.f32", "<f4").reshape(1, 3)
encoded = np.array([open(f"{folder}/image.png", "rb").read()], dtype=object)


def tensor(library, name, values, datatype, **how):
    given = library.InferInput(name, list(values.shape), datatype)
    given.set_data_from_numpy(values, **how)
    return given


def check(library):
    client = library.InferenceServerClient(address)
    assert client.is_server_live() and client.is_server_ready() and client.is_model_ready(model)
    assert client.is_model_ready(model, "1")
    assert not client.is_model_ready("nothing")
    described = client.get_model_metadata(model)
    names = described["inputs"] if library is http else described.inputs
    names = [entry["name"] if library is http else entry.name for entry in names]
    assert names == ["images", "image"], names
    ways = [{"binary_data": True}, {"binary_data": False}] if library is http else [{}]
    for way in ways:
        given = tensor(library, "images", images, "FP32", **way)
        for outputs in [None, [library.InferRequestedOutput("logits", **way)]]:
            result = client.infer(model, [given], outputs=outputs, request_id="17")
            assert np.array_equal(result.as_numpy("logits"), logits), way
            response = result.get_response()
            assert (response["id"] if library is http else response.id) == "17"
    result = client.infer(model, [tensor(library, "image", encoded, "BYTES")])
    assert np.array_equal(result.as_numpy("probabilities"), probabilities)
    best = int(result.as_numpy("classes")[0, 0])
    assert best == int(probabilities.argmax()) and result.as_numpy("labels")[0, 0] == str(best).encode()
    # Many at once: each gets its own response.
    begun = []
    for index in range(40):
        row = index % 2
        given = [tensor(library, "images", images[row : row + 1], "FP32")]
        if library is http:
            begun.append((row, client.async_infer(model, given)))
        else:
            waiting = []
            client.async_infer(model, given, lambda result, error, waiting=waiting: waiting.append((result, error)))
            begun.append((row, waiting))
    for row, waiting in begun:
        if library is http:
            result = waiting.get_result()
        else:
            while not waiting:
                pass
            result, error = waiting[0]
            assert error is None, error
        assert np.array_equal(result.as_numpy("logits")[0], logits[row])
    try:
        client.infer("nothing", [tensor(library, "images", images, "FP32")])
        raise SystemExit("an unknown model was not refused")
    except InferenceServerException as error:
        assert "there is no model" in str(error), error
    client.close()


check(grpc)
check(http)
print("agreed")
