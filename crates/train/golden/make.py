"""Golden figures of whole training loops, from PyTorch.

    pip install torch torchvision timm
    git clone https://github.com/Lliu666/MSHNet
    MSHNET_DIR=MSHNet python make.py > figures.txt

Weights are those of the zoo's golden figures (a function of name and index), images are bytes that follow from the
number of the step, so only figures are stored. PyTorch runs in double precision. Lines:

    loss CASE value…            the loss of every step
    rate CASE value…            the learning rate of every step
    weight CASE name sum norm value…   every parameter after the last step, and some of its elements (see `positions`)
    single CASE value…          the loss of every step where PyTorch runs in single precision
"""
import importlib.util, math, os, sys, warnings
import torch
import torch.nn.functional as F

warnings.filterwarnings('ignore')
spec = importlib.util.spec_from_file_location('zoo', os.path.join(os.path.dirname(__file__), '../../zoo/golden/make.py'))
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)

STEPS = 20


def images(step, batch, channels, side):
    u = zoo.units(f'pictures {step}', batch * channels * side * side).reshape(batch, channels, side, side)
    return (torch.floor(u * 256) - 127.5) / 127.5


def labels(step, batch, classes):
    return torch.tensor([(7 * i + 3 + step) % classes for i in range(batch)])


def positions(count):
    """The elements that are stored: five over the whole parameter, in PyTorch's layout."""
    return sorted({count * k // 5 for k in range(5)})


def report(case, losses, rates, model):
    print('loss', case, *('%.9g' % value for value in losses))
    print('rate', case, *('%.9g' % value for value in rates))
    for name, parameter in model.named_parameters():
        values = parameter.detach().flatten()
        elements = ['%.9g' % values[position].item() for position in positions(values.numel())]
        print('weight', case, name, '%.9g %.9g' % (parameter.sum().item(), parameter.norm().item()), *elements)


# ---- Every optimizer with every schedule. ----------------------------------------------------------------------------

def optimizers():
    import timm.optim as T
    O, decay = torch.optim, 0.01
    return {
        'sgd': (0.05, lambda p, lr: O.SGD(p, lr, momentum=0.9, nesterov=True, weight_decay=decay)),
        'adam': (0.002, lambda p, lr: O.Adam(p, lr, weight_decay=decay)),
        'adamw': (0.002, lambda p, lr: O.AdamW(p, lr, weight_decay=decay)),
        'adagrad': (0.01, lambda p, lr: O.Adagrad(p, lr, weight_decay=decay)),
        'rmsprop': (0.001, lambda p, lr: O.RMSprop(p, lr, weight_decay=decay)),
        'lamb': (0.01, lambda p, lr: T.Lamb(p, lr, weight_decay=decay, max_grad_norm=None)),
        'lion': (0.0005, lambda p, lr: T.Lion(p, lr, weight_decay=decay)),
    }


def warmup_cosine(step, greatest, least, cycle, warmup):
    if step < warmup:
        return least + (greatest - least) * step / warmup
    return least + (greatest - least) * (1 + math.cos(math.pi * (step - warmup) / (cycle - warmup))) / 2


def schedules(optimizer, lr):
    S = torch.optim.lr_scheduler
    return {
        'constant': lambda: S.LambdaLR(optimizer, lambda step: 1.0),
        'step': lambda: S.StepLR(optimizer, 6, 0.5),
        'multi-step': lambda: S.MultiStepLR(optimizer, [4, 12], 0.3),
        'polynomial': lambda: S.PolynomialLR(optimizer, STEPS, 2.0),
        'cosine': lambda: S.CosineAnnealingLR(optimizer, STEPS, lr / 100),
        'one-cycle': lambda: S.OneCycleLR(optimizer, lr, STEPS, cycle_momentum=False),
        'warmup-cosine': lambda: S.LambdaLR(optimizer, lambda step: warmup_cosine(step, 1.0, 0.05, STEPS + 1, 5)),
        'plateau': lambda: S.ReduceLROnPlateau(optimizer, factor=0.5, patience=1, min_lr=lr / 100, threshold=0.01),
    }


def train(model, optimizer, scheduler, forward, steps):
    losses, rates = [], []
    for step in steps:
        rates.append(optimizer.param_groups[0]['lr'])
        loss = forward(step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            scheduler.step(loss.item())
        else:
            scheduler.step()
    return losses, rates


def combinations():
    for name, (lr, make) in optimizers().items():
        for schedule in schedules(None, lr):
            model = zoo.FashionCnn(4)
            zoo.fill(model)
            optimizer = make(model.parameters(), lr)
            scheduler = schedules(optimizer, lr)[schedule]()
            forward = lambda step: F.cross_entropy(model(images(step, 8, 1, 28)), labels(step, 8, 10))
            losses, rates = train(model, optimizer, scheduler, forward, range(STEPS))
            report(f'{name}/{schedule}', losses, rates, model)


# ---- The two phases of fine-tuning. ----------------------------------------------------------------------------------

def phases():
    model = zoo.tf_efficientnetv2_tiny()
    zoo.fill(model)
    model.train()
    forward = lambda step: F.cross_entropy(model(images(step, 8, 3, 32)), labels(step, 8, 10))
    head = list(model.get_classifier().parameters())
    for parameter in model.parameters():
        parameter.requires_grad = False
    for parameter in head:
        parameter.requires_grad = True
    S = torch.optim.lr_scheduler
    burn = torch.optim.SGD(head, 0.1, momentum=0.9)
    first = train(model, burn, S.LambdaLR(burn, lambda step: warmup_cosine(step, 1.0, 0.005, 10, 0)), forward, range(10))
    for parameter in model.parameters():
        parameter.requires_grad = True
    tune = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
    scheduler = S.LambdaLR(tune, lambda step: warmup_cosine(step, 1.0, 0.05, 11, 5))
    second = train(model, tune, scheduler, forward, range(10, STEPS))
    report('phases', first[0] + second[0], first[1] + second[1], model)


# ---- The authors' loop of MSHNet. ------------------------------------------------------------------------------------

def mshnet(rate=0.0002, dtype=torch.float64):
    model = zoo.mshnet()
    zoo.fill(model)
    model.to(dtype).train()
    sls = zoo.read_module(os.path.join(os.environ['MSHNET_DIR'], 'model', 'loss.py')).SLSIoULoss()
    # Adagrad's first step is ±rate whatever the size of a gradient, so rounding decides the sign of the tiniest ones. At
    # the recipe's rate of 0.05 PyTorch in single precision leaves itself in double: by 3e-4 of the loss after three
    # steps, by 1e-2 after six, by a quarter after eighteen (`single` has the figures). A smaller rate tests the same code
    # without that.
    optimizer = torch.optim.Adagrad(model.parameters(), rate)

    def forward(step):
        # Ten steps of warm-up, ten after it; epochs are counted against a warm-up of 5.
        epoch = 1 if step < 10 else 10
        target = zoo.masks(2, 64).to(dtype)
        maps, final = model(images(step, 2, 3, 64).to(dtype), epoch > 5)
        loss = sls(final, target, 5, epoch)
        for i, small in enumerate(maps):
            if i > 0:
                target = F.max_pool2d(target, 2, 2)
            loss = loss + sls(small, target, 5, epoch)
        return loss / (len(maps) + 1)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
    return *train(model, optimizer, scheduler, forward, range(STEPS)), model


def mshnet_noise():
    """At the rate of the recipe: how far PyTorch's two precisions are apart."""
    for line, dtype in [('loss', torch.float64), ('single', torch.float32)]:
        print(line, 'mshnet-recipe', *('%.9g' % value for value in mshnet(0.05, dtype)[0]))


CASES = {
    'combinations': combinations,
    'phases': phases,
    'mshnet': lambda: report('mshnet', *mshnet()),
    'mshnet-noise': mshnet_noise,
}
for case in sys.argv[1:] or CASES:
    CASES[case]()
