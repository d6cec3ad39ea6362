"""Runs exported models in onnxruntime and prints, as JSON, how far each result is from the expected one.

usage: onnxruntime_check.py FOLDER

The folder holds NAME.onnx, and for some batch sizes B NAME.B.x.npy and NAME.B.y.npy.
"""

import json
import pathlib
import sys

import numpy
import onnx
import onnxruntime

folder = pathlib.Path(sys.argv[1])
for path in sorted(folder.glob("*.onnx")):
    row = {"name": path.stem}
    try:
        onnx.checker.check_model(str(path), full_check=True)
        model = onnx.load(path)
        operations = [node.op_type for node in model.graph.node]
        row["operations"] = {name: operations.count(name) for name in sorted(set(operations))}
        options = onnxruntime.SessionOptions()
        # What onnxruntime makes of it before it is fitted to this processor.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        # Without it, sums of 8-bit products saturate at 16 bits on processors that lack VNNI.
        options.add_session_config_entry("session.x64quantprecision", "1")
        options.optimized_model_filepath = str(folder / "optimized.model")
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        optimized = [node.op_type for node in onnx.load(options.optimized_model_filepath).graph.node]
        row["optimized"] = {name: optimized.count(name) for name in sorted(set(optimized))}
        worst = 0.0
        for given in sorted(folder.glob(f"{path.stem}.*.x.npy")):
            wanted = numpy.load(str(given).replace(".x.npy", ".y.npy"))
            found = session.run(None, {session.get_inputs()[0].name: numpy.load(given)})[0]
            if found.shape != wanted.shape:
                raise ValueError(f"{given.name}: {found.shape} instead of {wanted.shape}")
            worst = max(worst, float(numpy.abs(found - wanted).max() / max(float(numpy.abs(wanted).max()), 1e-12)))
        row["difference"] = worst
    except Exception as error:  # Every model is reported.
        row["error"] = f"{type(error).__name__}: {error}"[:900]
    print(json.dumps(row), flush=True)
