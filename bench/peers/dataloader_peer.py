"""Octant's loader and PyTorch's DataLoader with torchvision on the same work, in turn: samples per second, and the ratio.

    cargo build --release -p octant-data --example throughput
    python dataloader_peer.py FOLDER_OF_CLASSES [--make COUNT] [--pipeline jpeg|cifar] [--rounds 3] [--floats]

Two pipelines: `jpeg` decodes the JPEGs of the folder, takes a random resized crop of 224, mirrors and jitters colours;
`cifar` takes 32x32 images through a padded crop, jitter, bicubic enlargement to 256, the middle 224 and two erasings.
`--make` first writes COUNT JPEGs of 500x375 into the folder. Both sides deliver batches of bytes, as Octant's loader does;
with `--floats` torchvision's side also makes normalised floats, which Octant does on the device. The first round tries
every number of workers; the two best are measured further.
"""
import argparse
import json
import statistics
import subprocess
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import datasets, transforms

BATCH = 64


def make(folder, count):
    rng = np.random.default_rng(0)
    for number in range(count):
        path = folder / f"class{number % 10}" / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        fine = Image.fromarray(rng.integers(0, 256, (94, 125, 3), dtype=np.uint8)).resize((500, 375), Image.BICUBIC)
        Image.blend(coarse, fine, 0.3).save(path, quality=90)


class Noise(Dataset):
    def __init__(self, count, transform):
        self.images = np.random.default_rng(0).integers(0, 256, (count, 32, 32, 3), dtype=np.uint8)
        self.transform = transform

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        return self.transform(Image.fromarray(self.images[index])), 0


def dataset(pipeline, folder, floats):
    deliver = [transforms.PILToTensor()]
    if floats:
        deliver = [transforms.ToTensor(), transforms.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    if pipeline == "jpeg":
        steps = [transforms.RandomResizedCrop(224), transforms.RandomHorizontalFlip(),
                 transforms.ColorJitter(0.4, 0.4, 0.4, 0.1), *deliver]
        return datasets.ImageFolder(str(folder), transforms.Compose(steps))
    steps = [transforms.RandomHorizontalFlip(), transforms.RandomCrop(32, padding=4),
             transforms.ColorJitter(0.2, 0.2, 0.5), transforms.Resize(256, transforms.InterpolationMode.BICUBIC),
             transforms.CenterCrop(224), *deliver, transforms.RandomErasing(), transforms.RandomErasing()]
    return Noise(4096, transforms.Compose(steps))


def octant(binary, pipeline, folder, workers):
    """The second of two epochs: the first one also starts the process."""
    command = [binary, str(folder), "--pipeline", pipeline, "--workers", str(workers), "--epochs", "2", "--json"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return json.loads(lines[-1])["samples_per_second"]


def dataloader(data, workers):
    """One epoch. It starts its workers, as Octant's epochs do; that takes less than a hundredth of the time."""
    loader = DataLoader(data, BATCH, shuffle=True, num_workers=workers, drop_last=True)
    begun = time.perf_counter()
    count = sum(len(images) for images, _ in loader)
    return count / (time.perf_counter() - begun)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--make", type=int)
    parser.add_argument("--pipeline", choices=["jpeg", "cifar"], action="append")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--floats", action="store_true")
    parser.add_argument("--octant-workers", type=int, default=2)
    parser.add_argument("--binary", default="target/release/examples/throughput")
    arguments = parser.parse_args()
    if arguments.make:
        make(arguments.folder, arguments.make)
    torch.set_num_threads(1)
    # More workers than cores are tried on purpose.
    warnings.filterwarnings("ignore", message="This DataLoader will create")
    for pipeline in arguments.pipeline or ["jpeg", "cifar"]:
        data = dataset(pipeline, arguments.folder, arguments.floats)
        ours, theirs = [], {workers: [] for workers in (0, 1, 2, 4)}
        going = list(theirs)
        for round_number in range(1, arguments.rounds + 1):
            ours.append(octant(arguments.binary, pipeline, arguments.folder, arguments.octant_workers))
            for workers in going:
                theirs[workers].append(dataloader(data, workers))
            going = sorted(going, key=lambda workers: -theirs[workers][0])[:2]
            rates = {workers: round(rates[-1]) for workers, rates in theirs.items() if len(rates) == round_number}
            print(f"{pipeline} round {round_number}: Octant {ours[-1]:.0f} samples/s, DataLoader by workers {rates}", flush=True)
        best = max(statistics.median(theirs[workers]) for workers in going)
        rate = statistics.median(ours)
        print(f"{pipeline}: medians {rate:.0f} and {best:.0f} samples/s, {rate / best:.2f} times as fast", flush=True)


if __name__ == "__main__":
    main()
