"""Arrays: what NumPy and JAX make of them, DLPack's capsules, lists and items."""

import importlib.util
import os
import subprocess
import sys
import unittest

import numpy as np
import octant
from models import model, image


class Arrays(unittest.TestCase):
    def test_dlpack_both_ways(self):
        features = octant.imaging.resize(image(8, 9), (4, 5))
        back = np.from_dlpack(features)
        np.testing.assert_array_equal(back, np.asarray(features))
        self.assertEqual(back.__array_interface__["data"][0], features.__array_interface__["data"][0])
        self.assertEqual(features.__dlpack_device__(), (1, 0))

    def test_numpy_takes_arrays_as_its_own(self):
        pixels = image(8, 9)
        array, mask = octant.imaging.resize(pixels, (4, 5)), model("mshnet-tiny")(pixels).mask
        for one in [array, mask, model()(pixels).probabilities, model().features(pixels)]:
            asarray = np.asarray(one)
            self.assertEqual(asarray.__array_interface__["data"][0], one.__array_interface__["data"][0])
            self.assertEqual((asarray.shape, asarray.dtype), (one.shape, one.dtype))
            # Its functions look at an array's `dtype`, which must be a type of NumPy's.
            self.assertIsInstance(one.dtype, np.dtype)
            self.assertEqual(np.result_type(one), asarray.dtype)
            self.assertEqual(one.dtype, str(asarray.dtype))
            for made, expected in [
                (np.stack([one, one]), np.stack([asarray, asarray])),
                (np.concatenate([one, one]), np.concatenate([asarray, asarray])),
                (np.array([one, one]), np.array([asarray, asarray])),
                (np.add(one, 1), asarray + 1),
                (np.zeros_like(one), np.zeros_like(asarray)),
                (np.array(one, dtype="float32"), asarray.astype("float32")),
            ]:
                self.assertEqual((made.dtype, made.shape), (expected.dtype, expected.shape))
                np.testing.assert_array_equal(made, expected)

    def test_arrays_name_their_types_without_numpy(self):
        program = """if True:
            import sys
            sys.modules["numpy"] = None
            import octant
            scores = octant.metrics.roc(*2 * [next(iter(octant.Loader("glyphs", batch=8, transform="none"))).mask])
            assert scores.dtype == "float64" and isinstance(scores.dtype, str) and scores[-1] == [0.0, 1.0], scores
            try:
                scores.numpy()
            except ImportError:
                print("done")
        """
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        self.assertEqual(done.stdout.strip(), "done", done.stderr)

    def test_jax_takes_and_gives_arrays(self):
        if importlib.util.find_spec("jax") is None:
            self.skipTest("JAX is the library")
        # In a process of its own: JAX starts threads, and another test forks.
        program = """if True:
            import jax, numpy, octant
            image = numpy.arange(40 * 50 * 3).reshape(40, 50, 3).astype("uint8")
            model = octant.load("resnet-tiny", weights="random", device="cpu", threads=1)
            assert model(jax.numpy.asarray(image)).probabilities.tolist() == model(image).probabilities.tolist()
            weight = model.state_dict()["conv1.weight"]
            given = jax.dlpack.from_dlpack(weight)
            assert given.dtype == "float32" and numpy.array_equal(given, numpy.asarray(weight))
            loader = octant.Loader("glyphs", batch=16, transform="none", **{"data.train": 32, "data.test": 4})
            batch = next(iter(loader))
            images, classes = map(jax.dlpack.from_dlpack, batch)
            assert (images.shape, classes.shape) == ((16, 28, 28, 1), (16,))
            assert numpy.array_equal(images, numpy.asarray(batch.images))
            # `asarray` looks for NumPy's protocols alone. JAX computes in 32 bits, as on NumPy's arrays.
            mask = octant.load("mshnet-tiny", weights="random", device="cpu", threads=1)(image).mask
            for array in [weight, batch.images, batch.classes, mask, model(image).probabilities, model.features(image)]:
                for convert in [jax.numpy.asarray, jax.numpy.array]:
                    given, expected = convert(array), convert(numpy.asarray(array))
                    assert isinstance(given, jax.Array) and given.dtype == expected.dtype, (array, given.dtype)
                    assert numpy.array_equal(given, expected)
            assert jax.numpy.asarray([batch.images, batch.images]).shape == (2, 16, 28, 28, 1)
            assert jax.jit(jax.numpy.sum)(jax.numpy.asarray(batch.classes)) == numpy.sum(batch.classes)
        """
        environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_capsules_free_their_memory_once(self):
        array = octant.imaging.resize(image(8, 9), (4, 5))
        for version in [None, (1, 0)]:
            capsule = array.__dlpack__(max_version=version)
            del capsule
            copied = array.__dlpack__(max_version=version, copy=True)
            del copied
        for wanted in [dict(dl_device=(2, 0)), dict(stream=1)]:
            with self.assertRaises(BufferError):
                array.__dlpack__(**wanted)
        # Capsules before version 1 cannot say that memory is read-only, so nothing but a copy may be given.
        mask = model("mshnet-tiny")(image()).mask
        with self.assertRaisesRegex(BufferError, "read-only"):
            mask.__dlpack__(copy=False)
        mask.__dlpack__(copy=False, max_version=(1, 0))
        self.assertEqual(array.shape, (4, 5, 3))

    def test_lists_and_items(self):
        array = octant.imaging.resize(np.arange(12, dtype=np.uint8).reshape(2, 6), (2, 6), filter="nearest")
        self.assertEqual(array.tolist(), [[0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11]])
        self.assertEqual((len(array), array.shape, array.dtype, array.size), (2, (2, 6), "uint8", 12))
        self.assertEqual(array[1, 2], 8)
        self.assertIn("uint8", repr(array))

    def test_capsules_that_are_none_are_refused(self):
        class Capsule:
            def __init__(self, capsule, device=(1, 0)):
                self.capsule, self.device = capsule, device

            def __dlpack_device__(self):
                return self.device

            def __dlpack__(self, **options):
                return self.capsule

        one, array = model(), octant.imaging.resize(image(), (8, 8))
        used = array.__dlpack__()
        np.from_dlpack(Capsule(used))
        for capsule in [None, 3, "dltensor", used, array.__dlpack__]:
            with self.assertRaisesRegex(octant.OctantError, "no capsule"):
                one.predict(Capsule(capsule))
        with self.assertRaisesRegex(octant.OctantError, "accelerator"):
            one.predict(Capsule(array.__dlpack__(), (2, 0)))
        self.assertEqual(len(one.predict(Capsule(array.__dlpack__()))), 1)
        self.assertEqual(len(one.predict(Capsule(array.__dlpack__(max_version=(1, 0))))), 1)


if __name__ == "__main__":
    unittest.main()
