"""Writes JPEGs of every kind that is decoded here and the pixels that Pillow, that is libjpeg-turbo, reads from them.

    python jpeg.py [FILE.npz [SEED]]

Run it with a Python that has numpy and pillow. Without arguments it writes `jpeg.npz`, which the tests read; with another
seed, other images of other sizes.
"""

import io
import sys
from pathlib import Path

import numpy as np
from PIL import Image

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 0
RNG = np.random.default_rng(SEED)
SIZES = [(1, 1), (2, 3), (3, 2), (5, 6), (8, 8), (9, 17), (16, 16), (29, 37), (33, 31), (50, 3)]
expected = {}


def image(height, width):
    """Waves with noise of a random strength, some of it beyond black and white."""
    y, x = np.mgrid[:height, :width] / 9.0
    waves = [np.sin(x * RNG.uniform(0.2, 3) + y * RNG.uniform(0.2, 3) + RNG.uniform(0, 6)) for _ in range(3)]
    noise = RNG.normal(size=(height, width, 3)) * RNG.choice([0, 3, 30, 120])
    return Image.fromarray(np.clip(128 + 120 * np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))


def keep(name, contents):
    expected[f"{name}.jpg"] = np.frombuffer(contents, np.uint8)
    pixels = np.asarray(Image.open(io.BytesIO(contents)))
    expected[name] = pixels[..., None] if pixels.ndim == 2 else pixels


def encoded(image, **options):
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", **options)
    return buffer.getvalue()


def renamed(contents, size, sampling):
    """The same blocks under another size and another sampling of luma, of as many blocks."""
    start = contents.index(b"\xff\xc0") if b"\xff\xc0" in contents else contents.index(b"\xff\xc2")
    head = bytearray(contents[start : start + 12])
    head[5:9] = size[0].to_bytes(2, "big") + size[1].to_bytes(2, "big")
    head[11] = sampling
    return contents[:start] + bytes(head) + contents[start + 12 :]


for size in SIZES if SEED == 0 else RNG.integers(1, 90, (12, 2)):
    name = "x".join(map(str, size))
    for sampling in ["4:4:4", "4:2:2", "4:2:0"]:
        for progressive in [False, True]:
            quality = int(RNG.choice([1, 10, 30, 50, 75, 90, 95, 100]))
            options = dict(quality=quality, subsampling=sampling, progressive=progressive)
            if RNG.random() < 0.4:
                options["restart_marker_blocks"] = int(RNG.integers(1, 9))
            kind = f"{name}-{sampling.replace(':', '')}-q{quality}" + "-progressive" * progressive
            keep(kind, encoded(image(*size), **options))
            if sampling == "4:2:2":
                contents = encoded(image(*size), **options)
                keep(kind.replace("422", "440"), renamed(contents, [int(size[1]), int(size[0])], 0x12))
    for progressive in [False, True]:
        kind = "-progressive" * progressive
        keep(f"{name}-gray{kind}", encoded(image(*size).convert("L"), quality=90, progressive=progressive))
        keep(f"{name}-rgb{kind}", encoded(image(*size), keep_rgb=True, progressive=progressive))
for progressive in [False, True]:
    kind = "-progressive" * progressive
    contents = encoded(image(32, 32), subsampling="4:2:0", progressive=progressive)
    keep(f"15x57-411{kind}", renamed(contents, [15, 57], 0x41))
    keep(f"57x15-tall{kind}", renamed(contents, [57, 15], 0x14))
np.savez_compressed(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "jpeg.npz", **expected)
