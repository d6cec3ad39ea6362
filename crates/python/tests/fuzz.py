"""Random arguments: whatever is given, the response is a result or an exception, and the interpreter lives.

    PYTHONMALLOC=debug python fuzz.py [SECONDS] [SEED]
"""

import faulthandler
import gc
import io
import random
import sys
import tempfile
import time

import numpy as np
import octant

try:
    from PIL import Image
except ImportError:
    Image = None

# What may be raised instead of a result. A panic is none of these.
REFUSALS = (
    octant.OctantError, TypeError, ValueError, OverflowError, AttributeError, BufferError, IndexError, KeyError, OSError,
    RuntimeError,
)  # fmt: skip
TYPES = [
    "u1", "u1", "u1", "u1", "i1", "?", "u2", ">u2", "i4", "u4", "i8", "u8", "f2", "f4", "f4", "f8", ">f8", "c8", "S3", "U2", "O",
    "M8[s]", "m8[D]", [("a", "u1"), ("b", "f4")],
]  # fmt: skip
SIDES = [0, 1, 1, 2, 3, 3, 4, 5, 8, 17, 31]


def array(rng):
    """An array of any type, shape and layout."""
    kind = rng.choice(TYPES)
    shape = [rng.choice(SIDES) for _ in range(rng.randrange(6))]
    if rng.random() < 0.5:
        shape = [rng.randrange(1, 30), rng.randrange(1, 30), rng.choice([1, 2, 3, 4])][: rng.choice([2, 3, 3])]
    made = np.zeros(shape, kind, order=rng.choice("CF"))
    if made.dtype.kind in "uif":
        made[...] = np.random.default_rng(rng.randrange(99)).integers(0, 100, shape)
        if made.dtype.kind == "f" and made.size and rng.random() < 0.2:
            made.flat[rng.randrange(made.size)] = rng.choice([np.nan, np.inf, -np.inf])
    for axis in range(made.ndim):
        made = np.moveaxis(made, axis, rng.randrange(made.ndim))
        made = made[(slice(None),) * axis + (slice(None, None, rng.choice([1, 1, 1, 2, -1, -3])),)]
    if rng.random() < 0.1:
        made = np.broadcast_to(made, (2, *made.shape))
    if rng.random() < 0.1 and made.ndim > 1 and made.shape[0] > 2:
        made = np.lib.stride_tricks.sliding_window_view(made, 2, axis=0)
    if rng.random() < 0.2:
        made.flags.writeable = False
    return made


class Capsule:
    """Something with `__dlpack__` whose owner may be gone, and whose capsule may be used up or none at all."""

    def __init__(self, rng, memory):
        self.rng, self.memory, self.kept = rng, memory, None
        self.device = rng.choice([(1, 0)] * 8 + [(2, 0), (1, 7), None, "cpu", (1,), (2**40, 0)])

    def __dlpack_device__(self):
        return self.device

    def __dlpack__(self, **options):
        roll = self.rng.random()
        if roll < 0.1:
            return self.rng.choice([None, 3, "dltensor", options])
        if roll < 0.2:
            raise self.rng.choice([BufferError, ValueError, AttributeError])("no")
        if self.kept is not None and roll < 0.5:
            return self.kept
        if roll < 0.4:
            options = {"max_version": self.rng.choice([None, (0, 5), (1, 0), (9, 9)])}
        self.kept = self.memory.__dlpack__(**options)
        if self.rng.random() < 0.5:
            # From here on the capsule alone keeps the memory.
            self.memory = np.zeros(3, np.uint8)
        return self.kept


def memory(rng):
    """Something that holds numbers: an array, one of ours, a capsule, bytes, an image, a file's content."""
    roll = rng.random()
    if roll < 0.55:
        return array(rng)
    if roll < 0.7:
        return Capsule(rng, array(rng))
    if roll < 0.8:
        side = rng.randrange(1, 9)
        return octant.imaging.resize(np.zeros((side, 7, 3), rng.choice(["u1", "f4"])), (side, rng.randrange(1, 9)))
    if roll < 0.9 or Image is None:
        given = bytes(rng.randrange(256) for _ in range(rng.randrange(40)))
        return rng.choice([given, bytearray(given), memoryview(given)[::2], memoryview(given)])
    mode = rng.choice(["1", "L", "P", "RGB", "RGBA", "CMYK", "I;16", "F", "LAB", "YCbCr"])
    image = Image.new(mode, (rng.randrange(0, 9), rng.randrange(0, 9)))
    if mode == "RGB" and 0 not in image.size and rng.random() < 0.5:
        file = io.BytesIO()
        image.save(file, rng.choice(["PNG", "JPEG", "BMP", "TIFF", "WEBP"]))
        content = bytearray(file.getvalue())
        for _ in range(rng.randrange(4)):
            content[rng.randrange(len(content))] = rng.randrange(256)
        return bytes(content[: rng.randrange(1, len(content) + 1)])
    return image


