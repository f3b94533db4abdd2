#!/usr/bin/python3
"""Checks a network of 8-bit numbers layer by layer.

    scripts/verify_layers.py FOLDER... [--target c]       FOLDER/model.onnx, FOLDER/test_data_set_0

Whole networks of 8-bit numbers cannot be compared: a sum beside the middle between two integers is rounded up or down
by the last bit of its error, and each later layer magnifies that step. So this script cuts the network at each tensor
that a quantization makes. In the cut network, these tensors are outputs, and their readers get the reference's values
(examples/reference.py) as inputs. A whole number is right if it is at most half a unit from the exact value, plus the
rounding errors that the same number would be allowed as a float. All other outputs follow the rule of
examples/compare.py.

Prints a line for each network, and one for each tensor that is wrong. The exit code is 1 if one is wrong. Needs
Debian's python3-numpy, python3-onnx.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import compare  # noqa: E402
import reference  # noqa: E402
from element_types import ONNX_TYPES  # noqa: E402

CUTS = ("QuantizeLinear", "DynamicQuantizeLinear", "QLinearConv", "QLinearMatMul")
# A tenth of what floats of whole networks are allowed: one layer rounds less than a whole network.
PART = 0.1
GIVEN = ".given"  # ends the names of inputs that replace tensors


def wide(array):
    return array.astype(np.float64)


def before_rounding(node, values):
    """Returns the exact numbers that the node rounds, in units of its result and without its zero point."""
    x, *rest = [values[name] if name else None for name in node.input]
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    along = lambda v: wide(reference._along(v, attributes, x))
    if node.op_type == "QuantizeLinear":
        return x / along(rest[0])
    if node.op_type == "DynamicQuantizeLinear":
        return x / wide(values[node.output[1]])
    if node.op_type == "QLinearConv":
        x_scale, x_zero, w, w_scale, w_zero, scale, _ = rest[:7]
        sums = wide(reference.conv_integer(attributes, 0, x, w, x_zero, w_zero))
        if len(rest) > 7:
            sums = sums + wide(reference._channels(rest[7], sums.ndim, 1))
        return sums * wide(x_scale) * wide(reference._channels(w_scale, sums.ndim, 1)) / wide(scale)
    rows = lambda v: wide(v.reshape(-1, 1) if v.ndim == 1 and v.size > 1 else v)
    a_scale, a_zero, b, b_scale, b_zero, scale, _ = rest
    return ((wide(x) - rows(a_zero)) @ (wide(b) - wide(b_zero))) * rows(a_scale) * wide(b_scale) / rows(scale)


def zero_point(node, values):
    if node.op_type == "DynamicQuantizeLinear":
        return values[node.output[2]]
    position = {"QuantizeLinear": 2, "QLinearConv": 7, "QLinearMatMul": 7}[node.op_type]
    if len(node.input) <= position or not node.input[position]:
        return np.uint8(0)
    zero, x = values[node.input[position]], values[node.output[0]]
    if node.op_type == "QuantizeLinear":
        return reference._along(zero, {a.name: helper.get_attribute_value(a) for a in node.attribute}, x)
    return zero.reshape(-1, 1) if zero.size > 1 else zero.reshape(())


def rounding_ratio(actual, node, values):
    """Returns the largest error of the node's whole numbers, as a share of what is allowed; at most 1 is right."""
    exact, zero = before_rounding(node, values), wide(zero_point(node, values))
    limits = np.iinfo(actual.dtype)
    rounding = PART * (compare.RTOL * np.abs(exact) + compare.ATOL * compare.small_magnitude(exact))
    # A number beyond the limits of the type becomes the limit.
    low, high = (np.clip(exact + zero + side * rounding, limits.min, limits.max) for side in (-1, 1))
    return float(np.maximum(low - actual, actual - high).max() / 0.5)


