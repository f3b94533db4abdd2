"""An ONNX interpreter in numpy with float64 arithmetic: an independent opinion of what a network computes.

Slow and plain; knows the inference operators of convolutional networks and transformers, opsets 7 to 17.

    python3 examples/reference.py model.onnx test_data_set_0     compares with output_*.pb, prints the largest error

Needs Debian's python3-numpy and python3-onnx (run it with /usr/bin/python3).
"""

import math
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper


def run(model, inputs, until=None):
    """All tensors by name, given the inputs by name; stops once the tensor `until` is known."""
    opset = max(o.version for o in model.opset_import if o.domain in ("", "ai.onnx"))
    values = {i.name: _wide(numpy_helper.to_array(i)) for i in model.graph.initializer}
    values.update({name: _wide(value) for name, value in inputs.items()})
    for node in model.graph.node:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
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


def _windows(attributes, size, kernel):
    """Strides, dilations and pads (begin, end) per spatial axis; ceil_mode adds to the end."""
    n = len(size)
    strides = attributes.get("strides", [1] * n)
    dilations = attributes.get("dilations", [1] * n)
    flat = attributes.get("pads", [0] * 2 * n)
    pads = [[flat[i], flat[n + i]] for i in range(n)]
    auto = attributes.get("auto_pad", b"NOTSET").decode()
    counts = []
    for i in range(n):
        reach = (kernel[i] - 1) * dilations[i] + 1
        if auto in ("SAME_UPPER", "SAME_LOWER"):
            total = max((-(-size[i] // strides[i]) - 1) * strides[i] + reach - size[i], 0)
            pads[i] = [total // 2, total - total // 2] if auto == "SAME_UPPER" else [total - total // 2, total // 2]
        elif auto == "VALID":
            pads[i] = [0, 0]
        room = size[i] + sum(pads[i]) - reach
        count = room // strides[i] + 1
        if attributes.get("ceil_mode", 0) and room % strides[i] and (count * strides[i] < size[i] + pads[i][0]):
            pads[i][1] += strides[i] - room % strides[i]
            count += 1
        counts.append(count)
    return strides, dilations, pads, counts


def _taps(x, kernel, strides, dilations, pads, counts, fill):
    """For each position in the window, the index of that position and the input it meets at each output position."""
    x = np.pad(x, [(0, 0), (0, 0)] + [tuple(p) for p in pads], constant_values=fill)
    for position in np.ndindex(*kernel):
        cut = tuple(
            slice(p * d, p * d + (c - 1) * s + 1, s) for p, d, s, c in zip(position, dilations, strides, counts)
        )
        yield position, x[(slice(None), slice(None)) + cut]


def conv(attributes, _, x, w, b=None):
    groups = attributes.get("group", 1)
    kernel = w.shape[2:]
    strides, dilations, pads, counts = _windows(attributes, x.shape[2:], kernel)
    n, c, m = x.shape[0], x.shape[1], w.shape[0]
    y = np.zeros((n, groups, m // groups, int(np.prod(counts))))
    depthwise = groups == c == m
    for position, part in _taps(x, kernel, strides, dilations, pads, counts, 0.0):
        if depthwise:  # the same product without a matrix per channel
            y += (part * w[(slice(None), 0) + position].reshape([1, m] + [1] * len(counts))).reshape(y.shape)
            continue
        columns = part.reshape(n, groups, c // groups, -1)
        weights = w[(slice(None), slice(None)) + position].reshape(groups, m // groups, c // groups)
        y += np.matmul(weights[None], columns)
    y = y.reshape([n, m] + counts)
    return y if b is None else y + b.reshape([1, m] + [1] * len(counts))


def max_pool(attributes, _, x):
    kernel = attributes["kernel_shape"]
    strides, dilations, pads, counts = _windows(attributes, x.shape[2:], kernel)
    y = None
    for _, part in _taps(x, kernel, strides, dilations, pads, counts, -np.inf):
        y = part.copy() if y is None else np.maximum(y, part)
    return y


def average_pool(attributes, _, x):
    kernel = attributes["kernel_shape"]
    strides, dilations, pads, counts = _windows(attributes, x.shape[2:], kernel)
    total, weight = 0.0, 0.0
    inside = np.ones((1, 1) + x.shape[2:])
    rest = pads
    if attributes.get("count_include_pad", 0):  # what ceil_mode adds at the end does not count even then
        declared = _windows({**attributes, "ceil_mode": 0}, x.shape[2:], kernel)[2]
        inside = np.pad(inside, [(0, 0), (0, 0)] + [tuple(p) for p in declared], constant_values=1.0)
        rest = [[0, p[1] - d[1]] for p, d in zip(pads, declared)]
    for _, part in _taps(x, kernel, strides, dilations, pads, counts, 0.0):
        total = total + part
    for _, part in _taps(inside, kernel, strides, dilations, rest, counts, 0.0):
        weight = weight + part
    return total / weight


def batch_norm(attributes, _, x, scale, bias, mean, variance):
    column = lambda v: v.reshape([1, -1] + [1] * (x.ndim - 2))
    epsilon = attributes.get("epsilon", 1e-5)
    return (x - column(mean)) / np.sqrt(column(variance) + epsilon) * column(scale) + column(bias)


def lrn(attributes, _, x):
    size, channels = attributes["size"], x.shape[1]
    square = np.zeros_like(x)
    for c in range(channels):
        square[:, c] = (x[:, max(0, c - (size - 1) // 2) : min(channels, c + size // 2 + 1)] ** 2).sum(axis=1)
    factor = attributes.get("bias", 1.0) + attributes.get("alpha", 1e-4) / size * square
    return x / factor ** attributes.get("beta", 0.75)


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
        if axes is None or len(axes) == 0:
            return x if attributes.get("noop_with_empty_axes", 0) else function(x, axis=None, keepdims=keep)
        return function(x, axis=tuple(int(a) for a in axes), keepdims=keep)

    return reduce


def split(attributes, _, x, sizes=None):
    axis = attributes.get("axis", 0)
    sizes = attributes.get("split", sizes)
    if sizes is None:
        raise NotImplementedError("Split without sizes")
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def slice_(attributes, _, x, starts=None, ends=None, axes=None, steps=None):
    starts = attributes.get("starts", starts)
    ends = attributes.get("ends", ends)
    axes = attributes.get("axes", range(len(starts)) if axes is None else axes)
    steps = [1] * len(starts) if steps is None else steps
    cut = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps):
        # A negative step runs to the front: an end before it means "through element 0".
        end = None if step < 0 and end < -x.shape[int(axis)] else int(end)
        cut[int(axis)] = slice(int(start), end, int(step))
    return x[tuple(cut)]


OPS = {
    "Conv": conv,
    "Gemm": gemm,
    "MatMul": lambda _, __, a, b: a @ b,
    "BatchNormalization": batch_norm,
    "Relu": lambda _, __, x: np.maximum(x, 0.0),
    "Clip": clip,
    "Sigmoid": lambda _, __, x: 1.0 / (1.0 + np.exp(-x)),
    "Add": lambda _, __, a, b: a + b,
    "Sub": lambda _, __, a, b: a - b,
    "Mul": lambda _, __, a, b: a * b,
    "Div": lambda _, __, a, b: a / b,
    "Pow": lambda _, __, a, b: a**b,
    "Sqrt": lambda _, __, x: np.sqrt(x),
    "Erf": lambda _, __, x: np.vectorize(math.erf, otypes=[np.float64])(x),
    "Tanh": lambda _, __, x: np.tanh(x),
    "HardSigmoid": lambda attributes, _, x: np.clip(
        attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5), 0.0, 1.0
    ),
    "HardSwish": lambda _, __, x: x * np.clip(x / 6 + 0.5, 0.0, 1.0),
    "LayerNormalization": layer_norm,
    "ReduceMean": reduction(np.mean),
    "ReduceSum": reduction(np.sum),
    "ReduceMax": reduction(np.max),
    "Gather": lambda attributes, _, x, indices: np.take(x, indices, attributes.get("axis", 0)),
    "Split": split,
    "Slice": slice_,
    "Sum": lambda _, __, *xs: sum(xs[1:], xs[0]),
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": lambda _, __, x: x.mean(axis=tuple(range(2, x.ndim)), keepdims=True),
    "LRN": lrn,
    "Softmax": softmax,
    "Concat": lambda attributes, _, *xs: np.concatenate(xs, attributes["axis"]),
    "Flatten": flatten,
    "Reshape": reshape,
    "Transpose": lambda attributes, _, x: x.transpose(attributes.get("perm", range(x.ndim)[::-1])),
    "Squeeze": squeeze,
    "Unsqueeze": unsqueeze,
    "Dropout": lambda _, __, x, *rest: (x, np.ones(x.shape, bool)),
    "Identity": lambda _, __, x: x,
    "Constant": lambda attributes, _: _wide(numpy_helper.to_array(attributes["value"])),
    "ConstantOfShape": constant_of_shape,
    "Shape": lambda _, __, x: np.array(x.shape, np.int64),
}


def read_pb(path):
    tensor = onnx.TensorProto()
    tensor.ParseFromString(Path(path).read_bytes())
    return numpy_helper.to_array(tensor)


def write_pb(path, name, array):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(numpy_helper.from_array(np.asarray(array, order="C"), name).SerializeToString())


def graph_inputs(model):
    """Name to shape of the inputs that have no initializer; unknown dimensions are 1."""
    known = {i.name for i in model.graph.initializer}
    return {
        i.name: [d.dim_value or 1 for d in i.type.tensor_type.shape.dim] for i in model.graph.input if i.name not in known
    }


def error_ratio(a, b, rtol=1e-3, atol=1e-4):
    """The largest |a - b| as a multiple of what is allowed, atol * max|b| + rtol * |b|; at most 1 passes."""
    if a.shape != b.shape:
        return float("inf")
    allowed = atol * np.abs(b).max() + rtol * np.abs(b)
    ratio = np.abs(a.astype(np.float64) - b) / np.maximum(allowed, 1e-300)
    return float("inf") if np.isnan(ratio).any() else float(ratio.max())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    model, folder = onnx.load(sys.argv[1]), Path(sys.argv[2])
    names = list(graph_inputs(model))
    values = run(model, {name: read_pb(folder / f"input_{i}.pb") for i, name in enumerate(names)})
    worst = 0.0
    for i, output in enumerate(model.graph.output):
        worst = max(worst, error_ratio(read_pb(folder / f"output_{i}.pb"), values[output.name]))
    print(f"largest error: {worst:.3g} of what is allowed")
    sys.exit(0 if worst <= 1 else 1)


if __name__ == "__main__":
    main()
