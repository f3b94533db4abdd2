"""Runs ResNet-20, sys.argv[1], on the image of its test data, and compares the outputs with the expected ones."""

import array
import os
import sys

import autotune


def floats(name, count):
    """The floats at the end of a file: the raw data are the last field of a tensor in ONNX's format."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "resnet20", "test_data_set_0", name)
    with open(path, "rb") as file:
        return array.array("f", file.read()[-4 * count :])


image = memoryview(floats("input_0.pb", 3 * 32 * 32)).cast("B").cast("f", [1, 3, 32, 32])
session = autotune.InferenceSession(sys.argv[1], threads=2)
outputs = session.run(None, {session.get_inputs()[0].name: image})
numbers = outputs[0].tolist()[0]
assert len(numbers) == 10
for number, expected in zip(numbers, floats("output_0.pb", 10)):
    assert abs(number - expected) < 1e-4, (numbers, expected)
print("right:", " ".join("%.4f" % number for number in numbers))
