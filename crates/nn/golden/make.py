"""Golden figures of optimizers, losses and schedules, from PyTorch, torchvision and timm.

    pip install torch torchvision timm
    git clone https://github.com/Lliu666/MSHNet
    MSHNET_DIR=MSHNet python make.py > figures.txt

A line per figure: `what name number…`. Inputs are short formulas, repeated in the tests.
"""
import math, os, sys, types
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def emit(what, name, numbers):
    print(what, name, *('%.12g' % float(v) for v in numbers))


def wave(count, phase):
    """A few numbers without pattern."""
    return torch.tensor([math.sin(1.7 * i * i + phase) for i in range(count)]).float().double()


# ---- Optimizers: two tensors, five steps, gradients that do not depend on the weights. --------------------------------

def run(name, make, decay=0.0):
    weights = [wave(6, 0.1).reshape(2, 3).requires_grad_(), wave(4, 0.2).requires_grad_()]
    optimizer = make(weights, weight_decay=decay)
    for step in range(5):
        for k, weight in enumerate(weights):
            weight.grad = wave(weight.numel(), 1.0 + step + 0.3 * k).reshape(weight.shape)
        optimizer.step()
    emit('optimizer', name, torch.cat([w.detach().flatten() for w in weights]))


O = torch.optim
run('sgd', lambda w, **k: O.SGD(w, 0.1, **k))
run('sgd_momentum', lambda w, **k: O.SGD(w, 0.1, momentum=0.9, **k), 0.01)
run('sgd_nesterov', lambda w, **k: O.SGD(w, 0.1, momentum=0.9, nesterov=True, **k), 0.01)
run('sgd_dampened', lambda w, **k: O.SGD(w, 0.1, momentum=0.9, dampening=0.5, **k))
run('adam', lambda w, **k: O.Adam(w, 0.01, **k), 0.1)
run('adamw', lambda w, **k: O.AdamW(w, 0.01, **k), 0.1)
run('adagrad', lambda w, **k: O.Adagrad(w, 0.05, **k))
run('adagrad_decayed', lambda w, **k: O.Adagrad(w, 0.05, lr_decay=0.1, initial_accumulator_value=0.2, **k), 0.1)
run('rmsprop', lambda w, **k: O.RMSprop(w, 0.01, **k), 0.1)
run('rmsprop_centered', lambda w, **k: O.RMSprop(w, 0.01, momentum=0.9, centered=True, **k))
from timm.optim import Lamb, Lion
run('lamb', lambda w, **k: Lamb(w, 0.01, max_grad_norm=None, **k), 0.1)
run('lion', lambda w, **k: Lion(w, 0.01, **k), 0.1)

gradients = [wave(6, 3.0).requires_grad_(), wave(4, 4.0).requires_grad_()]
for g in gradients:
    g.grad = g.detach().clone()
norm = torch.nn.utils.clip_grad_norm_(gradients, 0.7)
emit('clip', 'norm', [norm, *torch.cat([g.grad for g in gradients])])

# ---- Losses: value, then the gradient with respect to the logits. -----------------------------------------------------

def loss(name, function, *logits):
    value = function(*logits)
    slopes = torch.autograd.grad(value, logits)
    emit('loss', name, [value, *torch.cat([s.flatten() for s in slopes])])


logits = (3 * wave(12, 0.5)).reshape(3, 4).requires_grad_()
labels = torch.tensor([1, 3, 0])
soft = torch.softmax(wave(12, 0.7).reshape(3, 4), 1).float().double()
binary = (wave(12, 0.9).reshape(3, 4) > 0).double()
loss('cross_entropy', lambda x: F.cross_entropy(x, labels), logits)
loss('cross_entropy_smooth', lambda x: F.cross_entropy(x, labels, label_smoothing=0.1), logits)
loss('soft_cross_entropy', lambda x: F.cross_entropy(x, soft), logits)
loss('binary_cross_entropy', lambda x: F.binary_cross_entropy_with_logits(x, binary), logits)
from torchvision.ops import sigmoid_focal_loss
loss('focal', lambda x: sigmoid_focal_loss(x, binary, reduction='mean'), logits)
loss('squared_error', lambda x: F.mse_loss(x, soft), logits)
loss('absolute_error', lambda x: F.l1_loss(x, soft), logits)
loss('huber', lambda x: F.huber_loss(x, soft, delta=0.6), logits)

skimage = types.ModuleType('skimage')
skimage.measure = None
sys.modules['skimage'] = skimage
official = types.ModuleType('loss')
path = os.path.join(os.environ['MSHNET_DIR'], 'model', 'loss.py')
exec(compile(open(path).read(), path, 'exec'), official.__dict__)
maps = (2 * wave(40, 0.5)).reshape(2, 1, 4, 5).requires_grad_()
target = torch.zeros(2, 1, 4, 5)
target[0, 0, 1:3, 2:4] = 1
target[1, 0, 0:2, 1:2] = 1
sls = official.SLSIoULoss()
loss('soft_iou', lambda x: official.SoftIoULoss(x, target), maps)
loss('sls_iou_warm_up', lambda x: sls(x, target, 5, 5), maps)
loss('sls_iou', lambda x: sls(x, target, 5, 6), maps)
# An image without a target: the location term meets a centre at the corner.
empty = torch.zeros(2, 1, 4, 5)
loss('sls_iou_empty', lambda x: sls(x, empty, 5, 6), maps)


def dice(x, t):
    p = torch.sigmoid(x)
    both, total = (p * t).sum((1, 2, 3)), (p + t).sum((1, 2, 3))
    return 1 - ((2 * both + 1) / (total + 1)).mean()


loss('dice', lambda x: dice(x, target), maps)

# ---- Schedules: the rate at every time. -------------------------------------------------------------------------------

def schedule(name, make, times):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    scheduler, rates = make(optimizer), []
    for _ in range(times):
        rates.append(optimizer.param_groups[0]['lr'])
        optimizer.step()
        scheduler.step()
    emit('schedule', name, rates)


S = torch.optim.lr_scheduler
schedule('step', lambda o: S.StepLR(o, 3, 0.5), 10)
schedule('multi_step', lambda o: S.MultiStepLR(o, [2, 5], 0.3), 10)
schedule('polynomial', lambda o: S.PolynomialLR(o, 8, 2.0), 10)
schedule('cosine', lambda o: S.CosineAnnealingLR(o, 9, 0.01), 10)
schedule('one_cycle', lambda o: S.OneCycleLR(o, 0.2, total_steps=20), 20)
from timm.scheduler import CosineLRScheduler
for name, prefix in (('timm_cosine', False), ('timm_cosine_prefix', True)):
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 0.1)
    scheduler, rates = CosineLRScheduler(optimizer, 10, 0.001, warmup_t=3, warmup_lr_init=1e-4, warmup_prefix=prefix), []
    for t in range(14):
        scheduler.step(t)
        rates.append(optimizer.param_groups[0]['lr'])
    emit('schedule', name, rates)
optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], 1e-3)
plateau, rates = S.ReduceLROnPlateau(optimizer, factor=0.1, patience=2, cooldown=1, min_lr=1e-6), []
for metric in [1.0, 0.9, 0.9, 0.91, 0.92, 0.9, 0.9, 0.9, 0.9, 0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]:
    plateau.step(metric)
    rates.append(optimizer.param_groups[0]['lr'])
emit('schedule', 'plateau', rates)
