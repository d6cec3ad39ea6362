"""Golden figures of the filter of ByteTrack (Zhang et al., 2022): eight states, with matrices, from the paper's facts alone.

    pip install numpy
    python kalman.py

Writes `kalman.json`.
"""
import json, os
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
F = np.eye(8) + np.eye(8, k=4)
H = np.eye(4, 8)


def measure(box):
    x, y, w, h = box
    return np.array([x + w / 2, y + h / 2, w / h, h])


def spread(height, ratio, ratio_speed, factors=(1, 1)):
    p, v = factors[0] * height / 20, factors[1] * height / 160
    return np.diag(np.array([p, p, ratio, p, v, v, ratio_speed, v]) ** 2)


random = np.random.default_rng(0)
boxes = [[10 + 3 * t + random.normal(), 20 - t + random.normal(), 30 + random.normal(), 60 + 0.5 * t + random.normal()] for t in range(12)]
boxes[7] = boxes[8] = None
mean = np.concatenate([measure(boxes[0]), np.zeros(4)])
cov = spread(mean[3], 1e-2, 1e-5, (2, 10))
places = []
for box in boxes[1:]:
    noise = spread(mean[3], 1e-2, 1e-5)
    mean, cov = F @ mean, F @ cov @ F.T + noise
    if box is None:
        mean[7] = 0
    else:
        p = mean[3] / 20
        S = H @ cov @ H.T + np.diag(np.array([p, p, 1e-1, p]) ** 2)
        K = cov @ H.T @ np.linalg.inv(S)
        mean, cov = mean + K @ (measure(box) - H @ mean), cov - K @ S @ K.T
    x, y, a, h = mean[:4]
    places.append([x - a * h / 2, y - h / 2, a * h, h])
json.dump({'boxes': boxes, 'places': places}, open(os.path.join(HERE, 'kalman.json'), 'w'))
