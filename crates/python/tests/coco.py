"""COCO's evaluation of masks and keypoints against pycocotools over random sets, and what is refused."""

import contextlib
import copy
import io
import json
import math
import re
import tempfile
import unittest
from pathlib import Path

import numpy as np
import octant

try:
    from pycocotools import mask as masks
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval
except ImportError:
    COCO = None

SMALL, LARGE = (30, 40), (150, 230)


def polygon(rng, size, near=None):
    """Points around a center, of which some are repeated or reach over the border."""
    if near is not None:
        return (np.array(near) + rng.normal(0, 1.5, len(near))).tolist()
    count, radius = int(rng.integers(3, 9)), rng.uniform(2, min(size) / 2)
    angles = np.sort(rng.uniform(0, 2 * math.pi, count))
    reach = radius * rng.uniform(0.5, 1.2, count)
    center = rng.uniform(0, 1, 2) * size[::-1]
    points = np.stack([center[0] + reach * np.cos(angles), center[1] + reach * np.sin(angles)], 1)
    if rng.random() < 0.1:
        points[1] = points[0]
    return points.round(int(rng.integers(1, 9))).flatten().tolist()


def encoded(points, size, form):
    """A mask of polygons as COCO's text, as numbers of pixels, or as pixels."""
    rle = masks.merge(masks.frPyObjects(points, *size))
    if form == "bytes":
        return rle
    if form == "text":
        return {**rle, "counts": rle["counts"].decode()}
    pixels = masks.decode(rle)
    if form == "pixels":
        return pixels
    flat = pixels.flatten(order="F")
    ends = np.flatnonzero(np.diff(flat)) + 1
    counts = np.diff(np.concatenate([[0], ends, [flat.size]])).tolist()
    return {"size": list(size), "counts": counts if flat[0] == 0 else [0, *counts]}


def mask_set(seed, images, classes, form, boxed):
    """Objects of several parts, groups, areas of all sizes, and predictions near them and elsewhere."""
    rng = np.random.default_rng(seed)
    sizes = {5 + 2 * number: SMALL if rng.random() < 0.3 else LARGE for number in rng.permutation(images).tolist()}
    truth = {
        "images": [{"id": image, "height": size[0], "width": size[1]} for image, size in sizes.items()],
        "categories": [{"id": 3 * number + 1} for number in range(classes)],
        "annotations": [],
    }
    found = []
    for image, size in sizes.items():
        for _ in range(rng.integers(0, 6)):
            parts = [polygon(rng, size) for _ in range(rng.integers(1, 3))]
            category, crowd = int(rng.integers(classes)) * 3 + 1, int(rng.random() < 0.15)
            area = float(masks.area(encoded(parts, size, "text"))) * rng.choice([1.0, 4.0, 0.2])
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1, "image_id": image, "category_id": category, "iscrowd": crowd, "area": area,
                "segmentation": encoded(parts, size, "counts") if crowd else parts, "bbox": [0, 0, 1, 1],
            })  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                moved = [polygon(rng, size, near=part) for part in parts]
                named = category if rng.random() < 0.8 else int(rng.integers(classes)) * 3 + 1
                row = {"image_id": image, "category_id": named, "segmentation": encoded(moved, size, form)}
                row["score"] = float(rng.random().__round__(1))
                if boxed:
                    row["bbox"] = [float(number) for number in rng.random(4) * 120]
                found.append(row)
    return truth, found


def keypoint_set(seed, images, boxed):
    """People whose keypoints are seen, hidden and unknown, groups, and predictions near them."""
    rng = np.random.default_rng(seed)
    truth = {"images": [{"id": 9 - number} for number in range(images)], "categories": [{"id": 1}], "annotations": []}
    found = []
    for image in truth["images"]:
        for _ in range(rng.integers(0, 5)):
            side = float(rng.choice([20.0, 60.0, 150.0]))
            box = [*rng.uniform(0, 200, 2).tolist(), side, side * rng.uniform(0.5, 2)]
            points = np.append(rng.random((17, 2)) * box[2:] + box[:2], rng.integers(0, 3, (17, 1)), 1)
            points[:, 2] *= rng.random() > 0.15
            # Now and then a file says that no keypoint counts although some are seen.
            known = int((points[:, 2] > 0).sum()) * (rng.random() > 0.1)
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1, "image_id": image["id"], "category_id": 1, "iscrowd": int(rng.random() < 0.1),
                "keypoints": points.flatten().tolist(), "num_keypoints": int(known), "area": box[2] * box[3] * 0.6, "bbox": box,
            })  # fmt: skip
            for _ in range(rng.integers(0, 4)):
                near = points + rng.normal(0, side * rng.choice([0.02, 0.1]), points.shape)
                row = {"image_id": image["id"], "category_id": 1, "keypoints": near.flatten().tolist()}
                row["score"] = float(rng.random().__round__(1))
                if boxed:
                    row["bbox"] = [float(number) for number in rng.random(4) * 120]
                found.append(row)
    return truth, found


