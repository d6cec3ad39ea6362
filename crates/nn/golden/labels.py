"""Golden figures of losses with weights of classes and of losses over labels, from PyTorch and timm:

    pip install torch timm
    python labels.py

Writes `labels.txt`: a line per loss, its value and then its gradient by every logit.
"""
import os
import torch
import torch.nn.functional as F
from timm.loss import AsymmetricLossMultiLabel

HERE = os.path.dirname(os.path.abspath(__file__))


def wave(count, phase):
    """The test's numbers without pattern."""
    return torch.tensor([__import__('math').sin(1.7 * i * i + phase) for i in range(count)], dtype=torch.float32).double()


logits = (3 * wave(20, 0.3)).reshape(4, 5)
classes = torch.tensor([1, 4, 0, 1])
weights = torch.tensor([0.5, 2.0, 1.0, 3.0, 0.25], dtype=torch.float64)
labels = (wave(20, 0.9).reshape(4, 5) > 0).double()
lines = []


def loss(name, function):
    x = logits.clone().requires_grad_()
    value = function(x)
    value.backward()
    lines.append(' '.join([name] + [repr(float(v)) for v in [value.detach(), *x.grad.flatten()]]))


loss('weighted_cross_entropy', lambda x: F.cross_entropy(x, classes, weights))
loss('weighted_cross_entropy_smooth', lambda x: F.cross_entropy(x, classes, weights, label_smoothing=0.1))
loss('weighted_binary_cross_entropy', lambda x: F.binary_cross_entropy_with_logits(x, labels, pos_weight=weights))
loss('asymmetric', lambda x: AsymmetricLossMultiLabel(gamma_neg=4, gamma_pos=1, clip=0.05)(x, labels) / x.numel())
loss('asymmetric_default', lambda x: AsymmetricLossMultiLabel(gamma_neg=4, gamma_pos=0, clip=0.05)(x, labels) / x.numel())
open(os.path.join(HERE, 'labels.txt'), 'w').write('\n'.join(lines) + '\n')
