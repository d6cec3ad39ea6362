"""PyTorch on the steps of `octant bench pix2pix` and `octant bench cyclegan`: one JSON line with the same keys.

    python translate_peer.py pix2pix|cyclegan [--batch N] [--size H] [--precision f32|bf16] [--variant eager|channels-last|compile]
                             [--compile] [--device cpu|cuda] [--threads T] [--steps K]

The networks are those of the golden figures (`crates/zoo/golden/translate.py`): U-Net-256 with dropout and the 70 × 70
PatchGAN; ResNet-9 with instance norm, two of each, and pools of 50 images. Steps alternate as Octant's do:

    pix2pix   one forward pass of the generator; the discriminator moves on its detached images; the generator moves against
              the discriminator that has moved, vanilla GAN loss + 100 · L1
    cyclegan  all images and their ways back; both generators move together (least squares + 10 · cycle + 5 · identity); both
              discriminators move on pooled images that were made before the generators moved

Activations overwrite their inputs, discriminators have no gradients of weights while generators move, Adam is fused, cuDNN
searches its algorithms, and f32 convolutions on a GPU use TF32: what makes PyTorch fast without changing the step. `compile`
is channels-last too and compiles forward passes with their losses. bf16 is autocast with f32 parameters, as in Octant.
"""
import os
import random
import sys

from measuring import parser_of, measure  # first: it starts the clock

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../crates/zoo/golden"))
from translate import PatchDiscriminator, ResnetGenerator, UnetGenerator  # noqa: E402


def network(module, arguments):
    """Initialized as in the papers, on the device, activations in place."""
    for part in module.modules():
        if isinstance(part, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(part.weight, 0.0, 0.02)
        if isinstance(part, (nn.ReLU, nn.LeakyReLU)):
            part.inplace = True
    module = module.to(arguments.device).train()
    return module if arguments.variant == "eager" else module.to(memory_format=torch.channels_last)


def adam(*networks):
    parameters = [parameter for network in networks for parameter in network.parameters()]
    return torch.optim.Adam(parameters, lr=2e-4, betas=(0.5, 0.999), fused=True)


def moved(optimizer, loss):
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()


def learns(networks, whether):
    for network in networks:
        network.requires_grad_(whether)


def squared(logits, real):
    logits = logits.float()
    return F.mse_loss(logits, torch.ones_like(logits) if real else torch.zeros_like(logits))


def entropy(logits, real):
    logits = logits.float()
    return F.binary_cross_entropy_with_logits(logits, torch.ones_like(logits) if real else torch.zeros_like(logits))


def distance(made, wanted):
    return F.l1_loss(made.float(), wanted)


class Pool:
    """Images made earlier: every second one, on average, is swapped for an older one once the pool is full."""

    def __init__(self, size):
        self.size, self.images = size, []

    def query(self, batch):
        returned = []
        for image in batch.detach().float():
            if len(self.images) < self.size:
                self.images.append(image.clone())
                returned.append(image)
            elif random.random() > 0.5:
                slot = random.randrange(self.size)
                returned.append(self.images[slot])
                self.images[slot] = image.clone()
            else:
                returned.append(image)
        return torch.stack(returned)


def pix2pix(a, b, arguments, compiled, autocast):
    generator = network(UnetGenerator(8, 64, drop=0.5), arguments)
    discriminator = network(PatchDiscriminator(6, 64), arguments)
    of_generator, of_discriminator = adam(generator), adam(discriminator)
    make = compiled(generator)

    @compiled
    def discriminator_loss(made):
        loss = entropy(discriminator(torch.cat([a, made], 1)), False) + entropy(discriminator(torch.cat([a, b], 1)), True)
        return loss * 0.5

    @compiled
    def generator_loss(made):
        return entropy(discriminator(torch.cat([a, made], 1)), True) + 100 * distance(made, b)

    def step():
        with autocast():
            made = make(a)
            learns([discriminator], True)
            loss = discriminator_loss(made.detach())
        moved(of_discriminator, loss)
        learns([discriminator], False)
        with autocast():
            loss = generator_loss(made)
        moved(of_generator, loss)

    return step


def cyclegan(a, b, arguments, compiled, autocast):
    to_b, to_a = (network(ResnetGenerator(9, 64), arguments) for _ in range(2))
    discriminator_b, discriminator_a = (network(PatchDiscriminator(3, 64, kind="instance"), arguments) for _ in range(2))
    of_generators, of_b, of_a = adam(to_b, to_a), adam(discriminator_b), adam(discriminator_a)
    pool_b, pool_a = Pool(50), Pool(50)

    @compiled
    def generators_loss():
        made_b, made_a = to_b(a), to_a(b)
        cycle = distance(to_a(made_b), a) + distance(to_b(made_a), b)
        identity = distance(to_b(b), b) + distance(to_a(a), a)
        generator_loss = squared(discriminator_b(made_b), True) + squared(discriminator_a(made_a), True)
        return generator_loss + 10 * cycle + 5 * identity, made_b.detach(), made_a.detach()

    def discriminator_loss(discriminator):
        return compiled(lambda real, made: 0.5 * (squared(discriminator(real), True) + squared(discriminator(made), False)))

    loss_b, loss_a = discriminator_loss(discriminator_b), discriminator_loss(discriminator_a)

    def step():
        learns([discriminator_b, discriminator_a], False)
        with autocast():
            loss, made_b, made_a = generators_loss()
        moved(of_generators, loss)
        learns([discriminator_b, discriminator_a], True)
        for loss_of, optimizer, real, made in (
            (loss_b, of_b, b, pool_b.query(made_b)),
            (loss_a, of_a, a, pool_a.query(made_a)),
        ):
            with autocast():
                loss = loss_of(real, made)
            moved(optimizer, loss)

    return step


def main():
    parser = parser_of(["eager", "channels-last", "compile"], "channels-last")
    parser.set_defaults(size=256, batch_size=1)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--compile", action="store_const", dest="variant", const="compile", help="--variant compile")
    arguments = parser.parse_args()
    steps = {"pix2pix": pix2pix, "unet_256": pix2pix, "cyclegan": cyclegan, "resnet_9blocks": cyclegan}
    if arguments.model not in steps or arguments.mode != "train":
        sys.exit(f"there is no {arguments.mode} of {arguments.model} here; there is train of {', '.join(steps)}")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    random.seed(0)
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    side = (arguments.batch_size, 3, arguments.size, arguments.size)
    a, b = (torch.rand(side, device=arguments.device) * 2 - 1 for _ in range(2))
    if arguments.variant != "eager":
        a, b = (images.to(memory_format=torch.channels_last) for images in (a, b))
    compiled = torch.compile if arguments.variant == "compile" else lambda function: function
    autocast = lambda: torch.autocast(arguments.device, torch.bfloat16, enabled=arguments.precision == "bf16")
    step = steps[arguments.model](a, b, arguments, compiled, autocast)
    measure(step, f"PyTorch {torch.__version__}", arguments, torch.cuda if arguments.device == "cuda" else None)


if __name__ == "__main__":
    main()
