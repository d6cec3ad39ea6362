"""The loader, for programs with a training loop of their own."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Optional, Union

from . import _native
from ._native import Loader as _Loader

StrPath = Union[str, "os.PathLike[str]"]


def Loader(
    source: StrPath,
    *,
    transform: Optional[Union[str, Sequence[dict[str, Any]]]] = None,
    batch: Optional[int] = None,
    seed: int = 0,
    part: str = "train",
    recipe: Optional[str] = None,
    shuffle: Optional[bool] = None,
    last: Optional[str] = None,
    workers: int = 0,
    prefetch: int = 4,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool = False,
    **settings: Any,
) -> _Loader:
    """Batches of a data set, deterministic: the same ones for any number of threads, ranks, and across a resume.

    `source` is a folder with a folder per class, a COCO json, an Ultralytics yaml, a folder of Pascal VOC, WebDataset or TFRecord
    shards, what `octant data pack` wrote, an address of an object store, or the name of generated data such as "glyphs".
    `transform` is a pipeline by name ("imagenet", "finetune", "model", "none" …) or a list of steps such as
    `{"op": "random-resized-crop", "size": [224, 224]}` (docs/recipes.md lists them); if not given, it is that of `recipe`, which is
    "detect" for boxes and "classify" otherwise. Boxes are augmented as `augment` says: `augment={"mosaic": 1.0}`. Other settings
    are those of the recipe, such as `image_size` and `cache="ram"`.

    `batch` counts images over all ranks; of `world_size` ranks each loads its own part of every batch. `part` is "train", shuffled
    and augmented, or "val", in order. `last` says what becomes of samples that do not fill the last batch: "drop" leaves them out of the
    epoch, which is usual for training, "short" makes a smaller batch, which is usual for validation, and "pad" fills it up with rows
    without meaning, whose `mask` is 0. There are no worker processes: threads prepare the next batches
    while yours is computed on. `workers` is their number, one per core if 0, and `prefetch` how many batches they prepare
    beforehand. With `pin_memory` every batch is copied, when it is taken, into page-locked memory of PyTorch, from which
    `.cuda(non_blocking=True)` copies while the program continues; a warning says that it has no effect where PyTorch has no CUDA.

    Iterating yields the rest of an epoch, and the next time the next epoch. `state_dict()` and `load_state_dict()` resume in the
    middle.

    >>> loader = octant.Loader("glyphs", batch=16, transform="none", **{"data.train": 64})
    >>> len(loader)
    4
    >>> [batch.images.shape for batch in loader][:1]
    [(16, 28, 28, 1)]
    >>> images, classes = next(iter(loader))
    >>> classes.shape
    (16,)
    """
    return _native.open_loader(
        source,
        {"seed": seed, "workers": workers, **settings},
        recipe=recipe,
        transform=transform,
        part=part,
        batch=batch,
        shuffle=shuffle,
        last=last,
        prefetch=prefetch,
        rank=rank,
        world_size=world_size,
        pin_memory=pin_memory,
    )
