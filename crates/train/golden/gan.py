"""Golden figures of steps with several networks, from PyTorch.

    pip install torch numpy
    python gan.py > gan.txt

The networks are those of the zoo's `translate.py`, the steps are written from the papers and from the published PyTorch
implementation of Pix2Pix and CycleGAN: which network moves first, what is detached, how images go through the pool. PyTorch
runs in double precision; constants that a traced program holds in f32 are rounded to f32 first, so that programs in double
precision can be compared to the ninth digit. Random choices are those of Threefry under the step's key. Lines:

    loss CASE NAME value…                      of every step
    state CASE STEP name size sum norm sample… every parameter after 1, 3 and 10 steps, and after the first one Adam's
                                               average of gradients, which is a known share of the gradient
"""
import importlib.util, math, os, sys
import numpy as np
import torch
import torch.nn.functional as F

ZOO = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../zoo/golden')
sys.path.insert(0, ZOO)
spec = importlib.util.spec_from_file_location('zoo', os.path.join(ZOO, 'make.py'))
zoo = importlib.util.module_from_spec(spec)
spec.loader.exec_module(zoo)
import translate as T
from translate import single

SEED, RATE, BETAS, RECORDED, STEPS = 3, 2e-3, (0.5, 0.999), (1, 3, 10), 10
WORD = (1 << 32) - 1


# ---- Random numbers by counter, as in graphs. ---------------------------------------------------------------------------

def threefry(key, counter):
    schedule = [key[0], key[1], 0x1BD11BDA ^ key[0] ^ key[1]]
    x = [(counter[i] + schedule[i]) & WORD for i in range(2)]
    for round_ in range(20):
        x[0] = (x[0] + x[1]) & WORD
        by = (13, 15, 26, 6, 17, 29, 16, 24)[round_ % 8]
        x[1] = (((x[1] << by) | (x[1] >> (32 - by))) & WORD) ^ x[0]
        if round_ % 4 == 3:
            i = round_ // 4 + 1
            x[0] = (x[0] + schedule[i % 3]) & WORD
            x[1] = (x[1] + schedule[(i + 1) % 3] + i) & WORD
    return x


def words(key, count):
    return [threefry(key, [i, 0])[0] for i in range(count)]


def layer_key(step, path):
    mixed, site = words([SEED, step], 2), zoo.fnv(path)
    return words([mixed[0] ^ (site & WORD), mixed[1] ^ (site >> 32)], 2)


# ---- What a step is made of. --------------------------------------------------------------------------------------------

class Adam:
    """Adam with the roundings of constants that a traced program has."""

    def __init__(self, networks):
        self.parameters = [p for network in networks for p in network.parameters()]
        self.slots = [[torch.zeros_like(p), torch.zeros_like(p)] for p in self.parameters]
        self.count = 0

    def step(self, loss):
        gradients = torch.autograd.grad(loss, self.parameters)
        # An instance norm cancels the bias in front of it: its gradient is 0, and rounding here, which Adam would follow.
        gradients = [torch.where(gradient.abs() < 1e-13, 0, gradient) for gradient in gradients]
        self.count += 1
        corrections = [-math.expm1(self.count * single(math.log(beta))) for beta in BETAS]
        with torch.no_grad():
            for parameter, gradient, slots in zip(self.parameters, gradients, self.slots):
                for i, (beta, new) in enumerate(zip(BETAS, (gradient, gradient ** 2))):
                    slots[i] = slots[i] * single(beta) + new * single(1 - beta)
                divisor = slots[1].sqrt() / math.sqrt(corrections[1]) + single(1e-8)
                parameter -= single(RATE) / corrections[0] * (slots[0] / divisor)


def filled(network, prefix=''):
    network.double().train()
    state = network.state_dict()
    for name, tensor in state.items():
        if tensor.is_floating_point():
            tensor.copy_(zoo.value(prefix + name, tuple(tensor.shape)))
    network.load_state_dict(state)
    return network


SCALE = np.float32(1) / np.float32(127.5)
SHIFT = -np.float32(127.5) * SCALE


def images(kind, step, batch, side, normalize=True):
    u = zoo.units(f'{kind} {step}', batch * 3 * side * side).reshape(batch, 3, side, side)
    levels = torch.floor(u * 256)
    return levels * float(SCALE) + float(SHIFT) if normalize else levels


def judged(kind, logits, real):
    if kind == 'vanilla':
        return F.softplus(-logits if real else logits).mean()
    if kind == 'lsgan':
        return ((logits - 1) if real else logits).square().mean()
    return -logits.mean() if real else logits.mean()


class Pool:
    def __init__(self, size, path):
        self.size, self.path, self.images = size, path, []

    def query(self, batch, step):
        bits, returned = words(layer_key(step, self.path), 2 * len(batch)), []
        for row, image in enumerate(batch.detach()):
            if len(self.images) < self.size:
                self.images.append(image.clone())
                returned.append(image)
            elif bits[row] >= 1 << 31:
                slot = bits[len(batch) + row] % self.size
                returned.append(self.images[slot])
                self.images[slot] = image.clone()
            else:
                returned.append(image)
        return torch.stack(returned)


