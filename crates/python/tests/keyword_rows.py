"""Rows of every_keyword.py: a call and what it is given, and for each of its keywords a value with which it does something else."""

import hashlib
import io
import json
import re
import struct
from contextlib import redirect_stderr
from pathlib import Path

import numpy as np
import octant
from models import write_png

# Parameters that take any keywords: a row's value is a dictionary of some.
OPEN = ["settings", "options", "flags"]


class Row:
    """Another value of one keyword, where others are `given` with it and without it."""

    def __init__(self, value, sentence=None, **given):
        self.value, self.sentence, self.given = value, sentence, given


class Differs(Row):
    """With the value the call returns something else."""


class Allows(Row):
    """Without the value the call is refused, with this sentence."""


class Reads(Row):
    """The value is refused with a sentence that names what is right, where nothing else can show that the keyword is read."""


class Warns(Row):
    """The value is accepted, and a warning says why it has no effect."""


class Elsewhere:
    """A test that shows what the keyword does."""

    def __init__(self, file, test):
        self.file, self.test = file, test


TINY = {"device": "cpu", "threads": 1}
SMALL = {"data.train": 32, "data.test": 16, "batch_size": 16, "epochs": 1, "workers": 1, "model": "fashion-cnn-tiny", **TINY}
NO_DEVICE = Reads("cdua", "there is no device \"cdua\"")
THREADS = Elsewhere("threads.py", "test_threads_are_as_many_as_wanted")