def dynamic_ratio(u8, scale, zero, node, values):
    """As rounding_ratio, for three results that fit each other. The numbers that they stand for are compared, since the
    zero point is rounded, too: at both ends of the range, this can cost another half of a unit."""
    x = values[node.input[0]]
    numbers = (wide(u8) - wide(zero)) * wide(scale)
    unit = float(values[node.output[1]])
    ends = (u8 == 0) | (u8 == 255)
    allowed = unit * (0.5 + 0.5 * ends) + PART * (compare.RTOL * np.abs(x) + compare.ATOL * compare.small_magnitude(x))
    return max(float((np.abs(numbers - x) / allowed).max()), compare.error_ratio(scale, values[node.output[1]]))


def cut(model, values):
    """Cuts the network in place. Returns it, its new inputs by name, and the nodes whose results are cut."""
    graph = model.graph
    nodes = [node for node in graph.node if node.op_type in CUTS]
    names = [name for node in nodes for name in node.output]
    declared = {v.name for v in graph.output}
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name in names:
                node.input[i] = name + GIVEN
    narrow = lambda a: a.astype(np.float32) if a.dtype == np.float64 else a
    info = lambda name, a: helper.make_tensor_value_info(name, ONNX_TYPES[a.dtype], a.shape)
    given = {name + GIVEN: narrow(np.asarray(values[name])) for name in names}
    read = {name for node in graph.node for name in node.input}
    given = {name: array for name, array in given.items() if name in read}
    graph.input.extend(info(name, array) for name, array in given.items())
    graph.output.extend(info(name, narrow(np.asarray(values[name]))) for name in names if name not in declared)
    del graph.value_info[:]
    return model, given, nodes


def call(*command):
    process = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command[:2]))}: {process.stdout.strip().splitlines()[-1]}")


def check(folder, options, scratch):
    """Returns the error of each tensor by name, as a share of what is allowed."""
    model = onnx.load(folder / "model.onnx")
    inputs = reference.graph_inputs(model)
    given = {n: reference.read_pb(folder / "test_data_set_0" / f"input_{i}.pb") for i, n in enumerate(inputs)}
    results = [v.name for v in model.graph.output]
    values = reference.run(model, given)
    model, added, nodes = cut(model, values)
    values.update(added)  # the nodes of the cut network read them by these names

    onnx.save(model, scratch / "model.onnx")
    files = []
    for i, (name, array) in enumerate({**given, **added}.items()):
        np.save(scratch / f"{i}.npy", array)
        files.append(f"{name}={scratch / f'{i}.npy'}")
    package = scratch / "package.so"
    call(options.autotune, "compile", "--model", scratch / "model.onnx", "--target", options.target, "-o", package,
         "--db", ":memory:")
    call(options.autotune, "run", package, "--output-dir", scratch / "out", "--input", *files)
    load = lambda name: np.load(scratch / "out" / f"{name}.npy")

    ratios = {name: compare.error_ratio(load(name), values[name]) for name in results}
    for node in nodes:
        if node.op_type == "DynamicQuantizeLinear":
            ratios[node.output[0]] = dynamic_ratio(*(load(name) for name in node.output), node, values)
        else:
            ratios[node.output[0]] = rounding_ratio(load(node.output[0]), node, values)
    return ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--target", default="cpu", help="cpu (default), c, or another target of `compile`")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune", help="the program")
    options = parser.parse_args()
    failed = False
    for folder in options.folders:
        with tempfile.TemporaryDirectory(prefix="verify_layers_") as scratch:
            ratios = check(folder, options, Path(scratch))
        wrong = {name: ratio for name, ratio in ratios.items() if not ratio <= 1}
        for name, ratio in wrong.items():
            print(f"WRONG {folder.name}: {name}: largest error {ratio:.3g} of the allowed one")
        failed |= bool(wrong)
        print(f"{folder.name}: {len(ratios)} tensors, {len(wrong)} wrong, largest error {max(ratios.values()):.3g} of "
              "the allowed one", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
