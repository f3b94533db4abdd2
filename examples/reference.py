"""An ONNX interpreter in numpy with float64 arithmetic: an independent reference for the outputs of a network.

It is slow and simple. It has the inference operators of convolutional networks and transformers, opsets 7 to 28.
reference_images.py has the operators on images, reference_attention.py attention, and reference_select.py recurrent
operators and those that sort, scatter or sample.

    python3 examples/reference.py model.onnx test_data_set_0     compares with output_*.pb, prints the largest error

Needs Debian's python3-numpy and python3-onnx (run it with /usr/bin/python3).
"""

import functools
import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from compare import error_ratio
from element_types import NUMPY_TYPES
from reference_attention import attention, causal_conv, linear_attention, tensor_scatter
from reference_images import (
    average_pool,
    batch_norm,
    conv,
    conv_transpose,
    depth_to_space,
    instance_norm,
    lrn,
    max_pool,
    resize,
    space_to_depth,
    standardized,
)
from reference_select import SELECT_OPS


def run(model, inputs, until=None):
    """Returns all tensors by name, given the inputs by name. Stops once the tensor `until` is known."""
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    values = {i.name: _wide(numpy_helper.to_array(i)) for i in model.graph.initializer}
    values.update({name: _wide(value) for name, value in inputs.items()})
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        attributes["outputs"] = len(node.output)  # Split without sizes needs the number of outputs
        if node.op_type not in OPS:
            raise NotImplementedError(f"operator {node.op_type}")
        arguments = [values[name] if name else None for name in node.input]
        results = OPS[node.op_type](attributes, opset, *arguments)
        for name, value in zip(node.output, results if isinstance(results, tuple) else (results,)):
            values[name] = value
        if until in values:
            break
    return values


def _wide(array):
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def gemm(attributes, _, a, b, c=None):
    a = a.T if attributes.get("transA", 0) else a
    b = b.T if attributes.get("transB", 0) else b
    y = attributes.get("alpha", 1.0) * (a @ b)
    return y if c is None else y + attributes.get("beta", 1.0) * c


def softmax(attributes, opset, x):
    axis = attributes.get("axis", -1 if opset >= 13 else 1)
    flat = x if opset >= 13 else x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
    axis = axis if opset >= 13 else 1
    e = np.exp(flat - flat.max(axis=axis, keepdims=True))
    return (e / e.sum(axis=axis, keepdims=True)).reshape(x.shape)


def flatten(attributes, _, x):
    axis = attributes.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[: axis % x.ndim if axis < 0 else axis])), -1)


def reshape(_, __, x, shape):
    return x.reshape([x.shape[i] if d == 0 else int(d) for i, d in enumerate(shape)])


def squeeze(attributes, _, x, axes=None):
    axes = attributes.get("axes", axes)
    return x.squeeze(None if axes is None else tuple(int(a) for a in axes))


def unsqueeze(attributes, _, x, axes=None):
    axes = attributes.get("axes", axes)
    return np.expand_dims(x, tuple(int(a) for a in axes))


def constant_of_shape(attributes, _, shape):
    value = numpy_helper.to_array(attributes["value"]) if "value" in attributes else np.zeros(1, np.float32)
    return _wide(np.full([int(d) for d in shape], value.reshape(-1)[0]))


def clip(attributes, _, x, low=None, high=None):
    low = attributes.get("min", low)
    high = attributes.get("max", high)
    return np.clip(x, -np.inf if low is None else low, np.inf if high is None else high)


def celu(attributes, _, x):
    alpha = attributes.get("alpha", 1.0)
    return np.maximum(x, 0.0) + np.minimum(alpha * np.expm1(np.minimum(x / alpha, 0.0)), 0.0)


def selu(attributes, _, x):
    alpha, gamma = attributes.get("alpha", 1.6732631921768188), attributes.get("gamma", 1.0507010221481323)
    return gamma * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0.0)))


def shrink(attributes, _, x):
    bias, bound = attributes.get("bias", 0.0), attributes.get("lambd", 0.5)
    return np.where(x < -bound, x + bias, np.where(x > bound, x - bias, 0.0))


