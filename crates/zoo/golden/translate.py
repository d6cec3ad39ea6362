"""Networks from images to images, written in PyTorch from the papers' facts and the published state dicts.

The numbers and names of layers are those of the published PyTorch files, so that their checkpoints would load here: Pix2Pix
and CycleGAN (Isola et al., 2017; Zhu et al., 2017), EDSR (Lim et al., 2017), DnCNN (Zhang et al., 2017) and NAFNet
(Chen et al., 2022). Constants are rounded to f32, as traced programs hold them.
"""
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def single(value):
    return float(np.float32(value))


SLOPE, EPSILON = single(0.2), single(1e-5)


def norm(kind, channels):
    if kind == 'batch':
        return nn.BatchNorm2d(channels, eps=EPSILON)
    return nn.InstanceNorm2d(channels, eps=EPSILON)


class UnetBlock(nn.Module):
    def __init__(self, outer, inner, inside=None, outermost=False, kind='batch', drop=0.0, channels=None):
        super().__init__()
        self.outermost, bias = outermost, kind == 'instance'
        down = nn.Conv2d(channels or outer, inner, 4, 2, 1, bias=bias)
        if outermost:
            layers = [down, inside, nn.ReLU(), nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1), nn.Tanh()]
        elif inside is None:
            up = nn.ConvTranspose2d(inner, outer, 4, 2, 1, bias=bias)
            layers = [nn.LeakyReLU(SLOPE), down, nn.ReLU(), up, norm(kind, outer)]
        else:
            up = nn.ConvTranspose2d(2 * inner, outer, 4, 2, 1, bias=bias)
            layers = [nn.LeakyReLU(SLOPE), down, norm(kind, inner), inside, nn.ReLU(), up, norm(kind, outer)]
            layers += [nn.Dropout(drop)] if drop else []
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x) if self.outermost else torch.cat([x, self.model(x)], 1)


class UnetGenerator(nn.Module):
    def __init__(self, depth, width, kind='batch', inputs=3, outputs=3, drop=0.0):
        super().__init__()
        block = UnetBlock(8 * width, 8 * width, kind=kind)
        for _ in range(depth - 5):
            block = UnetBlock(8 * width, 8 * width, block, kind=kind, drop=drop)
        for factor in (4, 2, 1):
            block = UnetBlock(factor * width, 2 * factor * width, block, kind=kind)
        self.model = UnetBlock(outputs, width, block, outermost=True, kind=kind, channels=inputs)

    def forward(self, x):
        return self.model(x)


class ResnetBlock(nn.Module):
    def __init__(self, width, kind):
        super().__init__()
        bias = kind == 'instance'
        self.conv_block = nn.Sequential(
            nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3, bias=bias), norm(kind, width), nn.ReLU(),
            nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3, bias=bias), norm(kind, width))

    def forward(self, x):
        return x + self.conv_block(x)


class ResnetGenerator(nn.Module):
    def __init__(self, blocks, width, kind='instance', channels=3):
        super().__init__()
        bias = kind == 'instance'
        layers = [nn.ReflectionPad2d(3), nn.Conv2d(channels, width, 7, bias=bias), norm(kind, width), nn.ReLU()]
        for factor in (1, 2):
            layers += [nn.Conv2d(factor * width, 2 * factor * width, 3, 2, 1, bias=bias), norm(kind, 2 * factor * width), nn.ReLU()]
        layers += [ResnetBlock(4 * width, kind) for _ in range(blocks)]
        for factor in (4, 2):
            up = nn.ConvTranspose2d(factor * width, factor * width // 2, 3, 2, 1, 1, bias=bias)
            layers += [up, norm(kind, factor * width // 2), nn.ReLU()]
        layers += [nn.ReflectionPad2d(3), nn.Conv2d(width, channels, 7), nn.Tanh()]
        self.model = nn.Sequential(*layers)

    def forward(self, x):
        return self.model(x)


class PatchDiscriminator(nn.Module):
    def __init__(self, inputs, width, layers=3, kind='batch'):
        super().__init__()
        bias = kind == 'instance'
        parts, before = [nn.Conv2d(inputs, width, 4, 2, 1), nn.LeakyReLU(SLOPE)], width
        for layer in range(1, layers + 1):
            after = width * min(2 ** layer, 8)
            stride = 2 if layer < layers else 1
            parts += [nn.Conv2d(before, after, 4, stride, 1, bias=bias), norm(kind, after), nn.LeakyReLU(SLOPE)]
            before = after
        self.model = nn.Sequential(*parts, nn.Conv2d(before, 1, 4, 1, 1))

    def forward(self, x):
        return self.model(x)


class PixelDiscriminator(nn.Module):
    def __init__(self, inputs, width, kind='batch'):
        super().__init__()
        bias = kind == 'instance'
        self.net = nn.Sequential(
            nn.Conv2d(inputs, width, 1), nn.LeakyReLU(SLOPE), nn.Conv2d(width, 2 * width, 1, bias=bias),
            norm(kind, 2 * width), nn.LeakyReLU(SLOPE), nn.Conv2d(2 * width, 1, 1, bias=bias))

    def forward(self, x):
        return self.net(x)


class EdsrBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


class Edsr(nn.Module):
    def __init__(self, blocks, width, scale):
        super().__init__()
        self.mean = torch.tensor([single(single(m) * np.float32(255)) for m in (0.4488, 0.4371, 0.4040)]).double().view(1, 3, 1, 1)
        self.head = nn.Sequential(nn.Conv2d(3, width, 3, padding=1))
        self.body = nn.Sequential(*[EdsrBlock(width) for _ in range(blocks)], nn.Conv2d(width, width, 3, padding=1))
        steps, factor = (2, 2) if scale == 4 else (1, scale)
        up = []
        for _ in range(steps):
            up += [nn.Conv2d(width, width * factor ** 2, 3, padding=1), nn.PixelShuffle(factor)]
        self.tail = nn.Sequential(nn.Sequential(*up), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, x):
        y = self.head(x - self.mean)
        return self.tail(y + self.body(y)) + self.mean


class DnCnn(nn.Module):
    def __init__(self, depth, width, channels):
        super().__init__()
        layers = [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
        for _ in range(depth - 2):
            layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
        self.model = nn.Sequential(*layers, nn.Conv2d(width, channels, 3, padding=1))

    def forward(self, x):
        return x - self.model(x)


class ChannelNorm(nn.Module):
    """Layer norm over the channels of every pixel."""

    def __init__(self, channels):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))

    def forward(self, x):
        y = F.layer_norm(x.permute(0, 2, 3, 1), self.weight.shape, self.weight, self.bias, single(1e-6))
        return y.permute(0, 3, 1, 2)


def gate(x):
    a, b = x.chunk(2, dim=1)
    return a * b


class NafBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, 2 * c, 1), nn.Conv2d(2 * c, 2 * c, 3, padding=1, groups=2 * c)
        self.conv3, self.conv4, self.conv5 = nn.Conv2d(c, c, 1), nn.Conv2d(c, 2 * c, 1), nn.Conv2d(c, c, 1)
        self.sca = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(c, c, 1))
        self.norm1, self.norm2 = ChannelNorm(c), ChannelNorm(c)
        self.beta, self.gamma = nn.Parameter(torch.zeros(1, c, 1, 1)), nn.Parameter(torch.zeros(1, c, 1, 1))

    def forward(self, x):
        y = gate(self.conv2(self.conv1(self.norm1(x))))
        x = x + self.conv3(y * self.sca(y)) * self.beta
        return x + self.conv5(gate(self.conv4(self.norm2(x)))) * self.gamma


