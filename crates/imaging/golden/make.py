"""Writes what Pillow, torchvision, OpenCV and TensorFlow give for small images, as the figures the tests compare with.

Run it with a Python that has numpy, pillow, torch, torchvision, opencv-python-headless and tensorflow-cpu:

    python make.py [resize] [cubic] [blur] [colour] [geometry]

Keys are `operation|semantics|parameters…|image`; `inputs.npz` holds the images. Sizes are height x width.
"""

import os
import sys
from pathlib import Path

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import cv2
import numpy as np
import PIL.Image
import torch
import torchvision.transforms.v2.functional as tv
from PIL import ImageEnhance, ImageFilter, ImageOps

HERE = Path(__file__).parent
# The vendor library that some OpenCV builds carry rounds differently from OpenCV itself.
if hasattr(cv2, "ipp"):
    cv2.ipp.setUseIPP(False)


def images():
    """Noise, edges and gradients in sizes that break careless code."""
    rng = np.random.default_rng(7)
    sizes = [(1, 1, 3), (1, 9, 3), (9, 1, 3), (2, 2, 1), (5, 3, 3), (13, 9, 3), (16, 16, 1), (17, 31, 3), (32, 32, 3),
             (33, 20, 3), (24, 24, 3), (40, 30, 1)]
    out = {}
    for number, (h, w, c) in enumerate(sizes):
        y, x = np.mgrid[:h, :w].astype(np.float64)
        smooth = np.stack([np.sin(x / (3 + k)) * np.cos(y / (5 + k)) * 90 + 128 for k in range(c)], -1)
        noise = rng.integers(0, 256, (h, w, c))
        edges = (((x // 4 + y // 5) % 2) * 255)[..., None].repeat(c, -1)
        kind = [noise, smooth, edges, (smooth + noise) / 2][number % 4] if number < 8 else \
            [(smooth * 2 + edges) / 3, noise, smooth, (edges + noise) / 2][number % 4]
        out[f"p{number:02}"] = np.clip(kind, 0, 255).astype(np.uint8)
    return out


IMAGES = images()


def colourful():
    """The images in colour, and further ones: saturated, pale, dark, and of few colours."""
    rng = np.random.default_rng(11)
    out = {name: image for name, image in IMAGES.items() if image.shape[2] == 3}
    saturated = rng.integers(0, 2, (11, 14, 3)) * 255
    pale = 200 + rng.integers(0, 56, (19, 7, 3))
    dark = rng.integers(0, 9, (8, 21, 3))
    few = rng.integers(0, 256, (4, 3))[rng.integers(0, 4, (15, 15))]
    for number, image in enumerate([saturated, pale, dark, few], len(IMAGES)):
        out[f"p{number:02}"] = image.astype(np.uint8)
    return out


COLOURFUL = colourful()


def squeeze(image):
    return image[..., 0] if image.shape[-1] == 1 else image


def hwc(array):
    array = np.asarray(array)
    return array[..., None] if array.ndim == 2 else array


def sizes_for(image):
    h, w, _ = image.shape
    yield max(1, round(h * 0.13)), max(1, round(w * 0.13))
    yield 7, 11
    yield max(1, round(h * 0.6)), max(1, round(w * 1.4))
    yield max(1, h // 2), max(1, w // 2)
    if h * w <= 120:
        yield round(h * 7.3), round(w * 7.3)


def resize():
    out = {}
    pil_filters = {"nearest": PIL.Image.NEAREST, "bilinear": PIL.Image.BILINEAR, "bicubic": PIL.Image.BICUBIC,
                   "area": PIL.Image.BOX, "lanczos": PIL.Image.LANCZOS}
    cv_filters = {"nearest": cv2.INTER_NEAREST, "bilinear": cv2.INTER_LINEAR, "bicubic": cv2.INTER_CUBIC,
                  "area": cv2.INTER_AREA, "lanczos": cv2.INTER_LANCZOS4}
    for name, image in IMAGES.items():
        for place, (h, w) in enumerate(sizes_for(image)):
            for filter, code in pil_filters.items():
                result = PIL.Image.fromarray(squeeze(image)).resize((w, h), code)
                out[f"u8|pil|{filter}|1|{h}x{w}|{name}"] = hwc(result)
            for filter, code in cv_filters.items():
                out[f"u8|opencv|{filter}|0|{h}x{w}|{name}"] = hwc(cv2.resize(squeeze(image), (w, h), interpolation=code))
            if place in (0, 1) or image.size < 400:
                floats(out, name, image, h, w, cv_filters, pil_filters)
    np.savez_compressed(HERE / "resize.npz", **out)


def floats(out, name, image, h, w, cv_filters, pil_filters):
    import tensorflow as tf
    scaled = image.astype(np.float32) / 255
    tensor = torch.from_numpy(scaled).permute(2, 0, 1)[None]
    for filter, modes in {"nearest": [0], "area": [0], "bilinear": [0, 1], "bicubic": [0, 1]}.items():
        for antialias in modes:
            # torch 2.15 leaves out the vertical pass when an antialiased result is one pixel wide.
            if antialias and w == 1:
                continue
            extra = {} if filter in ("nearest", "area") else {"align_corners": False, "antialias": bool(antialias)}
            result = torch.nn.functional.interpolate(tensor, (h, w), mode=filter, **extra)
            out[f"f32|torchvision|{filter}|{antialias}|{h}x{w}|{name}"] = result[0].permute(1, 2, 0).numpy()
    tf_names = {"nearest": [0], "area": [0], "bilinear": [0, 1], "bicubic": [0, 1], "lanczos": [0, 1]}
    for filter, modes in tf_names.items():
        for antialias in modes:
            method = "lanczos3" if filter == "lanczos" else filter
            result = tf.image.resize(scaled, (h, w), method, antialias=bool(antialias)).numpy()
            out[f"f32|tensorflow|{filter}|{antialias}|{h}x{w}|{name}"] = result
    for filter, code in cv_filters.items():
        out[f"f32|opencv|{filter}|0|{h}x{w}|{name}"] = hwc(cv2.resize(squeeze(scaled), (w, h), interpolation=code))
    for filter, code in pil_filters.items():
        if filter != "nearest":
            planes = [PIL.Image.fromarray(scaled[..., c]).resize((w, h), code) for c in range(image.shape[2])]
            out[f"f32|pil|{filter}|1|{h}x{w}|{name}"] = np.stack([np.asarray(plane) for plane in planes], -1)


def cubic():
    """OpenCV's cubic on few gray levels: many results lie halfway between two bytes."""
    rng = np.random.default_rng(5)
    out = {}
    sizes = [(64, 56, 1, 32, 28), (40, 46, 1, 20, 23), (48, 62, 3, 24, 31), (20, 18, 3, 40, 36), (36, 33, 3, 12, 11), (30, 44, 4, 47, 22)]
    for number, (h, w, c, height, width) in enumerate(sizes):
        y, x = np.mgrid[:h, :w]
        steps = rng.integers(0, 8, (h, w, c)) * 32
        slope = ((3 * x + 2 * y) % 256)[..., None].repeat(c, -1)
        for kind, image in {"steps": steps, "slope": slope, "noise": rng.integers(0, 256, (h, w, c))}.items():
            image = image.astype(np.uint8)
            out[f"in|{kind}{number}"] = image
            out[f"out|{kind}{number}"] = cv2.resize(squeeze(image), (width, height), interpolation=cv2.INTER_CUBIC).reshape(height, width, c)
    np.savez_compressed(HERE / "cubic.npz", **out)


def blur():
    out = {}
    for name, image in IMAGES.items():
        for radius in (0.3, 1.0, 2.6, 7.0):
            result = PIL.Image.fromarray(squeeze(image)).filter(ImageFilter.GaussianBlur(radius))
            out[f"u8|pil|0|{radius}|{name}"] = hwc(result)
        for size, sigma in ((3, 0.8), (5, 1.3), (9, 0.0), (0, 1.7), (7, 4.0)):
            out[f"u8|opencv|{size}|{sigma}|{name}"] = hwc(cv2.GaussianBlur(squeeze(image), (size, size), sigma))
            scaled = squeeze(image.astype(np.float32) / 255)
            if image.size < 1600:
                out[f"f32|opencv|{size}|{sigma}|{name}"] = hwc(cv2.GaussianBlur(scaled, (size, size), sigma))
        for size, sigma in ((3, 0.8), (5, 1.3), (9, 2.0)):
            if min(image.shape[:2]) > size // 2:
                tensor = torch.from_numpy(image).permute(2, 0, 1)
                result = tv.gaussian_blur(tensor, [size, size], [sigma, sigma])
                out[f"u8|torchvision|{size}|{sigma}|{name}"] = result.permute(1, 2, 0).numpy()
                result = tv.gaussian_blur(tensor.float() / 255, [size, size], [sigma, sigma])
                if image.size < 1600:
                    out[f"f32|torchvision|{size}|{sigma}|{name}"] = result.permute(1, 2, 0).numpy()
    np.savez_compressed(HERE / "blur.npz", **out)


def colour():
    out = {}
    for name, image in COLOURFUL.items():
        image = PIL.Image.fromarray(image)
        tensor = torch.from_numpy(image).permute(2, 0, 1)
        back = lambda result: hwc(result.permute(1, 2, 0).numpy() if torch.is_tensor(result) else result)
        for kind, source in (("pil", image), ("torchvision", tensor)):
            for factor in (0.0, 0.3, 0.85, 1.0, 1.7):
                out[f"brightness|{kind}|{factor}|{name}"] = back(tv.adjust_brightness(source, factor))
                out[f"contrast|{kind}|{factor}|{name}"] = back(tv.adjust_contrast(source, factor))
                out[f"saturation|{kind}|{factor}|{name}"] = back(tv.adjust_saturation(source, factor))
            for factor in (-0.4, -0.11, 0.0, 0.07, 0.5):
                out[f"hue|{kind}|{factor}|{name}"] = back(tv.adjust_hue(source, factor))
            for factor in (0.0, 0.5, 1.9):
                out[f"sharpness|{kind}|{factor}|{name}"] = back(tv.adjust_sharpness(source, factor))
            for bits in (1, 3, 6):
                out[f"posterize|{kind}|{bits}|{name}"] = back(tv.posterize(source, bits))
            for threshold in (0, 100, 255):
                out[f"solarize|{kind}|{threshold}|{name}"] = back(tv.solarize(source, threshold))
            out[f"equalize|{kind}|0|{name}"] = back(tv.equalize(source))
            out[f"autocontrast|{kind}|0|{name}"] = back(tv.autocontrast(source))
            out[f"invert|{kind}|0|{name}"] = back(tv.invert(source))
            out[f"grey|{kind}|0|{name}"] = back(tv.rgb_to_grayscale(source))
        out[f"grey|opencv|0|{name}"] = hwc(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY))
    np.savez_compressed(HERE / "colour.npz", **out)


def geometry():
    out = {}
    cases = [(15.0, (0, 0), 1.0, (0.0, 0.0)), (0.0, (3, -2), 1.0, (0.0, 0.0)), (0.0, (0, 0), 1.0, (20.0, 0.0)),
             (-37.0, (1, 2), 1.3, (5.0, -9.0))]
    for name, image in IMAGES.items():
        if min(image.shape[:2]) < 2 or image.size > 2000:
            continue
        image = PIL.Image.fromarray(squeeze(image))
        for angle, translate, scale, shear in cases:
            for filter, mode in (("nearest", tv.InterpolationMode.NEAREST), ("bilinear", tv.InterpolationMode.BILINEAR)):
                result = tv.affine(image, angle, list(translate), scale, list(shear), interpolation=mode, fill=9)
                key = f"affine|{filter}|{angle},{translate[0]},{translate[1]},{scale},{shear[0]},{shear[1]}|{name}"
                out[key] = hwc(result)
    np.savez_compressed(HERE / "geometry.npz", **out)


if __name__ == "__main__":
    np.savez_compressed(HERE / "inputs.npz", **IMAGES, **{k: v for k, v in COLOURFUL.items() if k not in IMAGES})
    for part in sys.argv[1:] or ["resize", "cubic", "blur", "colour", "geometry"]:
        globals()[part]()