NAMES = ["", "pillow", "bilinear", "opencv", "nearest", "lanczos", "train", "a\0b", "ü", "x" * 999, "../..", "cpu", "accuracy"]
KEYS = [
    "image_id", "category_id", "bbox", "score", "area", "iscrowd", "images", "categories", "annotations", "id", "segmentation",
    "keypoints", "num_keypoints", "size", "counts", "height", "width",
]  # fmt: skip


def value(rng, depth=0):
    """Anything that Python can hold."""
    roll = rng.random()
    if roll < 0.3:
        return rng.choice([0, 1, 2, 3, 7, -1, 2**31, 2**63, -(2**63), 2**64, 10**30])
    if roll < 0.4:
        return rng.choice([0.0, 0.5, -1.5, float("nan"), float("inf"), 1e300])
    if roll < 0.55:
        return rng.choice(NAMES)
    if roll < 0.65:
        return rng.choice([None, True, False, ..., object(), int, b"bytes", range(3), 1j])
    if roll < 0.75 or depth > 2:
        return memory(rng)
    if roll < 0.9:
        return rng.choice([list, tuple])(value(rng, depth + 1) for _ in range(rng.randrange(5)))
    return {rng.choice(KEYS): value(rng, depth + 1) for _ in range(rng.randrange(5))}


def boxes(rng):
    """Rows of COCO, of which some are damaged."""
    rows = [
        {"image_id": rng.randrange(3), "category_id": rng.randrange(2), "bbox": [rng.random() * 9 for _ in range(4)], "score": 0.5}
        for _ in range(rng.randrange(6))
    ]  # fmt: skip
    for row in rows:
        row["segmentation"] = mask(rng)
        row["keypoints"] = [rng.choice([0, 1, 2, 5.5]) for _ in range(rng.choice([9, 9, 9, 9, 6, 8]))]
        if rng.random() < 0.2:
            row[rng.choice(KEYS)] = value(rng)
    roll = rng.random()
    if roll < 0.3:
        return {key: np.array([row[key] for row in rows], dtype=object) if rng.random() < 0.1 else array(rng) for key in KEYS[:4]}
    sized = [{"id": number, "height": 7, "width": 9} for number in range(3)]
    return rows if roll < 0.6 else {"annotations": rows, "images": sized, "categories": rng.choice([[{"id": 0}], value(rng)])}


def mask(rng):
    """A mask of 7×9 pixels in any form, now and then damaged."""
    polygon = lambda *lengths: [rng.uniform(-3, 12) for _ in range(rng.choice(lengths))]  # noqa: E731
    forms = [
        {"size": [7, 9], "counts": [10, 5, 48]},
        {"size": [7, 9], "counts": rng.choice(["o1", b"o1"])},
        [polygon(6, 8, 10) for _ in range(rng.randrange(1, 3))],
        np.zeros((7, 9), rng.choice(["?", "u1"])),
    ]
    if rng.random() < 0.9:
        return rng.choice(forms)
    forms[0][rng.choice(["size", "counts"])] = value(rng)
    forms[1]["counts"] = rng.choice(["", "~", "P" * 30, b"\xff", "o1o1o1", "\0"])
    forms[2].append(rng.choice([polygon(0, 4, 7), value(rng), [1e300, 0, -1e300, 1, 1, 1], [1e6, 0, 1e6, 2e6, 0, 2e6]]))
    forms[3] = array(rng)
    return rng.choice([*forms, value(rng)])