def layer_norm(attributes, _, x, scale, bias=None):
    axes = tuple(range(attributes.get("axis", -1) % x.ndim, x.ndim))
    mean = x.mean(axis=axes, keepdims=True)
    variance = x.var(axis=axes, keepdims=True)
    y = (x - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale
    return y if bias is None else y + bias


def reduction(function):
    def reduce(attributes, _, x, axes=None):
        axes = attributes.get("axes", axes)
        keep = bool(attributes.get("keepdims", 1))
        if (axes is None or len(axes) == 0) and attributes.get("noop_with_empty_axes", 0):
            return x
        over = tuple(range(x.ndim)) if axes is None or len(axes) == 0 else tuple(int(a) for a in axes)
        return np.asarray(function(x, axis=over, keepdims=keep)).astype(x.dtype)

    return reduce


def log_sum_exp(x, axis, keepdims):
    top = x.max(axis=axis, keepdims=True)
    y = np.log(np.exp(x - top).sum(axis=axis, keepdims=True)) + top
    return y if keepdims else y.squeeze(axis)


def arg(function):
    """Returns the index of the extreme element: the first of equal elements, or with select_last_index the last one."""

    def places(attributes, _, x):
        axis = attributes.get("axis", 0)
        last = attributes.get("select_last_index", 0)
        y = x.shape[axis] - 1 - function(np.flip(x, axis), axis=axis) if last else function(x, axis=axis)
        return (np.expand_dims(y, axis) if attributes.get("keepdims", 1) else np.asarray(y)).astype(np.int64)

    return places


def hardmax(attributes, opset, x):
    axis = attributes.get("axis", -1 if opset >= 13 else 1)
    flat = x if opset >= 13 else x.reshape(int(np.prod(x.shape[: axis % x.ndim])), -1)
    axis = axis % x.ndim if opset >= 13 else 1
    along = np.arange(flat.shape[axis]).reshape([-1 if d == axis else 1 for d in range(flat.ndim)])
    return (along == np.expand_dims(flat.argmax(axis=axis), axis)).astype(np.float64).reshape(x.shape)


def divide(_, __, a, b):
    if a.dtype.kind == "f":
        return a / b
    return (np.abs(a) // np.abs(b) * np.sign(a) * np.sign(b)).astype(a.dtype)  # rounds towards 0


def cum_sum(attributes, _, x, axis):
    axis = int(axis)
    x = np.flip(x, axis) if attributes.get("reverse", 0) else x
    y = np.cumsum(x, axis, dtype=x.dtype)
    if attributes.get("exclusive", 0):
        y = y - x
    return np.flip(y, axis) if attributes.get("reverse", 0) else y


def gather_elements(attributes, _, x, indices):
    axis = attributes.get("axis", 0) % x.ndim
    y = np.empty(indices.shape, x.dtype)
    for place in np.ndindex(*indices.shape):
        y[place] = x[place[:axis] + (int(indices[place]),) + place[axis + 1 :]]
    return y


def pad(attributes, opset, x, pads=None, value=None):
    pads = attributes["pads"] if opset < 11 else [int(p) for p in pads]
    value = (attributes.get("value", 0.0) if opset < 11 else value) or 0.0
    ends = list(zip(pads[: x.ndim], pads[x.ndim :]))
    x = x[tuple(slice(max(-b, 0), n - max(-e, 0)) for n, (b, e) in zip(x.shape, ends))]
    ends = [(max(b, 0), max(e, 0)) for b, e in ends]
    mode = attributes.get("mode", b"constant").decode()
    return np.pad(x, ends, mode, constant_values=float(value)) if mode == "constant" else np.pad(x, ends, mode)


def trilu(attributes, _, x, k=0):
    return np.triu(x, int(k)) if attributes.get("upper", 1) else np.tril(x, int(k))


def one_hot(attributes, _, indices, depth, values):
    hot = np.where(indices < 0, indices + int(depth), indices)[..., None] == np.arange(int(depth))
    axis = attributes.get("axis", -1)
    return np.moveaxis(np.where(hot, values[1], values[0]), -1, axis)


def cast(attributes, _, x):
    """Converts to another type. Floats become whole numbers by truncation; all floats are float64 here."""
    return _wide(x.astype(NUMPY_TYPES[attributes["to"]]))


def _along(v, attributes, x):
    """Reshapes a scale or zero point, one number or one for each index of the axis, so that it broadcasts to x."""
    axis = attributes.get("axis", 1)
    return v.reshape(()) if v.size == 1 else v.reshape([-1 if d == axis % x.ndim else 1 for d in range(x.ndim)])


def quantize(attributes, _, x, scale, zero=np.uint8(0)):
    """Divides in f32, as the operator does: f64 would move quotients across the middle between two integers."""
    whole = np.round(np.float32(x) / np.float32(_along(scale, attributes, x))) + _along(zero, attributes, x)
    return _saturated(whole, zero.dtype)


def _saturated(whole, dtype):
    """NaN becomes the least number of the type, as in ONNX Runtime; ONNX leaves it open."""
    limits = np.iinfo(dtype)
    return np.clip(np.where(np.isnan(whole), limits.min, whole), limits.min, limits.max).astype(dtype)


def dequantize(attributes, _, x, scale, zero=np.uint8(0)):
    whole = x.astype(np.float64) - _along(zero, attributes, x)
    return (np.float32(whole) * np.float32(_along(scale, attributes, x))).astype(np.float64)


def dynamic_quantize(_, opset, x):
    low, high = min(x.min(), 0.0), max(x.max(), 0.0)
    span = np.float32(high) - np.float32(low)
    scale = np.asarray(span / np.float32(255) if span != 0 else np.float32(1))
    zero = np.clip(np.round(-np.float32(low) / scale), 0, 255).astype(np.uint8)
    return quantize({}, opset, x, scale, zero), scale, zero


def matmul_integer(_, __, a, b, a_zero=None, b_zero=None):
    a, b = a.astype(np.int32), b.astype(np.int32)
    if a_zero is not None:  # one number, or one for each row of a; for b, one for each column
        a = a - (a_zero.reshape(-1, 1) if a_zero.size > 1 else a_zero)
    return np.matmul(a, b if b_zero is None else b - b_zero)


def _channels(value, rank, axis):
    return value.reshape([-1 if d == axis else 1 for d in range(rank)]) if value.size > 1 else value.reshape(())


def conv_integer(attributes, opset, x, w, x_zero=None, w_zero=None):
    x, w = x.astype(np.float64), w.astype(np.float64)  # whose sums of 8-bit products are exact
    x = x if x_zero is None else x - x_zero.astype(np.float64).reshape(())
    w = w if w_zero is None else w - _channels(w_zero.astype(np.float64), w.ndim, 0)
    return conv(attributes, opset, x, w).astype(np.int32)


def qlinear_conv(attributes, opset, x, x_scale, x_zero, w, w_scale, w_zero, scale, zero, bias=None):
    y = conv_integer(attributes, opset, x, w, x_zero, w_zero).astype(np.float64)
    y = y if bias is None else y + _channels(bias, y.ndim, 1)
    factors = np.float32(x_scale.reshape(())) * np.float32(_channels(w_scale, y.ndim, 1))
    return quantize({}, opset, np.float32(y) * factors, scale.reshape(()), zero.reshape(()))


def qlinear_matmul(_, opset, a, a_scale, a_zero, b, b_scale, b_zero, scale, zero):
    rows = lambda v: v.reshape(-1, 1) if v.ndim == 1 and v.size > 1 else v
    y = (a.astype(np.float64) - rows(a_zero)) @ (b.astype(np.float64) - b_zero)
    y = np.float32(y) * (np.float32(rows(a_scale)) * np.float32(b_scale))
    return _saturated(np.round(y / np.float32(rows(scale))) + rows(zero), zero.dtype)


def likelihood_loss(attributes, _, x, labels, weights=None):
    """Returns the negative log-probabilities of the labels, optionally weighted by class."""
    weights = np.ones(x.shape[1]) if weights is None else weights
    counted = labels != attributes["ignore_index"] if "ignore_index" in attributes else np.ones(labels.shape, bool)
    known = np.where(counted, labels, 0)
    weight = np.where(counted, weights[known], 0.0)
    loss = -np.take_along_axis(x, known[:, None], 1)[:, 0] * weight
    reduction = attributes.get("reduction", b"mean").decode()
    return {"none": loss, "sum": loss.sum(), "mean": loss.sum() / weight.sum()}[reduction]


def cross_entropy_loss(attributes, opset, x, labels, weights=None):
    logarithms = np.log(softmax({"axis": 1}, 13, x))
    return likelihood_loss(attributes, opset, logarithms, labels, weights), logarithms


def gelu(attributes, _, x):
    if attributes.get("approximate") == b"tanh":
        return x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / 2 * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / np.sqrt(2)))


