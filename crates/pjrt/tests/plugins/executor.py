"""Runs the programs of the fake plugin with XLA's CPU implementation, as shipped in jaxlib: one process beside each process that
loads the plugin. Sums over processes go through gloo.

    python executor.py DEVICES ADDRESS NODE NODES

DEVICES are those of this process; ADDRESS is where the first one listens for the others, "-" for a single one. Requests come on
standard input and replies go to standard output, each behind its length. Numbers are little-endian with 32 bits, bytes come behind
their count:

    C text options                                  K number, or E sentence
    X program devices (count (tensor)*)*            K devices (count (tensor)*)*, or E sentence

A tensor is its element type, a number of PJRT's interface, its dimensions behind their count, and its bytes.
"""

import ctypes
import os
import re
import signal
import struct
import sys

# This process ends with the one that started it, also while it waits for another one's part of a sum.
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
DEVICES, ADDRESS, NODE, NODES = int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
os.environ["JAX_PLATFORMS"] = "cpu"
FLAGS = [f"--xla_force_host_platform_device_count={DEVICES}", "--xla_backend_optimization_level=0"]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])

# What libraries print must not get between the replies.
REPLIES = os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)

import jax
import ml_dtypes
import numpy as np
from jax.extend import backend
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client

DTYPES = {
    1: np.bool_, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 6: np.uint8, 7: np.uint16, 8: np.uint32, 9: np.uint64,
    10: np.float16, 11: np.float32, 12: np.float64, 13: ml_dtypes.bfloat16,
}
NUMBERS = {np.dtype(dtype): number for number, dtype in DTYPES.items()}

jax.config.update("jax_enable_x64", True)
if NODES > 1:
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # The processes that load the plugin watch each other themselves.
    jax.distributed.initialize(ADDRESS, NODES, NODE, heartbeat_timeout_seconds=3600)
CLIENT = backend.get_backend("cpu")
PROGRAMS = []


class Request:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self):
        return struct.unpack("<I", self.take(4))[0]

    def bytes(self):
        return self.take(self.number())

    def array(self):
        dtype = np.dtype(DTYPES[self.number()])
        dims = [self.number() for _ in range(self.number())]
        return np.frombuffer(self.bytes(), dtype).reshape(dims)


def number(value):
    return struct.pack("<I", value)


def tensor(array):
    dims = b"".join(number(dim) for dim in array.shape)
    data = array.tobytes()
    return number(NUMBERS[array.dtype]) + number(array.ndim) + dims + number(len(data)) + data


def device(number):
    """The device that the fake means: its numbers do not follow the order of processes."""
    if number < 1000:
        node, local = 0, number // 10 - 1
    else:
        count = number % 1000 // 10 - 1
        node, local = count % NODES, count // NODES
    of_node = [device for device in CLIENT.devices() if device.process_index == node]
    return sorted(of_node, key=lambda device: device.id)[local]


def compile(request):
    text, options = request.bytes(), xla_client.CompileOptions.ParseFromString(request.bytes())
    build = options.executable_build_options
    assigned = build.device_assignment or options.device_assignment
    count = options.num_partitions = build.num_partitions
    # The assignment shows its numbers as text alone: Computation0{1010} Computation1{1030}.
    devices = [device(int(number)) for number in re.findall(r"\{(\d+)\}", repr(assigned))]
    options.num_replicas = 1
    ids = np.array([device.id for device in devices]).reshape(1, count)
    options.device_assignment = build.device_assignment = xla_client.DeviceAssignment.create(ids)
    PROGRAMS.append((CLIENT.compile_and_load(text, xla_client.DeviceList(tuple(devices)), options), devices))
    return number(len(PROGRAMS) - 1)


def execute(request):
    executable, devices = PROGRAMS[request.number()]
    here = [device for device in devices if device.process_index == NODE]
    lists = [[request.array() for _ in range(request.number())] for _ in range(request.number())]
    mesh = Mesh(np.array(devices), ["device"])
    # How a program divides a tensor is its own affair: each device's part is one row of an array of as many rows as devices.
    def whole(parts):
        placed = [jax.device_put(part, device) for part, device in zip(parts, here, strict=True)]
        shape = (parts[0].shape[0] * len(devices), *parts[0].shape[1:]) if parts[0].ndim else ()
        spec = PartitionSpec("device") if parts[0].ndim else PartitionSpec()
        return jax.make_array_from_single_device_arrays(shape, NamedSharding(mesh, spec), placed)

    results = executable.execute_sharded([whole(parts) for parts in zip(*lists, strict=True)])
    outputs = results.disassemble_into_single_device_arrays()
    # One list of devices per output, in the order of the program's devices.
    by_device = [[np.asarray(parts[local]) for parts in outputs] for local in range(len(here))]
    return number(len(here)) + b"".join(number(len(list)) + b"".join(map(tensor, list)) for list in by_device)


def read(count):
    data = b""
    while len(data) < count:
        more = os.read(0, count - len(data))
        if not more:
            os._exit(0)
        data += more
    return data


def main():
    work = {b"C": compile, b"X": execute}
    while True:
        request = Request(read(struct.unpack("<I", read(4))[0]))
        try:
            reply = b"K" + work[request.take(1)](request)
        except Exception as error:  # Whatever it is, the caller has to know.
            reply = b"E" + f"{type(error).__name__}: {error}".encode()[:4000]
        REPLIES.write(number(len(reply)) + reply)
        REPLIES.flush()


main()