def theirs(truth, found, iou_type, max_dets=None):
    """pycocotools' figures; with other limits than its own its summary has none, so they are taken from what it measured."""
    with contextlib.redirect_stdout(io.StringIO()):
        dataset = COCO()
        dataset.dataset = copy.deepcopy(truth)
        dataset.createIndex()
        evaluation = COCOeval(dataset, dataset.loadRes(copy.deepcopy(found)), iou_type)
        if max_dets is not None:
            evaluation.params.maxDets = list(max_dets)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    precision, recall = evaluation.eval["precision"], evaluation.eval["recall"]

    def mean(values):
        return float(values[values > -1].mean()) if (values > -1).any() else -1.0

    areas = range(1, precision.shape[3])
    figures = [mean(precision[at, :, :, 0, -1]) for at in (slice(None), 0, 5)]
    figures += [mean(precision[:, :, :, area, -1]) for area in areas]
    figures += [mean(recall[:, :, 0, limit]) for limit in range(recall.shape[3])]
    if iou_type == "keypoints":
        figures += [mean(recall[at, :, 0, -1]) for at in (0, 5)]
    figures += [mean(recall[:, :, area, -1]) for area in areas]
    if max_dets is None:
        np.testing.assert_allclose(figures, evaluation.stats, rtol=0, atol=1e-12)
    return figures


