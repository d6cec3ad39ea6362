"""Examples in docstrings run; the stub and the module have the same names; importing is light."""

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import octant
from octant import _native

MODULES = ["octant", "octant._command", "octant._data", "octant._native", "octant._train", "octant.imaging", "octant.metrics"]


class Documentation(unittest.TestCase):
    def test_examples_run(self):
        tried = 0
        with tempfile.TemporaryDirectory() as folder:
            for name in MODULES:
                module = importlib.import_module(name)
                found = doctest.testmod(module, extraglobs={"octant": octant, "folder": Path(folder)}, verbose=False)
                self.assertEqual(found.failed, 0, name)
                tried += found.attempted
        self.assertGreater(tried, 20)

    def test_the_stub_has_what_the_module_has(self):
        stub = ast.parse(Path(octant.__file__).with_name("_native.pyi").read_text(encoding="utf-8"))
        functions = {node.name for node in stub.body if isinstance(node, ast.FunctionDef)}
        classes = {node.name: node for node in stub.body if isinstance(node, ast.ClassDef)}
        public = {name for name in vars(_native) if not name.startswith("_")}
        self.assertEqual(public, functions | set(classes))
        own = ["__len__", "__getitem__", "__iter__", "__next__", "__call__", "__dlpack__", "__dlpack_device__"]
        for name, node in classes.items():
            members = {child.name for child in node.body if isinstance(child, ast.FunctionDef)}
            actual = vars(getattr(_native, name))
            self.assertEqual(
                {member for member in actual if not member.startswith("_") or member in own},
                {member for member in members if not member.startswith("_") or member in own} - missing(name),
                name,
            )
        for node in [node for node in stub.body if isinstance(node, ast.FunctionDef)]:
            names = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
            self.assertEqual(names, list(inspect.signature(getattr(_native, node.name)).parameters), node.name)

    def test_types_are_strict(self):
        # In a folder of its own: the package's folder has other packages beside it.
        program = "import octant\nrun: octant.Run = octant.train()\nname: str = octant.load(run.path)('x.jpg').class_name\n"
        package = Path(octant.__file__).parent
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "program.py").write_text(program)
            command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(Path(folder, "cache")), str(package), "program.py"]
            checked = subprocess.run(command, capture_output=True, text=True, cwd=folder)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_everything_public_is_documented(self):
        for name in octant.__all__:
            value = getattr(octant, name)
            if name != "__version__":
                self.assertTrue(value.__doc__, name)
            if inspect.isclass(value) and not issubclass(value, Exception):
                for member, content in vars(value).items():
                    if not member.startswith("_"):
                        self.assertTrue(inspect.getdoc(content), f"{name}.{member}")

    def test_free_threaded_interpreters_take_no_package(self):
        # The guide states it: the package's interface is none of theirs.
        try:
            from packaging import tags
        except ImportError:
            self.skipTest("packaging knows which files pip takes")
        ours = tags.Tag("cp39", "abi3", "manylinux_2_17_x86_64")
        usual, free = (list(tags.cpython_tags((3, 14), [abi], [ours.platform])) for abi in ("cp314", "cp314t"))
        self.assertIn(ours, usual)
        self.assertNotIn(ours, free)

    def test_importing_brings_no_other_package(self):
        text = "import sys, octant; print([name for name in ['numpy', 'torch', 'PIL', 'IPython'] if name in sys.modules])"
        printed = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
        self.assertEqual(printed.strip(), "[]")


def missing(name):
    # Unpacking works by `__getitem__`, which type checkers do not know.
    return {"__iter__"} if name == "Batch" else set()


if __name__ == "__main__":
    unittest.main()
