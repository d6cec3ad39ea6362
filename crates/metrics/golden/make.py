"""Golden figures of the metrics, from scikit-learn and torchmetrics:

    pip install numpy scikit-learn torch torchmetrics
    python make.py

Writes `figures.json`: small inputs with what the references make of them, and for large ones, which the tests repeat from a
hash (see `unit`), the areas alone.
"""
import json, os, warnings
import numpy as np
import torch
import torchmetrics.functional as tm
from sklearn import metrics as sk

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.simplefilter('ignore')
MASK = (1 << 64) - 1


def unit(seed, index):
    """A number of [0, 1) by SplitMix64's finaliser."""
    z = (index * 0x9E3779B97F4A7C15 + seed) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return ((z ^ (z >> 31)) >> 40) / (1 << 24)


def classification(name, logits, labels):
    classes = logits.shape[1]
    p = torch.softmax(torch.tensor(logits, dtype=torch.float32), 1).numpy()
    guess, onehot = p.argmax(1), np.eye(classes)[labels]
    present = [c for c in range(classes) if 0 < onehot[:, c].sum() < len(labels)]
    macro = dict(average='macro', zero_division=0)
    return dict(name=name, probabilities=[[float(v) for v in row] for row in p], labels=[int(v) for v in labels], expected=dict(
        accuracy=sk.accuracy_score(labels, guess),
        top5=float(tm.accuracy(torch.tensor(p), torch.tensor(labels), 'multiclass', num_classes=classes, top_k=5, average='micro')) if classes > 5 else 1.0,
        precision=sk.precision_score(labels, guess, **macro), recall=sk.recall_score(labels, guess, **macro),
        f1=sk.f1_score(labels, guess, **macro),
        auc_micro=sk.roc_auc_score(onehot.ravel(), p.ravel()),
        auc_macro=float(np.mean([sk.roc_auc_score(onehot[:, c], p[:, c]) for c in present]))))


def regression(name, predictions, targets):
    p, t = predictions.astype(np.float32), targets.astype(np.float32)
    p64, t64 = p.astype(np.float64), t.astype(np.float64)
    return dict(name=name, predictions=p.tolist(), targets=t.tolist(), expected=dict(
        mse=sk.mean_squared_error(t64, p64), mae=sk.mean_absolute_error(t64, p64), rmse=sk.mean_squared_error(t64, p64) ** 0.5,
        r2=sk.r2_score(t64, p64), r2_weighted=sk.r2_score(t64, p64, multioutput='variance_weighted')))


def masks(name, logits, truth):
    marked = logits > 0
    # An image without target and without prediction is right.
    own = [sk.jaccard_score(t.ravel(), m.ravel(), zero_division=1.0) for t, m in zip(truth, marked)]
    flat = truth.ravel()
    pooled = tm.jaccard_index(torch.tensor(marked.ravel().astype(int)), torch.tensor(flat.astype(int)), 'binary')
    return dict(name=name, logits=np.float32(logits).reshape(len(logits), -1).tolist(), masks=truth.reshape(len(truth), -1).astype(int).tolist(),
        width=logits.shape[2], expected=dict(iou=float(pooled), niou=float(np.mean(own)),
        auc=sk.roc_auc_score(flat, np.float32(logits).ravel()) if 0 < flat.sum() < flat.size else 0.0))


def area(name, seed, count, spread, shift, share):
    """Scores of which `share` are true: `spread` times the sum of three units, `shift` more for the true ones, as probabilities."""
    truth = np.array([unit(seed, 4 * i) < share for i in range(count)])
    x = np.array([sum(unit(seed, 4 * i + k) for k in (1, 2, 3)) - 1.5 for i in range(count)]) * spread + shift * truth
    p = (1 / (1 + np.exp(-x))).astype(np.float32)
    return dict(name=name, seed=seed, count=count, spread=spread, shift=shift, share=share, auc=sk.roc_auc_score(truth, p))


def main():
    rng = np.random.default_rng(3)
    classes = []
    for name, n, k, sharpness, labels in [
        ('ordinary', 60, 4, 1.0, lambda n, k: rng.integers(0, k, n)),
        ('seven classes', 60, 7, 2.0, lambda n, k: rng.integers(0, k, n)),
        ('missing classes', 50, 6, 1.0, lambda n, k: rng.choice([0, 2, 5], n)),
        ('well separated', 50, 3, 40.0, lambda n, k: rng.integers(0, k, n)),
        ('nearly equal', 50, 3, 1e-5, lambda n, k: rng.integers(0, k, n)),
        ('two classes', 40, 2, 1.0, lambda n, k: rng.integers(0, k, n)),
    ]:
        y = labels(n, k)
        z = rng.normal(size=(n, k)) * sharpness
        z[np.arange(n), y] += 0.8 * sharpness
        classes.append(classification(name, z, y))
    values = []
    for name, scale, offset, noise in [
        ('one column', [1.0], [0.0], 0.5), ('several columns', [1.0, 100.0, 0.01], [0.0, 5.0, -3.0], 1.2),
        ('far from zero', [5.0, 2.0], [2000.0, -1e5], 0.4), ('worse than the mean', [1.0, 3.0], [0.0, 1.0], 4.0),
        ('a constant column', [0.0, 1.0], [2.0, 0.0], 0.3),
    ]:
        t = rng.normal(size=(40, len(scale))) * np.array(scale) + np.array(offset)
        p = t + rng.normal(size=t.shape) * np.maximum(np.array(scale), 0.1) * noise
        values.append(regression(name, p, t))
    maps = []
    for name, share, empty in [('ordinary', 0.3, 0), ('small targets', 0.02, 0), ('empty masks', 0.2, 2), ('nothing anywhere', 0.0, 4)]:
        truth = rng.random((4, 6, 8)) < share
        truth[:empty] = False
        logits = rng.normal(size=truth.shape) + 3.0 * truth - 1.0
        logits[:empty] = -np.abs(logits[:empty]) if empty else logits[:empty]
        maps.append(masks(name, logits, truth))
    areas = [area('ordinary', 1, 40000, 4.0, 1.0, 0.3), area('well separated', 2, 40000, 10.0, 25.0, 0.1),
             area('separated but for the tails', 3, 40000, 12.0, 9.0, 0.02), area('nearly equal', 4, 40000, 1e-3, 4e-4, 0.5),
             area('saturated', 5, 40000, 120.0, 20.0, 0.5), area('useless', 6, 40000, 1.0, 0.0, 0.5), area('inverted', 7, 40000, 2.0, -3.0, 0.4)]
    with open(os.path.join(HERE, 'figures.json'), 'w') as file:
        json.dump(dict(classes=classes, values=values, masks=maps, areas=areas), file)
    for case in [*classes, *values, *maps]:
        print(case['name'], case['expected'])
    print([(case['name'], case['auc']) for case in areas])


if __name__ == '__main__':
    main()