@unittest.skipIf(COCO is None, "pycocotools is the reference")
class Masks(unittest.TestCase):
    def check(self, truth, found, given=None, **options):
        ours = octant.metrics.coco(truth, found if given is None else given, iou_type="segm", **options)
        np.testing.assert_allclose(ours.stats, theirs(truth, found, "segm", **options), rtol=0, atol=1e-9)
        return ours

    def test_pycocotools_figures(self):
        self.assertGreater(self.check(*mask_set(0, 30, 3, "text", False))["mAP50"], 0.1)
        for seed, form in enumerate(["bytes", "text", "bytes", "text", "bytes", "text"]):
            with self.subTest(seed):
                self.check(*mask_set(seed, 1 + 9 * seed, 1 + seed, form, seed % 3 == 0))

    def test_limits(self):
        truth, found = mask_set(7, 20, 2, "text", False)
        for max_dets in [(1, 2, 3), (2, 3, 20), (1, 10, 1000)]:
            ours = self.check(truth, found, max_dets=max_dets)
            self.assertIn(f"AR-{max_dets[2]}", ours.figures)
        boxes = octant.metrics.coco(truth, [{**row, "bbox": [0, 0, 1, 1]} for row in found], max_dets=[1, 2, 3])
        expected = theirs(truth, [{**row, "bbox": [0, 0, 1, 1]} for row in found], "bbox", max_dets=[1, 2, 3])
        np.testing.assert_allclose(boxes.stats, expected, rtol=0, atol=1e-9)

    def test_every_form_has_the_same_figures(self):
        truth, found = mask_set(3, 12, 2, "text", False)
        expected = self.check(truth, found)
        for form in ["bytes", "counts", "pixels"]:
            given = mask_set(3, 12, 2, form, False)[1]
            self.assertEqual(self.check(truth, found, given), expected)
        pixels = mask_set(3, 12, 2, "pixels", False)[1]
        self.assertEqual(self.check(truth, found, [{**row, "segmentation": row["segmentation"] > 0} for row in pixels]), expected)
        columns = {key: np.array([row[key] for row in found]) for key in ["image_id", "category_id", "score"]}
        columns["segmentation"] = [row["segmentation"] for row in found]
        objects = {key: np.array([row[key] for row in truth["annotations"]]) for key in ["image_id", "category_id", "area", "iscrowd"]}
        objects["segmentation"] = [row["segmentation"] for row in truth["annotations"]]
        objects.update(images=truth["images"], categories=np.array([row["id"] for row in truth["categories"]]))
        self.assertEqual(octant.metrics.coco(objects, columns, iou_type="segm"), expected)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder, name) for name in ["truth.json", "found.json"]]
            for path, content in zip(paths, [truth, found]):
                path.write_text(json.dumps(content))
            self.assertEqual(octant.metrics.coco(*paths, iou_type="segm"), expected)

    def test_damaged_masks_are_refused(self):
        truth, found = mask_set(2, 4, 1, "text", False)
        size, [height, width] = found[0]["segmentation"]["size"], found[0]["segmentation"]["size"]
        for damaged, sentence in [
            ({"size": size, "counts": "~~~~"}, "damaged"),
            ({"size": size, "counts": "PPPPPPPPPPPPPPPPPPPPP"}, "damaged"),
            ({"size": size, "counts": [height * width - 1]}, "pixels"),
            ({"size": size, "counts": [-1, height * width + 1]}, "neither a text nor numbers"),
            ({"size": size, "counts": [1.5, height * width - 1.5]}, "neither a text nor numbers"),
            ({"size": size}, "no `counts`"),
            ({"counts": "0"}, "no `size`"),
            ({"size": [width], "counts": "0"}, "no `size`"),
            ({"size": [2**40, 2**40], "counts": [0]}, "no `size`"),
            ({"size": [7, 9], "counts": [63]}, "is for 7×9 pixels"),
            ([], "is empty"),
            ([[1, 2, 3, 4]], "a polygon has 4 numbers"),
            ([[1, 2, 3, 4, 5, 6, 7]], "a polygon has 7 numbers"),
            ([[1, 2, 3, 4, 5, float("nan")]], "too far from each other"),
            ([[0, 0, 1e9, 0, 1e9, 1e9]], "too far from each other"),
            ([1, 2, 3, 4, 5, 6], "list of lists of numbers"),
            ([["a"]], "list of lists of numbers"),
            (7, "neither polygons nor runs"),
            (np.zeros((2, 3)), "none of bool or uint8"),
            (np.zeros((2, 3, 4), bool), "height × width"),
            (np.zeros((2, 3), bool), "is for 2×3 pixels"),
            (None, "lacks `segmentation`"),
        ]:
            rows = [{**found[0], "segmentation": damaged}, *found[1:]]
            with self.subTest(damaged), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco(truth, rows, iou_type="segm")
        for change, sentence in [
            (dict(images=[{"number": 1}]), "an entry of `images`"),
            (dict(images=7), "an entry of `images`"),
            (dict(categories=[{"name": "a"}]), "an entry of `categories`"),
            (dict(categories="abc"), "an entry of `categories`"),
        ]:
            with self.subTest(change), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco({**truth, **change}, found, iou_type="segm")

        unsized = {**truth, "images": [{"id": row["id"]} for row in truth["images"]]}
        with self.assertRaisesRegex(octant.OctantError, "lists no `height` and `width`"):
            octant.metrics.coco(unsized, [], iou_type="segm")

    def test_damaged_rows_and_arguments_are_refused(self):
        truth, found = mask_set(2, 4, 1, "text", True)
        boxless = {key: item for key, item in found[1].items() if key != "bbox"}
        for rows, sentence in [
            ([{key: item for key, item in found[0].items() if key != "score"}], "lacks `score`"),
            ([found[0], boxless], "lacks `bbox`, which the first one has"),
            ([{**found[0], "bbox": [1, 2, 3]}], "`bbox` has 3 numbers"),
            ([{**found[0], "image_id": "seven"}], "`image_id` is no whole number"),
            ([{**found[0], "image_id": 2**70}], "`image_id` is no whole number"),
            ([{**found[0], "score": "high"}], "`score` is no number"),
            ([7], "it is no dictionary"),
            ({"segmentation": []}, "lacks the column `image_id`"),
            ({"image_id": np.zeros(2), "category_id": np.zeros(2), "score": np.zeros(2), "segmentation": [[]]}, "1 values for 2 rows"),
            ({"image_id": np.zeros(2), "category_id": np.zeros(2), "score": np.zeros(2)}, "lacks `segmentation`"),
        ]:
            sentence = sentence.replace("lacks `segmentation`", "lacks the column `segmentation`")
            with self.subTest(sentence), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco(truth, rows, iou_type="segm")
        for options, sentence in [
            (dict(iou_type="mask"), "bbox, segm or keypoints"),
            (dict(iou_type="segm", max_dets=[100]), "three ascending numbers"),
            (dict(iou_type="segm", max_dets=[2, 2, 2]), "three ascending numbers"),
            (dict(iou_type="segm", max_dets=[0, 1, 2]), "at least 1"),
            (dict(iou_type="segm", max_dets=[3, 2, 1]), "three ascending numbers"),
            (dict(iou_type="keypoints", max_dets=[1, 2]), "one number"),
            (dict(iou_type="segm", sigmas=[0.1]), "change nothing"),
        ]:
            with self.subTest(options), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco(truth, found, **options)


