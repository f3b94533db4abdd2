"""Tests of examples/compare.py. The numbers are those of compare_test.cc, which tests the same rule in C++."""

import sys
import unittest
from pathlib import Path

try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(0)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from compare import ATOL, MAGNITUDE_OF_ZEROS, RTOL, error_ratio, small_magnitude  # noqa: E402

INF, NAN = float("inf"), float("nan")


def f32(*values):
    return np.array(values, np.float32)


class Compare(unittest.TestCase):
    def test_small_magnitude(self):
        for values, small in [((3, -2, 1, 4), 2), ((1e9, 0.5), 0.5), ((1e9, 0.5, 0.25, INF, NAN, 0, 0, 0), 0.25), ((-7,), 7)]:
            self.assertEqual(small_magnitude(f32(*values)), small)
        for values in [(), (0, 0), (INF, NAN, 0)]:
            self.assertEqual(small_magnitude(f32(*values)), MAGNITUDE_OF_ZEROS)

    def test_tolerances(self):
        expected = f32(0, 2, -4, 100, 100, 100)
        for value, right in [(0.039, True), (0.041, False)]:
            actual = f32(value, 2, -4, 100, 100, 100)
            self.assertEqual(error_ratio(actual, expected, rtol=2, atol=0.01) <= 1, right)
        self.assertAlmostEqual(error_ratio(f32(1, 5, 3, 9), f32(1, 2, 3, 4)), 5 / (1e-3 * 4 + 1e-3 * 2))

    def test_large_values_hide_no_error(self):
        expected = np.random.default_rng(5).standard_normal(1000).astype(np.float32)
        for large in (1, 1e9, -1e30, INF):
            for count in (1, 100, 700, 950):
                expected[:count] = large
                floor = ATOL * small_magnitude(expected)
                self.assertLess(floor, 1e-2)
                for at in (950, 999):
                    for factor in (0.9, 10):
                        actual = expected.copy()
                        actual[at] += np.float32(factor * (RTOL * abs(expected[at]) + floor))
                        self.assertAlmostEqual(error_ratio(actual, expected), factor, delta=0.01)

    def test_nans_infinities_and_integers(self):
        self.assertEqual(error_ratio(f32(NAN, INF, -INF, 1), f32(NAN, INF, -INF, 1)), 0)
        for a, b in [(NAN, 1), (1, NAN), (INF, 1), (1, INF), (INF, -INF), (NAN, INF)]:
            self.assertEqual(error_ratio(f32(1, 1.5, a), f32(1, 1, b)), INF)
        self.assertEqual(error_ratio(np.array([1, 2]), np.array([1, 3])), INF)
        self.assertEqual(error_ratio(f32(1, 2), f32(1)), INF)
        self.assertEqual(error_ratio(f32(1, 2), np.array([1, 2])), INF)
        self.assertEqual(error_ratio(np.array([1], np.int32), np.array([1], np.int64)), INF)
        self.assertEqual(error_ratio(f32(1, 2), np.array([1, 2], np.float64)), 0)


if __name__ == "__main__":
    unittest.main()
