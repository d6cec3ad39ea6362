"""`import octant` beside what people use in Python, in turn. Octant is called as they would call it.

    pip install octant-vision torch torchvision pycocotools faster-coco-eval        (and ultralytics==8.4.190 for mosaics)
    python python_peer.py images FOLDER [--make 1000]       ImageNet-style training from JPEGs: torch.utils.data, torchvision v2
    python python_peer.py mosaics set/data.yaml             mosaics of 640²: Ultralytics' loader, by detection_peer.py
    python python_peer.py growth FOLDER                     memory over 50 epochs, and threads that are left
    python python_peer.py coco                              5,000 images, 80 classes: pycocotools, faster-coco-eval
    python python_peer.py predict                           one call of a network that costs nothing, and eight threads

Rates are by the clock with as many workers as cores, and by processor time of all threads and processes. Both sides of `images`
deliver shuffled batches of bytes as tensors of PyTorch.
"""

import argparse
import contextlib
import gc
import io
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

BATCH, SIZE = 64, 224
CORES = os.cpu_count() or 1


def processor():
    """Seconds of this process and of those that it has waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def rates(epoch):
    """Images per second by the clock and by processor time of a call that returns how many images it saw."""
    begun, used = time.perf_counter(), processor()
    images = epoch()
    return images / (time.perf_counter() - begun), images / (processor() - used)


def in_turn(sides, rounds):
    """Every side once per round; ratios of the first one to the best of the others, round by round."""
    measured = {name: [] for name in sides}
    for number in range(rounds):
        for name, epoch in sides.items():
            measured[name].append(rates(epoch))
        row = {name: [round(rate) for rate in found[-1]] for name, found in measured.items()}
        print(f"round {number + 1}: images/s by clock, by processor {row}", flush=True)
    ours, *others = measured.values()
    for column, name in enumerate(["clock", "processor time"]):
        ratios = [mine[column] / max(other[turn][column] for other in others) for turn, mine in enumerate(ours)]
        print(f"by {name}: {statistics.median(ratios):.2f} × ({min(ratios):.2f} to {max(ratios):.2f})")


def octant_epoch(loader):
    import torch

    count = 0
    for images, _ in loader:
        count += len(torch.from_dlpack(images))
    return count


def images(arguments):
    import octant
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets, io as files
    from torchvision.transforms import v2

    if arguments.make:
        from dataloader_peer import make

        make(arguments.folder, arguments.make)
    crop = [v2.RandomResizedCrop(SIZE, antialias=True), v2.RandomHorizontalFlip()]
    folder = str(arguments.folder)
    pillow = datasets.ImageFolder(folder, v2.Compose([*crop, v2.PILToTensor()]))
    decode = lambda path: files.decode_image(path, mode=files.ImageReadMode.RGB)  # noqa: E731
    tensors = datasets.ImageFolder(folder, v2.Compose(crop), loader=decode)
    torch.set_num_threads(1)

    def theirs(data):
        loader = DataLoader(data, BATCH, shuffle=True, num_workers=arguments.workers, drop_last=True)
        return lambda: sum(len(images) for images, _ in loader)

    ours = octant.Loader(folder, batch=BATCH, transform="imagenet", image_size=SIZE, workers=arguments.workers)
    in_turn({"octant": lambda: octant_epoch(ours), "pillow": theirs(pillow), "torchvision.io": theirs(tensors)}, arguments.rounds)


def mosaics(arguments):
    import octant

    size = ["--batch", str(BATCH), "--size", "640", "--workers", str(arguments.workers), "--seconds", "12"]
    peer = [sys.executable, str(Path(__file__).with_name("detection_peer.py")), "loader", str(arguments.folder), *size]
    loader = octant.Loader(
        arguments.folder, batch=BATCH, image_size=640, workers=arguments.workers, augment={"mosaic": 1.0}, recipe="detect"
    )
    octant_epoch(loader)
    by_clock, by_processor = [], []
    for number in range(arguments.rounds):
        ours = rates(lambda: octant_epoch(loader))
        line = json.loads(subprocess.run(peer, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
        # Worker processes are counted when they have ended, so with workers theirs is by the clock alone.
        theirs = line["rate"], line["images"] / line["own_cpu_seconds"]
        by_clock.append(ours[0] / theirs[0])
        by_processor.append(ours[1] / theirs[1])
        print(f"round {number + 1}: octant {ours[0]:.0f}, {ours[1]:.0f}; Ultralytics {theirs[0]:.0f}, {theirs[1]:.0f} images/s")
    print(f"by clock: {statistics.median(by_clock):.2f} × ({min(by_clock):.2f} to {max(by_clock):.2f})")
    if arguments.workers == 0:
        print(f"by processor time: {statistics.median(by_processor):.2f} × ({min(by_processor):.2f} to {max(by_processor):.2f})")


def growth(arguments):
    import octant
    import torch  # noqa: F401  (which has threads of its own)

    def resident():
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

    before = len(os.listdir("/proc/self/task"))
    loader = octant.Loader(arguments.folder, batch=BATCH, transform="imagenet", image_size=SIZE, workers=arguments.workers)
    sizes = []
    for _ in range(50):
        octant_epoch(loader)
        sizes.append(resident())
    print("MiB after epochs 1, 2, 10, 20, 30, 40, 50:", *(round(sizes[at - 1]) for at in (1, 2, 10, 20, 30, 40, 50)))
    print("threads before and after:", before, len(os.listdir("/proc/self/task")))


def coco_set(images=5000, classes=80):
    import numpy as np

    rng = np.random.default_rng(0)
    truth = {
        "images": [{"id": number + 1} for number in range(images)],
        "categories": [{"id": number + 1, "name": str(number)} for number in range(classes)],
        "annotations": [],
    }
    found = []
    for image in range(1, images + 1):
        for _ in range(rng.integers(0, 15)):
            box, category = np.append(rng.random(2) * 500, np.exp(rng.normal(4, 1, 2))), int(rng.integers(classes)) + 1
            crowd, area = int(rng.random() < 0.01), float(box[2] * box[3] * rng.uniform(0.5, 1))
            truth["annotations"].append({
                "id": len(truth["annotations"]) + 1, "image_id": image, "category_id": category, "bbox": box.tolist(),
                "area": area, "iscrowd": crowd,
            })  # fmt: skip
            for _ in range(rng.integers(0, 8)):
                moved = box + rng.normal(0, 6, 4)
                moved[2:] = np.maximum(moved[2:], 1)
                named = category if rng.random() < 0.8 else int(rng.integers(classes)) + 1
                found.append({"image_id": image, "category_id": named, "bbox": moved.tolist(), "score": float(rng.random())})
    return truth, found


def coco(arguments):
    import faster_coco_eval
    import octant
    from pycocotools import coco, cocoeval

    truth, found = coco_set()
    print(f"{len(truth['annotations'])} objects, {len(found)} boxes")

    def peer(dataset, evaluation):
        def run(paths):
            with contextlib.redirect_stdout(io.StringIO()):
                ground = dataset(paths[0])
                evaluated = evaluation(ground, ground.loadRes(paths[1]), "bbox")
                evaluated.evaluate()
                evaluated.accumulate()
                evaluated.summarize()
            return list(evaluated.stats)[:12]

        return run

    sides = {
        "octant": lambda paths: octant.metrics.coco(*paths).stats,
        "faster-coco-eval": peer(faster_coco_eval.COCO, faster_coco_eval.COCOeval_faster),
        "pycocotools": peer(coco.COCO, cocoeval.COCOeval),
    }
    times, stats = {name: [] for name in sides}, {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, name)) for name in ("truth.json", "found.json")]
        for path, content in zip(paths, [truth, found]):
            Path(path).write_text(json.dumps(content))
        for number in range(arguments.rounds):
            for name, run in sides.items():
                begun = time.perf_counter()
                stats[name] = run(paths)
                times[name].append(time.perf_counter() - begun)
            print(f"round {number + 1}:", {name: round(found[-1], 3) for name, found in times.items()}, "s", flush=True)
    for name in list(sides)[1:]:
        ratios = [other / own for own, other in zip(times["octant"], times[name])]
        difference = max(abs(a - b) for a, b in zip(stats["octant"], stats[name]))
        print(f"{name}: {statistics.median(ratios):.1f} × its speed ({min(ratios):.1f} to {max(ratios):.1f}), at most {difference:.1e} apart")


def predict(arguments):
    import numpy as np
    import octant

    # So small that the call itself is what takes time.
    image = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    model = octant.load("fashion-cnn-tiny", weights="random", device="cpu", threads=1)
    model(image)
    times = []
    for _ in range(2000):
        begun = time.perf_counter()
        model(image)
        times.append(time.perf_counter() - begun)
    print(f"one call: median {statistics.median(times) * 1e6:.1f} µs with the network (fashion-cnn-tiny, one thread of the engine)")
    larger = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    model = octant.load("resnet18", weights="random", device="cpu")
    expected = model(larger).probabilities.tolist()
    calls = 64

    def total(threads):
        same = []

        def work():
            same.extend(model(larger).probabilities.tolist() == expected for _ in range(calls // threads))

        workers = [threading.Thread(target=work) for _ in range(threads)]
        begun = time.perf_counter()
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        assert all(same) and len(same) == calls
        return calls / (time.perf_counter() - begun)

    ratios = []
    for number in range(arguments.rounds):
        one, eight = total(1), total(8)
        ratios.append(eight / one)
        print(f"round {number + 1}: one thread {one:.1f}, eight {eight:.1f} images/s (resnet18), the same bits", flush=True)
    print(f"eight threads: {statistics.median(ratios):.2f} × the total of one ({min(ratios):.2f} to {max(ratios):.2f})")


if __name__ == "__main__":
    commands = {"images": images, "mosaics": mosaics, "growth": growth, "coco": coco, "predict": predict}
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=commands)
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--make", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=CORES)
    arguments = parser.parse_args()
    commands[arguments.command](arguments)
