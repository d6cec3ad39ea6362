"""Training from Python: the same run directory as the command, events, Ctrl-C, settings that are refused."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import numpy as np
import octant

SMALL = {"device": "cpu", "threads": 1, "data.train": 160, "data.test": 64, "batch_size": 16, "workers": 1}
# What holds times, and the checksums of what knows how long such files are.
TIMES = {"timing.csv", "log.txt", "checksums.txt"}


def small(out, **settings):
    return octant.train("glyphs", out=out, progress=False, **{**SMALL, **settings})


def contents(run):
    files = {}
    for path in sorted(Path(run).rglob("*")):
        name = path.relative_to(run).as_posix()
        if path.is_file() and path.name not in TIMES and not path.name.startswith("events."):
            lines = path.read_bytes().split(b"\n")
            files[name] = [line for line in lines if path.name != "progress.toml" or not line.startswith(b"lengths")]
    return files


class Runs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.at = Path(cls.folder.name)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_a_run_is_trained_shown_and_loaded(self):
        seen = []
        run = small(self.at / "seen", epochs=2, on_event=seen.append)
        kinds = [event["event"] for event in seen]
        self.assertEqual((kinds.count("epoch"), kinds.count("step"), kinds[-1]), (2, 20, "done"))
        self.assertEqual(run.ending, "done")
        metrics = run.metrics
        self.assertEqual(np.asarray(metrics["epoch"]).tolist(), [1.0, 2.0])
        self.assertLess(np.asarray(metrics["loss"])[1], np.asarray(metrics["loss"])[0])
        self.assertTrue(run.plot().png().startswith(b"\x89PNG"))
        self.assertEqual(np.asarray(run.plot("val_accuracy")).shape[2], 3)
        self.assertIn("<svg", run._repr_html_())
        with self.assertRaisesRegex(octant.OctantError, "no metric f1x"):
            run.plot("f1x")
        self.assertEqual(run.config["batch_size"], 16)
        self.assertTrue(run.weights.is_file())
        model = run.load(device="cpu")
        self.assertIn(model(np.zeros((28, 28), np.uint8)).class_name, model.names)
        again = octant.Run(run.path)
        self.assertEqual((again.ending, sorted(again.metrics)), (None, sorted(metrics)))
        with self.assertRaisesRegex(octant.OctantError, "is for training and changes nothing in an evaluation"):
            octant.evaluate(run.path, device="cpu", lr=0.5)
        evaluated = octant.evaluate(run.path, device="cpu")
        best = run.outcome["best"]
        self.assertAlmostEqual(evaluated["accuracy"], best["metrics"]["val_accuracy"], places=9)
        with self.assertRaisesRegex(octant.OctantError, "config.toml"):
            octant.Run(self.at)

    def test_a_stopped_run_resumes_with_the_same_bits(self):
        whole = small(self.at / "whole" / "run", epochs=2)
        training = octant.start("glyphs", out=self.at / "part" / "run", epochs=2, **SMALL)
        for event in training:
            if event["event"] == "step" and event["step"] == 3:
                training.stop()
        self.assertEqual(training.result["event"], "interrupted")
        self.assertLess(training.result["steps"], 20)
        resumed = small(self.at / "part" / "run", epochs=2)
        self.assertEqual(resumed.ending, "done")
        expected, found = contents(whole.path), contents(resumed.path)
        weights = "checkpoints/last/model.safetensors"
        self.assertEqual(found[weights], expected[weights])
        self.assertEqual(found["metrics.csv"], expected["metrics.csv"])
        finished = small(self.at / "part" / "run", epochs=2)
        self.assertTrue(finished.outcome["was_finished"])

    def test_the_command_leaves_the_same_directory(self):
        ours = small(self.at / "module" / "run", epochs=1)
        settings = [word for key, value in SMALL.items() if "." in key for word in ("--set", f"{key}={value}")]
        words = ["--batch-size", "16", "--set", "workers=1", "--device", "cpu", "--threads", "1", "--epochs", "1", *settings]
        command = [sys.executable, "-m", "octant", "train", "glyphs", "--out", str(self.at / "command" / "run"), *words]
        printed = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(printed.returncode, 0, printed.stderr)
        expected, found = contents(self.at / "command" / "run"), contents(ours.path)
        self.assertEqual(sorted(found), sorted(expected))
        for name in expected:
            self.assertEqual(found[name], expected[name], name)

    def test_commands_return_rows(self):
        with self.assertRaisesRegex(octant.OctantError, "resnet50"):
            octant.plan("resnet5o", on=["v3-8"])
        [row] = octant.plan("glyphs", on="h200", batch_size=32)
        self.assertEqual((row["batch_size"], row["fits"]), (32, True))
        for flags, sentence in [
            ({"batchsize": 32}, "batch"),
            ({"nonsense": False}, "`nonsense` is False; leave it out"),
            ({"batch_size": None}, "`batch_size` is None; leave it out"),
        ]:
            with self.subTest(flags), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                octant.plan("glyphs", on="h200", **flags)
        code = subprocess.run([sys.executable, "-m", "octant", "trian"], capture_output=True, text=True)
        self.assertIn("train", code.stderr)
        self.assertNotEqual(code.returncode, 0)

    def test_dropping_a_training_stops_it(self):
        training = octant.start("glyphs", out=self.at / "dropped", epochs=500, **SMALL)
        for event in training:
            if event["event"] == "step":
                break
        del training
        deadline = time.monotonic() + 30
        while not (self.at / "dropped" / "checkpoints" / "last").is_dir():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_python_runs_while_it_trains(self):
        turns = 0
        done = threading.Event()

        def count():
            nonlocal turns
            while not done.is_set():
                turns += 1
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        small(self.at / "free", epochs=2)
        done.set()
        thread.join()
        self.assertGreater(turns, 10)

    def test_settings_are_refused_with_the_nearest_right_one(self):
        for settings, sentence in [
            ({"epohcs": 3}, "did you mean `epochs`"),
            ({"batchsize": 3}, "did you mean `batch_size`"),
            ({"nonsense_at_all": 3}, "there is no setting"),
            ({"lr": None}, "leave it out"),
            ({"epochs": "many"}, "whole number"),
            ({"epochs": -1}, "whole number"),
            ({"data.trian": 3}, 'did you mean "train"'),
            ({"batch_size": 0}, "batch_size"),
            ({"model": "resnet5o"}, "resnet50"),
            ({"burn_epochs": 3}, "burn_epochs"),
            ({"phases.7.epochs": 3}, "counted from 0"),
        ]:
            with self.subTest(settings), self.assertRaisesRegex(octant.OctantError, re.escape(sentence)):
                small(self.at / "refused", **settings)
        with self.assertRaises(TypeError):
            small(self.at / "refused", lr=object())
        with self.assertRaisesRegex(octant.OctantError, "did you mean glyphs"):
            octant.train("glyhps", progress=False)
        with self.assertRaisesRegex(octant.OctantError, "number of seconds"):
            small(self.at / "refused", time=-1.0)
        self.assertFalse((self.at / "refused").exists())

    def test_values_of_numpy_and_paths_are_settings(self):
        run = small(Path(self.at / "typed"), epochs=np.int64(1), lr=np.float32(0.5), seed=3)
        self.assertEqual(run.config["phases"][0]["schedule"]["lr"], 0.5)
        self.assertEqual(run.config["seed"], 3)

    def test_an_exception_in_a_callback_ends_the_run(self):
        def fail(event):
            if event["event"] == "epoch-begins":
                raise LookupError("mine")

        with self.assertRaisesRegex(LookupError, "mine"):
            small(self.at / "callback", epochs=300, on_event=fail)

    def test_lines_are_printed_where_there_is_no_terminal(self):
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            octant.train("glyphs", out=self.at / "printed", epochs=1, **SMALL)
        self.assertRegex(text.getvalue(), r"epoch 1/1 .*val_accuracy")
        self.assertIn("done after 10 steps, 1 epochs", text.getvalue())
        self.assertNotIn("\r", text.getvalue())

    def test_ctrl_c_checkpoints_and_returns(self):
        script = (
            "import octant, signal\n"
            # Programs that a shell starts in the background inherit that Ctrl-C is ignored.
            "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"run = octant.train('glyphs', out={str(self.at / 'interrupted')!r}, epochs=500, progress=False,\n"
            "    on_event=lambda event: event['event'] == 'step' and print('step', flush=True), **" + repr(SMALL) + ")\n"
            "print('ending', run.ending, run.outcome['steps'])\n"
        )
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "step\n")
        begun = time.monotonic()
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
        self.assertLess(time.monotonic() - begun, 20)
        self.assertEqual(process.returncode, 0)
        self.assertIn("ending interrupted", rest)
        self.assertTrue((self.at / "interrupted/checkpoints/last/model.safetensors").is_file())


class Lists(unittest.TestCase):
    def test_recipes_and_models(self):
        self.assertIn("classify", octant.recipes())
        self.assertEqual(octant.recipe("glyphs")["data"]["kind"], "glyphs")
        [model] = [model for model in octant.models() if model["name"] == "resnet50"]
        self.assertEqual((model["task"], model["classes"]), ("classify", 1000))


if __name__ == "__main__":
    unittest.main()