class NafNet(nn.Module):
    def __init__(self, width, encoders, middle, decoders):
        super().__init__()
        self.intro, self.ending = nn.Conv2d(3, width, 3, padding=1), nn.Conv2d(width, 3, 3, padding=1)
        self.encoders, self.downs, self.decoders, self.ups = (nn.ModuleList() for _ in range(4))
        for count in encoders:
            self.encoders.append(nn.Sequential(*[NafBlock(width) for _ in range(count)]))
            self.downs.append(nn.Conv2d(width, 2 * width, 2, 2))
            width *= 2
        self.middle_blks = nn.Sequential(*[NafBlock(width) for _ in range(middle)])
        for count in decoders:
            self.ups.append(nn.Sequential(nn.Conv2d(width, 2 * width, 1, bias=False), nn.PixelShuffle(2)))
            width //= 2
            self.decoders.append(nn.Sequential(*[NafBlock(width) for _ in range(count)]))

    def forward(self, x):
        unit, (height, width) = 2 ** len(self.encoders), x.shape[2:]
        padded = F.pad(x, (0, -width % unit, 0, -height % unit))
        y, skips = self.intro(padded), []
        for encoder, down in zip(self.encoders, self.downs):
            y = encoder(y)
            skips.append(y)
            y = down(y)
        y = self.middle_blks(y)
        for decoder, up in zip(self.decoders, self.ups):
            y = decoder(up(y) + skips.pop())
        return (padded + self.ending(y))[:, :, :height, :width]


# name: (reference, side, batch), as the zoo calls them.
TINY = {
    'unet_generator-tiny': (lambda: UnetGenerator(5, 4), 32, 3),
    'resnet_generator-tiny': (lambda: ResnetGenerator(1, 4), 16, 2),
    'edsr-tiny': (lambda: Edsr(2, 8, 2), 8, 2),
    'dncnn-tiny': (lambda: DnCnn(4, 8, 3), 16, 2),
    # A side that has to be padded.
    'nafnet-tiny': (lambda: NafNet(8, [1, 1], 1, [1, 1]), 14, 2),
}


if __name__ == '__main__':
    # Counts of the published networks, for the tests of the registry.
    networks = {
        'unet_256': UnetGenerator(8, 64), 'unet_128': UnetGenerator(7, 64),
        'resnet_9blocks': ResnetGenerator(9, 64), 'resnet_6blocks': ResnetGenerator(6, 64),
        'patches of 6 channels': PatchDiscriminator(6, 64), 'patches of 3 channels, instance': PatchDiscriminator(3, 64, kind='instance'),
        'pixels of 6 channels': PixelDiscriminator(6, 64),
        'edsr_baseline_x2': Edsr(16, 64, 2), 'edsr_baseline_x3': Edsr(16, 64, 3), 'edsr_baseline_x4': Edsr(16, 64, 4),
        'dncnn': DnCnn(17, 64, 1), 'dncnn_color': DnCnn(20, 64, 3),
        'nafnet_width32': NafNet(32, [2, 2, 4, 8], 12, [2, 2, 2, 2]),
    }
    for name, network in networks.items():
        print(name, sum(p.numel() for p in network.parameters()), len(network.state_dict()))
