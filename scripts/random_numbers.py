"""Steps for scripts/random_network.py that reduce, compare and count."""

import numpy as np
from element_types import ONNX_TYPES
from onnx import TensorProto

COMPARISONS = {"Less": 7, "Greater": 7, "LessOrEqual": 12, "GreaterOrEqual": 12, "Equal": 11}  # first set with floats


def reduce(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    op = net.pick("ReduceSum", "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1",
                  "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp")
    if op in ("ReduceProd", "ReduceLogSum"):  # these reduce positive numbers near 1
        x = net.emit("Sigmoid", [x])
        x = x and net.emit("Add", [x, net.uniform([1])])
        if not x:
            return None
    rank = len(net.shape(x))
    axes = net.rng.sample(range(rank), net.rng.randint(1, rank))
    if net.opset >= 11:
        axes = [a - rank if net.chance(30) else a for a in axes]
    attributes, inputs = {"keepdims": net.pick(None, 0, 1)}, [x]
    as_input = net.opset >= (13 if op == "ReduceSum" else 18)
    if net.chance(80) and as_input:
        inputs.append(net.integers(axes))
    elif net.chance(80) and not as_input:
        attributes["axes"] = axes
    return net.emit(op, inputs, attributes)


def place_of_extreme(net):
    """Adds ArgMax or ArgMin. The indices become an output of the network or are cast to floats."""
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    attributes = {"axis": net.pick(None, net.axis(len(net.shape(x)))), "keepdims": net.pick(None, 0, 1)}
    if net.opset >= 12:
        attributes["select_last_index"] = net.pick(None, 0, 1)
    place = net.emit(net.pick("ArgMax", "ArgMin"), [x], attributes)
    return place if not place or net.chance(50) else net.emit("Cast", [place], {"to": net.float_type})


def cumulated(net):
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 11:
        return None
    axis = net.constant(np.array(net.axis(len(net.shape(x))), net.pick(np.int32, np.int64)))
    return net.emit("CumSum", [x, axis], {"exclusive": net.pick(None, 1), "reverse": net.pick(None, 1)})


def of_several(net):
    x = net.choose()
    operands = [x] + net.partners(net.shape(x), net.rng.randint(0, 2))
    net.rng.shuffle(operands)
    return net.emit(net.pick("Max", "Min", "Mean"), operands)


def rounded(net):
    """Returns whole numbers of both signs."""
    x = net.emit("Mul", [net.choose(), net.constant(np.array(net.pick(1, 2, 4), np.float32))])
    return x and net.emit(net.pick("Floor", "Ceil", "Round") if net.opset >= 11 else net.pick("Floor", "Ceil"), [x])


def compared(net):
    """Adds a Where by one comparison, or by two."""
    if net.opset < 9:
        return None
    x = net.choose() if net.chance(70) else rounded(net)
    if not x:
        return None
    op = net.rng.choice([op for op, since in COMPARISONS.items() if net.opset >= since])
    zero = net.constant(np.array(0, np.float32))
    flag = net.emit(op, net.pick([x, net.partner(net.shape(x))], [x, zero], [zero, x]))
    if net.chance(10):
        flag = net.emit("IsNaN", [x])
    if flag and net.chance(30):
        flag = net.emit("Not", [flag])
    others = [v for v in net.flags if v != flag and flag and net.joined(net.shape(flag), net.shape(v))]
    if others and net.chance(60):
        flag = net.emit(net.pick("And", "Or", "Xor"), [flag, net.rng.choice(others)])
    if not flag or net.chance(15):
        return flag
    if net.chance(30):
        return net.emit("Cast", [flag], {"to": net.float_type})
    return net.emit("Where", [flag] + net.partners(net.shape(flag), 2))


def whole(net):
    """Adds arithmetic of integers, then a cast to floats."""
    x = rounded(net) if net.chance(70) else net.emit("Mul", [net.choose(), net.constant(np.array(5, np.float32))])
    kind, array = net.pick((TensorProto.INT64, np.int64), (TensorProto.INT32, np.int32))
    x = net.emit("Cast", [x], {"to": kind})
    for _ in range(net.rng.randint(1, 3)):
        if not x:
            return None
        op = net.pick("Add", "Sub", "Mul", "Div", "Abs", "Neg", "Sum", *["Mod"] * 2 * (net.opset >= 10),
                      *["Max", "Min", "Pow"] * (net.opset >= 12), *["CumSum"] * (net.opset >= 11))
        shape = [d if net.chance(50) else 1 for d in net.shape(x)]
        if op in ("Abs", "Neg"):
            x = net.emit(op, [x])
        elif op == "Sum" or op == "CumSum" and not shape:  # ONNX's Sum takes only floats, and CumSum needs an axis
            x = net.emit("ReduceSum", [x])
        elif op == "CumSum":
            x = net.emit(op, [x, net.integers(net.axis(len(shape)))], {"exclusive": net.pick(None, 1)})
        elif op == "Pow":
            x = net.emit(op, [x, net.constant(net.numbers.integers(0, 4, shape).astype(array))])
        else:
            sign = net.numbers.choice([-1, 1], shape)
            other = net.constant((sign * net.numbers.integers(1, 9, shape)).astype(array))
            x = net.emit(op, [x, other], {"fmod": net.pick(None, 1) if op == "Mod" else None})
    if not x or net.chance(20):
        return x
    return net.emit("Cast", [x], {"to": net.pick(net.float_type, net.float_type, TensorProto.BOOL)})


def small_integers(net):
    """Adds max pooling, maxima, minima or data movement of 8- to 32-bit integers, then mostly a cast to floats."""
    x = net.choose(3, 4, 5)
    if not x or net.opset < 12:
        return None
    pools = [np.int8, np.uint8]  # MaxPool takes no other integers
    kind = net.pick(*pools, *pools, np.int16, np.uint16, np.int32, np.uint32)
    if np.dtype(kind).kind == "u":
        x = net.emit("Abs", [x])
    scale = x and float(np.abs(net.values[x]).max())
    # The largest element becomes 100.5, so that small errors do not change the integer that the cast makes of it.
    x = x and net.emit("Mul", [x, net.constant(np.array(100.5 / scale, np.float32))])
    x = x and net.emit("Cast", [x], {"to": ONNX_TYPES[np.dtype(kind)]})
    for _ in range(net.rng.randint(1, 2)):
        if not x:
            return None
        rank = len(net.shape(x))
        op = net.pick("Max", "Min", "Concat", "Transpose", "Relu", *["MaxPool"] * 4)
        if op == "MaxPool" and kind in pools:
            kernel = [net.rng.randint(1, min(3, d)) for d in net.shape(x)[2:]]
            pads = [net.rng.randint(0, k - 1) for k in kernel * 2]
            x = net.emit(op, [x], {"kernel_shape": kernel, "pads": pads, "ceil_mode": net.pick(None, 1)})
        elif op in ("Max", "Min"):
            shape = [d if net.chance(50) else 1 for d in net.shape(x)]
            x = net.emit(op, [x, net.constant(net.numbers.integers(0, 50, shape).astype(kind))])
        elif op == "Concat":
            x = net.emit(op, [x, x], {"axis": net.axis(rank)})
        elif op == "Transpose":
            x = net.emit(op, [x], {"perm": [0, 1] + net.rng.sample(range(2, rank), rank - 2)})
        elif op == "Relu" and net.opset >= 14 and np.dtype(kind).kind == "i":
            x = net.emit(op, [x])
    return x if not x or net.chance(20) else net.emit("Cast", [x], {"to": net.float_type})


def quantized(net):
    """Adds operators on small integers, then a conversion to floats."""
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 10 or net.float != np.float32:
        return None
    scale, rank = np.array(np.abs(net.values[x]).max() / net.pick(60, 127, 160), np.float32), len(net.shape(x))
    if net.opset >= 11 and net.chance(25):
        y = net.emit("DynamicQuantizeLinear", [x], outputs=3)
        scale, zero = net.nodes[-1].output[1:] if y else (None, None)
    else:
        kind, axis = net.pick(np.uint8, np.int8), None
        if net.opset >= 13 and net.chance(40):
            axis = net.axis(rank)
            scale = (scale * net.numbers.uniform(0.5, 1.5, net.shape(x)[axis])).astype(np.float32)
        low = 100 if kind == np.uint8 else -20
        scale, zero = net.constant(scale), net.constant(net.numbers.integers(low, low + 50, scale.shape).astype(kind))
        if axis is not None:
            y = net.emit("QuantizeLinear", [x, scale, zero], {"axis": axis})
            return y and net.emit("DequantizeLinear", [y, scale, zero], {"axis": axis})
        y = net.emit("QuantizeLinear", [x, scale] + [zero] * (kind == np.int8 or net.chance(60)))
        if y and len(net.nodes[-1].input) == 2:
            zero = None
    if not y or net.chance(20):
        return y
    if rank < 2 or net.chance(40):
        return net.emit("DequantizeLinear", [y, scale] + [zero] * (zero is not None))
    n = net.rng.randint(1, 17)
    b = net.constant(net.numbers.integers(0, 100, [net.shape(y)[-1], n]).astype(net.pick(np.int8, np.uint8)))
    b_zero = [net.constant(net.numbers.integers(0, 100, net.pick([], [n])).astype(net.values[b].dtype))]
    zeros = [zero or ""] + b_zero if net.chance(60) else [zero] if zero else []
    y = net.emit("MatMulInteger", [y, b] + zeros)
    y = y and net.emit("Cast", [y], {"to": net.float_type})
    return y and net.emit("Mul", [y, net.uniform([1], 1e-4, 1e-3)])


def quantized_convolution(net):
    """Adds a convolution of an input of 8-bit integers with 16 to 128 channels, whose numbers fill their types, then
    floats."""
    if net.opset < 10 or net.float != np.float32:
        return None
    kind = net.pick(np.uint8, np.uint8, np.int8)
    ends = np.iinfo(kind)
    shape = [1, net.pick(16, 32, 64, net.rng.randint(16, 128)), net.rng.randint(3, 16), net.rng.randint(3, 16)]
    x = net.fed(net.numbers.integers(ends.min, ends.max + 1, shape).astype(kind))
    zero = net.constant(np.array(net.pick(0, ends.max, net.rng.randint(ends.min, ends.max)), kind))
    channels, filters = net.shape(x)[1], net.rng.randint(16, 128)
    group = net.pick(1, 1, 1, channels)
    kernel = [3, 3] if net.chance(60) else [net.rng.randint(1, 3) for _ in range(2)]
    attributes = {"kernel_shape": kernel, "pads": [k // 2 for k in kernel] * 2, "group": group}
    w = net.constant(net.numbers.integers(-128, 128, [filters if group == 1 else channels, channels // group, *kernel]).astype(np.int8))
    # Scales are powers of two, so that no rounding moves a result across the middle between two integers.
    power = lambda low, high: net.constant(np.array(2.0 ** net.rng.randint(low, high), np.float32))
    if net.chance(50):
        y = net.emit("ConvInteger", [x, w, zero], attributes)
        y = y and net.emit("Cast", [y], {"to": net.float_type})
        return y and net.emit("Mul", [y, power(-16, -12)])
    step, w_step, w_zero = power(-9, -5), power(-9, -5), net.constant(np.array(0, np.int8))
    y_step = net.constant(np.array(2.0**-2, np.float32))
    y = net.emit("QLinearConv", [x, step, zero, w, w_step, w_zero, y_step, zero], attributes)
    return y and net.emit("DequantizeLinear", [y, y_step, zero])


def loss(net):
    x = net.choose(2, 3, 4)
    if not x or net.opset < 12:
        return None
    n, classes, *rest = net.shape(x)
    labels, ignored = net.numbers.integers(0, classes, [n] + rest), net.pick(None, 0, -1, classes, 255)
    if ignored is not None:
        labels = np.where(net.numbers.uniform(size=labels.shape) < 0.3, ignored, labels)
    inputs = [x, net.places(labels)] + ([net.uniform([classes])] if net.chance(50) else [])
    attributes = {"ignore_index": ignored, "reduction": net.pick(None, "mean", "sum", "none")}
    if net.chance(50):
        return net.emit("NegativeLogLikelihoodLoss", inputs, attributes)
    return net.emit("SoftmaxCrossEntropyLoss", inputs, attributes, outputs=net.pick(1, 2))


def power(net):
    x = net.choose()
    if net.chance(40):
        exponent = np.array(net.pick(1, 2, 3, 4), np.float32)
        return net.emit("Pow", [x, net.constant(exponent.reshape(net.pick([], [1])))])
    x = net.emit("Sigmoid", [x])
    exponents = net.uniform([d if net.chance(30) else 1 for d in net.shape(x)], -1, 3) if x else None
    return x and net.emit("Pow", [x, net.pick(exponents, net.constant(np.array(net.pick(-1, 0.5, -2.5), np.float32)))])


def remainder(net):
    x = net.choose()
    if net.opset < 10 or net.float != np.float32:
        return None
    return net.emit("Mod", [x, net.uniform([d if net.chance(50) else 1 for d in net.shape(x)], 0.3, 2)], {"fmod": 1})


def activation(net):
    """Adds a function of one number, with its attributes."""
    x, since = net.choose(), lambda op, version: [op] if net.opset >= version else []
    op = net.rng.choice(
        ["Tanh", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "Softplus", "Softsign", "Exp", "Abs", "Neg", "Log",
         "Reciprocal", "PRelu", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan"] +
        (since("Celu", 12) if net.float == np.float32 else []) +  # ONNX has it for f32 only
        since("HardSwish", 14) + since("Erf", 9) + since("Shrink", 9) +
        since("ThresholdedRelu", 10) + since("Sign", 9) + since("Cosh", 9) + since("Sinh", 9) +
        since("Mish", 18) + since("Gelu", 20) + since("Swish", 24) + since("Asinh", 9) + since("Acosh", 9) + since("Atanh", 9))
    attributes = {}
    if op in ("LeakyRelu", "Elu", "Selu", "HardSigmoid", "Celu", "ThresholdedRelu"):
        attributes["alpha"] = net.pick(None, 0.3, 1.5)
    if op == "Selu":
        attributes["gamma"] = net.pick(None, 0.75)
    if op == "HardSigmoid":
        attributes["beta"] = net.pick(None, 0.25)
    if op == "Gelu":
        attributes["approximate"] = net.pick(None, "tanh")
    if op == "Swish":
        attributes["alpha"] = net.pick(None, 1.5)
    if op == "Shrink":
        attributes = {"bias": net.pick(None, 0.25), "lambd": net.pick(None, 0.25, 1.0)}
    if op in ("Log", "Reciprocal", "Asin", "Acos", "Acosh", "Atanh"):  # map the operand into the domain
        x = net.emit("Sigmoid", [x])
    if op == "Acosh":
        x = x and net.emit("Reciprocal", [x])
    if not x:
        return None
    slope = [net.uniform([d if net.chance(50) else 1 for d in net.shape(x)], -1, 1)] if op == "PRelu" else []
    return net.emit(op, [x] + slope, attributes)


NUMBERS = ([reduce] * 4 + [place_of_extreme] * 2 + [cumulated] * 2 + [of_several] * 2 + [rounded] + [compared] * 3 +
           [whole] * 2 + [quantized] * 3 + [quantized_convolution] * 3 + [small_integers] * 2 + [loss] + [power] * 2 + [remainder] + [activation] * 4)
