"""Tests how scripts/verify_layers.py judges whole numbers."""

import sys
import unittest
from pathlib import Path

try:
    import numpy as np
    from onnx import helper
except ImportError:
    print("skipped: needs python3-numpy and python3-onnx")
    sys.exit(0)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import verify_layers  # noqa: E402


def quantize(x, scale, zero):
    node = helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["y"])
    values = {"x": x, "scale": np.float64(scale).reshape(()), "zero": zero}
    values["y"] = verify_layers.reference.quantize({}, 13, x, values["scale"], zero)
    return node, values


class WholeNumbers(unittest.TestCase):
    def ratio(self, x, change, zero=7):
        node, values = quantize(np.array(x, np.float64), 0.5, np.uint8(zero))
        actual = (values["y"].astype(int) + change).astype(np.uint8)
        return verify_layers.rounding_ratio(actual, node, values)

    def test_the_nearest_numbers_are_right(self):
        self.assertLessEqual(self.ratio([0.1, 3.3, -2.9, 40.2], 0), 1)
        self.assertLessEqual(self.ratio([1e9, -1e9], 0), 1)  # the ends of the type

    def test_a_step_beside_the_middle_is_right(self):
        self.assertLessEqual(self.ratio([20.25], 1), 1)  # 40.5 units, rounded to 40
        self.assertLessEqual(self.ratio([20.2501], -1), 1)

    def test_other_steps_are_wrong(self):
        for change in (-1, 1, 100):
            self.assertGreater(self.ratio([20.1], change), 1)
        self.assertGreater(self.ratio([1e9], -1), 1)
        self.assertGreater(self.ratio([-1e9], 1), 1)

    def test_zero_points_count(self):
        node, values = quantize(np.array([3.0]), 0.5, np.uint8(7))
        self.assertGreater(verify_layers.rounding_ratio(values["y"] - np.uint8(7), node, values), 1)

    def test_dynamic_results_fit_each_other(self):
        x = np.linspace(-1.3, 2.7, 50)
        node = helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero"])
        y, scale, zero = verify_layers.reference.dynamic_quantize({}, 13, x)
        values = {"x": x, "y": y, "scale": scale, "zero": zero}
        self.assertLessEqual(verify_layers.dynamic_ratio(y, scale, zero, node, values), 1)
        moved = y.copy()
        moved[20] += 1
        self.assertGreater(verify_layers.dynamic_ratio(moved, scale, zero, node, values), 1)
        self.assertGreater(verify_layers.dynamic_ratio(y, scale * 1.01, zero, node, values), 1)
        self.assertGreater(verify_layers.dynamic_ratio(y, scale, zero + np.uint8(2), node, values), 1)


if __name__ == "__main__":
    unittest.main()
