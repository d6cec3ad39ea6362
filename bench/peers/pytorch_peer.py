"""PyTorch on the work that `octant bench` does: one JSON line with the same keys.

    python pytorch_peer.py MODEL [--batch-size N] [--size H] [--mode train|infer] [--precision f32|bf16] [--threads T]
                           [--steps K] [--variant eager|channels-last|compile]

Models: fashion-cnn, mshnet, and every classifier that torchvision or timm knows by the same name. The variant `compile` is
channels-last too, since that is how it is fastest. bf16 is autocast with f32 parameters, as in Octant.
"""
import os
import sys

from measuring import flags, measure  # first: it starts the clock

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


class FashionCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.fc = nn.Conv2d(1, 64, 3), nn.Linear(64 * 13 * 13, 10)

    def forward(self, x):
        return self.fc(F.relu(F.max_pool2d(self.conv(x), 2)).flatten(1))


def centre(mass):
    """Means over all places of mass times column and row, as parts of the width and height."""
    height, width = mass.shape[-2:]
    columns = torch.arange(width, dtype=mass.dtype) / width
    rows = torch.arange(height, dtype=mass.dtype) / height
    return (mass * columns).mean((1, 2, 3)), (mass * rows[:, None]).mean((1, 2, 3))


def sls_iou(logits, target):
    """MSHNet's loss after its warm-up, for all images at once."""
    mass, smooth = logits.float().sigmoid(), 1e-8
    prediction, wanted, both = mass.sum((1, 2, 3)), target.sum((1, 2, 3)), (mass * target).sum((1, 2, 3))
    distance = ((prediction - wanted) / 2) ** 2
    alike = (torch.minimum(prediction, wanted) + distance) / (torch.maximum(prediction, wanted) + distance)
    (x, y), (tx, ty) = centre(mass), centre(target)
    angle = (4 / torch.pi ** 2) * (torch.atan2(y, x + smooth) - torch.atan2(ty, tx + smooth)) ** 2
    length, other = (x ** 2 + y ** 2 + smooth).sqrt(), (tx ** 2 + ty ** 2 + smooth).sqrt()
    ratio = torch.minimum(length, other) / (torch.maximum(length, other) + smooth)
    return (1 - alike * both / (prediction + wanted - both) + 1 - ratio + angle).mean()


def deep_loss(outputs, target):
    """The mean over the merged map and the four heads; the target is halved from head to head."""
    maps, merged = outputs
    total = sls_iou(merged, target)
    for index, small in enumerate(maps):
        target = F.max_pool2d(target, 2) if index > 0 else target
        total = total + sls_iou(small, target)
    return total / (len(maps) + 1)


def classifier(name):
    """Torchvision's network of that name, or timm's."""
    import torchvision
    if hasattr(torchvision.models, name):
        return getattr(torchvision.models, name)()
    try:
        import timm
        return timm.create_model(name)
    except (ImportError, RuntimeError) as error:
        sys.exit(f"there is no {name} for PyTorch; there are fashion-cnn, mshnet and the classifiers of torchvision and, "
                 f"where it is installed, timm ({error})")


def case(name, batch, size):
    """The network, its input, its loss and its optimizer."""
    if name == "mshnet":
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path.insert(0, os.path.join(here, "../../crates/zoo/golden"))
        from mshnet import MSHNet
        target = (torch.arange(batch * size * size) % 97 == 0).float().reshape(batch, 1, size, size)
        adagrad = lambda parameters: torch.optim.Adagrad(parameters, lr=1e-3)
        return MSHNet(), torch.randn(batch, 3, size, size), lambda out: deep_loss(out, target), adagrad
    if name == "fashion-cnn":
        model, images = FashionCnn(), torch.randn(batch, 1, size, size)
        optimizer = lambda parameters: torch.optim.Adam(parameters, lr=1e-3)
        classes = 10
    else:
        model, images = classifier(name), torch.randn(batch, 3, size, size)
        optimizer = lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)
        classes = 1000
    labels = torch.arange(batch) % classes
    return model, images, lambda out: F.cross_entropy(out.float(), labels), optimizer


def main():
    arguments = flags(["eager", "channels-last", "compile"], "channels-last")
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    trains = arguments.mode == "train"
    model, images, loss_of, make_optimizer = case(arguments.model, arguments.batch_size, arguments.size)
    model.train(trains)
    if arguments.variant != "eager":
        model, images = model.to(memory_format=torch.channels_last), images.to(memory_format=torch.channels_last)
    optimizer = make_optimizer(model.parameters())
    forward = torch.compile(model) if arguments.variant == "compile" else model
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=arguments.precision == "bf16")

    def step():
        with autocast, torch.set_grad_enabled(trains):
            outputs = forward(images)
        if trains:
            optimizer.zero_grad(set_to_none=True)
            loss_of(outputs).backward()
            optimizer.step()

    measure(step, f"PyTorch {torch.__version__}", arguments)


if __name__ == "__main__":
    main()
