"""Metrics: COCO's average precision, areas under curves, distances of sets of features."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Optional, Union

from . import _native
from ._native import Array, frechet_distance, kernel_distance

__all__ = ["CocoFigures", "auc", "coco", "frechet_distance", "kernel_distance", "roc"]


class CocoFigures:
    """What COCO's evaluation finds. Figures are −1 where there are no objects."""

    def __init__(self, figures: dict[str, float], per_class: dict[int, float]) -> None:
        self.figures = figures
        """The figures by name, in COCO's order: twelve, of keypoints ten."""
        self.per_class = per_class
        """AP by the number of the category."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CocoFigures) and vars(self) == vars(other)

    def __repr__(self) -> str:
        return f"CocoFigures({self.figures})"

    @property
    def stats(self) -> list[float]:
        """The figures as pycocotools' `COCOeval.stats` has them."""
        return list(self.figures.values())

    def __getitem__(self, name: str) -> float:
        return self.figures[name]


Coco = Union[str, "os.PathLike[str]", Mapping[str, Any], Sequence[Mapping[str, Any]]]


def coco(
    truth: Coco,
    predictions: Coco,
    *,
    iou_type: str = "bbox",
    max_dets: Optional[Sequence[int]] = None,
    sigmas: Optional[Sequence[float]] = None,
) -> CocoFigures:
    """COCO's evaluation of boxes, masks or keypoints: pycocotools' numbers, in a fraction of its time.

    `truth` is a COCO annotation file, its dictionary, a list of its annotations, or columns as arrays: `image_id`, `category_id`,
    `bbox` (a row of x, y, width and height per box), and where they are known `area` and `iscrowd`, with `images` and `categories`
    for those without boxes. `predictions` are a COCO results file, a list of its dictionaries, or such columns with `score`.

    `iou_type` says what is compared, by pycocotools' names:

    - `"bbox"`: boxes.
    - `"segm"`: masks, from `segmentation`: polygons (their image must list its `height` and `width`), runs (`size` and `counts`, as
      text or numbers), or an array of height × width in bool or uint8, such as one of `Prediction.masks`. As a column it is a list.
    - `"keypoints"`: x, y and visibility of every keypoint, from `keypoints`; as a column `[objects, keypoints, 3]`. Objects need their
      `bbox` and `area`, too. `sigmas` has a number per keypoint; if not given, they are COCO's for its 17, and 1 / count for others.

    As in pycocotools, predictions are small or large by their `bbox` where they have one, else by their mask or keypoints.
    `max_dets` is how many predictions of an image and a class count: three numbers, 1, 10 and 100 if not given, of keypoints one, 20
    if not given. All figures but the first two of recall are with the last of them.

    >>> truth = [{"image_id": 1, "category_id": 3, "bbox": [10, 10, 50, 40], "area": 2000}]
    >>> found = [{"image_id": 1, "category_id": 3, "bbox": [10, 10, 50, 40], "score": 0.9}]
    >>> round(octant.metrics.coco(truth, found)["mAP50-95"], 9)
    1.0
    >>> import numpy
    >>> mask = numpy.zeros((60, 80), "uint8")
    >>> mask[10:50, 10:60] = 1
    >>> truth = [{"image_id": 1, "category_id": 3, "segmentation": {"size": [60, 80], "counts": [610, *[40, 20] * 49, 40, 1210]}}]
    >>> found = [{"image_id": 1, "category_id": 3, "segmentation": mask, "score": 0.9}]
    >>> round(octant.metrics.coco(truth, found, iou_type="segm")["mAP50-95"], 9)
    1.0
    >>> points = {"image_id": 1, "category_id": 1, "keypoints": [20, 30, 2, 40, 30, 2, 30, 50, 1]}
    >>> truth, found = [{**points, "bbox": [10, 10, 50, 40], "area": 2000}], [{**points, "score": 0.9}]
    >>> round(octant.metrics.coco(truth, found, iou_type="keypoints", sigmas=[0.03, 0.03, 0.05])["AR"], 9)
    1.0
    """
    counted = None if max_dets is None else list(max_dets)
    figures, per_class = _native.coco(truth, predictions, iou_type, counted, None if sigmas is None else list(sigmas))
    return CocoFigures(dict(figures), per_class)


def roc(scores: Any, truth: Any) -> Array:
    """Points (false positive rate, true positive rate) from the strictest threshold to the loosest: float64 `[points, 2]`.

    >>> import numpy
    >>> octant.metrics.roc(numpy.array([0.1, 0.4, 0.35, 0.8]), numpy.array([0, 0, 1, 1])).tolist()[-1]
    [1.0, 1.0]
    """
    return _native.roc(scores, truth)[0]


def auc(scores: Any, truth: Any) -> float:
    """The area under that curve: 1 is perfect, 0.5 is chance; NaN where the truth has one value alone.

    >>> import numpy
    >>> octant.metrics.auc(numpy.array([0.1, 0.4, 0.35, 0.8]), numpy.array([0, 0, 1, 1]))
    0.75
    """
    return _native.roc(scores, truth)[1]
