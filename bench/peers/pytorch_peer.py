"""PyTorch on the work that `octant bench` does: one JSON line with the same keys.

    python pytorch_peer.py MODEL [--batch-size N] [--size H] [--mode train|infer] [--precision f32|bf16] [--threads T]
                           [--steps K] [--variant eager|channels-last|compile]

Models: fashion-cnn, mshnet, every classifier that torchvision or timm knows by the same name, torchvision's networks for a class
per pixel, and transformers' SegFormer. The variant `compile` is channels-last too, since that is how it is fastest. bf16 is autocast
with f32 parameters, as in Octant.
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


# Widths, depths and the decoder's width.
SEGFORMERS = {
    "segformer_b0": ([32, 64, 160, 256], [2, 2, 2, 2], 256), "segformer_b1": ([64, 128, 320, 512], [2, 2, 2, 2], 256),
    "segformer_b2": ([64, 128, 320, 512], [3, 4, 6, 3], 768), "segformer_b3": ([64, 128, 320, 512], [3, 4, 18, 3], 768),
    "segformer_b4": ([64, 128, 320, 512], [3, 8, 27, 3], 768), "segformer_b5": ([64, 128, 320, 512], [3, 6, 40, 3], 768),
}


class Segmenter(nn.Module):
    """The output, and the auxiliary head's where there is one and it trains."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        outputs = self.model(x)
        return [outputs.logits] if hasattr(outputs, "logits") else list(outputs.values())[:2 if self.training else 1]


def segmenter(name):
    """A network for a class per pixel; nothing for other names."""
    if name in SEGFORMERS:
        from transformers import SegformerConfig, SegformerForSemanticSegmentation
        widths, depths, decoder = SEGFORMERS[name]
        config = SegformerConfig(num_labels=150, hidden_sizes=widths, depths=depths, decoder_hidden_size=decoder)
        return Segmenter(SegformerForSemanticSegmentation(config))
    import torchvision.models.segmentation as segmentation
    if not name.startswith("_") and hasattr(segmentation, name):
        auxiliary = {} if name.startswith("lraspp") else {"aux_loss": True}
        return Segmenter(getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=21, **auxiliary))
    return None


def loss_of_pixels(outputs, target):
    """Cross entropy at the size of the masks, and 0.4 of the auxiliary output's."""
    def of(output):
        resized = F.interpolate(output.float(), size=target.shape[-2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(resized, target, ignore_index=255)
    return sum(weight * of(output) for weight, output in zip((1.0, 0.4), outputs))


def classifier(name):
    """Torchvision's network of that name, or timm's."""
    import torchvision
    if hasattr(torchvision.models, name):
        return getattr(torchvision.models, name)()
    try:
        import timm
        return timm.create_model(name)
    except (ImportError, RuntimeError) as error:
        sys.exit(f"there is no {name} for PyTorch; there are fashion-cnn, mshnet, SegFormer, the networks of torchvision and, "
                 f"where it is installed, timm's classifiers ({error})")


def case(name, batch, size):
    """The network, its input, its loss and its optimizer."""
    if name == "mshnet":
        here = os.path.dirname(os.path.abspath(__file__))
        sys.path.insert(0, os.path.join(here, "../../crates/zoo/golden"))
        from mshnet import MSHNet
        target = (torch.arange(batch * size * size) % 97 == 0).float().reshape(batch, 1, size, size)
        adagrad = lambda parameters: torch.optim.Adagrad(parameters, lr=1e-3)
        return MSHNet(), torch.randn(batch, 3, size, size), lambda out: deep_loss(out, target), adagrad
    model = segmenter(name)
    if model:
        target = (torch.arange(batch * size * size) % 97 == 0).long().reshape(batch, size, size)
        adamw = lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.01)
        return model, torch.randn(batch, 3, size, size), lambda out: loss_of_pixels(out, target), adamw
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
