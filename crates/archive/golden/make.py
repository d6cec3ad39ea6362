"""Writes the golden files next to this script with PyTorch, safetensors and NumPy themselves.

    python make.py

Elements follow from a tensor's name and an element's position, so that the tests recompute them:
integers are (7 * position + length of the name) % 11, floats are half of that minus 5, truth values are "is even".
"""

import collections
import os
import pathlib
import pickle
import random
import types

import numpy
import safetensors.torch
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def pattern(name, shape, dtype=torch.float32):
    count = int(numpy.prod(shape, dtype=int))
    numbers = (torch.arange(count) * 7 + len(name)) % 11
    if dtype == torch.bool:
        numbers = numbers % 2 == 0
    elif dtype.is_floating_point:
        numbers = (numbers.double() - 5) / 2
    return numbers.to(dtype).reshape(shape)


def save(file, value, **options):
    torch.save(value, os.path.join(HERE, file), **options)
    # The containers differ, the content is the same: both are tested with one list of expectations.
    stem, _ = os.path.splitext(file)
    if not options:
        torch.save(value, os.path.join(HERE, stem + ".legacy.pt"), _use_new_zipfile_serialization=False)


def state(names_and_shapes):
    return collections.OrderedDict((name, pattern(name, shape)) for name, shape in names_and_shapes)


TYPES = ["float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool"]
NEW_TYPES = ["uint16", "uint32", "uint64"]
LAYER = [("conv.weight", (4, 3, 3, 3)), ("bn.running_mean", (4,)), ("fc.bias", (10,))]


def typed(names):
    return {name: pattern(name, (3, 5), getattr(torch, name)) for name in names}


def torch_files():
    save("types.pt", typed(TYPES))
    save("new_types.pt", typed(TYPES + NEW_TYPES), pickle_protocol=2)
    save("protocol5.pt", typed(TYPES), pickle_protocol=5)
    save("shapes.pt", {"scalar": pattern("scalar", ()), "empty": pattern("empty", (0, 3)), "one": pattern("one", (1, 1))})

    base = pattern("base", (4, 6))
    images = pattern("images", (2, 3, 4, 5))
    save(
        "views.pt",
        {
            "base": base,
            "transposed": base.t(),
            "columns": base[1:3, 2:5],
            "every_second": base[::2, 1::3],
            "tail": base[3],
            "tied": base,
            "expanded": pattern("expanded", (1, 4)).expand(3, 4),
            "channels_last": images.to(memory_format=torch.channels_last),
            "permuted": images.permute(3, 0, 2, 1),
        },
    )

    module = torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(3, 2), bn=torch.nn.BatchNorm1d(2)))
    with torch.no_grad():
        for name, value in module.state_dict().items():
            value.copy_(pattern(name, value.shape, value.dtype))
    save("module.pt", torch.nn.DataParallel(module).state_dict())

    parameter = torch.nn.Parameter(pattern("parameter", (2, 2)))
    tagged = pattern("tagged", (3,))
    tagged.origin = "a tensor with an attribute"
    tagged_parameter = torch.nn.Parameter(pattern("tagged_parameter", (2,)))
    tagged_parameter.origin = "a parameter with an attribute"
    save("parameters.pt", {"parameter": parameter, "tagged": tagged, "tagged_parameter": tagged_parameter})

    prefixed = collections.OrderedDict(("module." + name, value) for name, value in state(LAYER).items())
    save(
        "checkpoint.pth",
        {
            "epoch": 7,
            "arch": "resnet18",
            "state_dict": prefixed,
            "best_acc1": torch.tensor(71.5),
            "loss": numpy.float64(0.25),
            "milestones": collections.Counter([30, 60]),
            "device": torch.device("cpu"),
            "optimizer": {"state": {0: {"momentum": pattern("momentum", (3,))}}, "param_groups": [{"lr": 0.1}]},
        },
    )
    compiled = collections.OrderedDict(("_orig_mod.module." + name, value) for name, value in state(LAYER).items())
    save("compiled.pt", {"model": compiled, "step": 3})
    save("nested.pt", {"net": {"state_dict": state(LAYER)}})
    save("params_ema.pt", {"params_ema": state(LAYER)})
    averaged = collections.OrderedDict(("module." + name, value) for name, value in state(LAYER).items())
    averaged["n_averaged"] = torch.tensor(4)
    save("averaged.pt", averaged)
    save("groups.pt", {"encoder": state(LAYER), "decoder": state(LAYER[2:])})
    save("tensor.pt", pattern("tensor", (2, 3)))
    save("complex.pt", {"z": torch.zeros(2, dtype=torch.complex64)})
    # Only as zip: the legacy container would carry PyTorch's source code along.
    save("whole_module.pt", module, pickle_protocol=2)


