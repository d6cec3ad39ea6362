"""What Pillow makes of 16-bit images: `python deep.py` writes deep.npz beside itself. Needs numpy and Pillow."""

import pathlib

import numpy as np
import PIL.Image

HERE = pathlib.Path(__file__).parent
FILTERS = {"nearest": PIL.Image.NEAREST, "bilinear": PIL.Image.BILINEAR, "bicubic": PIL.Image.BICUBIC,
           "area": PIL.Image.BOX, "lanczos": PIL.Image.LANCZOS}


def images():
    rng = np.random.default_rng(7)
    yield "noise", rng.integers(0, 65536, (13, 17)).astype(np.uint16)
    # Edges between the ends of the range: what filters overshoot by is cut off.
    yield "edges", np.where(rng.random((17, 12)) < 0.5, 0, 65535).astype(np.uint16)
    yield "ramp", np.outer(np.linspace(0.2, 1, 21), np.linspace(0, 65535, 9)).astype(np.uint16)


def main():
    out = {}
    for name, image in images():
        out[f"input|{name}"] = image[..., None]
        for h, w in [(7, 5), (31, 40), (5, 40), (40, 5), (13, 17), (13, 9), (30, 17), (3, 18), (29, 29)]:
            for filter, code in FILTERS.items():
                resized = PIL.Image.fromarray(image).resize((w, h), code)
                out[f"{filter}|{h}x{w}|{name}"] = np.asarray(resized)[..., None]
    # Nearest neighbors alone: sums and products of steps differ in few sizes.
    line = np.arange(79, dtype=np.uint16)[None]
    out["input|line"] = line[..., None]
    for width in range(1, 120):
        resized = PIL.Image.fromarray(line).resize((width, 1), PIL.Image.NEAREST)
        out[f"nearest|1x{width}|line"] = np.asarray(resized)[..., None]
    np.savez_compressed(HERE / "deep.npz", **out)


main()
