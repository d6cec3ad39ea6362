"""Distances between two sets of features, by clean-fid 0.1.35: `python distances.py > distances.json`."""
import contextlib, io, json, sys

import numpy as np

with contextlib.redirect_stdout(io.StringIO()):
    from cleanfid.fid import frechet_distance, kernel_distance


def features(rows, width, of):
    """Numbers that need no generator of random ones: the test computes the same."""
    i, j = np.meshgrid(np.arange(rows), np.arange(width), indexing="ij")
    return np.float32(np.sin((i + 1) * (j + 1) * 0.7371 + of * 0.31) + 0.2 * of * np.cos(j * 1.3) + 0.1 * np.sin(i * 0.9 + of))


cases = []
for rows, others, width, of in [(300, 200, 16, 1), (500, 500, 48, 2), (20, 30, 64, 1), (900, 900, 8, 0)]:
    a, b = features(rows, width, 0), features(others, width, of)
    mean = lambda x: np.mean(x, axis=0, dtype=np.float64)
    cov = lambda x: np.cov(x.astype(np.float64), rowvar=False)
    count = min(rows, others)
    cases.append({
        "rows": rows, "others": others, "width": width, "of": of,
        "fid": float(frechet_distance(mean(a), cov(a), mean(b), cov(b))),
        "kid": float(kernel_distance(a[:count].astype(np.float64), b[:count].astype(np.float64), num_subsets=1)),
    })
json.dump(cases, sys.stdout, indent=1)
