"""Image operations with named semantics: the results of Pillow, torchvision, OpenCV or TensorFlow, to the last bit."""

from __future__ import annotations

from typing import Any, Optional

from . import _native
from ._native import Array

__all__ = ["resize"]


def resize(
    image: Any,
    size: tuple[int, int],
    *,
    filter: str = "bilinear",
    semantics: str = "pil",
    antialias: Optional[bool] = None,
) -> Array:
    """Resizes an image of height × width (× channels), or a batch of them, to a height and a width.

    `filter` is nearest, bilinear, bicubic, area or lanczos; `semantics` names the library whose results are wanted: pil (or
    pillow), torchvision, opencv or tensorflow. `antialias` is the library's own choice if not given. Elements are uint8, uint16 or
    float32, and stay so.

    >>> import numpy
    >>> image = numpy.arange(48, dtype="uint8").reshape(4, 4, 3)
    >>> octant.imaging.resize(image, (2, 2), semantics="pillow").shape
    (2, 2, 3)
    """
    return _native.resize(image, size, filter, semantics, antialias)