def split(attributes, _, x, sizes=None):
    axis = attributes.get("axis", 0)
    sizes = attributes.get("split", sizes)
    return tuple(np.split(x, attributes["outputs"] if sizes is None else np.cumsum(sizes)[:-1], axis))


def slice_(attributes, _, x, starts=None, ends=None, axes=None, steps=None):
    starts = attributes.get("starts", starts)
    ends = attributes.get("ends", ends)
    axes = attributes.get("axes", range(len(starts)) if axes is None else axes)
    steps = [1] * len(starts) if steps is None else steps
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        # With a negative step, an end before the first element means that the slice includes element 0.
        end = None if step < 0 and end < -x.shape[int(axis)] else int(end)
        cut[int(axis)] = slice(int(start), end, int(step))
    return x[tuple(cut)]


OPS = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Gemm": gemm,
    "MatMul": lambda _, __, a, b: a @ b,
    "BatchNormalization": batch_norm,
    "Relu": lambda _, __, x: np.maximum(x, x.dtype.type(0)),
    "Clip": clip,
    "Sigmoid": lambda _, __, x: 1.0 / (1.0 + np.exp(-x)),
    "Add": lambda _, __, a, b: a + b,
    "Sub": lambda _, __, a, b: a - b,
    "Mul": lambda _, __, a, b: a * b,
    "Div": divide,
    "Pow": lambda _, __, a, b: a**b,
    "Mod": lambda attributes, _, a, b: np.fmod(a, b) if attributes.get("fmod", 0) else np.mod(a, b),
    "Max": lambda _, __, *xs: functools.reduce(np.maximum, xs),
    "Min": lambda _, __, *xs: functools.reduce(np.minimum, xs),
    "Mean": lambda _, __, *xs: sum(xs[1:], xs[0]) / len(xs),
    "Exp": lambda _, __, x: np.exp(x),
    "Log": lambda _, __, x: np.log(x),
    "Abs": lambda _, __, x: np.abs(x),
    "Neg": lambda _, __, x: -x,
    "Floor": lambda _, __, x: np.floor(x),
    "Ceil": lambda _, __, x: np.ceil(x),
    "Round": lambda _, __, x: np.round(x),  # rounds halves to even
    "Sign": lambda _, __, x: np.sign(x),
    "Reciprocal": lambda _, __, x: 1.0 / x,
    "Cosh": lambda _, __, x: np.cosh(x),
    "Sinh": lambda _, __, x: np.sinh(x),
    "Mish": lambda _, __, x: x * np.tanh(np.logaddexp(0.0, x)),
    "Gelu": gelu,
    "Swish": lambda attributes, _, x: x / (1 + np.exp(-attributes.get("alpha", 1.0) * x)),
    "Sin": lambda _, __, x: np.sin(x),
    "Cos": lambda _, __, x: np.cos(x),
    "Tan": lambda _, __, x: np.tan(x),
    "Asin": lambda _, __, x: np.arcsin(x),
    "Acos": lambda _, __, x: np.arccos(x),
    "Atan": lambda _, __, x: np.arctan(x),
    "Asinh": lambda _, __, x: np.arcsinh(x),
    "Acosh": lambda _, __, x: np.arccosh(x),
    "Atanh": lambda _, __, x: np.arctanh(x),
    "Equal": lambda _, __, a, b: a == b,
    "Less": lambda _, __, a, b: a < b,
    "LessOrEqual": lambda _, __, a, b: a <= b,
    "Greater": lambda _, __, a, b: a > b,
    "GreaterOrEqual": lambda _, __, a, b: a >= b,
    "And": lambda _, __, a, b: a & b,
    "Or": lambda _, __, a, b: a | b,
    "Xor": lambda _, __, a, b: a ^ b,
    "Not": lambda _, __, x: ~x,
    "Where": lambda _, __, c, a, b: np.where(c, a, b),
    "Cast": cast,
    "Sqrt": lambda _, __, x: np.sqrt(x),
    "Erf": lambda _, __, x: np.vectorize(math.erf, otypes=[np.float64])(x),
    "Tanh": lambda _, __, x: np.tanh(x),
    "HardSigmoid": lambda attributes, _, x: np.clip(
        attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5), 0.0, 1.0
    ),
    "HardSwish": lambda _, __, x: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    "LeakyRelu": lambda attributes, _, x: np.where(x < 0, attributes.get("alpha", 0.01) * x, x),
    "PRelu": lambda _, __, x, slope: np.where(x < 0, slope * x, x),
    "Elu": lambda attributes, _, x: np.where(x < 0, attributes.get("alpha", 1.0) * np.expm1(np.minimum(x, 0)), x),
    "Celu": celu,
    "Selu": selu,
    "Softplus": lambda _, __, x: np.logaddexp(0.0, x),
    "Softsign": lambda _, __, x: x / (1 + np.abs(x)),
    "ThresholdedRelu": lambda attributes, _, x: np.where(x > attributes.get("alpha", 1.0), x, 0.0),
    "Shrink": shrink,
    "LayerNormalization": layer_norm,
    "InstanceNormalization": instance_norm,
    "MeanVarianceNormalization": lambda attributes, _, x: standardized(x, attributes.get("axes", (0, 2, 3)), 0.0),
    "ReduceMean": reduction(np.mean),
    "ReduceSum": reduction(np.sum),
    "ReduceMax": reduction(np.max),
    "ReduceMin": reduction(np.min),
    "ReduceProd": reduction(np.prod),
    "ReduceL1": reduction(lambda x, **rest: np.abs(x).sum(**rest)),
    "ReduceL2": reduction(lambda x, **rest: np.sqrt((x * x).sum(**rest))),
    "ReduceSumSquare": reduction(lambda x, **rest: (x * x).sum(**rest)),
    "ReduceLogSum": reduction(lambda x, **rest: np.log(x.sum(**rest))),
    "ReduceLogSumExp": reduction(log_sum_exp),
    "ArgMax": arg(np.argmax),
    "ArgMin": arg(np.argmin),
    "CumSum": cum_sum,
    "Gather": lambda attributes, _, x, indices: np.take(x, indices, attributes.get("axis", 0)),
    "GatherElements": gather_elements,
    "OneHot": one_hot,
    "Split": split,
    "Slice": slice_,
    "Pad": pad,
    "Expand": lambda _, __, x, shape: x * np.ones([int(d) for d in shape], x.dtype),
    "Tile": lambda _, __, x, repeats: np.tile(x, [int(r) for r in repeats]),
    "Trilu": trilu,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Resize": resize,
    "Upsample": resize,
    "Sum": lambda _, __, *xs: sum(xs[1:], xs[0]),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda _, __, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
    "GlobalMaxPool": lambda _, __, x: x.max(axis=tuple(range(2, x.ndim)), keepdims=True),
    "LRN": lrn,
    "Softmax": softmax,
    "LogSoftmax": lambda *arguments: np.log(softmax(*arguments)),
    "Hardmax": hardmax,
    "Concat": lambda attributes, _, *xs: np.concatenate(xs, attributes["axis"]),
    "Flatten": flatten,
    "Reshape": reshape,
    "Transpose": lambda attributes, _, x: x.transpose(attributes.get("perm", range(x.ndim)[::-1])),
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Dropout": lambda _, opset, x, *rest: (x, np.ones(x.shape, bool if opset >= 10 else np.float64)),
    "Identity": lambda _, __, x: x,
    "Constant": lambda attributes, _: _wide(numpy_helper.to_array(attributes["value"])),
    "ConstantOfShape": constant_of_shape,
    "Shape": lambda a, _, x: np.array(x.shape[a.get("start", 0) : a.get("end")], np.int64),
    "Size": lambda _, __, x: np.array(x.size, np.int64),
    "Range": lambda _, __, start, limit, delta: np.arange(start, limit, delta),
    "EyeLike": lambda attributes, _, x: np.eye(*x.shape, attributes.get("k", 0)),
    "IsNaN": lambda _, __, x: np.isnan(x),
    "QuantizeLinear": quantize,
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": dynamic_quantize,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
    "NegativeLogLikelihoodLoss": likelihood_loss,
    "SoftmaxCrossEntropyLoss": cross_entropy_loss,
    **SELECT_OPS,
    "Attention": attention,
    "TensorScatter": tensor_scatter,
    "CausalConvWithState": causal_conv,
    "LinearAttention": linear_attention,
}


def read_pb(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(Path(path).read_bytes())
    return numpy_helper.to_array(tensor)


def write_pb(path, name, array):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(numpy_helper.from_array(np.asarray(array, order="C"), name).SerializeToString())


def graph_inputs(model):
    """Returns the shapes, by name, of the inputs without an initializer; unknown dimensions become 1."""
    known = {i.name for i in model.graph.initializer}
    return {
        i.name: [d.dim_value if d.HasField("dim_value") else 1 for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in known
    }


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, folder = onnx.load(sys.argv[1]), Path(sys.argv[2])
    names = list(graph_inputs(model))
    values = run(model, {name: read_pb(folder / f"input_{i}.pb") for i, name in enumerate(names)})
    worst = 0.0
    for i, output in enumerate(model.graph.output):
        worst = max(worst, error_ratio(read_pb(folder / f"output_{i}.pb"), values[output.name]))
    print(f"largest error: {worst:.3g} of the allowed one")
    sys.exit(0 if worst <= 1 else 1)


if __name__ == "__main__":
    main()
