"""Models and predictions: every form of input, arrays without copies, threads, errors as sentences."""

import gc
import io
import os
import re
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import zlib
from pathlib import Path

import numpy as np
import octant

try:
    from PIL import Image
except ImportError:
    Image = None


def model(name="resnet-tiny", **options):
    return octant.load(name, weights="random", device="cpu", threads=1, **options)


def image(height=40, width=50, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


class Inputs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.model = model()

    def probabilities(self, images):
        return [prediction.probabilities.tolist() for prediction in self.model.predict(images)]

    def test_every_form_of_an_image_gives_the_same_bits(self):
        pixels = image()
        [expected] = self.probabilities(pixels)
        self.assertAlmostEqual(sum(expected), 1.0, places=5)
        forms = {
            "array of octant": octant.imaging.resize(pixels, pixels.shape[:2], filter="nearest"),
            "fortran order": np.asfortranarray(pixels),
            "negative strides": pixels[::-1, ::-1].copy()[::-1, ::-1],
            "a part of a larger array": np.pad(pixels, ((3, 2), (1, 4), (0, 0)))[3:-2, 1:-4],
            "read-only": np.lib.stride_tricks.as_strided(pixels, writeable=False),
        }
        if Image is not None:
            forms["Pillow"] = Image.fromarray(pixels)
            file = io.BytesIO()
            Image.fromarray(pixels).save(file, "PNG")
            forms["bytes"] = file.getvalue()
            forms["bytearray"] = bytearray(file.getvalue())
            forms["memoryview"] = memoryview(file.getvalue())
        for name, form in forms.items():
            with self.subTest(name):
                self.assertEqual(self.probabilities(form), [expected])

    def test_batches_lists_and_files_keep_their_order(self):
        images = [image(seed=seed) for seed in range(11)]
        singly = np.array([self.probabilities(pixels)[0] for pixels in images])
        self.assertEqual(len(np.unique(singly.round(4), axis=0)), 11)

        def check(given, expected):
            # Batches of another size are other programs, which may add in another order.
            np.testing.assert_allclose(np.array(self.probabilities(given)), expected, atol=1e-5)

        check(np.stack(images), singly)
        check(images, singly)
        check((images[0], [images[1:]]), singly)
        self.assertEqual(self.probabilities(np.zeros((0, 4, 4, 3), np.uint8)), [])
        with tempfile.TemporaryDirectory() as folder:
            for number, pixels in enumerate(images):
                write_png(pixels, Path(folder, f"{number:02}.png"))
            check(folder, singly)
            check(Path(folder, "03.png"), singly[3:4])
            check(os.path.join(folder, "0?.png"), singly[:10])
            prediction = self.model(os.path.join(folder, "04.png"))
            self.assertEqual(Path(prediction.path).name, "04.png")
            self.assertEqual(prediction.size, (40, 50))

    def test_wrong_inputs_are_refused_with_a_sentence(self):
        pixels = image()
        for given, sentence in [
            (pixels.astype(np.float32), "(x * 255)"),
            (pixels.transpose(2, 0, 1), "transpose(1, 2, 0)"),
            (np.stack([pixels.transpose(2, 0, 1)]), "transpose(0, 2, 3, 1)"),
            (pixels[:, :, 0], "3 channel(s), not of 1"),
            (np.zeros((4, 4, 4), np.uint8), "not of 4"),
            (np.zeros((0, 4, 3), np.uint8), "at least one pixel"),
            (np.zeros(7, np.uint8), "height × width × channels"),
            ("nothing/here.png", "nothing/here.png"),
            (b"no image", "cannot be read"),
            (pixels.astype(">u2"), "not known here"),
            (np.array([["a"]]), "not known here"),
        ]:
            with self.subTest(sentence), self.assertRaisesRegex(octant.OctantError, escaped(sentence)):
                self.model.predict(given)
        for given in [7, None, {"a": 1}, object()]:
            with self.subTest(given), self.assertRaisesRegex(TypeError, "give a path"):
                self.model.predict(given)
        with self.assertRaisesRegex(octant.OctantError, "2 were given"):
            self.model([pixels, pixels])

    def test_lies_about_memory_are_refused(self):
        class Liar:
            def __init__(self, **interface):
                self.__array_interface__ = {"version": 3, "typestr": "|u1", "shape": (2, 2, 3), **interface}

        for liar in [
            Liar(),
            Liar(data=b"1234"),
            Liar(data=(0, False)),
            Liar(data=(1, False), shape=(-1, 2, 3)),
            Liar(data=(1, False), shape=(2**62, 2**62, 3)),
            Liar(data=(1, False), strides=(1,)),
            Liar(data=(1, False), typestr="|O8"),
        ]:
            with self.assertRaises((octant.OctantError, TypeError)):
                self.model.predict(liar)
        self.assertEqual(len(self.model.predict(Liar(data=bytes(12)))), 1)


class Outputs(unittest.TestCase):
    def test_classes_have_names_and_probabilities(self):
        named = model(names=[f"kind {number}" for number in range(10)])
        prediction = named(image())
        self.assertEqual(prediction.kind, "classes")
        scores = np.asarray(prediction.probabilities)
        self.assertEqual((scores.shape, scores.dtype), ((10,), np.float64))
        name, score = prediction.top(1)[0]
        self.assertEqual((name, score), (f"kind {scores.argmax()}", scores.max()))
        self.assertEqual((prediction.class_name, prediction.class_id), (name, scores.argmax()))
        self.assertEqual(prediction.json(2)["top"][0]["name"], name)
        self.assertEqual(prediction.probabilities[scores.argmax()], scores.max())
        with self.assertRaisesRegex(AttributeError, "probabilities of classes, and no boxes"):
            prediction.boxes
        with self.assertRaisesRegex(octant.OctantError, "nothing to draw"):
            prediction.plot()

    def test_detectors_have_boxes_and_draw_them(self):
        detector = model("yolov8-tiny", conf=0.0, max_det=7)
        pixels = image(60, 90)
        prediction = detector(pixels)
        boxes, scores = np.asarray(prediction.boxes), np.asarray(prediction.scores)
        self.assertEqual((boxes.shape, scores.shape), ((7, 4), (7,)))
        self.assertTrue((np.diff(scores) <= 0).all())
        self.assertEqual(len(prediction.class_names), 7)
        self.assertEqual(np.asarray(prediction.class_ids).dtype, np.int64)
        drawn = prediction.plot()
        self.assertEqual(np.asarray(drawn).shape, (60, 90, 3))
        self.assertFalse(np.array_equal(np.asarray(drawn), pixels))
        self.assertTrue(drawn.png().startswith(b"\x89PNG"))
        self.assertEqual(prediction._repr_png_(), drawn.png())

    def test_detectors_have_masks_keypoints_or_rotated_boxes(self):
        for kind, name, shape, others in [
            ("seg", "masks", (3, 60, 90), ["keypoints", "rotated"]),
            ("pose", "keypoints", (3, None, 3), ["masks", "rotated"]),
            ("obb", "rotated", (3, 5), ["masks", "keypoints"]),
        ]:
            with self.subTest(kind):
                prediction = model(f"yolo11-tiny-{kind}", conf=0.0, max_det=3)(image(60, 90))
                self.assertEqual((prediction.kind, prediction.boxes.shape), ("boxes", (3, 4)))
                found = np.asarray(getattr(prediction, name))
                self.assertTrue(len(found.shape) == len(shape) and np.isfinite(found).all())
                self.assertTrue(all(wanted in (None, side) for side, wanted in zip(found.shape, shape)), found.shape)
                self.assertEqual(np.asarray(prediction.plot()).shape, (60, 90, 3))
                for other in others:
                    with self.assertRaisesRegex(AttributeError, f"and no {other}"):
                        getattr(prediction, other)

    def test_predicted_masks_are_evaluated(self):
        prediction = model("yolo11-tiny-seg", conf=0.0, max_det=3)(image(60, 90))
        rows = [{"image_id": 1, "category_id": category} for category in prediction.class_ids.tolist()]
        masks, scores = np.asarray(prediction.masks), prediction.scores.tolist()
        masks = [mask if mask.any() else np.ones_like(mask) for mask in masks]
        truth = [{**row, "segmentation": mask} for row, mask in zip(rows, masks)]
        found = [{**row, "score": score} for row, score in zip(truth, scores)]
        self.assertAlmostEqual(octant.metrics.coco(truth, found, iou_type="segm")["mAP50-95"], 1.0, places=9)

    def test_masks_are_read_without_a_copy_and_outlive_their_prediction(self):
        prediction = model("mshnet-tiny")(image(33, 47))
        mask = np.asarray(prediction.mask)
        self.assertEqual((mask.shape, mask.dtype), ((33, 47), np.uint8))
        address = mask.__array_interface__["data"][0]
        self.assertEqual(np.asarray(prediction.mask).__array_interface__["data"][0], address)
        self.assertFalse(mask.flags.writeable)
        kept = mask.copy()
        del prediction
        gc.collect()
        np.testing.assert_array_equal(mask, kept)

    def test_layers_have_features(self):
        one, images = model(), np.stack([image(seed=seed) for seed in range(11)])
        pooled = np.asarray(one.features(images))
        self.assertEqual((pooled.shape, pooled.dtype), ((11, 20), np.float32))
        self.assertEqual(len(np.unique(pooled.round(4), axis=0)), 11)
        logits = np.asarray(one.features(list(images), "output"), dtype=float)
        shares = np.exp(logits - logits.max(1, keepdims=True))
        probabilities = [prediction.probabilities.tolist() for prediction in one.predict(images)]
        np.testing.assert_allclose(shares / shares.sum(1, keepdims=True), probabilities, atol=1e-5)
        self.assertEqual(one.features(images[:2], layer="map").shape[0], 2)
        self.assertLess(abs(octant.metrics.frechet_distance(one.features(images), pooled)), 1e-3)
        for given, sentence in [(([],), "no images"), ((images, "poled"), "pooled, output or map")]:
            with self.assertRaisesRegex(octant.OctantError, sentence):
                one.features(*given)
        with self.assertRaisesRegex(octant.OctantError, "images of any size"):
            model("edsr-tiny").features(image())

    def test_images_are_made(self):
        made = np.asarray(model("edsr-tiny")(image(20, 30)).image)
        self.assertEqual((made.ndim, made.shape[2], made.dtype), (3, 3, np.uint8))
        whole, tiled = (np.asarray(model("edsr-tiny", tile=tile)(image(40, 50)).image) for tile in (1024, 16))
        self.assertEqual(whole.shape, tiled.shape)
        self.assertFalse(np.array_equal(whole, tiled))

    def test_the_state_dict_is_the_callers_own(self):
        one = model()
        pixels = image()
        before = one(pixels).probabilities.tolist()
        state = one.state_dict()
        weight = np.asarray(state["conv1.weight"])
        self.assertEqual(weight.shape[1:], (3, 7, 7))
        weight[:] = 0
        self.assertEqual(one(pixels).probabilities.tolist(), before)

    def test_exports_are_written(self):
        with tempfile.TemporaryDirectory() as folder:
            written = model().export(Path(folder, "network.onnx"), batch=2)
            self.assertEqual(written["inputs"], ["images f32[2, 3, 32, 32]"])
            self.assertGreater(Path(written["path"]).stat().st_size, 1000)
            # With suppression by what the model was loaded with.
            detectors = [model("yolov8-tiny", **options) for options in ({}, {"conf": 0.4}, {"max_det": 7}, {"iou": 0.2})]
            files = [Path(folder, f"{number}.onnx") for number in range(len(detectors))]
            for detector, file in zip(detectors, files):
                detector.export(file, nms=True)
            self.assertEqual(len({file.read_bytes() for file in files}), len(files))
            with self.assertRaisesRegex(octant.OctantError, "did you mean onnx"):
                model().export(Path(folder, "x"), format="onx")
            with self.assertRaisesRegex(octant.OctantError, "names no format"):
                model().export(Path(folder, "x.xyz"))


class Random(unittest.TestCase):
    def test_arrays_of_any_kind_are_predicted_or_refused(self):
        one, rng, predicted = model(), np.random.default_rng(0), 0
        types = ["u1", "i1", "?", "u2", ">u2", "f2", "f4", "f8", "c8", "i8", "S3", "O", "M8[s]"]
        for _ in range(400):
            kind = types[int(rng.integers(len(types)) * (rng.random() < 0.4))]
            shape = rng.choice([0, 1, 2, 3, 4, 7, 20], rng.integers(0, 6))
            if rng.random() < 0.6:
                shape = [*rng.integers(0, 30, 2), 3][: rng.integers(2, 4)]
            array = np.zeros(shape, kind)
            if kind == "u1":
                array[...] = rng.integers(0, 256, array.shape)
            for axis in range(array.ndim):
                array = np.moveaxis(array, axis, int(rng.integers(array.ndim)))
                step = int(rng.choice([1, 1, 1, 2, -1, -3]))
                array = array[(slice(None),) * axis + (slice(None, None, step),)]
            if rng.random() < 0.2:
                array = np.broadcast_to(array, (2, *array.shape))
            if rng.random() < 0.2:
                array.flags.writeable = False
            try:
                found = one.predict(array)
            except (octant.OctantError, TypeError, BufferError):
                continue
            predicted += 1
            again = one.predict(np.ascontiguousarray(array))
            self.assertEqual(
                [prediction.probabilities.tolist() for prediction in found],
                [prediction.probabilities.tolist() for prediction in again],
            )
        self.assertGreater(predicted, 20)


class Threads(unittest.TestCase):
    def test_eight_threads_agree_bit_by_bit(self):
        shared, other = model(), model(classes=7)
        images = [image(seed=seed) for seed in range(8)]
        expected = [shared(pixels).probabilities.tolist() for pixels in images]
        found, errors = {}, []

        def work(number):
            try:
                rows = []
                for turn in range(6):
                    rows.append(shared(images[(number + turn) % 8]).probabilities.tolist())
                    other(images[number])
                found[number] = rows
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(errors, [])
        for number in range(8):
            self.assertEqual(found[number], [expected[(number + turn) % 8] for turn in range(6)])

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_a_fork_is_refused(self):
        shared = model()
        shared(image())
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                shared(image())
                text = "predicted"
            except octant.OctantError as error:
                text = str(error)
            os.write(writer, text.encode())
            os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            text = pipe.read().decode()
        os.waitpid(child, 0)
        self.assertIn("spawn", text)


class Loading(unittest.TestCase):
    def test_what_cannot_be_loaded_is_refused_with_the_nearest_right_thing(self):
        for arguments, sentence in [
            (dict(source="resnet50"), "pretrained"),
            (dict(source="resnet5o"), "resnet50"),
            (dict(source="runs/none-1"), "there is no runs/none-1"),
            (dict(source="resnet-tiny", weights="random", conf=0.5), "`conf` is for detectors"),
            (dict(source="resnet-tiny", weights="random", tile=64), "`tile` is for detectors and networks that make images"),
            (dict(source="yolov8-tiny", weights="random", conf=2.0), "shares from 0 to 1"),
            (dict(source="resnet-tiny", weights="random", checkpoint="best"), "among those of a run"),
            (dict(source="resnet-tiny", weights="random", precision="f8"), "bf16"),
            (dict(source="resnet-tiny", weights="nothing.safetensors"), "nothing.safetensors"),
            (dict(source="resnet-tiny", weights="random", threads=0), "within 1 and 1024"),
            (dict(source=".", device="cpu"), "config.toml"),
        ]:
            with self.subTest(arguments), self.assertRaisesRegex(octant.OctantError, escaped(sentence)):
                octant.load(**{"device": "cpu", "threads": 1, **arguments})
        with self.assertRaises(TypeError):
            octant.load("resnet-tiny", wieghts="random")
        with self.assertRaisesRegex(octant.OctantError, "cuda:idle|did you mean"):
            octant.load("resnet-tiny", weights="random", device="cdua")

    def test_a_model_describes_itself(self):
        one = model()
        self.assertEqual((one.name, one.task, one.channels, one.device), ("resnet-tiny", "classify", 3, "cpu"))
        self.assertEqual(one.image_size, (32, 32))
        self.assertIn("resnet-tiny", repr(one))
        one.warm_up([1, 4])


def escaped(sentence):
    return re.escape(sentence)


def write_png(pixels, path):
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    Path(path).write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )


if __name__ == "__main__":
    unittest.main()
