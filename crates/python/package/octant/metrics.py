"""Metrics: COCO's average precision, areas under curves, distances of sets of features."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Union

from . import _native
from ._native import Array, frechet_distance, kernel_distance

__all__ = ["CocoFigures", "auc", "coco", "frechet_distance", "kernel_distance", "roc"]


class CocoFigures:
    """What COCO's evaluation finds. Figures are −1 where there are no objects."""

    def __init__(self, figures: dict[str, float], per_class: dict[int, float]) -> None:
        self.figures = figures
        """The twelve figures by name, in COCO's order."""
        self.per_class = per_class
        """AP by the number of the category."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CocoFigures) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"CocoFigures({self.figures})"

    @property
    def stats(self) -> list[float]:
        """The twelve figures as pycocotools' `COCOeval.stats` has them."""
        return list(self.figures.values())

    def __getitem__(self, name: str) -> float:
        return self.figures[name]


Coco = Union[str, "os.PathLike[str]", Mapping[str, Any], Sequence[Mapping[str, Any]]]


def coco(truth: Coco, predictions: Coco) -> CocoFigures:
    """COCO's evaluation of boxes: pycocotools' numbers, in a fraction of its time.

    `truth` is a COCO annotation file, its dictionary, or columns as arrays: `image_id`, `category_id`, `bbox` (a row of x, y, width
    and height per box), and where they are known `area` and `iscrowd`, with `images` and `categories` for those without boxes.
    `predictions` are a COCO results file, a list of its dictionaries, or such columns with `score`.

    >>> truth = [{"image_id": 1, "category_id": 3, "bbox": [10, 10, 50, 40], "area": 2000}]
    >>> found = [{"image_id": 1, "category_id": 3, "bbox": [10, 10, 50, 40], "score": 0.9}]
    >>> round(octant.metrics.coco(truth, found)["mAP50-95"], 9)
    1.0
    """
    figures, per_class = _native.coco(truth, predictions)
    return CocoFigures(dict(figures), per_class)


def roc(scores: Any, truth: Any) -> Array:
    """Points (false positive rate, true positive rate) from the strictest threshold to the loosest: float64 `[points, 2]`."""
    return _native.roc(scores, truth)[0]


def auc(scores: Any, truth: Any) -> float:
    """The area under that curve: 1 is perfect, 0.5 is chance; NaN where the truth has one value alone.

    >>> import numpy
    >>> octant.metrics.auc(numpy.array([0.1, 0.4, 0.35, 0.8]), numpy.array([0, 0, 1, 1]))
    0.75
    """
    return _native.roc(scores, truth)[1]
