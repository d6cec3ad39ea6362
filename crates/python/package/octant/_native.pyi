"""The compiled part of the package octant."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Optional, Union

StrPath = Union[str, os.PathLike[str]]

__version__: str

class OctantError(Exception):
    """What could not be done, in a sentence that says what to do."""

class Array:
    """Elements of one type in memory, row by row.

    NumPy, PyTorch and JAX read it without a copy: `numpy.asarray(array)`, `torch.from_dlpack(array)` or `torch.as_tensor(array)`,
    `jax.dlpack.from_dlpack(array)`; `jax.numpy.asarray(array)` converts float64 as it does NumPy's arrays.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """The length of every axis."""
    @property
    def dtype(self) -> Any:
        """The element type: NumPy's where NumPy is installed, else its name. Both equal the name: `array.dtype == "float32"`."""
    @property
    def ndim(self) -> int:
        """How many axes it has."""
    @property
    def size(self) -> int:
        """How many elements it has."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[tuple[int, int]] = None,
        dl_device: Optional[tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any: ...
    def __dlpack_device__(self) -> tuple[int, int]: ...
    def numpy(self) -> Any:
        """The same memory as a NumPy array."""
    def tolist(self) -> Any:
        """The elements as nested lists."""
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Any:
        """What NumPy would return; without NumPy, a number counts along the first axis."""

class Plot:
    """A drawn image: notebooks show it, and NumPy reads its pixels."""

    @property
    def pixels(self) -> Array:
        """Its pixels: uint8 `[height, width, channels]`."""
    @property
    def __array_interface__(self) -> dict[str, Any]: ...
    def png(self) -> bytes:
        """The content of a PNG file."""
    def save(self, path: StrPath) -> None:
        """Writes a PNG file."""
    def pil(self) -> Any:
        """An image of Pillow, which must be installed."""

class Prediction:
    """What a network predicts of an image.

    Which of `probabilities`, `labels`, `values`, `mask`, `boxes` and `image` there is depends on the network, and `kind` names
    it; boxes may come with `masks`, `keypoints` or `rotated`. The others raise AttributeError.
    """

    @property
    def kind(self) -> str:
        """What was predicted: `classes`, `labels`, `values`, `mask`, `boxes` or `image`."""
    @property
    def path(self) -> Optional[Path]:
        """The file that the image came from, if it came from one."""
    @property
    def size(self) -> tuple[int, int]:
        """Height and width of the original image; boxes and masks are in its pixels."""
    @property
    def names(self) -> list[str]:
        """The names of classes or columns, as far as they are known."""
    @property
    def probabilities(self) -> Array:
        """A probability per class, or per label of which an image may have any number: float64 `[classes]`."""
    @property
    def labels(self) -> list[tuple[str, float]]:
        """The labels that are predicted, each with its name and probability, the likeliest first."""
    @property
    def thresholds(self) -> Array:
        """The probability from which on each label is predicted: float64 `[labels]`."""
    @property
    def class_id(self) -> int:
        """The number of the likeliest class."""
    @property
    def class_name(self) -> str:
        """The name of the likeliest class."""
    def top(self, count: int = 5) -> list[tuple[str, float]]:
        """The likeliest classes, each with its name and probability."""
    @property
    def values(self) -> Array:
        """Numbers: float64 `[columns]`; `names` has their columns."""
    @property
    def boxes(self) -> Array:
        """Left, top, right and bottom of every box in pixels, by descending score: float64 `[boxes, 4]`."""
    @property
    def scores(self) -> Array:
        """The score of every box: float64 `[boxes]`."""
    @property
    def class_ids(self) -> Array:
        """The number of every box's class: int64 `[boxes]`."""
    @property
    def class_names(self) -> list[str]:
        """The name of every box's class."""
    @property
    def masks(self) -> Array:
        """The mask of every object: uint8 `[objects, height, width]`, 1 where it is."""
    @property
    def keypoints(self) -> Array:
        """Column, row and visibility of every object's keypoints: float64 `[objects, keypoints, 3]`."""
    @property
    def rotated(self) -> Array:
        """Column and row of the center, width, height and radians of every rotated box: float64 `[objects, 5]`."""
    @property
    def mask(self) -> Array:
        """The number of the class of every pixel of the original image, 1 where a network that marks a single class does: uint8
        `[height, width]`."""
    @property
    def image(self) -> Array:
        """The image that was made: uint8 `[height, width, channels]`."""
    def plot(self) -> Plot:
        """The original image with the prediction drawn on it; an image that was made instead of it."""
    def json(self, top: int = 5) -> dict[str, Any]:
        """Everything as a dictionary, as `octant predict --json` prints it; of classes, `top` are listed."""

