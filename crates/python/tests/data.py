"""The loader, imaging and metrics, for programs that have a training loop of their own."""

import gc
import json
import os
import re
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import octant

try:
    from PIL import Image
except ImportError:
    Image = None
try:
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError:
    COCO = None

GLYPHS = {"data.train": 100, "data.test": 30}


def loader(**options):
    return octant.Loader("glyphs", **{"batch": 8, "transform": "none", **GLYPHS, **options})


def flat(batches):
    return [(np.asarray(batch.images).copy(), np.asarray(batch.classes).copy(), batch.indices) for batch in batches]


class Loaders(unittest.TestCase):
    def same(self, one, other):
        self.assertEqual(len(one), len(other))
        for (images, classes, indices), (images2, classes2, indices2) in zip(one, other):
            np.testing.assert_array_equal(images, images2)
            np.testing.assert_array_equal(classes, classes2)
            self.assertEqual(indices, indices2)

    def test_an_epoch_is_a_permutation_and_the_next_one_another(self):
        batches = loader(seed=3, last="pad")
        self.assertEqual((len(batches), batches.images, len(batches.names)), (13, 100, 10))
        first, second = flat(batches), flat(batches)
        for epoch in [first, second]:
            seen = [index for _, _, indices in epoch for index in indices if index is not None]
            self.assertEqual(sorted(seen), list(range(100)))
        self.assertNotEqual(first[0][2], second[0][2])
        self.assertEqual(batches.epoch, 2)
        batches.set_epoch(0)
        self.same(flat(batches), first)
        self.assertEqual(first[-1][2][4:], [None] * 4)
        short = flat(loader(seed=3, last="short"))
        self.assertEqual((len(short), short[-1][0].shape[0], short[-1][2]), (13, 4, first[-1][2][:4]))
        self.same(short[:-1], first[:-1])
        self.assertEqual(len(flat(loader(seed=3))), 12)

    def test_threads_do_not_change_what_is_loaded(self):
        options = dict(seed=5, image_size=24, transform="imagenet")
        self.same(flat(loader(workers=1, **options)), flat(loader(workers=5, **options)))

    def test_ranks_together_are_the_whole(self):
        whole = flat(loader(seed=1))
        parts = [flat(loader(seed=1, rank=rank, world_size=4)) for rank in range(4)]
        for number, (images, _, indices) in enumerate(whole):
            np.testing.assert_array_equal(np.concatenate([part[number][0] for part in parts]), images)
            self.assertEqual(sum((part[number][2] for part in parts), []), indices)
        with self.assertRaisesRegex(octant.OctantError, "divide evenly"):
            loader(rank=0, world_size=3)

    def test_it_resumes_in_the_middle(self):
        whole = loader(seed=2)
        expected = flat(whole) + flat(whole)
        first = loader(seed=2)
        iterator = iter(first)
        begun = flat(next(iterator) for _ in range(5))
        state = json.loads(json.dumps(first.state_dict()))
        self.assertEqual(state, {"epoch": 0, "batch": 5})
        resumed = loader(seed=2, workers=3)
        resumed.load_state_dict(state)
        self.same(begun + flat(resumed) + flat(resumed), expected)
        with self.assertRaisesRegex(octant.OctantError, "names batch 99"):
            resumed.load_state_dict({"epoch": 0, "batch": 99})

    def test_the_validation_part_is_in_order(self):
        batches = loader(part="val")
        seen = [index for batch in batches for index in batch.indices if index is not None]
        self.assertEqual(seen, list(range(30)))
        self.assertEqual(batches.part, "val")

    def test_no_thread_is_left_and_memory_is_kept(self):
        def threads():
            return len(os.listdir("/proc/self/task"))

        before = threads()
        batches = loader(workers=3)
        iterator = iter(batches)
        kept = next(iterator).images
        copy = np.asarray(kept).copy()
        self.assertGreater(threads(), before)
        del iterator
        gc.collect()
        self.assertEqual(threads(), before)
        for _ in range(3):
            for batch in batches:
                self.assertEqual(len(batch), 2)
        self.assertEqual(threads(), before)
        # A block that is held is not used for another batch.
        np.testing.assert_array_equal(np.asarray(kept), copy)

    def test_a_thousand_batches_leave_no_thread(self):
        def threads():
            return len(os.listdir("/proc/self/task"))

        before = threads()
        batches = loader(batch=1, workers=3, **{"data.train": 400})
        seen = sum(1 for _ in range(2) for _ in batches)
        iterator = iter(batches)
        seen += sum(1 for _ in zip(range(200), iterator))
        self.assertEqual(seen, 1000)
        self.assertEqual(threads(), before + 3)
        # Inside of an epoch, with batches that nobody has taken.
        del iterator
        self.assertEqual(threads(), before)
        iterator = iter(batches)
        next(iterator)
        del batches, iterator
        self.assertEqual(threads(), before)

    def test_batches_are_prepared_beforehand(self):
        if Image is None:
            self.skipTest("Pillow writes the images")
        with tempfile.TemporaryDirectory() as folder:
            for number in range(16):
                path = Path(folder, "ab"[number // 8], f"{number}.png")
                path.parent.mkdir(exist_ok=True)
                Image.fromarray(np.full((20, 20, 3), number, np.uint8)).save(path)
            # What is skipped has been read, whether anybody took its batch or not.
            for number in (10, 11, 12):
                Path(folder, "b", f"{number}.png").write_bytes(b"no image")
            options = dict(batch=1, workers=1, shuffle=False, on_corrupt="skip", transform="none")
            few, many = (octant.Loader(folder, prefetch=prefetch, **options) for prefetch in (1, 12))
            iterators = [iter(few), iter(many)]
            for iterator in iterators:
                next(iterator)
            deadline = time.monotonic() + 30
            while not many.skipped:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.01)
            self.assertEqual(few.skipped, [])

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_fork_is_refused(self):
        batches = loader()
        iterator = iter(batches)
        next(iterator)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            texts = []
            for work in [loader, lambda: iter(batches), lambda: next(iterator), lambda: octant.start("glyphs")]:
                try:
                    work()
                    texts.append("worked")
                except octant.OctantError as error:
                    texts.append(str(error))
            os.write(writer, json.dumps(texts).encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            texts = json.loads(pipe.read())
        os.waitpid(child, 0)
        self.assertEqual(len(texts), 4)
        for text in texts:
            self.assertIn("forked after octant was imported", text)
            self.assertIn("spawn", text)
        # The process that was forked continues.
        next(iterator)

    def test_batches_unpack_and_name_what_they_lack(self):
        batch = next(iter(loader()))
        images, classes = batch
        self.assertEqual((images.shape, classes.shape, classes.dtype), ((8, 28, 28, 1), (8,), "int32"))
        self.assertEqual((list(batch.targets), batch.valid, batch.index, batch.epoch), (["classes"], 8, 0, 0))
        with self.assertRaisesRegex(AttributeError, "has classes, and no boxes"):
            batch.boxes

    def test_boxes_are_augmented_and_padded(self):
        options = dict(recipe="demo-detect", batch=4, image_size=64, augment={"mosaic": 1.0}, **{"data.train": 8})
        batches = octant.Loader("scenes", **options)
        batch = next(iter(batches))
        boxes, classes = np.asarray(batch.boxes), np.asarray(batch.classes)
        self.assertEqual((boxes.shape[0], boxes.shape[2], classes.shape), (4, 4, boxes.shape[:2]))
        self.assertEqual(batch.images.shape, (4, 64, 64, 3))
        there = boxes[classes >= 0]
        self.assertTrue(len(there) > 4 and (there[:, 2] > there[:, 0]).all() and there.max() <= 64.001)

    def test_targets_of_every_task_have_names(self):
        side, counts = 64, {"data.train": 8, "data.test": 4}
        for source, recipe, name, shape in [
            ("shape-sets", "multilabel", "labels", (4, 4)),
            ("discs", "regress", "values", (4, 1)),
            ("semantic", "segment", "masks", (4, side, side, 1)),
            ("paintings", "restore", "target_images", (4, side, side, 3)),
            ("instances", "demo-instance", "owners", (4, side // 4, side // 4)),
            ("figures", "demo-pose", "keypoints", (4, None, None, 3)),
            ("vehicles", "demo-obb", "rotated", (4, None, 5)),
        ]:
            with self.subTest(source):
                batch = next(iter(octant.Loader(source, recipe=recipe, batch=4, image_size=side, **counts)))
                target = getattr(batch, name)
                self.assertEqual(len(target.shape), len(shape))
                self.assertTrue(all(wanted in (None, side) for side, wanted in zip(target.shape, shape)), target.shape)
                self.assertIs(batch.targets[name], target)
                if "boxes" in batch.targets:
                    self.assertEqual(list(batch.targets), ["boxes", "classes", name])
                    self.assertEqual(target.shape[:2] == batch.boxes.shape[:2], name != "owners")
                    self.assertGreater(np.asarray(target).max(), 0)

    def test_what_cannot_be_loaded_is_refused(self):
        for options, sentence in [
            (dict(part="test"), "use train or val"),
            (dict(last="maybe"), "drop, short or pad"),
            (dict(bach=3), "did you mean `batch`"),
            (dict(transform="imagnet"), "imagenet"),
            (dict(transform=[{"op": "resiz"}]), "resize"),
            (dict(batch=1000), "smaller batch"),
            (dict(lr=0.5), "is for training and changes nothing in a loader"),
            (dict(gallery=2), "is for training and changes nothing in a loader"),
            (dict(batch=8, batch_size=16), "give one of them"),
            (dict(eval_transform="none"), 'is for part="val"'),
            (dict(part="val", augment={"mosaic": 1.0}), 'is for part="train"'),
            (dict(part="val", **{"phases.0.mix.mixup": 0.5}), 'is for part="train"'),
            (dict(prefetch=0), "at least 1"),
            (dict(rank=2, world_size=2), "`rank` is less than `world_size`"),
        ]:
            with self.subTest(options), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.Loader("glyphs", **{**GLYPHS, **options})
        with self.assertRaisesRegex(octant.OctantError, "nowhere"):
            octant.Loader("nowhere")

    def test_folders_are_read(self):
        if Image is None:
            self.skipTest("Pillow writes the images")
        with tempfile.TemporaryDirectory() as folder:
            for name, shade in [("dark", 20), ("light", 220)]:
                Path(folder, name).mkdir()
                for number in range(6):
                    Image.fromarray(np.full((30, 40, 3), shade + number, np.uint8)).save(Path(folder, name, f"{number}.png"))
            steps = [{"op": "resize", "size": [16, 20]}, {"op": "flip-horizontally"}]
            batches = octant.Loader(folder, batch=4, transform=steps)
            self.assertEqual(batches.names, ["dark", "light"])
            for batch in batches:
                images, classes = np.asarray(batch.images), np.asarray(batch.classes)
                self.assertEqual(images.shape[1:], (16, 20, 3))
                np.testing.assert_array_equal(images.mean((1, 2, 3)) > 128, classes == 1)


class Imaging(unittest.TestCase):
    def test_pillow_s_bits(self):
        if Image is None:
            self.skipTest("Pillow is the reference")
        image = np.random.default_rng(0).integers(0, 256, (37, 53, 3), dtype=np.uint8)
        for name, filter in [("bilinear", Image.BILINEAR), ("bicubic", Image.BICUBIC), ("lanczos", Image.LANCZOS)]:
            for size in [(20, 31), (60, 80)]:
                ours = octant.imaging.resize(image, size, filter=name, semantics="pillow")
                theirs = np.asarray(Image.fromarray(image).resize(size[::-1], filter))
                np.testing.assert_array_equal(np.asarray(ours), theirs)

    def test_batches_types_and_strides(self):
        batch = np.random.default_rng(0).random((3, 8, 9, 2), dtype=np.float32)
        resized = np.asarray(octant.imaging.resize(batch, (4, 5), semantics="torchvision"))
        self.assertEqual((resized.shape, resized.dtype), ((3, 4, 5, 2), np.float32))
        one = octant.imaging.resize(np.asfortranarray(batch[1]), (4, 5), semantics="torchvision")
        np.testing.assert_array_equal(np.asarray(one), resized[1])
        gray = octant.imaging.resize(np.zeros((8, 9), np.uint16), (4, 5))
        self.assertEqual((gray.shape, gray.dtype), ((4, 5), "uint16"))
        for arguments, sentence in [
            ((batch.astype(float), (4, 5)), "convert it first"),
            ((batch, (0, 5)), "at least 1"),
            ((batch, (4, 5), "bilnear"), "bilinear"),
            ((batch, (4, 5), "bilinear", "opncv"), "opencv"),
        ]:
            names = dict(zip(["filter", "semantics"], arguments[2:]))
            with self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.imaging.resize(*arguments[:2], **names)


def random_set(images, classes, seed):
    """A COCO set and results with ties, crowds, misses, and images without boxes."""
    rng = np.random.default_rng(seed)
    truth = {
        "images": [{"id": 10 + 3 * number} for number in range(images)],
        "categories": [{"id": 2 * number + 1, "name": str(number)} for number in range(classes)],
        "annotations": [],
    }
    found = []
    for image in truth["images"]:
        for _ in range(rng.integers(0, 8)):
            box = np.append(rng.random(2) * 400, np.exp(rng.normal(4, 1, 2))).round(2)
            category = int(rng.integers(classes)) * 2 + 1
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1, "image_id": image["id"], "category_id": category,
                "bbox": box.tolist(), "area": float(box[2] * box[3] * rng.uniform(0.5, 1)), "iscrowd": int(rng.random() < 0.05),
            })  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                moved = box + rng.normal(0, 4, 4)
                moved[2:] = np.maximum(moved[2:], 1)
                named = category if rng.random() < 0.8 else int(rng.integers(classes)) * 2 + 1
                score = float(rng.random().__round__(2))
                found.append({"image_id": image["id"], "category_id": named, "bbox": moved.tolist(), "score": score})
    return truth, found


class Metrics(unittest.TestCase):
    def test_coco_s_figures(self):
        truth, found = random_set(120, 6, 0)
        figures = octant.metrics.coco(truth, found)
        self.assertEqual((len(figures.stats), len(figures.per_class)), (12, 6))
        self.assertTrue(0.05 < figures["mAP50-95"] < figures["mAP50"] < 1)
        columns = {key: np.array([row[key] for row in found]) for key in ["image_id", "category_id", "bbox", "score"]}
        self.assertEqual(octant.metrics.coco(truth, columns), figures)
        ids = {key: np.array([row["id"] for row in truth[key]]) for key in ["images", "categories"]}
        keys = ["image_id", "category_id", "bbox", "area", "iscrowd"]
        objects = {key: np.array([row[key] for row in truth["annotations"]]) for key in keys}
        self.assertEqual(octant.metrics.coco({**objects, **ids}, columns), figures)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ["truth.json", "found.json"]]
            for path, content in zip(paths, [truth, found]):
                path.write_text(json.dumps(content))
            self.assertEqual(octant.metrics.coco(*paths), figures)

    def test_pycocotools_figures(self):
        if COCO is None:
            self.skipTest("pycocotools is the reference")
        import contextlib
        import io

        for seed, (images, classes) in enumerate([(1, 1), (30, 3), (150, 9)]):
            truth, found = random_set(images, classes, seed)
            with contextlib.redirect_stdout(io.StringIO()):
                theirs = COCO()
                theirs.dataset = truth
                theirs.createIndex()
                evaluation = COCOeval(theirs, theirs.loadRes(found), "bbox")
                evaluation.evaluate()
                evaluation.accumulate()
                evaluation.summarize()
            ours = octant.metrics.coco(truth, found)
            np.testing.assert_allclose(ours.stats, evaluation.stats, atol=1e-9)

    def test_what_is_no_set_of_boxes_is_refused(self):
        truth, found = random_set(5, 2, 1)
        for given, sentence in [
            (({}, found), "image_id"),
            ((truth, [{"image_id": 1}]), "lacks `bbox`"),
            ((truth, [{**found[0], "image_id": 7}]), "no image 7"),
            ((truth, {"image_id": np.zeros(2), "category_id": np.zeros(2), "bbox": np.zeros((2, 3))}), "x, y, width and height"),
            ((truth, {"image_id": np.zeros(2), "category": np.zeros(2)}), "did you mean `category_id`"),
            ((truth, "nothing.json"), "nothing.json"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco(*given)

    def test_areas_and_distances(self):
        rng = np.random.default_rng(0)
        scores, truth = rng.random(300).astype(np.float32), rng.integers(0, 2, 300)
        positive, negative = scores[truth == 1], scores[truth == 0]
        pairs = (positive[:, None] > negative).mean() + (positive[:, None] == negative).mean() / 2
        self.assertAlmostEqual(octant.metrics.auc(scores, truth), pairs, places=9)
        self.assertEqual(octant.metrics.roc(scores, truth).shape[1], 2)
        a, b = rng.normal(0, 1, (400, 5)), rng.normal(0.5, 2, (300, 5))
        means = np.square(a.mean(0) - b.mean(0)).sum()
        product = np.linalg.eigvals(np.cov(a, rowvar=False) @ np.cov(b, rowvar=False))
        traces = np.trace(np.cov(a, rowvar=False)) + np.trace(np.cov(b, rowvar=False))
        expected = means + traces - 2 * np.sqrt(product.real.clip(0)).sum()
        self.assertAlmostEqual(octant.metrics.frechet_distance(a, b), expected, places=4)
        self.assertLess(abs(octant.metrics.kernel_distance(a, a)), 0.05)
        with self.assertRaisesRegex(octant.OctantError, "at least two rows"):
            octant.metrics.frechet_distance(a, b[:, :3])


if __name__ == "__main__":
    unittest.main()
