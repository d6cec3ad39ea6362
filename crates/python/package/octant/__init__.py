"""Octant: train, fine-tune and use vision models on CPUs, GPUs and TPUs.

>>> run = octant.train("glyphs", out=folder / "run", device="cpu", epochs=1, progress=False, **{"data.train": 640, "data.test": 64})
>>> run.ending, sorted(run.metrics)[:2]
('done', ['accuracy', 'epoch'])
>>> model = octant.load(run.path, device="cpu")
>>> import numpy
>>> prediction = model(numpy.zeros((28, 28), "uint8"))
>>> prediction.class_name in model.names
True
"""

from . import imaging, metrics
from ._command import bench, main, plan
from ._data import Loader
from ._native import (
    Array,
    Batch,
    Model,
    OctantError,
    Plot,
    Prediction,
    Training,
    __version__,
    load,
)
from ._train import Run, evaluate, models, recipe, recipes, start, train

__all__ = [
    "Array",
    "Batch",
    "Loader",
    "Model",
    "OctantError",
    "Plot",
    "Prediction",
    "Run",
    "Training",
    "__version__",
    "bench",
    "evaluate",
    "imaging",
    "load",
    "main",
    "metrics",
    "models",
    "plan",
    "recipe",
    "recipes",
    "start",
    "train",
]
