"""The engine and the loader have as many threads as `threads` and `workers` say. A file of its own: processes are started."""

import os
import subprocess
import sys
import tempfile
import unittest

SMALL = '"data.train": 640, "data.test": 64, "batch_size": 16, "workers": 1, "model": "fashion-cnn-tiny"'
PROGRAM = f"""
import os, threading, numpy, octant
SMALL = {{{SMALL}}}
most, over = [0], threading.Event()
def watch():
    while not over.wait(0.002):
        most[0] = max(most[0], len(os.listdir("/proc/self/task")))
watcher = threading.Thread(target=watch)
watcher.start()
COUNT = int(os.environ["COUNT"])
CODE
over.set()
watcher.join()
print(most[0])
"""
# A run to evaluate is trained with as many threads whatever the count is.
CODES = {
    "train": 'octant.train("glyphs", out="run", device="cpu", threads=COUNT, epochs=1, progress=False, **SMALL)',
    "start": 'list(octant.start("glyphs", out="run", device="cpu", threads=COUNT, epochs=1, **SMALL))',
    "load": 'octant.load("resnet-tiny", weights="random", device="cpu", threads=COUNT)(numpy.zeros((40, 50, 3), "uint8"))',
    "evaluate": (
        'octant.train("glyphs", out="run", device="cpu", threads=1, epochs=1, progress=False, **SMALL); '
        'most[0] = 0; octant.evaluate("run", device="cpu", threads=COUNT)'
    ),
    "Loader": 'list(octant.Loader("glyphs", batch=16, workers=COUNT, transform="none", **{"data.train": 320}))',
}


def most(code, count):
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "COUNT": str(count)}
        command = [sys.executable, "-c", PROGRAM.replace("CODE", code)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return int(done.stdout.splitlines()[-1])


class Threads(unittest.TestCase):
    @unittest.skipUnless(os.path.isdir("/proc/self/task"), "threads are counted in /proc")
    def test_threads_are_as_many_as_wanted(self):
        for name, code in CODES.items():
            with self.subTest(name):
                few, many = most(code, 1), most(code, 6)
                self.assertGreaterEqual(many, few + 4)


if __name__ == "__main__":
    unittest.main()
