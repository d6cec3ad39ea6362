"""Golden figures of the metrics over the classes of pixels, from torchmetrics and NumPy.

    pip install torch torchmetrics
    python semantic.py

Writes `semantic.json`: labels and predictions of a few images with ignored pixels and classes that are missing on one side or on
both, and what the references make of all images together.
"""
import json, os
import numpy as np
import torch
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

IGNORED = 255


def case(name, seed, classes, missing_labels=(), missing_everywhere=()):
    rng = np.random.default_rng(seed)
    images, side = 3, 12
    labels = rng.integers(0, classes, (images, side, side))
    guesses = np.where(rng.random(labels.shape) < 0.6, labels, rng.integers(0, classes, labels.shape))
    for c in (*missing_labels, *missing_everywhere):
        labels[labels == c] = 0
    for c in missing_everywhere:
        guesses[guesses == c] = 1
    labels[rng.random(labels.shape) < 0.1] = IGNORED
    jaccard = MulticlassJaccardIndex(classes, average='macro', ignore_index=IGNORED)
    micro = MulticlassAccuracy(classes, average='micro', ignore_index=IGNORED)
    macro = MulticlassAccuracy(classes, average='macro', ignore_index=IGNORED)
    for label, guess in zip(labels, guesses):
        for metric in (jaccard, micro):
            metric.update(torch.tensor(guess)[None], torch.tensor(label)[None])
    kept = labels != IGNORED
    matrix = np.zeros((classes, classes))
    np.add.at(matrix, (labels[kept], guesses[kept]), 1)
    both, label, guess = np.diag(matrix), matrix.sum(1), matrix.sum(0)
    with np.errstate(invalid='ignore', divide='ignore'):
        iou, dice, found = both / (label + guess - both), 2 * both / (label + guess), both / label
    return dict(name=name, classes=classes, labels=labels.tolist(), predictions=guesses.tolist(), expected=dict(
        miou=jaccard.compute().item(), accuracy=micro.compute().item(), dice=float(np.nanmean(dice)),
        mean_accuracy=float(np.nanmean(found)), fwiou=float(np.nansum(label / label.sum() * iou))))


cases = [case('all', 1, 4), case('unlabeled', 2, 5, missing_labels=(3,)), case('absent', 3, 6, (2,), (4, 5)), case('two', 4, 2)]
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), 'semantic.json'), 'w') as file:
    json.dump(cases, file)