class Fuzz:
    def __init__(self, seed, folder):
        self.rng, self.folder, self.kept = random.Random(seed), folder, []
        load = lambda name, **options: octant.load(name, weights="random", device="cpu", threads=1, **options)  # noqa: E731
        self.models = [load("resnet-tiny"), load("yolov8-tiny", conf=0.0, max_det=3), load("mshnet-tiny")]
        self.loader = octant.Loader("glyphs", batch=4, transform="none", workers=1, **{"data.train": 12, "data.test": 4})

    def predict(self):
        given = memory(self.rng) if self.rng.random() < 0.8 else value(self.rng)
        # Texts and paths would be looked for on disk.
        if not isinstance(given, str):
            model = self.rng.choice(self.models)
            self.keep(model.predict(given) if self.rng.random() < 0.8 else model(given))

    def resize(self):
        rng = self.rng
        size = (rng.choice(SIDES), rng.choice(SIDES)) if rng.random() < 0.8 else rng.choice([3, (1,), None, (-1, 2), "ab"])
        extra = {} if rng.random() < 0.7 else {rng.choice(["filter", "semantics", "antialias"]): value(rng)}
        self.keep(octant.imaging.resize(memory(rng), size, **extra))

    def metrics(self):
        rng = self.rng
        name = rng.choice(["coco", "coco", "auc", "roc", "frechet_distance", "kernel_distance"])
        make, options = boxes if name == "coco" else memory, {}
        if name == "coco" and rng.random() < 0.7:
            options["iou_type"] = rng.choice(["segm", "segm", "keypoints", value(rng)])
        if name == "coco" and rng.random() < 0.1:
            options[rng.choice(["max_dets", "sigmas"])] = rng.choice([[1], [1, 2, 3], [0.1] * 3, value(rng)])
        self.keep(getattr(octant.metrics, name)(make(rng), make(rng) if rng.random() < 0.9 else value(rng), **options))

    def arrays(self):
        rng = self.rng
        made = octant.imaging.resize(np.zeros((4, 5, 3), np.uint8), (rng.randrange(1, 4), 3))
        roll = rng.randrange(6)
        if roll == 0:
            self.keep(made[value(rng)])
        elif roll == 1:
            self.keep(made.__dlpack__(**{rng.choice(["stream", "max_version", "dl_device", "copy"]): value(rng)}))
        elif roll == 2:
            self.keep(np.from_dlpack(made))
        elif roll == 3:
            self.keep((np.asarray(made), repr(made), made.tolist(), len(made)))
        elif roll == 4:
            self.keep(self.models[0].state_dict())
        else:
            prediction = rng.choice(self.models)(np.zeros((9, 9, 3), np.uint8))
            name = rng.choice([name for name in dir(prediction) if not name.startswith("_")])
            self.keep(getattr(prediction, name))

    def loaders(self):
        rng = self.rng
        roll = rng.random()
        if roll < 0.4:
            iterator = iter(self.loader)
            self.keep([next(iterator, None) for _ in range(rng.randrange(4))])
        elif roll < 0.6:
            self.loader.load_state_dict({rng.choice(["epoch", "batch", "x"]): value(rng) for _ in range(3)})
        elif roll < 0.7:
            self.loader.set_epoch(value(rng))
        elif roll < 0.8:
            batch = next(iter(self.loader), None)
            self.keep(batch and batch[value(rng)])
        else:
            name = rng.choice(["batch", "seed", "part", "shuffle", "last", "workers", "prefetch", "rank", "world_size", "transform"])
            # Data in memory, and nothing that is large because of a number.
            given = value(rng)
            if name not in ("workers", "prefetch") or given in (0, 1, 2, 3, 7):
                octant.Loader("glyphs", **{"batch": 2, "data.train": 12, "data.test": 4, name: given})

    def loads(self):
        rng = self.rng
        name = rng.choice(["device", "threads", "classes", "precision", "names", "conf", "iou", "max_det", "size", "tile", "checkpoint"])
        given = value(rng)
        if not (isinstance(given, int) and given > 1000):
            octant.load("yolov8-tiny", weights="random", **{"device": "cpu", "threads": 1, name: given})

    def keep(self, result):
        """Results outlive what they were made of, and die in any order."""
        self.kept.append(result)
        while len(self.kept) > 40:
            self.kept.pop(self.rng.randrange(len(self.kept)))

    def turn(self):
        actions = [self.predict] * 6 + [self.resize] * 6 + [self.metrics] * 4 + [self.arrays] * 3 + [self.loaders, self.loads]
        try:
            self.rng.choice(actions)()
        except REFUSALS:
            return False
        return True


def main(seconds=5.0, seed=0):
    faulthandler.enable()
    with tempfile.TemporaryDirectory() as folder:
        fuzz, accepted, refused = Fuzz(seed, folder), 0, 0
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if fuzz.turn():
                accepted += 1
            else:
                refused += 1
            if (accepted + refused) % 500 == 0:
                gc.collect()
        # Whatever is still held reads its own memory.
        for kept in fuzz.kept:
            repr(kept)
    print(f"{accepted} accepted, {refused} refused, seed {seed}")
    assert accepted > 20 and refused > 20


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 5.0, int(sys.argv[2]) if sys.argv[2:] else 0)
