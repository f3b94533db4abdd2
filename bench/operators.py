#!/usr/bin/env python3
"""Compares untuned operators on tensors of about 1 MB and 16 MB with ONNX Runtime: one row for each.

    /usr/bin/python3 bench/operators.py --work FOLDER
    /usr/bin/python3 bench/operators.py --only TopK Scatter --megabytes 1 --threads 1 --work FOLDER

Each operator is a model of its own, whose data are inputs and whose indices and weights are constants. ONNX Runtime and
the package take turns. `ratio` is ONNX Runtime / ours: above 1 we are faster; nan if ONNX Runtime refuses the model.
odd_shapes.py explains the measurement and --check. The exit code is 1 if an output is wrong or an operator failed.
Needs python3-numpy, python3-onnx, (cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import math
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from beside_ort import Case, add_arguments, run_all

OPSET, IR_VERSION = 24, 11
LEAST_RATIO = 0.5  # no operator should fall below this ratio
WIDTH = 1024  # elements of a row


class Model:
    """A graph under construction. `x(shape)` adds an input, `w(array)` a constant, `n(op, inputs)` a node."""

    def __init__(self):
        self.inputs, self.constants, self.nodes, self.shapes = [], [], [], []
        self.rng = np.random.default_rng(1)

    def x(self, *shape):
        self.shapes.append(list(shape))
        self.inputs.append(helper.make_tensor_value_info(f"x{len(self.inputs)}", TensorProto.FLOAT, shape))
        return self.inputs[-1].name

    def w(self, array):
        array = np.asarray(array, np.int64) if np.issubdtype(np.asarray(array).dtype, np.integer) else np.float32(array)
        self.constants.append(numpy_helper.from_array(array, f"w{len(self.constants)}"))
        return self.constants[-1].name

    def random(self, *shape):
        return self.w(self.rng.standard_normal(shape, np.float32) / math.sqrt(shape[-1] if shape else 1))

    def indices(self, below, *shape):
        return self.w(self.rng.integers(0, below, shape))

    def n(self, op, inputs, outputs=1, domain="", **attributes):
        names = [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain, **attributes))
        return names[0] if outputs == 1 else names

    def cast(self, x, to):
        return self.n("Cast", [x], to=to)

    def write(self, path, outputs):
        results = [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs]
        graph = helper.make_graph(self.nodes, "operator", self.inputs, results, self.constants)
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=sets)
        model.ir_version = IR_VERSION
        onnx.save(model, path)


def unary(op, **attributes):
    return lambda m, rows: m.n(op, [m.x(rows, WIDTH)], **attributes)


def of_unit(op):
    """Applies the operator to numbers between -1 and 1: the inputs are mapped there by Tanh."""
    return lambda m, rows: m.n(op, [m.n("Tanh", [m.x(rows, WIDTH)])])


def predicate(op):
    return lambda m, rows: m.cast(m.n(op, [m.x(rows, WIDTH)]), TensorProto.FLOAT)


def of_integers(op, count=2, **attributes):
    def build(m, rows):
        whole = lambda x: m.n("Add", [m.n("Abs", [m.n("Mul", [x, m.w(1000.0)])]), m.w(1.0)])  # positive, for Mod
        x = [m.cast(whole(m.x(rows, WIDTH)), TensorProto.INT32) for _ in range(count)]
        return m.cast(m.n(op, x, **attributes), TensorProto.FLOAT)

    return build


def shift(m, rows):
    below = lambda x: m.n("Abs", [m.n("Mul", [m.n("Tanh", [x]), m.w(9.0)])])  # less than the width of the type
    x = [m.cast(below(m.x(rows, WIDTH)), TensorProto.UINT32) for _ in range(2)]
    return m.cast(m.n("BitShift", x, direction="LEFT"), TensorProto.FLOAT)


def image(rows, channels=64):
    """Returns the shape of square images, batch 1, of about rows * WIDTH elements."""
    side = math.isqrt(rows * WIDTH // channels)
    return [1, channels, side, side]


def of_image(op, *constants, outputs=1, **attributes):
    def build(m, rows):
        shape = image(rows)
        return m.n(op, [m.x(*shape), *(make(m, shape) for make in constants)], outputs, **attributes)

    return build


def per_channel(m, shape):
    return m.random(shape[1])


def rms(m, rows):
    return m.n("RMSNormalization", [m.x(rows, WIDTH), m.random(WIDTH)], axis=-1)


def layer_norm(m, rows):
    return m.n("LayerNormalization", [m.x(rows, WIDTH), m.random(WIDTH), m.random(WIDTH)], axis=-1)


def rotary(m, rows):
    heads, width = 16, 64
    x = m.x(1, heads, rows, width)
    return m.n("RotaryEmbedding", [x, m.random(1, rows, width // 2), m.random(1, rows, width // 2)])


def attention(m, rows):
    tokens = min(rows, 1024)
    return m.n("Attention", [m.x(1, rows * 16 // tokens, tokens, 64) for _ in range(3)])


def top_k(k, width=WIDTH, **attributes):
    return lambda m, rows: m.n("TopK", [m.x(rows * WIDTH // width, width), m.w([k])], 2, **attributes)[0]


def gather(axis):
    return lambda m, rows: m.n("Gather", [m.x(rows, WIDTH), m.indices((rows, WIDTH)[axis], (rows, WIDTH)[axis])], axis=axis)


def gather_elements(m, rows):
    return m.n("GatherElements", [m.x(rows, WIDTH), m.indices(WIDTH, rows, WIDTH)], axis=1)


def gather_nd(m, rows):
    return m.n("GatherND", [m.x(rows, WIDTH), m.indices(rows, rows, 1)])


def scatter_nd(reduction):
    return lambda m, rows: m.n(
        "ScatterND", [m.x(rows, WIDTH), m.w(m.rng.permutation(rows)[: rows // 2, None]), m.x(rows // 2, WIDTH)], reduction=reduction
    )


def scatter_elements(axis, reduction):
    def build(m, rows):
        shape = (rows // 2, WIDTH) if axis == 0 else (rows, WIDTH // 2)
        order = [m.rng.permutation((rows, WIDTH)[axis])[: shape[axis]] for _ in range(shape[1 - axis])]
        indices = m.w(np.stack(order, axis=1 - axis))
        return m.n("ScatterElements", [m.x(rows, WIDTH), indices, m.x(*shape)], axis=axis, reduction=reduction)

    return build


def one_hot(m, rows):
    return m.n("OneHot", [m.indices(WIDTH, rows), m.w(WIDTH), m.x(2)])


def einsum(equation, *shapes):
    def build(m, rows):
        return m.n("Einsum", [m.x(*(rows if d == "rows" else d for d in shape)) for shape in shapes], equation=equation)

    return build


def grid_sample(mode):
    def build(m, rows):
        shape = image(rows)
        grid = m.w(m.rng.uniform(-1, 1, (1, *shape[2:], 2)))
        return m.n("GridSample", [m.x(*shape), grid], mode=mode)

    return build


def regions(m, shape, count, batches=False):
    start = m.rng.uniform(0, shape[3] / 2, (count, 2))
    corners = np.concatenate([start, start + m.rng.uniform(2, shape[3] / 2, (count, 2))], axis=1)
    return np.concatenate([np.zeros((count, 1)), corners], axis=1) if batches else corners


def roi_align(m, rows):
    shape = image(rows)
    rois = m.w(regions(m, shape, 32))
    batches = m.w(np.zeros(32, np.int64))
    return m.n("RoiAlign", [m.x(*shape), rois, batches], output_height=7, output_width=7, sampling_ratio=2)


def max_roi_pool(m, rows):
    shape = image(rows)
    return m.n("MaxRoiPool", [m.x(*shape), m.w(regions(m, shape, 32, True))], pooled_shape=[7, 7])


def deform_conv(m, rows):
    shape = image(rows)
    offsets = m.w(m.rng.uniform(-1, 1, (1, 18, shape[2], shape[3])))
    return m.n("DeformConv", [m.x(*shape), m.random(16, shape[1], 3, 3), offsets], kernel_shape=[3, 3], pads=[1] * 4)


def col2im(m, rows):
    side = math.isqrt(rows * WIDTH // (8 * 9))
    return m.n("Col2Im", [m.x(1, 8 * 9, side * side), m.w([side, side]), m.w([3, 3])], pads=[1] * 4)


def max_unpool(m, rows):
    pooled = m.n("MaxPool", [m.x(*image(rows))], 2, kernel_shape=[2, 2], strides=[2, 2])
    return m.n("MaxUnpool", pooled, kernel_shape=[2, 2], strides=[2, 2])


def crop(m, rows):
    return m.n("CenterCropPad", [m.x(rows, WIDTH), m.w([rows // 2, WIDTH + 64])])


def det(m, rows):
    return m.n("Det", [m.x(rows * WIDTH // 16, 4, 4)])


def dft(m, rows):
    return m.n("DFT", [m.x(rows, WIDTH, 1), "", m.w(1)])


def stft(m, rows):
    window = m.w(np.hanning(256))
    return m.n("STFT", [m.x(1, rows * WIDTH // 4, 1), m.w(128), window, m.w(256)])


def resize(mode, scale, **attributes):
    return lambda m, rows: m.n("Resize", [m.x(*image(rows)), "", m.w([1, 1, scale, scale])], mode=mode, **attributes)


def cumulative(op, axis):
    return lambda m, rows: m.n(op, [m.x(rows, WIDTH), m.w(axis)])


def reverse_sequence(m, rows):
    return m.n("ReverseSequence", [m.x(rows, 16, WIDTH // 16), m.w(np.arange(16) % rows + 1)], time_axis=0, batch_axis=1)


def recurrent(op, gates, batch=1, directions=1):
    """Makes a recurrent operator of 100 steps. The size in the table is about that of its weights: 256 units are in the
    1 MB row, 1024 units in the 16 MB row."""

    def build(m, rows):
        units = 256 if rows == rows_of(1) else 1024
        weights = [m.random(directions, gates * units, units) for _ in range(2)]
        direction = "bidirectional" if directions == 2 else "forward"
        return m.n(op, [m.x(100, batch, units), *weights], 2, hidden_size=units, direction=direction)[0]

    return build


def quantized(m, x, kind=np.uint8):
    zero = numpy_helper.from_array(np.array(3, kind), f"z{len(m.constants)}")
    m.constants.append(zero)
    return m.n("QuantizeLinear", [x, m.w(0.02), zero.name]), zero.name


def conv_integer(m, rows):
    shape = image(rows)
    x, zero = quantized(m, m.x(*shape))
    w = numpy_helper.from_array(m.rng.integers(-9, 9, (16, shape[1], 3, 3)).astype(np.int8), "weights")
    m.constants.append(w)
    return m.cast(m.n("ConvInteger", [x, w.name, zero], kernel_shape=[3, 3], pads=[1] * 4), TensorProto.FLOAT)


def microsoft(op, *constants, inputs=1, outputs=1, **attributes):
    def build(m, rows):
        x = [m.x(rows, WIDTH) for _ in range(inputs)]
        return m.n(op, [*x, *(m.random(*shape) for shape in constants)], outputs, domain="com.microsoft", **attributes)

    return build


def skip_norm(m, rows):
    x = [m.x(1, rows, WIDTH) for _ in range(2)]
    return m.n("SkipLayerNormalization", [*x, m.random(WIDTH), m.random(WIDTH)], domain="com.microsoft", epsilon=1e-5)


def where(m, rows):
    x = [m.x(rows, WIDTH) for _ in range(2)]
    return m.n("Where", [m.n("Less", x), *x])


# Operators by kind and name. Each value is a function that makes the node, given a Model and the number of rows of
# WIDTH elements.
OPERATORS = {
    "unary": {
        **{op: unary(op) for op in ("Sin", "Cos", "Tan", "Atan", "Sinh", "Cosh", "Asinh", "Erf", "Exp", "Mish", "Swish",
                                    "HardSwish", "Softplus", "Selu", "Celu", "Elu", "Round", "Sign", "Tanh", "Sigmoid")},
        **{op: of_unit(op) for op in ("Asin", "Acos", "Atanh")},
        "Gelu": unary("Gelu"), "Gelu tanh": unary("Gelu", approximate="tanh"),
        "IsNaN": predicate("IsNaN"), "IsInf": predicate("IsInf"), "Where": where,
    },
    "integer": {
        **{op: of_integers(op) for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod")},
        "BitwiseNot": of_integers("BitwiseNot", 1), "BitShift": shift,
    },
    "norm": {
        "RMSNormalization": rms, "LayerNormalization": layer_norm,
        "GroupNormalization": of_image("GroupNormalization", per_channel, per_channel, num_groups=8),
        "InstanceNormalization": of_image("InstanceNormalization", per_channel, per_channel),
        "MeanVarianceNormalization": of_image("MeanVarianceNormalization"),
        "LRN": of_image("LRN", size=5),
        "LpNormalization": unary("LpNormalization", axis=-1), "Softmax": unary("Softmax", axis=-1),
        "Softmax 0": unary("Softmax", axis=0), "LogSoftmax": unary("LogSoftmax", axis=-1),
        "Hardmax": unary("Hardmax", axis=-1), "SkipLayerNormalization": skip_norm,
    },
    "pool": {
        "LpPool": of_image("LpPool", kernel_shape=[3, 3], pads=[1] * 4, p=2),
        "GlobalLpPool": of_image("GlobalLpPool", p=2),
        "AveragePool": of_image("AveragePool", kernel_shape=[3, 3], pads=[1] * 4, ceil_mode=1),
        "MaxRoiPool": max_roi_pool, "MaxUnpool": max_unpool,
    },
    "transformer": {
        "RotaryEmbedding": rotary, "Attention": attention,
        "Einsum bij,bjk": einsum("bij,bjk->bik", (16, "rows", 64), (16, 64, "rows")),
        "Einsum bhid,bhjd": einsum("bhid,bhjd->bhij", (1, 16, "rows", 64), (1, 16, "rows", 64)),
        "Einsum ij->ji": einsum("ij->ji", ("rows", WIDTH)), "Einsum ij,ij->i": einsum("ij,ij->i", ("rows", WIDTH), ("rows", WIDTH)),
        "FastGelu": microsoft("FastGelu", (WIDTH,)), "BiasGelu": microsoft("BiasGelu", (WIDTH,)),
        "QuickGelu": microsoft("QuickGelu", alpha=1.702), "FusedMatMul": microsoft("FusedMatMul", (256, WIDTH), transB=1, alpha=0.5),
    },
    "select": {
        "TopK 10": top_k(10), "TopK 100": top_k(100), "TopK all": top_k(WIDTH), "TopK 10 axis 0": top_k(10, axis=0),
        "TopK 10 of 64": top_k(10, 64), "TopK 100 of 65536": top_k(100, 65536),
        "Gather 0": gather(0), "Gather 1": gather(1), "GatherElements": gather_elements, "GatherND": gather_nd,
        "ScatterND": scatter_nd("none"), "ScatterND add": scatter_nd("add"),
        "ScatterElements 0": scatter_elements(0, "none"), "ScatterElements 1": scatter_elements(1, "none"),
        "ScatterElements 1 add": scatter_elements(1, "add"), "OneHot": one_hot, "ReverseSequence": reverse_sequence,
        "CenterCropPad": crop, "Trilu": unary("Trilu"), "ArgMax": lambda m, rows: m.cast(unary("ArgMax", axis=-1)(m, rows), 1),
        "CumSum 0": cumulative("CumSum", 0), "CumSum 1": cumulative("CumSum", 1),
    },
    "image": {
        "GridSample linear": grid_sample("linear"), "GridSample nearest": grid_sample("nearest"),
        "GridSample cubic": grid_sample("cubic"), "RoiAlign": roi_align, "DeformConv": deform_conv, "Col2Im": col2im,
        "Resize linear": resize("linear", 2.0), "Resize cubic": resize("cubic", 2.0), "Resize nearest": resize("nearest", 2.0),
        "Resize antialias": resize("linear", 0.5, antialias=1), "ConvInteger": conv_integer,
        "DepthToSpace": of_image("DepthToSpace", blocksize=2),
    },
    "spectrum": {"DFT": dft, "STFT": stft, "Det": det},
    "recurrent": {
        **{f"{op} batch {b}{' both' if d == 2 else ''}": recurrent(op, g, b, d)
           for op, g in (("LSTM", 4), ("GRU", 3), ("RNN", 1)) for b in (1, 8) for d in (1, 2)},
    },
}  # fmt: skip


def rows_of(megabytes):
    return megabytes * 2**20 // 4 // WIDTH


def cases_of(arguments):
    for megabytes in arguments.megabytes:
        rows = rows_of(megabytes)
        for kind, operators in OPERATORS.items():
            for name, build in operators.items():
                if arguments.only and not any(word in name or word == kind for word in arguments.only):
                    continue
                model = Model()
                output = build(model, rows)

                def write(path, model=model, output=output):
                    model.write(path, [(output, TensorProto.FLOAT)])

                file = name.replace(" ", "_").replace(",", "_").replace(">", "")
                yield Case(arguments, arguments.work / f"{megabytes}MB", file, kind, f"{name}, {megabytes} MB", model.shapes, write)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="WORD", help="operators whose name contains, or kind is, a WORD")
    parser.add_argument("--megabytes", type=int, nargs="+", default=[1, 16])
    add_arguments(parser)
    arguments = parser.parse_args()
    sys.exit(run_all(arguments, cases_of(arguments), LEAST_RATIO))


if __name__ == "__main__":
    main()
