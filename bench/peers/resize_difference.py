"""How far torchvision's resize and OpenCV's are apart, by the libraries themselves; `octant image compare` is the peer.

    python resize_difference.py IMAGE WIDTHxHEIGHT

Prints the maximum and the median of the absolute differences from OpenCV in single precision, in values of 0-1 and in
levels of 0-255. torchvision antialiases by default, OpenCV never does.
"""
import sys

import cv2
import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional

image = np.array(Image.open(sys.argv[1]).convert("RGB"))
width, height = map(int, sys.argv[2].split("x"))
planes = torch.from_numpy(image).permute(2, 0, 1)[None]


def opencv(values):
    return cv2.resize(values, (width, height), interpolation=cv2.INTER_LINEAR).astype(np.float64)


def torchvision(dtype, antialias):
    resized = functional.resize(planes.to(dtype), [height, width], antialias=antialias)
    return resized[0].permute(1, 2, 0).double().numpy()


reference = opencv(image.astype(np.float32))
for name, result in [
    ("opencv, bytes", opencv(image)),
    ("torchvision f32", torchvision(torch.float32, True)),
    ("torchvision f32, no antialias", torchvision(torch.float32, False)),
    ("torchvision bf16", torchvision(torch.bfloat16, True)),
    ("torchvision bf16, no antialias", torchvision(torch.bfloat16, False)),
]:
    difference = np.abs(result - reference)
    most, median = difference.max(), np.median(difference)
    print(f"{name:<32} max {most / 255:.4f} median {median / 255:.4f} of 1, max {most:.4f} median {median:.4f} of 255")
