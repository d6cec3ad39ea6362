"""Training: runs, their events, and how far they are."""

from __future__ import annotations

import atexit
import contextlib
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, Optional, Union

from . import _native
from ._native import Array, Model, Plot, Training
from ._progress import Progress

StrPath = Union[str, "os.PathLike[str]"]

_running: weakref.WeakSet[Training] = weakref.WeakSet()


def _finish(training: Training) -> None:
    """Stops a run and waits until its checkpoint is written."""
    training.stop()
    for _ in training:
        pass


@atexit.register
def _finish_all() -> None:
    for training in list(_running):
        with contextlib.suppress(BaseException):
            _finish(training)


class Run:
    """A run: a directory with its settings, metrics, plots and checkpoints.

    `octant.train` returns one, and `octant.Run(path)` opens one that is there.
    """

    def __init__(self, path: StrPath, outcome: Optional[dict[str, Any]] = None) -> None:
        self.path: Path = Path(path)
        """Its directory."""
        self.outcome: Optional[dict[str, Any]] = outcome
        """What it came to, where this process trained it."""
        _native.check_run(self.path)

    @property
    def ending(self) -> Optional[str]:
        """How the run of this process ended: `done`, `time-up` or `interrupted`."""
        return None if self.outcome is None else str(self.outcome["event"])

    @property
    def metrics(self) -> dict[str, Array]:
        """The columns of `metrics.csv`, a value per epoch: float64. What was not measured in an epoch is NaN."""
        return _native.run_metrics(self.path)

    @property
    def config(self) -> dict[str, Any]:
        """The recipe as it was finally used."""
        return _native.run_config(self.path)

    @property
    def weights(self) -> Path:
        """The file of the best weights."""
        return _native.run_weights(self.path)

    def load(self, *, device: str = "auto", checkpoint: Optional[str] = None, **options: Any) -> Model:
        """The network of the run, to predict with: see `octant.load`."""
        return _native.load(self.path, device=device, checkpoint=checkpoint, **options)

    def plot(self, metric: Optional[str] = None) -> Plot:
        """The curve of a metric over the epochs, training and validation together; the loss if none is named."""
        return _native.run_plot(self.path, metric)

    def _repr_html_(self) -> str:
        return _native.run_html(self.path)

    def __repr__(self) -> str:
        return f"octant.Run({str(self.path)!r})"


def start(
    recipe: StrPath = "glyphs",
    *,
    out: Optional[StrPath] = None,
    fresh: bool = False,
    allow_changed: bool = False,
    strict: bool = False,
    time: Optional[float] = None,
    profile: bool = False,
    dump: Optional[StrPath] = None,
    threads: Optional[int] = None,
    **settings: Any,
) -> Training:
    """Starts a run and returns it while it trains; iterating yields its events.

    The arguments are those of `train`.

    >>> training = octant.start("glyphs", out=folder / "started", device="cpu", epochs=1, **{"data.train": 640, "data.test": 64})
    >>> [event["epoch"] for event in training if event["event"] == "epoch"]
    [1]
    >>> training.result["event"]
    'done'
    """
    training = _native.start_training(
        recipe,
        settings,
        out=out,
        fresh=fresh,
        allow_changed=allow_changed,
        strict=strict,
        time=time,
        profile=profile,
        dump=dump,
        threads=threads,
    )
    _running.add(training)
    return training


def train(
    recipe: StrPath = "glyphs",
    *,
    on_event: Optional[Callable[[dict[str, Any]], object]] = None,
    progress: Optional[bool] = None,
    out: Optional[StrPath] = None,
    fresh: bool = False,
    allow_changed: bool = False,
    strict: bool = False,
    time: Optional[float] = None,
    profile: bool = False,
    dump: Optional[StrPath] = None,
    threads: Optional[int] = None,
    **settings: Any,
) -> Run:
    """Trains a network and returns its run. The same call resumes a run that was stopped.

    `recipe` is a recipe (`octant.recipes()` lists them), a recipe's .toml file, or a run directory to resume. `settings` are the
    flags of `octant train`, such as `data`, `model`, `epochs`, `batch_size` and `lr`, and keys of the recipe: a top-level key by
    its name, others as `**{"data.train": 640}`. docs/recipes.md lists all.

    Ctrl-C ends the run after the step that is running, with a checkpoint, and returns it; a second one raises
    KeyboardInterrupt. `on_event` is called with every event, a dictionary whose `event` names it: `message`, `warning`, `start`,
    `phase`, `epoch-begins`, `step` (the loss of every step), `progress`, `epoch`, `checkpoint`, and `done`, `time-up` or
    `interrupted` at the end. `progress` shows a bar or not; if not given, it does in terminals and notebooks, and elsewhere a
    line per epoch is printed.

    `out` is the run directory; `runs/RECIPE-N` if not given. `fresh` starts over, `allow_changed` resumes although settings or
    data changed so that images are trained on twice or not at all, `strict` makes warnings errors, `time` ends the run after that
    many seconds, `profile` records what the device does in a few steps, `dump` is a folder for the programs of all steps, and
    `threads` are those of the CPU engine.

    >>> small = {"data.train": 640, "data.test": 64}
    >>> run = octant.train("glyphs", out=folder / "trained", device="cpu", epochs=1, progress=False, **small)
    >>> run.ending, len(run.metrics["accuracy"])
    ('done', 1)
    """
    training = start(
        recipe,
        out=out,
        fresh=fresh,
        allow_changed=allow_changed,
        strict=strict,
        time=time,
        profile=profile,
        dump=dump,
        threads=threads,
        **settings,
    )
    shown = Progress(progress)

    def take_events() -> None:
        for event in training:
            shown.event(event)
            if on_event is not None:
                on_event(event)

    try:
        try:
            take_events()
        except KeyboardInterrupt:
            shown.message("stopping after this step; a checkpoint will be written")
            training.stop()
            take_events()
        except BaseException:
            _finish(training)
            raise
    finally:
        shown.close()
    result = training.result
    if result is None:
        raise _native.OctantError("the run ended without a result; its log.txt may say why")
    return Run(result["run"], result)


def recipes() -> dict[str, str]:
    """The recipes that come with Octant, with what they are for.

    >>> octant.recipes()["glyphs"]
    'First run: a small network on synthetic line drawings; nothing to download'
    """
    return dict(_native.recipes())


def recipe(name: str) -> dict[str, Any]:
    """A recipe as a dictionary: what `train` starts from.

    >>> octant.recipe("glyphs")["batch_size"]
    64
    """
    return _native.recipe(name)


def models() -> list[dict[str, Any]]:
    """The models that can be trained: their names, tasks, numbers of classes, licenses and published weights.

    >>> "resnet50" in [model["name"] for model in octant.models()]
    True
    """
    return _native.models()


def evaluate(
    run: StrPath,
    data: Optional[StrPath] = None,
    *,
    checkpoint: Optional[str] = None,
    on_train: bool = False,
    batch_size: Optional[int] = None,
    device: str = "auto",
    threads: Optional[int] = None,
    coco: Optional[StrPath] = None,
    **settings: Any,
) -> dict[str, float]:
    """The metrics of a run's best checkpoint on its own validation data, or on `data`.

    `settings` are keys of its recipe. `coco` is where a detector's boxes are written as a COCO results file.

    >>> sorted(octant.evaluate(folder / "run", device="cpu"))[0]
    'accuracy'
    """
    return _native.evaluate(
        run,
        settings,
        data=data,
        checkpoint=checkpoint,
        on_train=on_train,
        batch_size=batch_size,
        device=device,
        threads=threads,
        coco=coco,
    )
