"""Golden figures of the losses over the classes of pixels, from PyTorch and segmentation_models_pytorch.

    pip install torch segmentation_models_pytorch
    python semantic.py > semantic.txt

A line per loss: its name, its value, then its gradient with respect to the logits `[2, 4, 5, 6]` (channels first). OHEM and
Lovász-softmax are written from their papers.
"""
import math
import torch
import torch.nn.functional as F
from segmentation_models_pytorch.losses import DiceLoss, JaccardLoss

torch.set_default_dtype(torch.float64)
CLASSES, IGNORED = 4, 255


def wave(count, phase):
    return torch.tensor([math.sin(1.7 * i * i + phase) for i in range(count)]).float().double()


logits = (3 * wave(2 * CLASSES * 30, 0.5)).reshape(2, CLASSES, 5, 6).requires_grad_()
# Class 3 does not occur.
labels = torch.tensor([IGNORED if i % 11 == 4 else (i * i) % 7 % 3 for i in range(60)]).reshape(2, 5, 6)


def losses(x):
    return F.cross_entropy(x, labels, ignore_index=IGNORED, reduction='none')[labels != IGNORED]


def focal(x):
    loss = losses(x)
    return ((1 - torch.exp(-loss)) ** 2 * loss).mean()


def ohem(x):
    loss = losses(x)
    probability = torch.exp(-loss).detach()
    threshold = max(torch.sort(probability).values[len(loss) // 16 + 1].item(), 0.7)
    return loss[probability < threshold].mean()


def lovasz(x):
    counted = labels.flatten() != IGNORED
    p = F.softmax(x, 1).permute(0, 2, 3, 1).reshape(-1, CLASSES)[counted]
    truth = labels.flatten()[counted]
    total = []
    for c in range(CLASSES):
        foreground = (truth == c).double()
        if foreground.sum() == 0:
            continue
        errors = (foreground - p[:, c]).abs()
        ordered, order = torch.sort(errors, descending=True)
        foreground = foreground[order]
        intersection = foreground.sum() - foreground.cumsum(0)
        union = foreground.sum() + (1 - foreground).cumsum(0)
        index = 1 - intersection / union
        index[1:] = index[1:] - index[:-1].clone()
        total.append((ordered * index).sum())
    return sum(total) / len(total)


def soft_iou(x):
    """JaccardLoss of that package ignores no label, so ignored pixels are taken out before."""
    counted = labels.flatten() != IGNORED
    kept = x.permute(0, 2, 3, 1).reshape(-1, CLASSES)[counted].T[None]
    return JaccardLoss('multiclass')(kept, labels.flatten()[counted][None])


def emit(name, function):
    value = function(logits)
    gradient, = torch.autograd.grad(value, logits)
    print(name, *('%.12g' % v for v in [value.item(), *gradient.flatten().tolist()]))


weights = torch.tensor([0.5, 2.0, 1.0, 3.0])
emit('cross_entropy', lambda x: F.cross_entropy(x, labels, ignore_index=IGNORED))
emit('weighted', lambda x: F.cross_entropy(x, labels, weights, ignore_index=IGNORED))
emit('smooth', lambda x: F.cross_entropy(x, labels, weights, ignore_index=IGNORED, label_smoothing=0.1))
emit('dice', lambda x: DiceLoss('multiclass', ignore_index=IGNORED)(x, labels))
emit('soft_iou', soft_iou)
emit('focal', focal)
emit('ohem', ohem)
emit('lovasz', lovasz)