def images(count=1, height=40, width=50, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def model(name="resnet-tiny", **options):
    return octant.load(name, weights="random", **TINY, **options)


def digest(path):
    return hashlib.sha1(path.read_bytes()).hexdigest()


def left(run):
    """What a run is, and leaves but for times."""
    paths = sorted(path for path in run.path.rglob("*") if not path.name.startswith("events."))
    kept = [path for path in paths if path.suffix in (".safetensors", ".csv") and "timing" not in path.name]
    names = [path.name for path in paths]
    return run.path.name, run.ending, run.outcome.get("was_finished"), names, Path("dumped").exists(), [*map(digest, kept)]


def started(**given):
    training = octant.start(**given)
    for _ in training:
        pass
    return left(octant.Run(training.result["run"], training.result))


def trained(**given):
    text, seen = io.StringIO(), []
    if "on_event" in given:
        given["on_event"] = seen.append
    with redirect_stderr(text):
        run = octant.train(**given)
    # Speeds differ, and lines about them.
    return left(run), "epoch" in text.getvalue(), len(seen) > 0


def prepared(function):
    """With a finished run, or one that was ended inside of its first epoch, in the folder that the name of `out` says."""

    def call(**given):
        if given["out"] in ("finished", "begun"):
            ending = {"time": 0.0} if given["out"] == "begun" else {}
            octant.train("glyphs", out=given["out"], progress=False, **SMALL, **ending)
        return function(**given)

    return call


def training_rows(at):
    other = at / "other.toml"
    other.write_text(re.sub(r"(?m)^seed = \d+", "seed = 9", (at / "run" / "config.toml").read_text(encoding="utf-8")))
    rows = {
        "recipe": Differs(other),
        "out": Differs("elsewhere"),
        "fresh": Differs(True, out="finished"),
        "allow_changed": Allows(True, "allow_changed", out="begun", batch_size=8),
        "strict": Reads(True, "warnings are errors", classes=12),
        "time": Differs(0.0),
        "profile": Differs(True, **{"data.train": 160, "batch_size": 4}),
        "dump": Differs("dumped"),
        "threads": THREADS,
        "settings": Differs({"lr": 0.5}),
    }
    base = {"recipe": "glyphs", "out": "run", **SMALL}
    yield "start", prepared(started), base, rows
    yield "train", prepared(trained), {**base, "progress": False}, {**rows, "on_event": Differs(True), "progress": Differs(None)}


def evaluated(**given):
    metrics = octant.evaluate(**given)
    return repr(metrics), [path.name for path in Path(".").iterdir()]


def run_rows(at):
    run, detector = at / "run", at / "detector"
    yield "evaluate", evaluated, {"run": run, **TINY}, {
        "run": Differs(at / "second"),
        "data": Differs(at / "others", run=at / "third"),
        "checkpoint": Differs("last"),
        "on_train": Differs(True),
        "batch_size": Reads(0, "at least 1"),
        "device": NO_DEVICE,
        "threads": THREADS,
        "coco": Differs("found.json", run=detector),
        "settings": Differs({"data.test": 8}),
    }
    opened = lambda **given: (octant.Run(**given).ending, len(octant.Run(**given).config))  # noqa: E731
    yield "Run", opened, {"path": run}, {"path": Differs(detector), "outcome": Differs({"event": "done"})}
    gray = images(1, 28, 28)[0, :, :, 0].copy()
    loaded = lambda **given: octant.Run(run).load(**given)(gray).json()  # noqa: E731
    yield "Run.load", loaded, {}, {
        "device": NO_DEVICE,
        "checkpoint": Differs("last"),
        "options": Differs({"names": list("abcdefghij")}),
    }
    yield "Run.plot", lambda **given: octant.Run(run).plot(**given).png(), {}, {"metric": Differs("accuracy")}
    yield "recipe", octant.recipe, {"name": "glyphs"}, {"name": Differs("classify")}
    yield "plan", octant.plan, {"recipe": "glyphs", "on": "h200"}, {
        "recipe": Differs("classify"),
        "on": Differs("v3-8"),
        "flags": Differs({"batch_size": 32}),
    }
    sizes = lambda **given: [(row["model"], row["batch_size"]) for row in octant.bench(**given)]  # noqa: E731
    yield "bench", sizes, {"subject": "fashion-cnn-tiny", "mode": "infer", "batch_size": 2, **TINY}, {
        "subject": Differs("resnet-tiny"),
        "flags": Differs({"batch_size": 3}),
    }


def predicted(**given):
    one = octant.load(**given)
    return one.predict(images(1, 28, 28)[..., : one.channels] if one.channels == 1 else images())[0].json()


def safetensors(path, state):
    """Writes arrays as the file format of that name has them."""
    header, data = {}, b""
    for name, array in state.items():
        content = np.ascontiguousarray(array).tobytes()
        header[name] = {"dtype": {"f": "F32", "i": "I64"}[array.dtype.kind], "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def model_rows(at):
    state = {name: np.asarray(array) for name, array in model().state_dict().items()}
    safetensors(at / "zeros.safetensors", {name: np.zeros_like(array) for name, array in state.items()})
    safetensors(at / "part.safetensors", dict(list(state.items())[: len(state) // 2]))
    boxes = {"source": "yolov8-tiny", "conf": 0.0}
    yield "load", predicted, {"source": "resnet-tiny", "weights": "random", **TINY}, {
        "source": Differs("vit-test"),
        "weights": Differs(at / "zeros.safetensors"),
        "device": NO_DEVICE,
        "threads": THREADS,
        "checkpoint": Reads("best", "among those of a run"),
        "classes": Differs(7),
        "partial": Allows(True, "partial would use what fits", weights=at / "part.safetensors", classes=4),
        "precision": Differs("bf16"),
        "names": Differs([f"kind {number}" for number in range(10)]),
        "conf": Differs(0.0, source="yolov8-tiny"),
        "iou": Differs(0.01, **boxes),
        "max_det": Differs(3, **boxes),
        "size": Differs(96, **boxes),
        "tile": Elsewhere("models.py", "test_images_are_made"),
    }
    one, detector = model(), model("yolov8-tiny", conf=0.0)
    yield "Model.predict", lambda images: one.predict(images)[0].json(), {"images": images()}, {"images": Differs(images(seed=1))}
    yield "Model.features", lambda **given: one.features(**given).tolist(), {"images": images()}, {
        "images": Differs(images(seed=1)),
        "layer": Differs("output"),
    }
    yield "Model.warm_up", lambda **given: one.warm_up(**given), {}, {"batches": Reads([0], "at least 1")}

    def exported(path, of=one, **given):
        described = of.export(path, **given)
        return described["path"], {file.name: digest(file) for file in Path(".").iterdir()}

    yield "Model.export", exported, {"path": "m.onnx"}, {
        "path": Differs("n.onnx"),
        "format": Differs("stablehlo"),
        "opset": Differs(20),
        "half": Differs(True),
        "layout": Differs("nhwc"),
        "batch": Differs(4),
        "image_size": Differs(96),
        "nms": Differs(True, of=detector),
        "with_preprocessing": Differs(True),
        "weights_beside": Differs(True, path="m.mlirbc"),
    }
    top = lambda **given: one(images()[0]).top(**given)  # noqa: E731
    yield "Prediction.top", top, {}, {"count": Differs(2)}
    yield "Prediction.json", lambda **given: one(images()[0]).json(**given), {}, {"top": Differs(2)}
    plot = detector(images()[0]).plot()

    def saved(path):
        plot.save(path)
        return [file.name for file in Path(".").iterdir()]

    yield "Plot.save", saved, {"path": "a.png"}, {"path": Differs("b.png")}


def array_rows():
    image = images()[0]
    yield "imaging.resize", lambda **given: octant.imaging.resize(**given).tolist(), {"image": image, "size": (9, 9)}, {
        "image": Differs(images(seed=1)[0]),
        "size": Differs((8, 9)),
        "filter": Differs("nearest"),
        "semantics": Differs("opencv"),
        "antialias": Differs(False, semantics="torchvision"),
    }
    array, fixed = octant.imaging.resize(image, (4, 5)), model("mshnet-tiny")(image).mask

    def capsule(of=array, **given):
        made = of.__dlpack__(**given)

        class Holder:
            __dlpack_device__ = of.__dlpack_device__

            def __dlpack__(self, **_):
                return made

        read = np.from_dlpack(Holder())
        return repr(made).split('"')[1], read.ctypes.data == of.__array_interface__["data"][0]

    yield "Array.__dlpack__", capsule, {}, {
        "stream": Reads(1, "streams are of accelerators"),
        "max_version": Differs((1, 0)),
        "dl_device": Reads((2, 0), "processor's memory"),
        "copy": Differs(True),
    }
    rng = np.random.default_rng(0)
    scores, truth = rng.random(30), rng.integers(0, 2, 30)
    pair = {"scores": Differs(scores[::-1].copy()), "truth": Differs(1 - truth)}
    yield "metrics.auc", octant.metrics.auc, {"scores": scores, "truth": truth}, pair
    yield "metrics.roc", lambda **given: octant.metrics.roc(**given).tolist(), {"scores": scores, "truth": truth}, pair
    sets = [rng.normal(mean, 1, (40, 3)) for mean in range(4)]
    for name in ["frechet_distance", "kernel_distance"]:
        pair = {"a": Differs(sets[2]), "b": Differs(sets[3])}
        yield f"metrics.{name}", getattr(octant.metrics, name), {"a": sets[0], "b": sets[1]}, pair
    points = {"image_id": 1, "category_id": 1, "bbox": [10, 10, 50, 40], "area": 2000, "keypoints": [20, 30, 2, 40, 30, 2, 30, 50, 1]}
    found = {**points, "score": 0.9, "bbox": [12, 10, 50, 40], "keypoints": [21, 30, 2, 44, 30, 2, 30, 55, 1]}
    coco = lambda **given: octant.metrics.coco(**given).figures  # noqa: E731
    yield "metrics.coco", coco, {"truth": [points], "predictions": [found, {**found, "bbox": [50, 50, 9, 9], "score": 0.95}]}, {
        "truth": Differs([{**points, "bbox": [15, 10, 50, 40]}]),
        "predictions": Differs([{**found, "bbox": [40, 10, 50, 40]}]),
        "iou_type": Differs("keypoints"),
        "max_dets": Differs([2, 3, 4]),
        "sigmas": Differs([0.01, 0.01, 0.01], iou_type="keypoints"),
    }


def loaded(source="glyphs", **given):
    batches = octant.Loader(source, **given)
    rows = [(np.asarray(batch.images).tobytes(), batch.indices, batch.mask.tolist(), list(batch.targets)) for batch in batches]
    return len(batches), [hashlib.sha1(repr(row).encode()).hexdigest() for row in rows]


def loader_rows(at):
    base = {"source": "glyphs", "batch": 8, "transform": "none", "data.train": 20, "data.test": 12}
    yield "Loader", loaded, base, {
        "source": Differs("discs", recipe="regress"),
        "transform": Differs([{"op": "resize", "size": [12, 12]}]),
        "batch": Differs(4),
        "seed": Differs(3),
        "part": Differs("val"),
        "recipe": Differs("demo-detect", source="scenes"),
        "shuffle": Differs(False),
        "last": Differs("pad"),
        "workers": THREADS,
        "prefetch": Elsewhere("data.py", "test_batches_are_prepared_beforehand"),
        "rank": Differs(1, world_size=2),
        "world_size": Differs(2),
        "pin_memory": Warns(True, "`pin_memory` has no effect"),
        "settings": Differs({"data.train": 28}),
    }

    def continued(epoch=None, state=None):
        batches = octant.Loader(**base)
        if epoch is not None:
            batches.set_epoch(epoch)
        if state is not None:
            batches.load_state_dict(state)
        return [batch.indices for batch in batches]

    yield "a loader.set_epoch", continued, {}, {"epoch": Differs(2)}
    yield "a loader.load_state_dict", continued, {}, {"state": Differs({"epoch": 0, "batch": 1})}


def table(at):
    """The rows of every function by its name: how it is called, what it is given, and a row per keyword."""
    for name, settings in [("run", {"epochs": 2}), ("second", {"seed": 5})]:
        octant.train("glyphs", out=at / name, progress=False, **{**SMALL, **settings})
    boxes = {"data.train": 8, "data.test": 8, "batch_size": 4, "epochs": 1, "workers": 1, **TINY}
    octant.train("demo-detect", out=at / "detector", progress=False, **boxes)
    for number, name in enumerate(octant.Run(at / "run").load(device="cpu").names):
        for set_number, set_name in enumerate(["images", "others"]):
            folder = at / set_name / name
            folder.mkdir(parents=True)
            for image in range(3):
                write_png(images(1, 28, 28, 100 * set_number + 3 * number + image)[0], folder / f"{image}.png")
    data = {**SMALL, "model": "resnet-tiny", "image_size": 28}
    [data.pop(key) for key in ["data.train", "data.test"]]
    octant.train("classify", data=at / "images", out=at / "third", progress=False, **data)
    groups = [training_rows(at), run_rows(at), model_rows(at), array_rows(), loader_rows(at)]
    return {name: (call, base, rows) for group in groups for name, call, base, rows in group}
