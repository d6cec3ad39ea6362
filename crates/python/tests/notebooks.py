"""Notebooks of docs/notebooks run from top to bottom, and a real kernel is interrupted in the middle of a run."""

import os
import queue
import sys
import tempfile
import time
import unittest
from pathlib import Path

import nbformat
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

NOTEBOOKS = Path(os.environ["OCTANT_NOTEBOOKS"])
# A minute of training becomes a second.
SMALL = {
    "first-run": 'epochs, images, out, device = 1, 640, "runs/first", "cpu"',
    "pytorch-loop": 'source, size, epochs, count = "glyphs", 28, 1, 640',
    "from-ultralytics": 'model, size, epochs, images, data, out = "yolo11-tiny", 96, 1, 20, "scenes", "runs/scenes"',
}


def outputs(notebook):
    """What its cells printed and displayed, as text."""
    texts = []
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            texts += [output.get("text", "")] + [str(content) for content in output.get("data", {}).values()]
    return "\n".join(texts)


class Notebooks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        # The command, as an installed package has it.
        script = Path(cls.folder.name, "bin", "octant")
        script.parent.mkdir()
        script.write_text(f"#!{sys.executable}\nimport octant\noctant.main()\n")
        script.chmod(0o755)
        os.environ["PATH"] = f"{script.parent}{os.pathsep}{os.environ['PATH']}"
        os.environ["IPYTHONDIR"] = cls.folder.name

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def executed(self, name):
        notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
        tags = [cell.metadata.get("tags", []) for cell in notebook.cells]
        notebook.cells = [cell for cell, tags in zip(notebook.cells, tags) if "install" not in tags]
        [parameters] = [cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])]
        parameters.source = SMALL[name]
        with tempfile.TemporaryDirectory() as folder:
            NotebookClient(notebook, timeout=300, resources={"metadata": {"path": folder}}).execute()
        text = outputs(notebook)
        for failure in ["octant: ", "error: ", "command not found"]:
            self.assertNotIn(failure, text)
        return text

    def test_all_notebooks_are_here(self):
        self.assertEqual({path.stem for path in NOTEBOOKS.glob("*.ipynb")}, set(SMALL))
        for path in NOTEBOOKS.glob("*.ipynb"):
            notebook = nbformat.read(path, as_version=4)
            nbformat.validate(notebook)
            self.assertEqual(outputs(notebook), "", "outputs are not kept in the repository")

    def test_the_first_run(self):
        text = self.executed("first-run")
        self.assertIn("<svg", text)
        self.assertIn("network.onnx", text)

    def test_the_loader_in_a_loop_of_pytorch(self):
        try:
            import torch  # noqa: F401
        except ImportError:
            self.skipTest("PyTorch is not installed")
        self.assertIn("epoch 1: loss", self.executed("pytorch-loop"))

    def test_from_ultralytics(self):
        text = self.executed("from-ultralytics")
        self.assertIn("octant train detect", text)
        self.assertIn("val_mAP50-95", text)


class Kernel:
    """A Jupyter kernel in a folder."""

    def __init__(self, folder):
        self.manager = KernelManager()
        self.manager.start_kernel(cwd=folder)
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def close(self):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)

    def execute(self, code, on_text=lambda text: None):
        """Executes a cell, and returns what it printed and whether it ended well."""
        texts = []
        request = self.client.execute(code)
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=120)
            except queue.Empty as error:
                raise AssertionError(f"the kernel is silent after {texts}") from error
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] == "stream":
                texts.append(content["text"])
                on_text(content["text"])
            elif message["msg_type"] == "error":
                texts.append("\n".join(content["traceback"]))
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                return "".join(texts)


class Interrupt(unittest.TestCase):
    def test_a_cell_that_is_interrupted_returns_within_a_step_and_resumes(self):
        cell = (
            "run = octant.train('glyphs', out='run', device='cpu', epochs={epochs}, threads=1, batch_size=16, workers=1,\n"
            "    on_event=lambda event: event['event'] == 'step' and print('step', event['step'], flush=True),\n"
            "    **{{'data.train': 160, 'data.test': 32}})\n"
            "print(run.ending, run.outcome['steps'])"
        )
        with tempfile.TemporaryDirectory() as folder:
            kernel = Kernel(folder)
            try:
                self.assertEqual(kernel.execute("import octant"), "")
                interrupted = []

                def interrupt(text):
                    if "step 3" in text and not interrupted:
                        interrupted.append(time.monotonic())
                        kernel.manager.interrupt_kernel()

                printed = kernel.execute(cell.format(epochs=400), interrupt)
                took = time.monotonic() - interrupted[0]
                ending, steps = printed.split()[-2:]
                self.assertEqual(ending, "interrupted", printed)
                self.assertLess(int(steps), 4000)
                self.assertLess(took, 10)
                # The kernel lives, and the same cell continues behind the last step.
                printed = kernel.execute(cell.format(epochs=int(steps) // 10 + 2))
                self.assertEqual(printed.split()[-2], "done", printed)
                first = next(int(line.split()[1]) for line in printed.splitlines() if line.startswith("step"))
                self.assertEqual(first, int(steps) + 1)
            finally:
                kernel.close()


if __name__ == "__main__":
    unittest.main()
