"""MSHNet in PyTorch, transcribed from this project's own `families/mshnet.rs` under the authors' names, so that the check of
saved files needs no repository but this one. That it is the authors' network is checked too: `load_saved.py` compares its
output with the figures that `make.py` took from theirs.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ChannelAttention(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.fc1 = nn.Conv2d(channels, channels // 16, 1, bias=False)
        self.fc2 = nn.Conv2d(channels // 16, channels, 1, bias=False)

    def forward(self, x):
        pooled = (F.adaptive_avg_pool2d(x, 1), F.adaptive_max_pool2d(x, 1))
        return sum(self.fc2(F.relu(self.fc1(p))) for p in pooled).sigmoid()


class SpatialAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        summary = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return self.conv1(summary).sigmoid()


class Block(nn.Module):
    def __init__(self, inputs, width):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 3, padding=1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.shortcut = nn.Sequential(nn.Conv2d(inputs, width, 1), nn.BatchNorm2d(width)) if inputs != width else None
        self.ca, self.sa = ChannelAttention(width), SpatialAttention()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        y = self.ca(y) * y
        y = self.sa(y) * y
        return F.relu(y + (x if self.shortcut is None else self.shortcut(x)))


def layer(inputs, width, depth):
    return nn.Sequential(*[Block(inputs if i == 0 else width, width) for i in range(depth)])


class MSHNet(nn.Module):
    def __init__(self, channels=3, widths=(16, 32, 64, 128, 256), depths=(1, 2, 2, 2, 2)):
        super().__init__()
        w, d = widths, depths
        self.conv_init = nn.Conv2d(channels, w[0], 1)
        for i in range(4):
            setattr(self, f'encoder_{i}', layer(w[max(i - 1, 0)], w[i], d[i]))
            setattr(self, f'decoder_{i}', layer(w[i] + w[i + 1], w[i], d[i]))
            setattr(self, f'output_{i}', nn.Conv2d(w[i], 1, 1))
        self.middle_layer = layer(w[3], w[4], d[4])
        self.final = nn.Conv2d(4, 1, 3, padding=1)

    def forward(self, x, all_heads=True):
        encoded, y = [], self.conv_init(x)
        for i in range(4):
            y = getattr(self, f'encoder_{i}')(y)
            encoded.append(y)
            y = F.max_pool2d(y, 2)
        y = self.middle_layer(y)
        maps = [None] * 4
        for i in reversed(range(4)):
            y = getattr(self, f'decoder_{i}')(torch.cat([encoded[i], enlarged(y, 2)], 1))
            maps[i] = getattr(self, f'output_{i}')(y)
        if not all_heads:
            return [], maps[0]
        final = self.final(torch.cat([maps[0], *(enlarged(maps[i], 2 ** i) for i in (1, 2, 3))], 1))
        return maps, final


def enlarged(x, factor):
    return F.interpolate(x, scale_factor=factor, mode='bilinear', align_corners=True)
