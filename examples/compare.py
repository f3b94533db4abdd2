"""The one rule by which tensors are compared with expected values: that of runtime/compare.h, in Python.

    examples/compare.py ACTUAL.npy EXPECTED.npy [ACTUAL.npy EXPECTED.npy ...]

Prints the largest error of each pair of files; the exit code is 1 if one is not allowed.
"""

import sys

import numpy as np

RTOL, ATOL = 1e-3, 1e-3
MAGNITUDE_OF_ZEROS, LEAST_RANK = 1e-4, 4
# Denormal numbers may become 0. The least normal number is a thousandth of this, or a little less.
LEAST_MAGNITUDE = {"float64": 2.0**-1012}
LEAST_MAGNITUDE_OF_OTHERS = 2.0**-116
# Two neighbouring 16-bit floats differ by this much, relative to them.
NEIGHBOURS = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def small_magnitude(expected):
    """Returns a typical size of the small values, as SmallMagnitude of runtime/compare.h does."""
    sizes = np.abs(expected.astype(np.float64)).ravel()
    sizes = sizes[(sizes > 0) & np.isfinite(sizes)]
    if len(sizes) == 0:
        return MAGNITUDE_OF_ZEROS
    ranks = {part: len(sizes) // part for part in (4, 16, 64) if part == 4 or len(sizes) // part >= LEAST_RANK}
    rising = np.partition(sizes, list(ranks.values()))
    return min(float(rising[rank]) * part / 4 for part, rank in ranks.items())


def is_float(array):
    return array.dtype.kind == "f" or array.dtype.name in NEIGHBOURS


def error_ratio(actual, expected, rtol=RTOL, atol=ATOL):
    """Returns the largest |a - b| / (rtol * |b| + atol * q) of runtime/compare.h; at most 1 passes. Infinite where a NaN or an
    infinity does not match, where integers differ, and if the shapes or types cannot be compared: both sides have
    floats, which may be wider in `expected`, or one type of integers."""
    floats = is_float(actual) and is_float(expected)
    if actual.shape != expected.shape or not (floats or actual.dtype == expected.dtype):
        return float("inf")
    same = (actual == expected) | ((actual != actual) & (expected != expected))
    if same.all():
        return 0.0
    if not floats:
        return float("inf")
    a, b = actual.astype(np.float64)[~same], expected.astype(np.float64)[~same]
    small = max(small_magnitude(expected), LEAST_MAGNITUDE.get(actual.dtype.name, LEAST_MAGNITUDE_OF_OTHERS))
    allowed = (rtol + NEIGHBOURS.get(actual.dtype.name, 0.0)) * np.abs(b) + atol * small
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.abs(a - b) / allowed
    ratio[~(np.isfinite(a) & np.isfinite(b)) | np.isnan(ratio)] = np.inf
    return float(ratio.max())


def main():
    files = sys.argv[1:]
    if not files or len(files) % 2:
        sys.exit(__doc__)
    ratios = [error_ratio(np.load(a), np.load(b)) for a, b in zip(files[::2], files[1::2])]
    for ratio in ratios:
        print(f"largest error: {ratio:.3g} of the allowed one: {'right' if ratio <= 1 else 'WRONG'}")
    sys.exit(0 if max(ratios) <= 1 else 1)


if __name__ == "__main__":
    main()
