"""SSIM and MS-SSIM of made-up images by pytorch-msssim 1.0.0, PSNR by torchmetrics 1.9.0:
`python similarity.py > similarity.json`.

Sides halve evenly here: where they do not, pytorch-msssim pads before it halves, and Octant does not.
"""
import json, sys

import numpy as np
import torch
import pytorch_msssim
from torchmetrics.functional.image import peak_signal_noise_ratio


def image(height, width, channels, kind):
    """Bytes that need no generator of random ones: the test computes the same."""
    row, column, channel = np.meshgrid(np.arange(height), np.arange(width), np.arange(channels), indexing="ij")
    smooth = (row * 3 + column * 2 + channel * 50) // 2 % 256
    texture = (row * row + 3 * column * (channel + 1)) % 61
    levels = smooth if kind == 0 else np.clip(smooth + texture - 30 * (kind == 1), 0, 255)
    return torch.tensor(levels.transpose(2, 0, 1)[None], dtype=torch.float64)


cases = []
for height, width, channels, kind in [(176, 192, 3, 1), (192, 176, 3, 2), (208, 176, 1, 1), (40, 57, 3, 1)]:
    a, b = image(height, width, channels, 0), image(height, width, channels, kind)
    ssim = pytorch_msssim.ssim(a, b, data_range=255).item()
    multiple = pytorch_msssim.ms_ssim(a, b, data_range=255).item() if height > 160 else None
    cases.append({"height": height, "width": width, "channels": channels, "kind": kind, "ssim": ssim, "ms_ssim": multiple,
                  "psnr": peak_signal_noise_ratio(a, b, data_range=255.0).item()})
json.dump(cases, sys.stdout, indent=1)
