"""Golden figures of tracks, from trackeval's metrics:

    pip install numpy trackeval scipy
    python tracks.py

Writes `tracks.json`: sequences of boxes, and what the reference makes of them.
"""
import json, os
import numpy as np
import scipy.optimize
# The package uses names that NumPy has dropped.
np.float, np.int = float, int
from trackeval.metrics import CLEAR, HOTA, Identity

HERE = os.path.dirname(os.path.abspath(__file__))


def iou(a, b):
    a, b = np.array(a).reshape(-1, 4), np.array(b).reshape(-1, 4)
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, :2] + a[:, None, 2:], b[None, :, :2] + b[None, :, 2:])
    common = np.clip(high - low, 0, None).prod(2)
    return common / (a[:, 2:].prod(1)[:, None] + b[:, 2:].prod(1)[None] - common)


def sequence(name, seed, objects, frames, noise, miss, wrong, switch, empty=()):
    random = np.random.default_rng(seed)
    place, speed = random.random((objects, 2)) * 100, random.standard_normal((objects, 2)) * 2
    size = 15 + 20 * random.random((objects, 2))
    begin, end = random.integers(0, frames // 3, objects), random.integers(frames // 2, frames, objects)
    track = {k: k + 1 for k in range(objects)}
    fresh = objects + 1
    result = []
    for t in range(frames):
        truth, found = [], []
        for k in range(objects):
            if not begin[k] <= t <= end[k]:
                continue
            box = np.concatenate([place[k] + t * speed[k], size[k]])
            if 't' not in empty or t % 7:
                truth.append([k + 1, *np.round(box, 3)])
            if random.random() < switch:
                track[k], fresh = fresh, fresh + 1
            if random.random() >= miss and ('f' not in empty or t % 5):
                found.append([track[k], *np.round(box + noise * random.standard_normal(4), 3)])
        for _ in range(random.poisson(wrong)):
            found.append([fresh, *np.round(np.concatenate([random.random(2) * 100, 10 + 20 * random.random(2)]), 3)])
            fresh += 1
        result.append([truth, found])
    return evaluate(name, result)


def evaluate(name, frames):
    ids = [sorted({box[0] for frame in frames for box in frame[side]}) for side in (0, 1)]
    numbers = [{own: number for number, own in enumerate(of)} for of in ids]
    data = dict(
        num_gt_ids=len(ids[0]), num_tracker_ids=len(ids[1]), num_timesteps=len(frames),
        num_gt_dets=sum(len(f[0]) for f in frames), num_tracker_dets=sum(len(f[1]) for f in frames),
        gt_ids=[np.array([numbers[0][b[0]] for b in f[0]], int) for f in frames],
        tracker_ids=[np.array([numbers[1][b[0]] for b in f[1]], int) for f in frames],
        similarity_scores=[iou([b[1:] for b in f[0]], [b[1:] for b in f[1]]) for f in frames])
    hota = HOTA().eval_sequence(data)
    clear = CLEAR({'THRESHOLD': 0.5, 'PRINT_CONFIG': False}).eval_sequence(data)
    identity = Identity({'THRESHOLD': 0.5, 'PRINT_CONFIG': False}).eval_sequence(data)
    expected = {key: float(np.mean(hota[key])) for key in ['HOTA', 'DetA', 'AssA', 'LocA']}
    expected |= {key: float(clear[key]) for key in ['MOTA', 'MOTP']} | {key: float(identity[key]) for key in ['IDF1', 'IDP', 'IDR']}
    expected |= dict(switches=float(clear['IDSW']), fragments=float(clear['Frag']), wrong=float(clear['CLR_FP']), missed=float(clear['CLR_FN']),
        mostly_tracked=float(clear['MT']), partly_tracked=float(clear['PT']), mostly_lost=float(clear['ML']))
    return dict(name=name, frames=frames, expected=expected)


cases = [
    sequence('plain', 0, 6, 40, 1.0, 0.1, 0.3, 0.02),
    sequence('noisy', 1, 10, 30, 4.0, 0.3, 1.0, 0.1),
    sequence('crowded', 2, 18, 25, 2.0, 0.1, 0.1, 0.05),
    sequence('frames without objects or boxes', 3, 4, 40, 1.0, 0.1, 0.2, 0.05, empty=('t', 'f')),
    sequence('perfect', 4, 5, 20, 0.0, 0.0, 0.0, 0.0),
    sequence('nothing found', 5, 3, 10, 0.0, 1.1, 0.0, 0.0),
]
json.dump(cases, open(os.path.join(HERE, 'tracks.json'), 'w'), default=float)