class Model:
    """A network with its weights, its preprocessing and its decoder. Threads may share it."""

    def predict(self, images: Any) -> list[Prediction]:
        """A prediction per image, in their order.

        Give a path (of a file, a folder, a pattern, a list or an address), the bytes of an image file, an image of Pillow, an
        array of height × width × channels in uint8 or a batch of those, or a list of any of them. Arrays are NumPy's, PyTorch's,
        JAX's or of any other library with `__dlpack__`.
        """
    def __call__(self, image: Any) -> Prediction:
        """The prediction of one image."""
    def features(self, images: Any, layer: str = "pooled") -> Array:
        """What a layer computes of every image, in their order: float32 `[images, …]`.

        Layers are `pooled`, what the last linear layer sees; `output`, the network's result; and `map`, the last feature map, or
        all tokens. Images are given as to `predict`.
        """
    def warm_up(self, batches: Sequence[int] = ...) -> None:
        """Compiles programs for so many images at a time, so that no later call waits for a compiler."""
    def state_dict(self) -> dict[str, Array]:
        """The weights with the reference's names and layouts, as arrays of the caller's own."""
    def export(
        self,
        path: StrPath,
        *,
        format: Optional[str] = None,
        opset: Optional[int] = None,
        half: bool = False,
        layout: Optional[str] = None,
        batch: Optional[int] = None,
        image_size: Optional[int] = None,
        nms: bool = False,
        with_preprocessing: bool = False,
        weights_beside: bool = False,
    ) -> dict[str, Any]:
        """Writes the network as a file that other runtimes execute, and returns what it takes and returns.

        With `nms` a detector's file returns boxes by the `conf`, `iou` and `max_det` that the model was loaded with.
        """
    @property
    def name(self) -> str:
        """The name of the model."""
    @property
    def task(self) -> str:
        """What it was trained for, such as `classify`."""
    @property
    def names(self) -> list[str]:
        """The names of classes or columns, as far as they are known."""
    @property
    def remarks(self) -> list[str]:
        """What should be known of its weights, as sentences."""
    @property
    def channels(self) -> int:
        """The channels of its images: 1 for gray ones, 3 for colored ones."""
    @property
    def image_size(self) -> Optional[tuple[int, int]]:
        """Height and width of what the network sees; none where that follows each image."""
    @property
    def preprocessing(self) -> str:
        """How images are prepared, in words."""
    @property
    def device(self) -> str:
        """The device that it runs on."""

class Training:
    """A run that trains on a thread of its own.

    Iterating over it yields its events as dictionaries, whose `event` names them, until it is over. Dropping it stops the run,
    with a checkpoint.
    """

    def __iter__(self) -> Training: ...
    def __next__(self) -> dict[str, Any]:
        """The next event. Ctrl-C raises KeyboardInterrupt here, and the run continues until `stop()`."""
    def stop(self) -> None:
        """Ends the run after the step that is running, with a checkpoint. Events come until it is over."""
    @property
    def result(self) -> Optional[dict[str, Any]]:
        """What the run came to, once it is over."""

def load(
    source: StrPath,
    weights: Optional[StrPath] = None,
    *,
    device: str = "auto",
    threads: Optional[int] = None,
    checkpoint: Optional[str] = None,
    classes: Optional[int] = None,
    partial: bool = False,
    precision: Optional[str] = None,
    names: Optional[Sequence[str]] = None,
    conf: Optional[float] = None,
    iou: Optional[float] = None,
    max_det: Optional[int] = None,
    size: Optional[int] = None,
    tile: Optional[int] = None,
) -> Model:
    """A network with its weights on a device.

    `source` is a run, a file of weights that names its network, or a model (see `octant.models()`) together with `weights`: a
    file, an address, `"pretrained"`, or `"random"` to measure its speed alone.
    """

def start_training(
    recipe: StrPath,
    settings: Mapping[str, Any],
    *,
    out: Optional[StrPath] = None,
    fresh: bool = False,
    allow_changed: bool = False,
    strict: bool = False,
    time: Optional[float] = None,
    profile: bool = False,
    dump: Optional[StrPath] = None,
    threads: Optional[int] = None,
) -> Training: ...

def check_run(path: StrPath) -> None: ...
def run_config(path: StrPath) -> dict[str, Any]: ...
def run_weights(path: StrPath) -> Path: ...
def run_metrics(path: StrPath) -> dict[str, Array]: ...
def run_plot(path: StrPath, metric: Optional[str] = None) -> Plot: ...
def run_html(path: StrPath) -> str: ...
def recipes() -> list[tuple[str, str]]: ...
def recipe(name: str) -> dict[str, Any]: ...
def models() -> list[dict[str, Any]]: ...
def resize(
    image: Any, size: tuple[int, int], filter: str = "bilinear", semantics: str = "pil", antialias: Optional[bool] = None
) -> Array: ...
def coco(
    truth: Any,
    found: Any,
    iou_type: str = "bbox",
    max_dets: Optional[Sequence[int]] = None,
    sigmas: Optional[Sequence[float]] = None,
) -> tuple[list[tuple[str, float]], dict[int, float]]: ...
def roc(scores: Any, truth: Any) -> tuple[Array, float]: ...
def frechet_distance(a: Any, b: Any) -> float:
    """The Fréchet distance of two sets of features, images × features: FID where they are InceptionV3's."""