@unittest.skipIf(COCO is None, "pycocotools is the reference")
class Keypoints(unittest.TestCase):
    def check(self, truth, found, **options):
        ours = octant.metrics.coco(truth, found, iou_type="keypoints", **options)
        np.testing.assert_allclose(ours.stats, theirs(truth, found, "keypoints", **options), rtol=0, atol=1e-9)
        return ours

    def test_pycocotools_figures(self):
        figures = self.check(*keypoint_set(0, 20, False))
        self.assertEqual((len(figures.stats), list(figures.per_class)), (10, [1]))
        self.assertGreater(figures["AR50"], 0.2)
        for seed in range(1, 9):
            with self.subTest(seed):
                self.check(*keypoint_set(seed, 3 * seed, seed % 2 == 0))
        self.check(*keypoint_set(0, 20, False), max_dets=[2])

    def test_columns_have_the_same_figures(self):
        truth, found = keypoint_set(0, 20, False)
        columns = {key: np.array([row[key] for row in found]) for key in ["image_id", "category_id", "score", "keypoints"]}
        keys = ["image_id", "category_id", "area", "iscrowd", "bbox", "num_keypoints", "keypoints"]
        objects = {key: np.array([row[key] for row in truth["annotations"]]) for key in keys}
        objects["keypoints"] = objects["keypoints"].reshape(-1, 17, 3)
        objects.update({key: np.array([row["id"] for row in truth[key]]) for key in ["images", "categories"]})
        self.assertEqual(octant.metrics.coco(objects, columns, iou_type="keypoints"), self.check(truth, found))

    def test_other_numbers_of_keypoints_have_sigmas(self):
        truth, found = keypoint_set(4, 9, False)
        short = [[{**row, "keypoints": row["keypoints"][:15]} for row in rows] for rows in (truth["annotations"], found)]
        truth = {**truth, "annotations": short[0]}
        expected = octant.metrics.coco(truth, short[1], iou_type="keypoints", sigmas=[0.2] * 5)
        self.assertEqual(octant.metrics.coco(truth, short[1], iou_type="keypoints"), expected)
        self.assertNotEqual(octant.metrics.coco(truth, short[1], iou_type="keypoints", sigmas=[0.02] * 5), expected)

    def test_damaged_keypoints_are_refused(self):
        truth, found = keypoint_set(1, 4, False)
        for damaged, sentence in [
            ([], "are 0 numbers"),
            ([1, 2, 3, 4], "are 4 numbers"),
            ([1, 2, 3], "has 1 keypoints, not 17"),
            ([float("nan")] * 51, "not finite"),
            ("abc", "no list of numbers"),
            (None, "lacks `keypoints`"),
        ]:
            with self.subTest(damaged), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.metrics.coco(truth, [{**found[0], "keypoints": damaged}], iou_type="keypoints")
        for key in ["bbox", "area"]:
            rows = [{own: item for own, item in row.items() if own != key} for row in truth["annotations"]]
            with self.assertRaisesRegex(octant.OctantError, f"lacks `{key}`, which keypoints need"):
                octant.metrics.coco({**truth, "annotations": rows}, found, iou_type="keypoints")
        for sigmas, sentence in [([0.1] * 3, "has 17 keypoints, not 3"), ([0.0] * 17, "positive"), ([], "has 17 keypoints, not 0")]:
            with self.assertRaisesRegex(octant.OctantError, sentence):
                octant.metrics.coco(truth, found, iou_type="keypoints", sigmas=sigmas)


if __name__ == "__main__":
    unittest.main()
