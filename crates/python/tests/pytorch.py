"""PyTorch's tensors in and out, its weights, and its training loop over our loader."""

import gc
import tempfile
import unittest
import unittest.mock
from pathlib import Path

import numpy as np
import octant
import torch
from PIL import Image


def image(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (40, 50, 3), dtype=np.uint8)


class Tensors(unittest.TestCase):
    def test_tensors_of_any_layout_are_predicted(self):
        model = octant.load("resnet-tiny", weights="random", device="cpu", threads=1)
        pixels = image()
        expected = model(pixels).probabilities.tolist()
        behind = torch.from_numpy(pixels)
        channels_first = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))
        for tensor in [behind, channels_first.permute(1, 2, 0), behind.flip(0).flip(0), behind[None][0]]:
            self.assertEqual(model(tensor).probabilities.tolist(), expected)
        with self.assertRaisesRegex(octant.OctantError, "permute"):
            model(channels_first)
        with self.assertRaisesRegex(octant.OctantError, "uint8"):
            model(behind.float())

    def test_arrays_become_tensors_without_a_copy(self):
        array = octant.imaging.resize(image(), (4, 5))
        tensor = torch.from_dlpack(array)
        self.assertEqual((tuple(tensor.shape), tensor.dtype), ((4, 5, 3), torch.uint8))
        self.assertEqual(tensor.data_ptr(), array.__array_interface__["data"][0])
        kept = tensor.clone()
        del array
        self.assertTrue(torch.equal(tensor, kept))
        mask = octant.load("mshnet-tiny", weights="random", device="cpu").predict(image())[0].mask
        self.assertEqual(torch.from_dlpack(mask).sum().item(), int(np.asarray(mask).sum()))

    def test_every_function_of_torch_takes_arrays(self):
        model = octant.load("resnet-tiny", weights="random", device="cpu", threads=1)
        batch = next(iter(octant.Loader("glyphs", batch=4, transform="none")))
        mask = octant.load("mshnet-tiny", weights="random", device="cpu")(image()).mask
        for array in [batch.images, batch.classes, batch.mask, mask, model(image()).probabilities, model.features(image())]:
            expected = torch.from_numpy(np.array(array))
            for convert, shares in [
                (torch.from_dlpack, True), (torch.as_tensor, True), (torch.asarray, True), (torch.tensor, False),
            ]:  # fmt: skip
                tensor = convert(array)
                self.assertEqual(tensor.dtype, expected.dtype)
                self.assertTrue(torch.equal(tensor, expected))
                self.assertEqual(tensor.data_ptr() == array.__array_interface__["data"][0], shares, (convert, array))

    def test_batches_are_pinned_where_there_is_cuda(self):
        options = dict(batch=4, seed=1, transform="none", **{"data.train": 10})
        expected = [np.array(batch.images) for batch in octant.Loader("glyphs", last="short", **options)]
        if torch.cuda.is_available():
            batches = list(octant.Loader("glyphs", last="short", pin_memory=True, **options))
            self.assertTrue(all(torch.from_dlpack(batch.images).is_pinned() for batch in batches))
            self.assertTrue(all(torch.from_dlpack(batch.classes).is_pinned() for batch in batches))
        else:
            with self.assertLogs("octant", "WARNING") as logged:
                batches = list(octant.Loader("glyphs", last="short", pin_memory=True, **options))
            self.assertIn("`pin_memory` has no effect: PyTorch finds no CUDA device", logged.output[0])
        for batch, images in zip(batches, expected):
            np.testing.assert_array_equal(np.asarray(batch.images), images)

    @unittest.skipIf(torch.cuda.is_available(), "the copies are PyTorch's own")
    def test_pinned_batches_are_pytorch_s_memory(self):
        kept = []

        def pin_memory(tensor):
            kept.append(tensor.clone())
            return kept[-1]

        options = dict(batch=4, seed=1, transform="none", **{"data.train": 10})
        expected = [np.array(batch.images) for batch in octant.Loader("glyphs", last="short", **options)]
        with unittest.mock.patch("torch.cuda.is_available", return_value=True), unittest.mock.patch("torch.Tensor.pin_memory", pin_memory):
            batches = list(octant.Loader("glyphs", last="short", pin_memory=True, **options))
        self.assertEqual([batch.images.shape[0] for batch in batches], [4, 4, 2])
        pinned = {tensor.data_ptr() for tensor in kept}
        kept.clear()
        gc.collect()
        for batch, images in zip(batches, expected):
            for array in [batch.images, batch.mask, *batch.targets.values()]:
                self.assertIn(torch.from_dlpack(array).data_ptr(), pinned)
            np.testing.assert_array_equal(np.asarray(batch.images), images)

    def test_the_state_dict_is_the_one_that_a_file_has(self):
        model = octant.load("resnet-tiny", weights="random", device="cpu")
        state = {name: torch.from_dlpack(array) for name, array in model.state_dict().items()}
        self.assertEqual(tuple(state["conv1.weight"].shape)[1:], (3, 7, 7))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "weights.pth")
            torch.save(state, file)
            again = octant.load("resnet-tiny", weights=file, device="cpu")
            self.assertEqual(again(image()).probabilities.tolist(), model(image()).probabilities.tolist())

    def test_a_network_learns_from_the_loader(self):
        torch.manual_seed(0)
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder:
            for name, color in [("blue", (0, 0, 60)), ("green", (0, 60, 0)), ("red", (60, 0, 0))]:
                Path(folder, name).mkdir()
                for number in range(32):
                    pixels = rng.integers(0, 190, (16, 16, 3)) + np.array(color)
                    Image.fromarray(pixels.astype(np.uint8)).save(Path(folder, name, f"{number}.png"))
            loader = octant.Loader(folder, batch=16, seed=1, transform="none")
            self.assertEqual(loader.names, ["blue", "green", "red"])
            network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 3, 3))
            optimizer = torch.optim.Adam(network.parameters(), 1e-2)
            losses = []
            for _ in range(6):
                for images, classes in loader:
                    x = torch.from_dlpack(images).float().div_(255) - 0.5
                    loss = torch.nn.functional.cross_entropy(network(x), torch.from_dlpack(classes).long())
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
                    losses.append(loss.item())
        self.assertEqual((len(losses), loader.epoch), (6 * len(loader), 6))
        self.assertLess(np.mean(losses[-len(loader) :]), 0.3)


if __name__ == "__main__":
    unittest.main()
