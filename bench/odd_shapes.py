#!/usr/bin/env python3
"""Compares untuned operators of random shapes with ONNX Runtime, to find shapes with bad default schedules.

    /usr/bin/python3 bench/odd_shapes.py --seed 1 --work FOLDER
    /usr/bin/python3 bench/odd_shapes.py --seed 1 --only conv --threads 1 --count 40 --work FOLDER

A seed draws convolutions (channels from 1 to 300, groups, windows from 1 to 11, strides, dilations), matrix products
(M, N and K from 1 to 5,000, with a constant or a computed second operand), reductions over any axes, softmax, and
pooling. Sizes are drawn so that an operator takes between about 30 us and 30 ms.

Each operator is a model of its own, in ONNX's layout. The whole run is compared, so the times of both sides include
changes of layout. ONNX Runtime and the package take turns. `ratio` is the median over the rounds of ONNX Runtime's
least time in the round divided by ours: above 1 we are faster. The time of an empty model is subtracted from ONNX
Runtime's, since a call through its JavaScript interface takes tens of microseconds.

--check compares the outputs, too. At the end it prints how many were right, and how many could not be compared because
ONNX Runtime refuses the model. The exit code is 1 if an output is wrong or an operator failed. Models and packages stay
in FOLDER. --recompile compiles the packages again. Needs python3-numpy, python3-onnx,
(cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import math
import random
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from beside_ort import Case, add_arguments, run_all

FLOPS, BYTES = 60e9, 10e9  # per second and core; used only to choose sizes
LEAST_SECONDS, MOST_SECONDS = 30e-6, 30e-3
OPSET = 13
LEAST_RATIO = 0.85  # no operator should fall below this ratio


def log_uniform(rng, low, high):
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


class Operator:
    """A model of one node, with its inputs and constants. `flops` and `bytes` estimate its work."""

    def __init__(self, kind, text, op, data, constants, flops, out_elements, attributes):
        self.kind, self.text, self.op, self.data = kind, text, op, data
        self.constants, self.attributes, self.flops = constants, attributes, flops
        elements = sum(math.prod(s) for s in data + constants) + out_elements
        self.bytes = 4 * elements

    def seconds(self):
        return max(self.flops / FLOPS, self.bytes / BYTES)


def window(rng, size, most):
    """Draws kernel, stride, dilation and padding of one dimension. Returns None if the window exceeds the image."""
    kernel, stride = rng.randint(1, most), rng.choice([1, 1, 1, 2, 2, 3])
    dilation = rng.choice([1, 1, 1, 1, 2, 3]) if kernel > 1 else 1
    reach = dilation * (kernel - 1) + 1
    pad = rng.choice([0, reach // 2, reach // 2])
    out = (size + 2 * pad - reach) // stride + 1
    return (kernel, stride, dilation, pad, out) if out >= 1 else None


def draw_conv(rng):
    size = [log_uniform(rng, 1, 160), log_uniform(rng, 1, 160)]
    form = rng.choice(["plain", "plain", "plain", "grouped", "grouped", "depthwise"])
    if form == "plain":
        groups, inputs, outputs = 1, log_uniform(rng, 1, 300), log_uniform(rng, 1, 300)
    elif form == "depthwise":
        groups = inputs = log_uniform(rng, 2, 300)
        outputs = inputs * rng.choice([1, 1, 1, 2])
    else:
        groups = rng.randint(2, 12)
        inputs, outputs = groups * rng.randint(1, 300 // groups), groups * rng.randint(1, 300 // groups)
    dims = [window(rng, s, 11) for s in size]
    if rng.random() < 0.6:
        dims[1] = dims[0] if size[0] == size[1] else window(rng, size[1], 11)
    if None in dims or outputs > 300:
        return None
    batch = rng.choice([1, 1, 1, 1, 2, 5])
    out = [d[4] for d in dims]
    kernel = [d[0] for d in dims]
    flops = 2 * batch * math.prod(out) * outputs * (inputs // groups) * math.prod(kernel)
    attributes = {
        "kernel_shape": kernel,
        "strides": [d[1] for d in dims],
        "dilations": [d[2] for d in dims],
        "pads": [d[3] for d in dims] * 2,
        "group": groups,
    }
    text = f"{batch}x{inputs}x{size[0]}x{size[1]} -> {outputs}, {kernel[0]}x{kernel[1]}"
    for name, key, plain in (("s", "strides", [1, 1]), ("d", "dilations", [1, 1]), ("p", "pads", [0] * 4)):
        if attributes[key] != plain:
            text += f" {name}{'x'.join(map(str, attributes[key][:2]))}"
    text += f" groups {groups}" if groups > 1 else ""
    data, weight = [[batch, inputs, *size]], [[outputs, inputs // groups, *kernel], [outputs]]
    return Operator("conv", text, "Conv", data, weight, flops, batch * outputs * math.prod(out), attributes)


def draw_matmul(rng):
    m, n, k = (log_uniform(rng, 1, 5000) for _ in range(3))
    text = f"{m}x{k} * {k}x{n}"
    return Operator("matmul", text, "MatMul", [[m, k]], [[k, n]], 2 * m * n * k, m * n, {})


def draw_batched(rng):
    batch = log_uniform(rng, 1, 64)
    m, n, k = (log_uniform(rng, 1, 5000) for _ in range(3))
    text = f"{batch}: {m}x{k} * {k}x{n}"
    data = [[batch, m, k], [batch, k, n]]
    return Operator("batched", text, "MatMul", data, [], 2 * batch * m * n * k, batch * m * n, {})


def draw_reduction(rng):
    rank = rng.randint(1, 5)
    shape = [log_uniform(rng, 1, 5000 if rank < 3 else 400) for _ in range(rank)]
    axes = sorted(rng.sample(range(rank), rng.randint(1, rank)))
    op = rng.choice(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceL2"])
    kept = math.prod(d for i, d in enumerate(shape) if i not in axes)
    text = f"{op} {'x'.join(map(str, shape))} over {','.join(map(str, axes))}"
    return Operator("reduce", text, op, [shape], [], math.prod(shape), kept, {"axes": axes, "keepdims": rng.randint(0, 1)})


def draw_softmax(rng):
    rank = rng.randint(1, 4)
    shape = [log_uniform(rng, 1, 5000 if rank < 3 else 400) for _ in range(rank)]
    axis = rng.randrange(rank)
    text = f"{'x'.join(map(str, shape))} over {axis}"
    elements = math.prod(shape)
    return Operator("softmax", text, "Softmax", [shape], [], 20 * elements, elements, {"axis": axis})


def draw_pool(rng):
    batch, channels = rng.choice([1, 1, 2, 5]), log_uniform(rng, 1, 300)
    size = [log_uniform(rng, 1, 160), log_uniform(rng, 1, 160)]
    op = rng.choice(["MaxPool", "AveragePool"])
    dims = [window(rng, s, 11) for s in size]
    if None in dims:
        return None
    kernel, strides = [d[0] for d in dims], [d[1] for d in dims]
    pads = [min(d[3], d[0] // 2) for d in dims]
    out = [(s + 2 * p - k) // t + 1 for s, p, k, t in zip(size, pads, kernel, strides)]
    if min(out) < 1:
        return None
    outputs = batch * channels * math.prod(out)
    text = f"{op} {batch}x{channels}x{size[0]}x{size[1]}, {kernel[0]}x{kernel[1]} s{strides[0]}x{strides[1]} p{pads[0]}x{pads[1]}"
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2}
    return Operator("pool", text, op, [[batch, channels, *size]], [], outputs * math.prod(kernel), outputs, attributes)


DRAWS = {
    "conv": (40, draw_conv),
    "matmul": (20, draw_matmul),
    "batched": (10, draw_batched),
    "reduce": (15, draw_reduction),
    "softmax": (5, draw_softmax),
    "pool": (10, draw_pool),
}


def draw_operators(seed, count):
    rng = random.Random(seed)
    kinds, weights = list(DRAWS), [weight for weight, _ in DRAWS.values()]
    operators = []
    while len(operators) < count:
        operator = DRAWS[rng.choices(kinds, weights)[0]][1](rng)
        if operator and LEAST_SECONDS <= operator.seconds() <= MOST_SECONDS:
            operators.append(operator)
    return operators


def write_model(path, op, data, constants, attributes, seed=0):
    rng = np.random.default_rng(seed)
    inputs = [helper.make_tensor_value_info(f"x{i}", onnx.TensorProto.FLOAT, s) for i, s in enumerate(data)]
    scale = 1 / math.sqrt(math.prod(constants[0][1:]) if op == "Conv" else constants[0][0]) if constants else 1
    weights = [
        numpy_helper.from_array((rng.standard_normal(s, np.float32) * np.float32(scale)), f"w{i}")
        for i, s in enumerate(constants)
    ]
    names = [x.name for x in inputs] + [w.name for w in weights]
    node = helper.make_node(op, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "operator", inputs, [output], weights), opset_imports=[helper.make_opsetid("", OPSET)]
    )
    model.ir_version = 7
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path)


def cases_of(arguments):
    folder = arguments.work / f"seed-{arguments.seed}"
    for number, operator in enumerate(draw_operators(arguments.seed, arguments.count)):
        if arguments.only not in (None, operator.kind) or (arguments.numbers and number not in arguments.numbers):
            continue

        def write(path, number=number, operator=operator):
            write_model(path, operator.op, operator.data, operator.constants, operator.attributes, number)

        yield Case(arguments, folder, str(number), operator.kind, operator.text, operator.data, write)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", choices=list(DRAWS), help="only operators of this kind, among those of the seed")
    parser.add_argument("--numbers", type=int, nargs="+", help="only these operators of the seed")
    add_arguments(parser)
    arguments = parser.parse_args()
    sys.exit(run_all(arguments, cases_of(arguments), LEAST_RATIO))


if __name__ == "__main__":
    main()