def line(case, step, name, tensor):
    flat = tensor.detach().contiguous().reshape(-1)
    elements = [flat[i].item() for i in zoo.samples(name, flat.numel(), 3)]
    numbers = ' '.join('%.15g' % v for v in [flat.sum().item(), flat.norm().item(), *elements])
    print(f'state {case} {step} {name} {flat.numel()} {numbers}')


def record(case, step, networks, optimizers):
    slots = {id(p): s for optimizer in optimizers for p, s in zip(optimizer.parameters, optimizer.slots)}
    for prefix, network in networks.items():
        for name, parameter in network.named_parameters():
            line(case, step, prefix + name, parameter)
            if step == 1:
                line(case, step, f'{prefix}{name}#exp_avg', slots[id(parameter)][0])


def run(case, networks, optimizers, step):
    history = {}
    for number in range(1, STEPS + 1):
        for name, loss in step(number).items():
            history.setdefault(name, []).append(loss.item())
        if number in RECORDED:
            record(case, number, networks, optimizers)
    for name, losses in history.items():
        print('loss', case, name, *('%.15g' % loss for loss in losses))


# ---- The cases. ---------------------------------------------------------------------------------------------------------

def pix2pix(case, kind, norm):
    G = filled(T.UnetGenerator(5, 4))
    D = filled(T.PatchDiscriminator(6, 4, layers=2, kind=norm), 'netD.')
    of_g, of_d = Adam([G]), Adam([D])

    def step(number):
        a, b = images('pictures', number, 2, 32), images('targets', number, 2, 32)
        judge = lambda output: D(torch.cat([a, output], 1))
        made = G(a)
        d_loss = judged(kind, judge(made.detach()), False) + judged(kind, judge(b), True)
        if kind == 'wgan':
            bits = words(layer_key(number, 'netD.penalty'), len(a))
            share = torch.tensor([(word >> 8) / (1 << 24) for word in bits]).double().view(-1, 1, 1, 1)
            between = (share * b + (1 - share) * made.detach()).requires_grad_()
            slope, = torch.autograd.grad(judge(between).sum(), between, create_graph=True)
            norms = (slope.square().sum((1, 2, 3)) + single(1e-16)).sqrt()
            d_loss = d_loss + 10 * (norms - 1).square().mean()
        else:
            d_loss = d_loss * 0.5
        of_d.step(d_loss)
        gan, l1 = judged(kind, judge(made), True), (made - b).abs().mean()
        total = gan + 100 * l1
        of_g.step(total)
        return {'loss': total, 'gan_loss': gan, 'l1_loss': l1, 'd_loss': d_loss}

    run(case, {'': G, 'netD.': D}, [of_g, of_d], step)


def cyclegan():
    networks = {
        '': T.ResnetGenerator(1, 4), 'netG_B.': T.ResnetGenerator(1, 4),
        'netD_A.': T.PatchDiscriminator(3, 4, layers=2, kind='instance'),
        'netD_B.': T.PatchDiscriminator(3, 4, layers=2, kind='instance'),
    }
    G_A, G_B, D_A, D_B = (filled(network, prefix) for prefix, network in networks.items())
    of_g, of_a, of_b = Adam([G_A, G_B]), Adam([D_A]), Adam([D_B])
    pool_a, pool_b = Pool(3, 'pool_A'), Pool(3, 'pool_B')

    def step(number):
        a, b = images('pictures', number, 2, 16), images('targets', number, 2, 16)
        made_b, made_a = G_A(a), G_B(b)
        cycle = 10 * ((G_B(made_b) - a).abs().mean() + (G_A(made_a) - b).abs().mean())
        identity = 0.5 * 10 * ((G_A(b) - b).abs().mean() + (G_B(a) - a).abs().mean())
        gan = judged('lsgan', D_A(made_b), True) + judged('lsgan', D_B(made_a), True)
        total = gan + cycle + identity
        of_g.step(total)
        losses = []
        for D, optimizer, real, pool, made in ((D_A, of_a, b, pool_b, made_b), (D_B, of_b, a, pool_a, made_a)):
            loss = 0.5 * (judged('lsgan', D(real), True) + judged('lsgan', D(pool.query(made, number)), False))
            optimizer.step(loss)
            losses.append(loss)
        return {'loss': total, 'gan_loss': gan, 'cycle_loss': cycle, 'identity_loss': identity, 'd_loss': sum(losses)}

    run('cyclegan', networks, [of_g, of_a, of_b], step)


def restore(case, network, side, scale=1, raw=False):
    network = filled(network)
    optimizer = Adam([network])

    def step(number):
        x, y = images('pictures', number, 2, side, not raw), images('targets', number, 2, side * scale, not raw)
        loss = (network(x) - y).abs().mean()
        optimizer.step(loss)
        return {'loss': loss}

    run(case, {'': network}, [optimizer], step)


if __name__ == '__main__':
    pix2pix('pix2pix', 'vanilla', 'batch')
    pix2pix('wgan-gp', 'wgan', 'instance')
    cyclegan()
    restore('edsr-tiny', T.Edsr(2, 8, 2), 8, 2, raw=True)
    restore('dncnn-tiny', T.DnCnn(4, 8, 3), 16)
    restore('nafnet-tiny', T.NafNet(8, [1, 1], 1, [1, 1]), 14)
