"""The same two pipelines as `throughput.rs`, with PyTorch's DataLoader and torchvision on PIL pictures.

    python throughput.py FOLDER_OF_CLASSES [--make COUNT]

`--make` first writes COUNT JPEGs of 500x375 into the folder.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

folder = Path(sys.argv[1])
if "--make" in sys.argv:
    rng = np.random.default_rng(0)
    for number in range(int(sys.argv[sys.argv.index("--make") + 1])):
        path = folder / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        fine = Image.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        Image.blend(coarse, fine, 0.3).save(path, quality=90)


class Noise(Dataset):
    def __init__(self, count, transform):
        self.pictures = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.pictures[index])), 0


normalise = transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
imagenet = transforms.Compose([transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                               transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), transforms.ToTensor(), normalise])
cifar = transforms.Compose([transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4),
                            transforms.ColorJitter(0.2, 0.2, 0.5),
                            transforms.Resize(256, transforms.InterpolationMode.BICUBIC), transforms.CenterCrop(224),
                            transforms.ToTensor(), normalise, transforms.RandomErasing(), transforms.RandomErasing()])
if __name__ == "__main__":
    torch.set_num_threads(1)
    sets = {"jpeg 500x375 -> 224": datasets.ImageFolder(str(folder), imagenet), "cifar 32 -> 224": Noise(4096, cifar)}
    for name, data in sets.items():
        best = {}
        cpu = {}
        for workers in (1, 2, 3, 4):
            before = os.times()
            loader = DataLoader(data, 64, shuffle=True, num_workers=workers, persistent_workers=True, drop_last=True)
            for epoch in range(2):
                start = time.time()
                count = sum(len(x) for x, _ in loader)
                best[workers] = max(best.get(workers, 0), count / (time.time() - start))
            del loader  # ends the workers, whose processor time counts from then on
            after = os.times()
            cpu[workers] = sum(after[:4]) - sum(before[:4])
        print(name, {workers: round(rate) for workers, rate in best.items()}, "samples/s,", {workers: round(1e3 * time / (2 * len(data)), 2)
              for workers, time in cpu.items()}, "ms of processor time per sample")