class Network(torch.nn.Module):
    """A class that only this script knows, as the networks of trainers are."""
    def __init__(self):
        super().__init__()
        self.names = {0: "cat", 1: "dog"}
        self.settings = types.SimpleNamespace(mode="train", path=pathlib.PurePosixPath("/data"))
        self.body = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.SiLU())
        self.register_parameter("nothing", None)


def trainer_file():
    """What trainers write that save whole networks: an average in half precision beside what describes it."""
    network = Network().half()
    for name, value in network.state_dict().items():
        value.copy_(pattern(name, tuple(value.shape)) if value.dim() else value)
    save("trainer.pt", {"epoch": 3, "license": "AGPL-3.0 (https://example.org/license)", "model": None, "ema": network,
                        "updates": 12, "optimizer": None, "train_args": {"task": "detect"}}, pickle_protocol=2)


class Payload:
    def __reduce__(self):
        return os.system, ("echo pwned > pwned.txt",)


def hostile_files():
    save("payload.pt", {"weight": pattern("weight", (2,)), "extra": Payload()})


def safetensors_files():
    tensors = typed(TYPES + NEW_TYPES)
    tensors["scalar"] = pattern("scalar", ())
    tensors["empty"] = pattern("empty", (0, 3))
    path = os.path.join(HERE, "types.safetensors")
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt", "note": "é \"quoted\""})
    os.chmod(path, 0o644)


def pickles():
    shared = [1, 2]
    value = {
        "none": None,
        "truth": [True, False],
        "integers": [0, 1, -1, 255, 256, 65535, 65536, -(2**31), 2**31, 2**62, -(2**62)],
        "huge": 2**80,
        "floats": [0.5, -1e300, float("inf")],
        "text": "naïve €😀\n\\",
        "bytes": bytes(range(256)),
        "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
        "set": {5},
        "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
        "shared": [shared, shared],
        ("tuple", "key"): "x" * 300,
    }
    value["itself"] = value
    for protocol in range(6):
        with open(os.path.join(HERE, f"values.{protocol}.pkl"), "wb") as file:
            pickle.dump(value, file, protocol)


class Python2Pickler(pickle._Pickler):
    """Writes bytes as Python 2 wrote its strings, which is how CIFAR's batches are stored."""

    def save_bytes(self, value):
        if len(value) < 256:
            self.write(pickle.SHORT_BINSTRING + bytes([len(value)]) + value)
        else:
            self.write(pickle.BINSTRING + len(value).to_bytes(4, "little") + value)
        self.memoize(value)

    dispatch = dict(pickle._Pickler.dispatch)
    dispatch[bytes] = save_bytes


def arrays():
    data = numpy.arange(2 * 48, dtype=numpy.uint8).reshape(2, 48)
    batch = {b"batch_label": b"testing batch 1 of 1", b"labels": [3, 8], b"data": data, b"filenames": [b"a.png", b"b.png"]}
    with open(os.path.join(HERE, "cifar.python2.pkl"), "wb") as file:
        Python2Pickler(file, 2).dump(batch)
    for protocol in (2, 4, 5):
        with open(os.path.join(HERE, f"cifar.{protocol}.pkl"), "wb") as file:
            pickle.dump(batch, file, protocol)
    with open(os.path.join(HERE, "arrays.pkl"), "wb") as file:
        fortran = numpy.asfortranarray(numpy.arange(6, dtype=">i4").reshape(2, 3))
        pickle.dump({"fortran": fortran, "scalar": numpy.float32(1.5), "objects": numpy.array([{}])}, file, 2)


if __name__ == "__main__":
    torch.manual_seed(0)
    random.seed(0)
    torch_files()
    trainer_file()
    hostile_files()
    safetensors_files()
    pickles()
    arrays()
