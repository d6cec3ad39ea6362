"""What Pillow makes of images with alpha: `python alpha.py` writes alpha.npz beside itself. Needs numpy and Pillow."""

import pathlib

import numpy as np
import PIL.Image

HERE = pathlib.Path(__file__).parent
FILTERS = {"nearest": PIL.Image.NEAREST, "bilinear": PIL.Image.BILINEAR, "bicubic": PIL.Image.BICUBIC,
           "area": PIL.Image.BOX, "lanczos": PIL.Image.LANCZOS}


def images():
    rng = np.random.default_rng(5)
    for number, (height, width) in enumerate([(9, 13), (24, 17), (1, 8), (31, 40)]):
        for channels in (2, 4):
            image = rng.integers(0, 256, (height, width, channels)).astype(np.uint8)
            # All of it, nothing of it, and everything between is seen.
            image[..., -1] = np.where(rng.random((height, width)) < 0.3, 0, image[..., -1])
            image[..., -1] = np.where(rng.random((height, width)) < 0.3, 255, image[..., -1])
            yield f"a{number}{channels}", image


def main():
    out = {}
    for name, image in images():
        out[f"input|{name}"] = image
        height, width, channels = image.shape
        of_pillow = PIL.Image.fromarray(image, "LA" if channels == 2 else "RGBA")
        for h, w in [(7, 11), (max(1, height // 2), max(1, width // 2)), (height * 2 + 1, width + 3), (height, width), (height, 5)]:
            for filter, code in FILTERS.items():
                out[f"{filter}|{h}x{w}|{name}"] = np.asarray(of_pillow.resize((w, h), code))
    np.savez_compressed(HERE / "alpha.npz", **out)


main()
