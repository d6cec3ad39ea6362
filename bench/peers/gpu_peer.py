"""PyTorch on an NVIDIA GPU on the work that `octant bench` does: one JSON line with the same keys.

    python gpu_peer.py MODEL --batch-size N [--size H] [--precision f32|bf16] [--steps K] [--variant eager|compile]

Models: vit_b_16, vit_l_16, dinov2_b14, swin_t, convnext_tiny. They are written here, so PyTorch alone is enough. Attention
is PyTorch's `scaled_dot_product_attention`; bf16 is autocast with f32 parameters; the optimizer is SGD with momentum.
"""
from measuring import flags, measure  # first: it starts the clock

import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, bias=None):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, None if bias is None else bias.to(q.dtype))
        return self.proj(y.transpose(1, 2).reshape(batch, tokens, width))


def mlp(width, times=4):
    return nn.Sequential(nn.Linear(width, times * width), nn.GELU(), nn.Linear(times * width, width))


class Scale(nn.Module):
    def __init__(self, width, value):
        super().__init__()
        self.gamma = nn.Parameter(torch.full((width,), value))

    def forward(self, x):
        return x * self.gamma


class Block(nn.Module):
    def __init__(self, width, heads, scaled):
        super().__init__()
        self.norm1, self.attn = nn.LayerNorm(width, eps=1e-6), Attention(width, heads)
        self.norm2, self.mlp = nn.LayerNorm(width, eps=1e-6), mlp(width)
        self.ls1, self.ls2 = (Scale(width, 1e-5) if scaled else nn.Identity() for _ in range(2))

    def forward(self, x):
        x = x + self.ls1(self.attn(self.norm1(x)))
        return x + self.ls2(self.mlp(self.norm2(x)))


class ViT(nn.Module):
    def __init__(self, size, patch, width, depth, heads, scaled=False, classes=1000):
        super().__init__()
        self.patch = nn.Conv2d(3, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads, scaled) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.position
        return self.head(self.norm(self.blocks(x))[:, 0])


def drop_path(x, rate, training):
    if rate == 0 or not training:
        return x
    keep = torch.empty((len(x),) + (1,) * (x.dim() - 1), dtype=x.dtype, device=x.device).bernoulli_(1 - rate)
    return x * keep / (1 - rate)


class SwinBlock(nn.Module):
    def __init__(self, width, heads, size, shift, rate, window=7):
        super().__init__()
        self.window, self.rate = window, rate
        self.shift = shift if size > window else 0
        self.norm1, self.attn, self.norm2, self.mlp = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width), mlp(width)
        self.table = nn.Parameter(torch.zeros((2 * window - 1) ** 2, heads))
        spots = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")).flatten(1)
        apart = spots[:, :, None] - spots[:, None] + window - 1
        self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])
        if self.shift:
            regions = torch.zeros(size, size)
            edges = [slice(0, -window), slice(-window, -self.shift), slice(-self.shift, None)]
            for i, rows in enumerate(edges):
                for j, columns in enumerate(edges):
                    regions[rows, columns] = 3 * i + j
            regions = self.split(regions[None, :, :, None])[..., 0]
            mask = (regions[:, None] != regions[:, :, None]) * -100.0
            self.register_buffer("mask", mask[:, None])

    def split(self, x):
        n, h, w, c = x.shape
        return x.view(n, h // 7, 7, w // 7, 7, c).transpose(2, 3).reshape(-1, 49, c)

    def forward(self, x):
        n, h, w, c = x.shape
        y = self.norm1(x)
        if self.shift:
            y = torch.roll(y, (-self.shift, -self.shift), (1, 2))
        bias = self.table[self.index].permute(2, 0, 1)[None]
        if self.shift:
            bias = (bias + self.mask).repeat(n, 1, 1, 1)
        y = self.attn(self.split(y), bias)
        y = y.view(n, h // 7, w // 7, 7, 7, c).transpose(2, 3).reshape(n, h, w, c)
        if self.shift:
            y = torch.roll(y, (self.shift, self.shift), (1, 2))
        x = x + drop_path(y, self.rate, self.training)
        return x + drop_path(self.mlp(self.norm2(x)), self.rate, self.training)


class Merge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * width), nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x):
        return self.reduction(self.norm(torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)))


class Swin(nn.Module):
    def __init__(self, size=224, width=96, depths=(2, 2, 6, 2), heads=(3, 6, 12, 24)):
        super().__init__()
        self.patch, self.norm = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        layers, size, index = [], size // 4, 0
        for stage, (depth, count) in enumerate(zip(depths, heads)):
            for block in range(depth):
                rate = 0.2 * index / (sum(depths) - 1)
                layers.append(SwinBlock(width << stage, count, size, 3 if block % 2 else 0, rate))
                index += 1
            if stage < 3:
                layers.append(Merge(width << stage))
                size //= 2
        self.layers, self.last, self.head = nn.Sequential(*layers), nn.LayerNorm(width * 8), nn.Linear(width * 8, 1000)

    def forward(self, x):
        x = self.layers(self.norm(self.patch(x).permute(0, 2, 3, 1)))
        return self.head(self.last(x).mean((1, 2)))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class NeXtBlock(nn.Module):
    def __init__(self, width, rate):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(width, width, 7, padding=3, groups=width), nn.LayerNorm(width, eps=1e-6)
        self.mlp, self.scale, self.rate = mlp(width), Scale(width, 1e-6), rate

    def forward(self, x):
        y = self.conv(x).permute(0, 2, 3, 1)
        y = self.scale(self.mlp(self.norm(y))).permute(0, 3, 1, 2)
        return x + drop_path(y, self.rate, self.training)


def convnext(depths=(3, 3, 9, 3), widths=(96, 192, 384, 768)):
    layers, index = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0], eps=1e-6)], 0
    for stage, (depth, width) in enumerate(zip(depths, widths)):
        if stage:
            layers += [ChannelNorm(widths[stage - 1], eps=1e-6), nn.Conv2d(widths[stage - 1], width, 2, 2)]
        for _ in range(depth):
            layers.append(NeXtBlock(width, 0.1 * index / (sum(depths) - 1)))
            index += 1
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), ChannelNorm(widths[-1], eps=1e-6), nn.Flatten(), nn.Linear(widths[-1], 1000))


MODELS = {
    "vit_b_16": lambda size: ViT(size, 16, 768, 12, 12),
    "vit_l_16": lambda size: ViT(size, 16, 1024, 24, 16),
    "dinov2_b14": lambda size: ViT(size, 14, 768, 12, 12, scaled=True),
    "swin_t": Swin,
    "convnext_tiny": lambda size: convnext().to(memory_format=torch.channels_last),
}


def main():
    arguments = flags(["eager", "compile"], "compile")
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    trains = arguments.mode == "train"
    model = MODELS[arguments.model](arguments.size).cuda().train(trains)
    images = torch.randn(arguments.batch_size, 3, arguments.size, arguments.size, device="cuda")
    if arguments.model == "convnext_tiny":
        images = images.to(memory_format=torch.channels_last)
    labels = torch.arange(arguments.batch_size, device="cuda") % 1000
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, fused=True)
    forward = torch.compile(model) if arguments.variant == "compile" else model

    def step():
        with torch.autocast("cuda", torch.bfloat16, enabled=arguments.precision == "bf16"), torch.set_grad_enabled(trains):
            outputs = forward(images)
        if trains:
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(outputs.float(), labels).backward()
            optimizer.step()

    measure(step, f"PyTorch {torch.__version__}", arguments, torch.cuda)


if __name__ == "__main__":
    main()
