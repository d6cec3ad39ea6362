"""Fuzzed masks, keypoints and rotated boxes, and the figures of pycocotools and shapely for them.

    pip install numpy pycocotools shapely
    python details.py > details.txt

A line per fact: `polygon height width count x y … runs …` (a polygon and its runs); `case kind classes images`, `truth image
class area crowd …` with a polygon or keypoints, `found image class score …` with runs or keypoints, `figures …`; `rotated` with
two boxes of center, size and radians and the intersection over union of their polygons; `text` of runs.
"""
import contextlib, io, math
import numpy as np
from pycocotools import mask as masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval
from shapely.geometry import Polygon

random = np.random.default_rng(7)
H, W = 30, 40
SIGMAS = np.array([.026, .025, .025, .035, .035, .079, .079, .072, .072, .062, .062, .107, .107, .087, .087, .089, .089])


def show(*values):
    print(*[repr(float(v)) if isinstance(v, (float, np.floating)) else v for v in values])


def counts(rle):
    """Runs of a compressed mask."""
    pixels = masks.decode(rle).flatten(order='F')
    runs, last = [0], 0
    for pixel in pixels:
        if pixel != last:
            runs.append(0)
            last = pixel
        runs[-1] += 1
    return [int(run) for run in runs]


def polygon(x=None, y=None, radius=None):
    count = int(random.integers(3, 9))
    x = random.uniform(0, W) if x is None else x
    y = random.uniform(0, H) if y is None else y
    radius = random.uniform(2, 14) if radius is None else radius
    angles = np.sort(random.uniform(0, 2 * math.pi, count))
    if random.random() < 0.2:
        random.shuffle(angles)
    reach = radius * random.uniform(0.5, 1.2, count)
    points = np.stack([x + reach * np.cos(angles), y + reach * np.sin(angles)], 1)
    if random.random() < 0.3:
        points = points.round(1)
    if random.random() < 0.1:
        points[1] = points[0]
    return [float(v) for v in points.flatten()]


def rle_of(points):
    return masks.merge(masks.frPyObjects([points], H, W))


def stats(truth, found, images, classes, kind):
    coco, results = COCO(), COCO()
    listed = [{'id': i, 'height': H, 'width': W} for i in range(images)]
    names = [{'id': c, 'name': str(c)} for c in range(classes)]
    for number, entry in enumerate(truth):
        entry['id'] = number + 1
    coco.dataset = {'images': listed, 'categories': names, 'annotations': truth}
    with contextlib.redirect_stdout(io.StringIO()):
        coco.createIndex()
        results = coco.loadRes(found)
        evaluation = COCOeval(coco, results, kind)
        evaluation.evaluate(), evaluation.accumulate(), evaluation.summarize()
    return evaluation.stats


for _ in range(300):
    points = polygon()
    rle = rle_of(points)
    runs = counts(rle)
    show('polygon', H, W, len(points), *points, *runs)
    if random.random() < 0.2:
        show('text', H, W, rle['counts'].decode(), *runs)

for _ in range(60):
    classes, images = int(random.integers(1, 4)), int(random.integers(1, 5))
    truth, found = [], []
    show('case', 'segm', classes, images)
    for image in range(images):
        for _ in range(int(random.integers(0, 6))):
            x, y, radius = random.uniform(0, W), random.uniform(0, H), random.uniform(2, 14)
            points, crowd, category = polygon(x, y, radius), int(random.random() < 0.15), int(random.integers(0, classes))
            rle = rle_of(points)
            if masks.area(rle) == 0:
                continue
            area = float(masks.area(rle)) * random.choice([1.0, 4.0, 30.0])
            truth.append(dict(image_id=image, category_id=category, segmentation=rle if crowd else [points], iscrowd=crowd,
                              area=area, bbox=[float(v) for v in masks.toBbox(rle)]))
            show('truth', image, category, area, crowd, *points)
            for _ in range(int(random.integers(0, 3))):
                moved = [v + random.normal() * radius * 0.1 for v in points]
                own = rle_of(moved)
                if masks.area(own) == 0:
                    continue
                score = float(random.choice([random.random(), 0.5]))
                found.append(dict(image_id=image, category_id=category, segmentation=own, score=score))
                show('found', image, category, score, *counts(own))
    if not truth or not found:
        show('figures')
        continue
    show('figures', *[float(v) for v in stats(truth, found, images, classes, 'segm')])

for _ in range(60):
    images = int(random.integers(1, 5))
    truth, found = [], []
    show('case', 'keypoints', 1, images)
    for image in range(images):
        for _ in range(int(random.integers(0, 5))):
            side = random.choice([20.0, 60.0, 150.0])
            bbox = [float(random.uniform(0, 200)), float(random.uniform(0, 200)), side, side * random.uniform(0.5, 2)]
            points = np.stack([bbox[0] + random.uniform(0, 1, 17) * bbox[2], bbox[1] + random.uniform(0, 1, 17) * bbox[3],
                               random.integers(0, 3, 17) * (random.random() > 0.15)], 1)
            crowd, area = int(random.random() < 0.1), float(bbox[2] * bbox[3] * 0.6)
            flat = [float(v) for v in points.flatten()]
            truth.append(dict(image_id=image, category_id=0, keypoints=flat, num_keypoints=int((points[:, 2] > 0).sum()),
                              iscrowd=crowd, area=area, bbox=bbox))
            show('truth', image, 0, area, crowd, *bbox, *flat)
            for _ in range(int(random.integers(0, 3))):
                near = points.copy()
                near[:, :2] += random.normal(size=(17, 2)) * side * random.choice([0.02, 0.1])
                near[:, 2] = 1
                score, flat = float(random.choice([random.random(), 0.5])), [float(v) for v in near.flatten()]
                found.append(dict(image_id=image, category_id=0, keypoints=flat, score=score))
                show('found', image, 0, score, *flat)
    if not truth or not found:
        show('figures')
        continue
    show('figures', *[float(v) for v in stats(truth, found, images, 1, 'keypoints')])


def corners(x, y, w, h, a):
    c, s = math.cos(a), math.sin(a)
    return Polygon([(x + u * c - v * s, y + u * s + v * c) for u, v in
                    ((w / 2, h / 2), (w / 2, -h / 2), (-w / 2, -h / 2), (-w / 2, h / 2))])


for _ in range(500):
    a = [random.uniform(0, 20), random.uniform(0, 20), random.uniform(1, 15), random.uniform(1, 15), random.uniform(-2, 4)]
    b = [random.uniform(0, 20), random.uniform(0, 20), random.uniform(1, 15), random.uniform(1, 15), random.uniform(-2, 4)]
    if random.random() < 0.2:
        b = [a[0], a[1], a[2], a[3], a[4] + random.choice([0, math.pi / 2, 1e-9])]
    p, q = corners(*a), corners(*b)
    show('rotated', *a, *b, p.intersection(q).area / p.union(q).area)
