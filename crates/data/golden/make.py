"""Writes small images in every format and what Pillow and NumPy read from them.

Run it with a Python that has numpy and pillow. The images go to `images/`, the pixels to `decoded.npz`.
"""

from pathlib import Path

import numpy as np
from PIL import Image

HERE = Path(__file__).parent
FOLDER = HERE / "images"
FOLDER.mkdir(exist_ok=True)

y, x = np.mgrid[:29, :37].astype(np.float64)
rgb = np.stack([128 + 100 * np.sin(x / 6), 128 + 90 * np.cos(y / 5), (x * 3 + y * 4) % 256], -1).astype(np.uint8)
rgba = np.concatenate([rgb, ((x * y) % 256).astype(np.uint8)[..., None]], -1)
grey = rgb[..., 0]
deep = (x * 1500 + y * 317).astype(np.uint16)
expected = {}


def keep(name, array):
    array = np.asarray(array)
    expected[name] = np.ascontiguousarray(array[..., None] if array.ndim == 2 else array)


def save(name, image, lossless=True, mode=None, **options):
    image.save(FOLDER / name, **options)
    back = Image.open(FOLDER / name)
    keep(name, back.convert(mode) if mode else back)


image = Image.fromarray(rgb)
save("baseline.jpg", image, quality=90)
save("subsampled.jpg", image, quality=85, subsampling="4:2:0")
save("halved.jpg", image, quality=92, subsampling="4:2:2")
save("restarted.jpg", image, quality=88, subsampling="4:4:4", restart_marker_blocks=3)
save("progressive.jpg", image, quality=90, progressive=True)
save("grey.jpg", Image.fromarray(grey), quality=90)
for code in range(1, 9):
    exif = Image.Exif()
    exif[0x0112] = code
    name = f"turned{code}.png"
    image.crop((0, 0, 7, 5)).save(FOLDER / name, exif=exif)
    from PIL import ImageOps
    keep(name, ImageOps.exif_transpose(Image.open(FOLDER / name)))
exif = Image.Exif()
exif[0x0112] = 6
image.save(FOLDER / "turned6.jpg", exif=exif, quality=95)
keep("turned6.jpg", ImageOps.exif_transpose(Image.open(FOLDER / "turned6.jpg")))
save("rgb.png", image)
save("rgba.png", Image.fromarray(rgba))
save("grey.png", Image.fromarray(grey))
save("palette.png", image.quantize(17), mode="RGB")
save("one_bit.png", Image.fromarray(grey > 128), mode="L")
Image.fromarray(deep).save(FOLDER / "grey16.png")
keep("grey16.png", deep)
save("palette.gif", image.quantize(17), mode="RGB")
save("interlaced.gif", image.quantize(200), mode="RGB", interlace=1)
save("grey.gif", Image.fromarray(grey), mode="RGB")
# Animations are read as their first image; what is transparent keeps its color.
save("animated.gif", image, mode="RGB", save_all=True, append_images=[image.rotate(90), image.rotate(180)], duration=50)
save("transparent.gif", Image.fromarray(rgba).quantize(20), mode="RGB", transparency=3)
save("rgb.bmp", image)
save("grey.bmp", Image.fromarray(grey), mode="L")
save("palette.bmp", image.quantize(9), mode="RGB")
save("lossless.webp", image, lossless=True)
save("alpha.webp", Image.fromarray(rgba), lossless=True, exact=True)
save("lossy.webp", image, quality=90)
save("rgb.tif", image)
save("lzw.tif", image, compression="tiff_lzw")
save("deflate.tif", Image.fromarray(grey), compression="tiff_adobe_deflate")
Image.fromarray(deep).save(FOLDER / "grey16.tif")
keep("grey16.tif", deep)
Image.fromarray((deep / 65535).astype(np.float32)).save(FOLDER / "float.tif")
keep("float.tif", (deep / 65535).astype(np.float32))
np.savez_compressed(HERE / "decoded.npz", **expected)

# Tiny versions of the archives, with the structure of the real ones.
import gzip
import io
import pickle
import tarfile


def tar_of(name, folder, files):
    with gzip.GzipFile(HERE / name, "wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        for file, contents in files.items():
            info = tarfile.TarInfo(f"{folder}/{file}")
            info.size = len(contents)
            tar.addfile(info, io.BytesIO(contents))


def planes(count, start):
    return (np.arange(count * 3072) // 7 + start).astype(np.uint8).reshape(count, 3072)


class Python2Pickler(pickle._Pickler):
    """Writes byte strings as Python 2 did, which is how the real archives were written."""

    dispatch = dict(pickle._Pickler.dispatch)

    def save_bytes(self, value):
        short = len(value) < 256
        self.write(b"U" + bytes([len(value)]) + value if short else b"T" + len(value).to_bytes(4, "little") + value)
        self.memoize(value)

    dispatch[bytes] = save_bytes


def dumps(value):
    buffer = io.BytesIO()
    Python2Pickler(buffer, protocol=2).dump(value)
    return buffer.getvalue().replace(b"numpy._core", b"numpy.core")


batches = {f"data_batch_{n}": {b"data": planes(2, n), b"labels": [n, n + 4]} for n in range(1, 6)}
batches["test_batch"] = {b"data": planes(3, 50), b"labels": [9, 0, 3]}
batches["batches.meta"] = {b"label_names": [f"class{n}".encode() for n in range(10)]}
tar_of("cifar-10-python.tar.gz", "cifar-10-batches-py", {k: dumps(v) for k, v in batches.items()})
hundred = {
    "train": {b"data": planes(4, 1), b"fine_labels": [99, 0, 5, 7], b"coarse_labels": [1, 2, 3, 4]},
    "test": {b"data": planes(2, 9), b"fine_labels": [98, 1], b"coarse_labels": [1, 2]},
    "meta": {b"fine_label_names": [f"fine{n}".encode() for n in range(100)], b"coarse_label_names": [b"c"] * 20},
}
tar_of("cifar-100-python.tar.gz", "cifar-100-python", {k: dumps(v) for k, v in hundred.items()})
binary = {f"data_batch_{n}.bin": b"".join(bytes([l]) + p.tobytes() for l, p in zip([n, n + 4], planes(2, n)))
          for n in range(1, 6)}
binary["batches.meta.txt"] = "".join(f"class{n}\n" for n in range(10)).encode()
tar_of("cifar-10-binary.tar.gz", "cifar-10-batches-bin", binary)

import os

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow as tf

for name, kind in (("plain.tfrecord", ""), ("zipped.tfrecord", "GZIP")):
    with tf.io.TFRecordWriter(str(HERE / name), kind) as writer:
        for number in range(3):
            feature = {
                "image/encoded": tf.train.Feature(bytes_list=tf.train.BytesList(
                    value=[(FOLDER / ["grey.png", "rgb.png", "baseline.jpg"][number]).read_bytes()])),
                "image/class/label": tf.train.Feature(int64_list=tf.train.Int64List(value=[number * 5])),
                "numbers": tf.train.Feature(float_list=tf.train.FloatList(value=[number / 2, -1.25])),
                "negative": tf.train.Feature(int64_list=tf.train.Int64List(value=[-7, 1 << 40])),
            }
            writer.write(tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString())
