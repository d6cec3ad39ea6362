"""Runs StableHLO programs with XLA's CPU implementation, as shipped in jaxlib: the oracle of the lowering's tests. Programs are
text or portable artifacts.

    python run.py DIRECTORY quick|usual

"quick" takes XLA's older emitters of element-wise code, which compile in a third of the time and have faults of their own.

DIRECTORY holds cases.json, a list of programs:

    {"module": "0.mlir", "inputs": "0.in", "outputs": "0.out", "mesh": [["data", 2], ["fsdp", 4]],
     "arguments": [{"dtype": "bf16", "dims": [2, 3], "split": [["data"], []]}, ...], "results": [...]}

Input files are the arguments' elements one after another, row-major, little-endian; output files are written the same way.
"split" names the axes of the mesh that split each dimension of a tensor; a mesh without axes is one device. What went wrong goes
to results.json: one sentence per program, or null.
"""

import concurrent.futures
import json
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"
# What is compiled runs once on a few numbers, so the time of compilation is all that counts.
FLAGS = ["--xla_force_host_platform_device_count=8", "--xla_backend_optimization_level=0"]
if sys.argv[2] == "quick":
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])

import jax
import ml_dtypes
import numpy as np
from jax.extend import backend
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client

jax.config.update("jax_enable_x64", True)

DTYPES = {
    "bool": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8, "u16": np.uint16,
    "u32": np.uint32, "u64": np.uint64, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
}


def read_arguments(path, described):
    data, offset, arrays = path.read_bytes(), 0, []
    for argument in described:
        dtype = np.dtype(DTYPES[argument["dtype"]])
        count = int(np.prod(argument["dims"], dtype=np.int64))
        array = np.frombuffer(data, dtype, count, offset).reshape(argument["dims"])
        offset += count * dtype.itemsize
        arrays.append(array)
    return arrays


def compile_options(devices):
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = 1, devices
    options.device_assignment = xla_client.DeviceAssignment.create(np.arange(devices).reshape(1, devices))
    if devices > 1:
        build = options.executable_build_options
        build.num_replicas, build.num_partitions = 1, devices
        build.device_assignment = options.device_assignment
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
    return options


def sharding(split, mesh):
    return NamedSharding(mesh, PartitionSpec(*(tuple(axes) or None for axes in split)))


def join(parts, dims, split, mesh):
    """The whole of the devices' parts; copies of one part must be equal."""
    parts = [np.asarray(part) for part in parts]
    whole, known = np.zeros(dims, parts[0].dtype), {}
    for device, window in sharding(split, mesh).devices_indices_map(tuple(dims)).items():
        part = parts[list(mesh.devices.flat).index(device)]
        if known.setdefault(str(window), part.tobytes()) != part.tobytes():
            raise ValueError("the copies of a replicated result differ")
        whole[window] = part
    return whole


def run(folder, case):
    client = backend.get_backend("cpu")
    names, lengths = [name for name, _ in case["mesh"]], [length for _, length in case["mesh"]]
    devices = client.local_devices()[: int(np.prod(lengths, dtype=np.int64))]
    mesh = Mesh(np.array(devices).reshape(lengths), names)
    module = (folder / case["module"]).read_bytes()
    executable = client.compile_and_load(module, xla_client.DeviceList(tuple(devices)), compile_options(len(devices)))
    arrays = read_arguments(folder / case["inputs"], case["arguments"])
    placed = [jax.device_put(array, sharding(argument["split"], mesh)) for array, argument in zip(arrays, case["arguments"])]
    results = executable.execute_sharded(placed).disassemble_into_single_device_arrays()
    with open(folder / case["outputs"], "wb") as file:
        for parts, described in zip(results, case["results"], strict=True):
            whole = join(parts, described["dims"], described["split"], mesh)
            expected = (np.dtype(DTYPES[described["dtype"]]), tuple(described["dims"]))
            if (whole.dtype, whole.shape) != expected:
                raise ValueError(f"a result is {whole.dtype}{list(whole.shape)} instead of {described}")
            file.write(np.ascontiguousarray(whole).tobytes())


def attempt(folder, case):
    try:
        run(folder, case)
    except Exception as error:  # Whatever it is, it belongs to this case and the others continue.
        return f"{type(error).__name__}: {error}"[:2000]
    return None


def main():
    folder = pathlib.Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text())
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = list(pool.map(lambda case: attempt(folder, case), cases))
    (folder / "results.json").write_text(json.dumps(problems))


main()
