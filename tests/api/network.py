"""What the Python tests of the library share: the compiled example network, and its data."""

import array
import os

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ["AUTOTUNE_TEST_BUILD"]
FOLDER = os.environ["AUTOTUNE_TEST_NETWORK"]
LIBRARY = os.environ["AUTOTUNE_RUNTIME_LIBRARY"]
TAR, SO = (os.path.join(FOLDER, "net." + form) for form in ("tar", "so"))
DATA = os.path.join(SOURCE, "examples", "resnet20", "test_data_set_0")


def floats(name, count):
    """The floats at the end of a file: the raw data are the last field of a tensor in ONNX's format."""
    with open(os.path.join(DATA, name), "rb") as file:
        return array.array("f", file.read()[-4 * count :])


IMAGE, EXPECTED = floats("input_0.pb", 3 * 32 * 32), floats("output_0.pb", 10)


def image():
    """The input, as a memoryview of its shape."""
    return memoryview(IMAGE).cast("B").cast("f", [1, 3, 32, 32])


def is_expected(numbers):
    """Whether the numbers of the output are right, but for roundings."""
    numbers = list(numbers)
    return len(numbers) == 10 and all(abs(a - b) < 1e-5 for a, b in zip(numbers, EXPECTED))
