"""No keyword is accepted and ignored: each changes a result, or is refused, or the package says why it has no effect.

`keyword_rows.py` has a row for every parameter of every public function and method, found with `inspect`: a new one without a
row fails. Keys of recipes, which `**settings` takes, are tried in crates/run/tests/every_key.rs, and flags of `plan` and `bench` in
crates/cli/tests/every_argument.txt.
"""

import inspect
import logging
import os
import tempfile
import unittest
from pathlib import Path

import octant
from octant import _native

import keyword_rows
from keyword_rows import OPEN, Allows, Differs, Elsewhere, Reads, Warns

# What other libraries call, with keywords that people may write as well.
SPECIAL = ["__dlpack__"]


def parameters():
    """The function or method of every parameter, by the names that people write."""
    found = {}

    def add(name, function):
        names = list(inspect.signature(function).parameters)
        found[name] = [parameter for parameter in names if parameter != "self"]

    for prefix, module in [("", octant), ("imaging.", octant.imaging), ("metrics.", octant.metrics)]:
        for name in module.__all__:
            value = getattr(module, name)
            if inspect.isclass(value):
                methods(f"{prefix}{name}", value, add)
            elif callable(value):
                add(prefix + name, value)
    # `octant.Loader` is the function that opens one.
    methods("a loader", _native.Loader, add)
    return {name: names for name, names in found.items() if names}


def methods(name, kind, add):
    if issubclass(kind, BaseException):
        return
    for member, value in vars(kind).items():
        if callable(value) and (not member.startswith("_") or member in SPECIAL):
            add(f"{name}.{member}", value)
    # Those of the compiled classes cannot be made by people, and figures are made by `coco` alone.
    if "__init__" in vars(kind) and name != "metrics.CocoFigures":
        add(name, kind)


class Logged(logging.Handler):
    def __init__(self):
        super().__init__()
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


def called(call, given):
    """What a call returns, or raises, and what it logs."""
    handler, logger = Logged(), logging.getLogger("octant")
    logger.addHandler(handler)
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            value, error = call(**given), None
        except Exception as raised:
            value, error = None, f"{type(raised).__name__}: {raised}"
        finally:
            os.chdir(before)
            logger.removeHandler(handler)
    return value, error, "\n".join(handler.lines)


class Keywords(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.table = keyword_rows.table(Path(cls.folder.name))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_keyword_has_a_row_and_every_row_a_keyword(self):
        known = {(name, parameter) for name, names in parameters().items() for parameter in names}
        self.assertGreater(len(known), 100)
        rows = {(name, parameter) for name, (_, _, rows) in self.table.items() for parameter in rows}
        self.assertEqual((sorted(known - rows), sorted(rows - known)), ([], []), "without a row, and without a keyword")

    def test_no_keyword_is_accepted_and_ignored(self):
        # OCTANT_TEST_ROWS names the functions whose rows are tried, for who writes some.
        wanted = os.environ.get("OCTANT_TEST_ROWS", "")
        for name, (call, base, rows) in self.table.items():
            if not name.startswith(wanted):
                continue
            plain = called(call, base)
            if any(isinstance(row, Differs) and not row.given for row in rows.values()):
                self.assertEqual(called(call, base)[:2], plain[:2], f"{name} is not the same twice")
            for parameter, row in rows.items():
                with self.subTest(f"{name} {parameter}"):
                    self.check(call, base, plain, parameter, row)

    def check(self, call, base, plain, parameter, row):
        if isinstance(row, Elsewhere):
            self.assertIn(f"def {row.test}(", Path(__file__).with_name(row.file).read_text(encoding="utf-8"))
            return
        without = called(call, {**base, **row.given}) if row.given else plain
        more = row.value if parameter in OPEN else {parameter: row.value}
        value, error, logged = called(call, {**base, **row.given, **more})
        if isinstance(row, Reads):
            self.assertIn(row.sentence, error or "it is not refused")
            self.assertIsNone(without[1])
            return
        self.assertIsNone(error)
        if isinstance(row, Allows):
            self.assertIn(row.sentence, without[1] or "it is not refused without")
            return
        self.assertIsNone(without[1])
        if isinstance(row, Warns):
            self.assertIn(row.sentence, logged)
            self.assertNotIn(row.sentence, without[2])
        else:
            self.assertNotEqual(value, without[0], "has no effect")


if __name__ == "__main__":
    unittest.main()
