"""The scripts that compare outputs find an error of ten times the allowance beside a value of 1e9, and accept one of half
the allowance. ONNX Runtime and autotune are replaced by programs that copy files."""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper
except ImportError:
    print("skipped: needs python3-numpy and python3-onnx")
    sys.exit(0)

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("examples", "scripts", "bench")]
from compare import ATOL, RTOL, small_magnitude  # noqa: E402

PLACE = 1990  # index of the planted error
SHAPE = (2000,)

# Serves one model like bench/peer/ort_bench.js: writes the output from $THEIRS.
PEER = """#!{python}
import json, os, pathlib, shutil, sys
print(json.dumps({{"inputs": ["x0"], "outputs": ["y"]}}), flush=True)
for line in sys.stdin:
    folder = pathlib.Path(line.split()[1])
    folder.mkdir()
    shutil.copy(os.environ["THEIRS"], folder / "output_0.npy")
    print(json.dumps({{"outputs": ["y"]}}), flush=True)
"""
# Runs a package like `autotune run`: writes the output from $OURS, unless it is empty.
AUTOTUNE = """#!{python}
import os, pathlib, shutil, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--output-dir") + 1])
folder.mkdir(exist_ok=True)
if os.environ["OURS"]:
    shutil.copy(os.environ["OURS"], folder / "y.npy")
"""


def numbers(large):
    """Returns outputs of which the first `large` ones are 1e9."""
    values = np.random.default_rng(large).standard_normal(SHAPE).astype(np.float32)
    values[:large] = 1e9
    return values


def planted(expected, factor):
    actual = expected.copy()
    actual[PLACE] += factor * (RTOL * abs(expected[PLACE]) + ATOL * small_magnitude(expected))
    return actual


class PlantedErrors(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = Path(self.temporary.name)
        for name, text in (("node", PEER), ("autotune", AUTOTUNE)):
            (self.folder / name).write_text(text.format(python=sys.executable))
            (self.folder / name).chmod(0o755)
        self.model = self.folder / "model.onnx"
        x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y"))
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "same", [x], [y])
        onnx.save(helper.make_model(graph), self.model)
        changed = {"PATH": f"{self.folder}:{os.environ['PATH']}", "THEIRS": str(self.folder / "theirs.npy"),
                   "OURS": str(self.folder / "ours.npy")}
        before = {name: os.environ.get(name) for name in changed}
        self.addCleanup(lambda: [os.environ.pop(n) if v is None else os.environ.update({n: v}) for n, v in before.items()])
        os.environ.update(changed)

    def check(self, accepts):
        """`accepts` returns whether the outputs in the files $OURS and $THEIRS agree."""
        for large in (1, 1800):
            theirs = numbers(large)
            np.save(self.folder / "theirs.npy", theirs)
            for factor, right in ((0.5, True), (10, False), (-10, False)):
                np.save(self.folder / "ours.npy", planted(theirs, factor))
                self.assertEqual(accepts(theirs), right, f"{large} large values, {factor} allowances")

    def test_compare_ort(self):
        data = self.folder / "data"
        data.mkdir()
        np.save(data / "input_0.npy", numbers(1))

        def accepts(_):
            command = [sys.executable, ROOT / "bench" / "compare_ort.py", self.model, "m.tar", "--check", data,
                       "--autotune", self.folder / "autotune"]
            result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
            self.assertEqual("WRONG" in result.stdout, result.returncode == 1, result.stdout)
            self.assertIn("of the allowed one", result.stdout)
            return result.returncode == 0
        self.check(accepts)

    def test_beside_ort(self):
        import beside_ort

        case = beside_ort.Case.__new__(beside_ort.Case)  # without a package that the real compiler would make
        case.model, case.package, case.shapes, case.text = self.model, "m.tar", [SHAPE], "same"
        self.check(lambda _: case.is_right(argparse.Namespace(autotune=self.folder / "autotune")))

    def test_conv_layers(self):
        import conv_layers

        arguments, layer = argparse.Namespace(autotune=self.folder / "autotune"), argparse.Namespace(data=SHAPE)
        original = conv_layers.random_input
        self.addCleanup(setattr, conv_layers, "random_input", original)

        def accepts(theirs):
            conv_layers.random_input = lambda _: theirs  # the model returns its input
            return conv_layers.error_of(arguments, layer, self.model, "m.tar") <= 1
        self.check(accepts)
        os.environ["OURS"] = ""  # a run that writes no output is no success
        with self.assertRaises(OSError):
            accepts(numbers(1))

    def test_wild_networks(self):
        import random_wild

        judged = 0
        for seed in range(8):
            case = random_wild.Wild(random.Random(seed))
            for name in (layer[-1] for layer in case.layers):
                for factor, accepted in ((0, True), (0.5, True), (10, False)):
                    outputs, beside = self.outputs_of(case, name, factor)
                    if outputs is None:
                        break
                    self.assertEqual(random_wild.judge(case, outputs)[0] <= 1, accepted, f"seed {seed}, {name}, {factor}")
                    judged += beside > 1e6
        self.assertGreater(judged, 6)

    def outputs_of(self, case, spoilt, factor):
        """Returns the outputs of a network, of which one element of one layer is wrong, and the largest output of that
        layer. Returns None if no element of the layer is of usual size."""
        import random_wild

        values, outputs, beside = {**dict(case.inputs), **dict(case.initializers)}, {}, 0
        for layer in case.layers:
            with np.errstate(all="ignore"):
                y, allowed, skipped = random_wild.expected_of(layer, values)
                result = y.astype(np.float32)
            if layer[-1] == spoilt:
                places = np.flatnonzero(np.isfinite(result) & ~skipped & (abs(y) < 10) & (allowed > 1e-6) & (allowed < 1))
                if len(places) == 0:
                    return None, 0
                result.flat[places[0]] += factor * allowed.flat[places[0]]
                beside = abs(result[np.isfinite(result)]).max()
            values[layer[-1]] = outputs[layer[-1]] = result
        return outputs, beside


if __name__ == "__main__":
    unittest.main()