def kernel_distance(a: Any, b: Any) -> float:
    """The kernel distance of two sets of features: KID where they are InceptionV3's."""

class Batch:
    """Images and targets that are computed on together.

    Unpacking it gives the images and the first of the targets: `for images, classes in loader`. Which targets there are depends on
    the data; the others raise AttributeError.
    """

    @property
    def images(self) -> Array:
        """`[n, height, width, channels]`, nearly always uint8."""
    @property
    def targets(self) -> dict[str, Array]:
        """All targets by name."""
    @property
    def classes(self) -> Array:
        """Numbers of classes: int32 `[n]`, of boxes `[n, boxes]` with −1 where there is no box."""
    @property
    def partners(self) -> Array:
        """Of mixed images, the class of the one that was mixed in: int32 `[n]`."""
    @property
    def shares(self) -> Array:
        """Of mixed images, how much of the first one is left: float32 `[n]`."""
    @property
    def masks(self) -> Array:
        """Label images: uint8 `[n, height, width, 1]`."""
    @property
    def labels(self) -> Array:
        """1 for every label that an image has, 0 for the others: float32 `[n, k]`."""
    @property
    def values(self) -> Array:
        """Numbers to regress: float32 `[n, k]`."""
    @property
    def target_images(self) -> Array:
        """Images to be made: uint8 `[n, height, width, channels]`."""
    @property
    def boxes(self) -> Array:
        """Left, top, right and bottom in pixels: float32 `[n, boxes, 4]`."""
    @property
    def owners(self) -> Array:
        """Of outlines, which box's object is seen at every pixel of a grid of a quarter of the image's size, counted from 1, and 0
        where there is none: int32 `[n, height / 4, width / 4]`."""
    @property
    def keypoints(self) -> Array:
        """Of every box, column, row and 0, 1 or 2 for unknown, hidden and visible of its keypoints: float32
        `[n, boxes, keypoints, 3]`."""
    @property
    def rotated(self) -> Array:
        """Column and row of the center, width, height and radians of every rotated box: float32 `[n, boxes, 5]`."""
    @property
    def mask(self) -> Array:
        """1 for rows that count, 0 for padding and samples that were left out: float32 `[n]`."""
    @property
    def valid(self) -> int:
        """How many rows count."""
    @property
    def indices(self) -> list[Optional[int]]:
        """The sample of every row; none for padding."""
    @property
    def epoch(self) -> int:
        """The epoch, from 0."""
    @property
    def index(self) -> int:
        """The number of the batch in its epoch, from 0."""
    def __len__(self) -> int: ...
    def __getitem__(self, index: int) -> Array: ...
    def __iter__(self) -> Iterator[Array]: ...

class BatchIterator:
    """The rest of an epoch."""

    def __iter__(self) -> BatchIterator: ...
    def __next__(self) -> Batch: ...

class Loader:
    """Batches of a data set in the order that its seed decides."""

    def __len__(self) -> int:
        """Batches per epoch."""
    def __iter__(self) -> BatchIterator: ...
    @property
    def images(self) -> int:
        """How many images there are."""
    @property
    def names(self) -> list[str]:
        """The names of classes or columns."""
    @property
    def part(self) -> str:
        """The part of the data: `train` or `val`."""
    @property
    def epoch(self) -> int:
        """The epoch that the next batch belongs to, from 0."""
    def set_epoch(self, epoch: int) -> None:
        """Continues with the first batch of an epoch."""
    def state_dict(self) -> dict[str, int]:
        """Where the loader is, to resume there: `load_state_dict` of a loader with the same arguments."""
    def load_state_dict(self, state: dict[str, int]) -> None:
        """Resumes where another loader with the same arguments was."""
    @property
    def skipped(self) -> list[tuple[int, str]]:
        """Samples that were left out because they could not be read, each with the reason."""

def open_loader(
    source: StrPath,
    settings: Mapping[str, Any],
    *,
    recipe: Optional[str] = None,
    transform: Any = None,
    part: str = "train",
    batch: Optional[int] = None,
    shuffle: Optional[bool] = None,
    last: Optional[str] = None,
    prefetch: int = 4,
    rank: int = 0,
    world_size: int = 1,
    pin_memory: bool = False,
) -> Loader: ...
def evaluate(
    run: StrPath,
    settings: Mapping[str, Any],
    *,
    data: Optional[StrPath] = None,
    checkpoint: Optional[str] = None,
    on_train: bool = False,
    batch_size: Optional[int] = None,
    device: str = "auto",
    threads: Optional[int] = None,
    coco: Optional[StrPath] = None,
) -> dict[str, float]: ...
def run_command(program: Sequence[str], arguments: Sequence[str]) -> int: ...
