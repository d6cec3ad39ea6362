"""The loader over every form in which data sets lie on disk: one set in all of them has the same images and targets."""

import subprocess
import sys
import tempfile
import threading
import unittest
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import octant

SIDE = 64


def command(*words):
    done = subprocess.run([sys.executable, "-m", "octant", *map(str, words)], capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"octant {' '.join(map(str, words))}: {done.stdout}{done.stderr}")


def contents(source, **options):
    """Images and targets of the validation part, in an order that no form decides."""
    loader = octant.Loader(source, part="val", batch=2, image_size=SIDE, **options)
    rows = []
    for batch in loader:
        images, targets = np.asarray(batch.images), [np.asarray(target) for target in batch.targets.values()]
        for row in range(len(images)):
            own = [np.atleast_2d(target[row]).round(2).tolist() for target in targets]
            rows.append((images[row].tobytes(), *[sorted(map(tuple, target)) for target in own]))
    return sorted(rows), loader.names


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class Readers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.at = Path(cls.folder.name)
        command("data", "synth", "scenes", cls.at / "scenes", "--count", 10, "--side", SIDE)
        command("data", "synth", "shapes", cls.at / "shapes", "--count", 10, "--side", SIDE)

    def same(self, forms, expected):
        rows, names = expected
        self.assertEqual(len(rows), 2)
        for form, (found, found_names) in forms.items():
            with self.subTest(form):
                self.assertEqual(sorted(found_names), sorted(names))
                self.assertEqual([row[0] for row in found], [row[0] for row in rows])
                if found_names == names:
                    self.assertEqual(found, rows)

    def test_boxes_in_every_form(self):
        expected, forms = contents(self.at / "scenes"), {}
        for form in ["coco", "voc", "yolo"]:
            command("data", "convert", self.at / "scenes", self.at / form, "--to", form)
            forms[form] = contents(self.at / form)
        [annotations] = (self.at / "coco" / "annotations").glob("*val*.json")
        self.assertIn("instances", annotations.name)
        [yaml] = (self.at / "yolo").glob("*.yaml")
        forms["a yaml"] = contents(yaml)
        for form in ["packed", "webdataset", "tfrecord"]:
            command("data", "pack", self.at / "scenes", self.at / f"boxes-{form}", "--form", form)
            forms[form] = contents(self.at / f"boxes-{form}", recipe="detect")
        self.same(forms, expected)

    def test_classes_in_every_form(self):
        folders = [path for path in (self.at / "shapes").iterdir() if path.is_dir()]
        source = self.at / "shapes" if (self.at / "shapes" / "train").is_dir() else folders[0]
        options = dict(transform="none")
        expected, forms = contents(source, **options), {}
        for form in ["packed", "webdataset", "tfrecord"]:
            command("data", "pack", source, self.at / f"classes-{form}", "--form", form)
            forms[form] = contents(self.at / f"classes-{form}", **options)
        server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(self.at / "classes-webdataset")))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        forms["an address"] = contents(f"http://127.0.0.1:{server.server_port}/", **options)
        self.same(forms, expected)


if __name__ == "__main__":
    unittest.main()
