"""Golden figures of images with any number of labels, from scikit-learn:

    pip install numpy scikit-learn
    python labels.py

Writes `labels.json`.
"""
import json, os, warnings
import numpy as np
from sklearn import metrics as sk

HERE = os.path.dirname(os.path.abspath(__file__))
warnings.simplefilter('ignore')


def case(name, logits, truth, thresholds):
    logits = np.float32(logits)
    p = 1 / (1 + np.exp(-logits.astype(np.float64)))
    present = [k for k in range(truth.shape[1]) if truth[:, k].any()]
    both = [k for k in present if not truth[:, k].all()]
    predicted = p >= (np.array(thresholds) if thresholds else 0.5)
    best = []
    for k in range(truth.shape[1]):
        precision, recall, _ = sk.precision_recall_curve(truth[:, k], logits[:, k])
        f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
        best.append(float(f1.max()) if k in present else 0.0)
    expected = dict(
        mAP=sk.average_precision_score(truth[:, present], logits[:, present], average='macro'),
        mAP_micro=sk.average_precision_score(truth.ravel(), logits.ravel()),
        auc_macro=float(np.mean([sk.roc_auc_score(truth[:, k], logits[:, k]) for k in both])),
        # Of a single label, `average` would be over having it and lacking it.
        f1_macro=float(np.mean([sk.f1_score(truth[:, k], predicted[:, k], zero_division=0) for k in range(truth.shape[1])])),
        f1_micro=sk.f1_score(truth.ravel(), predicted.ravel(), zero_division=0),
        exact=sk.accuracy_score(truth, predicted))
    if not thresholds:
        expected['f1_tuned'] = float(np.mean(best))
    return dict(name=name, logits=logits.astype(float).tolist(), labels=truth.astype(int).tolist(), thresholds=thresholds,
        expected=expected, average_precision=[float(sk.average_precision_score(truth[:, k], logits[:, k])) if k in present else None
        for k in range(truth.shape[1])])


random = np.random.default_rng(0)
cases = []
for name, count, labels, share, step, thresholds in [
    ('plain', 60, 5, 0.3, 0, []),
    ('ties', 80, 4, 0.4, 0.5, []),
    ('rare', 40, 8, 0.06, 0, []),
    ('thresholds', 50, 3, 0.5, 0, [0.2, 0.5, 0.8]),
    ('one label', 30, 1, 0.4, 0.25, []),
]:
    truth = random.random((count, labels)) < share
    logits = 2 * truth - 1 + 1.5 * random.standard_normal((count, labels))
    if step:
        logits = np.round(logits / step) * step
    cases.append(case(name, logits, truth, thresholds))
json.dump(cases, open(os.path.join(HERE, 'labels.json'), 'w'))
