"""Random networks: from a seed, an ONNX model of the supported operators with its inputs, and its outputs in float64 by
examples/reference.py. For scripts/fuzz_networks.py. Extents are small and odd; every operator set from 7 to 17 occurs.
"""

import random
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import reference  # noqa: E402

EXTENTS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 16, 17, 19, 28]
CHANNELS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64]
MAX_ELEMENTS = 1 << 15


class Network:
    """A graph under construction, with the values of all its tensors. A step that would make values huge, tiny or the
    difference of nearly equal numbers is refused: float32 could not be compared with float64 there."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.rng.randint(7, 17)
        self.nodes, self.inputs, self.initializers, self.values = [], [], [], {}
        self.live = []  # tensors that steps may read
        self.unread = set()

    def name(self, prefix):
        return f"{prefix}{len(self.values)}"

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def constant(self, array):
        """An initializer, or now and then a Constant node."""
        name = self.name("c")
        self.values[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        if self.chance(15):
            value = numpy_helper.from_array(array, name)
            self.nodes.append(helper.make_node("Constant", [], [name], name="n_" + name, value=value))
        else:
            self.initializers.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, shape, fan_in):
        return self.constant((self.numbers.standard_normal(shape) * np.sqrt(1.5 / fan_in)).astype(np.float32))

    def uniform(self, shape, low=0.5, high=1.5):
        return self.constant(self.numbers.uniform(low, high, shape).astype(np.float32))

    def integers(self, numbers):
        return self.constant(np.array(numbers, np.int64))

    def input(self, shape):
        name = self.name("x")
        array = self.numbers.standard_normal(shape).astype(np.float32)
        self.values[name] = array.astype(np.float64)
        self.inputs.append((name, array))
        self.live.append(name)
        self.unread.add(name)
        return name

    def shape(self, name):
        return list(self.values[name].shape)

    def choose(self, *ranks):
        """A live tensor of one of these ranks (any, if none is given), or None."""
        fitting = [v for v in self.live if not ranks or self.values[v].ndim in ranks]
        # Mostly the latest ones, so that networks become deep.
        return self.rng.choice(fitting[-3:] if self.chance(80) else fitting) if fitting else None

    def emit(self, op, inputs, attributes=None):
        """Adds the node if its values stay comparable; None if not."""
        attributes = {k: v for k, v in (attributes or {}).items() if v is not None}
        node = helper.make_node(op, inputs, ["y"], **attributes)
        parsed = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        with np.errstate(all="ignore"):
            y = reference.OPS[op](parsed, self.opset, *[self.values[i] if i else None for i in inputs])
        y = y[0] if isinstance(y, tuple) else y
        floats = [self.values[i] for i in inputs if i and self.values[i].dtype.kind == "f" and self.values[i].size]
        if y.size == 0 or y.size > MAX_ELEMENTS or y.ndim > 6 or not np.isfinite(y).all():
            return None
        peak = np.abs(y).max()
        if peak > 1e4 or peak < 1e-4 or (op in ("Add", "Sub", "Sum", "Conv", "Gemm", "MatMul", "BatchNormalization")
                                          and peak < 0.02 * max(np.abs(f).max() for f in floats)):
            return None
        name = self.name("t")
        node.output[0] = name
        node.name = "n_" + name
        self.nodes.append(node)
        self.values[name] = np.asarray(y, np.float64)
        self.live.append(name)
        self.unread.difference_update(inputs)
        self.unread.add(name)
        return name

    def window(self, size, kernel, dilated, most_pad):
        """Random strides, dilations and padding of a window that fits; None if none was found."""
        n = len(size)
        attributes = {}
        strides = [self.pick(1, 1, 1, 2, 2, 3) for _ in range(n)]
        dilations = [self.pick(1, 1, 2, 3) if dilated else 1 for _ in range(n)]
        mode = self.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", None)
        pads = [0] * 2 * n
        if mode in ("NOTSET", None) and self.chance(70):
            symmetric = self.chance(60)
            for i in range(n):
                limit = most_pad(kernel[i], dilations[i])
                pads[i] = self.rng.randint(0, limit)
                pads[i + n] = pads[i] if symmetric else self.rng.randint(0, limit)
        for i in range(n):
            padded = size[i] + pads[i] + pads[i + n]
            if mode not in ("SAME_UPPER", "SAME_LOWER") and padded < (kernel[i] - 1) * dilations[i] + 1:
                return None
        if strides != [1] * n or self.chance(50):
            attributes["strides"] = strides
        if dilations != [1] * n:
            attributes["dilations"] = dilations
        if any(pads):
            attributes["pads"] = pads
        if mode and (mode != "NOTSET" or self.chance(20)):
            attributes["auto_pad"] = mode
        return attributes


def conv(net):
    x = net.choose(3, 4, 5)
    if not x:
        return None
    n, c, *size = net.shape(x)
    kernel = [net.pick(1, 1, 2, 3, 3, 4, 5) for _ in size]
    attributes = net.window(size, kernel, True, lambda k, d: (k - 1) * d + 1)
    if attributes is None:
        return None
    groups = net.rng.choice([g for g in range(1, c + 1) if c % g == 0]) if net.chance(30) else 1
    if net.chance(10):
        groups = c
    multiplier = net.pick(1, 1, 2, 3) if groups > 1 else net.rng.choice(CHANNELS)
    m = groups * multiplier
    shape = [m, c // groups] + kernel
    if groups > 1 or net.chance(30):
        attributes["group"] = groups
    if net.chance(50):
        attributes["kernel_shape"] = kernel
    if net.chance(8) and int(np.prod(shape)) < 4096:
        w = net.input(shape)
    else:
        w = net.weight(shape, c // groups * int(np.prod(kernel)))
    return net.emit("Conv", [x, w] + ([net.uniform([m], -1, 1)] if net.chance(50) else []), attributes)


def gemm(net):
    a = net.choose(2)
    if not a:
        return None
    trans_a, trans_b = net.pick(0, 0, 0, 1), net.pick(0, 1)
    m, k = net.shape(a)[::-1] if trans_a else net.shape(a)
    n = net.rng.choice(CHANNELS)
    shape = [n, k] if trans_b else [k, n]
    b = net.weight(shape, k) if net.chance(85) else net.input(shape)
    inputs = [a, b]
    if net.chance(70):
        inputs.append(net.uniform(net.pick([n], [n], [1, n], [m, 1], [m, n], [1], []), -1, 1))
    elif net.opset >= 11:
        pass
    else:
        inputs.append(net.uniform([n], -1, 1))
    attributes = {"transA": trans_a or None, "transB": trans_b or None, "alpha": net.pick(None, None, 0.5, 2.0),
                  "beta": net.pick(None, None, 0.25, 0.0)}
    return net.emit("Gemm", inputs, attributes)


def matmul(net):
    a = net.choose(1, 2, 3, 4)
    if not a:
        return None
    shape = net.shape(a)
    k, n = shape[-1], net.rng.choice(CHANNELS)
    kind = net.pick("matrix", "matrix", "vector", "batch", "left", "self")
    if kind == "self" and len(shape) == 2:
        t = net.emit("Transpose", [a])
        return t and net.emit("MatMul", net.pick([a, t], [t, a]))
    if kind == "left" and len(shape) >= 2:
        m = net.rng.choice(CHANNELS)
        lead = shape[:-2] if net.chance(50) else []
        return net.emit("MatMul", [net.weight(lead + [m, shape[-2]], shape[-2]), a])
    if kind == "vector":
        return net.emit("MatMul", [a, net.weight([k], k)])
    lead = []
    if kind == "batch" and len(shape) > 2:
        lead = [net.pick(d, d, 1) for d in shape[:-2]]
        if net.chance(20):
            lead = [2] + lead
    b = net.weight(lead + [k, n], k) if net.chance(80) else net.input(lead + [k, n])
    return net.emit("MatMul", [a, b])


def batch_norm(net):
    x = net.choose(2, 3, 4, 5)
    if not x:
        return None
    c = net.shape(x)[1]
    statistics = [net.uniform([c]), net.uniform([c], -1, 1), net.uniform([c], -1, 1), net.uniform([c])]
    return net.emit("BatchNormalization", [x] + statistics, {"epsilon": net.pick(None, 1e-3)})


def unary(net):
    return net.emit(net.pick("Relu", "Relu", "Relu", "Sigmoid", "Identity"), [net.choose()])


def square_root(net):
    x = net.emit("Sigmoid", [net.choose()])
    return x and net.emit("Sqrt", [x])


def clip(net):
    low, high = net.pick(None, 0.0, -0.5), net.pick(None, 6.0, 0.75)
    x = net.choose()
    if net.opset < 11:
        return net.emit("Clip", [x], {"min": low, "max": high})
    bound = lambda v: "" if v is None else net.constant(np.array(v, np.float32))
    inputs = [x, bound(low), bound(high)]
    while not inputs[-1]:
        inputs.pop()
    return net.emit("Clip", inputs)


def partner(net, shape):
    """An operand that broadcasts with the shape: the tensor's own kin if there is one, else a constant."""
    for v in net.rng.sample(net.live, len(net.live)):
        try:
            out = np.broadcast_shapes(tuple(shape), net.values[v].shape)
        except ValueError:
            continue
        if np.prod(out) <= MAX_ELEMENTS and net.chance(70):
            return v
    kept = [d if net.chance(50) else 1 for d in shape]
    drop = net.rng.randint(0, len(kept)) if net.chance(50) else 0
    if net.chance(10):
        kept = [1] + kept if net.chance(50) else kept
    return net.uniform(kept[drop:])


def binary(net):
    x = net.choose()
    op = net.pick("Add", "Add", "Add", "Mul", "Mul", "Sub", "Div")
    if op == "Div":
        return net.emit("Div", [x, net.uniform([d if net.chance(50) else 1 for d in net.shape(x)])])
    operands = [x, partner(net, net.shape(x))]
    if net.chance(30):
        operands.reverse()
    return net.emit(op, operands)


def sum_all(net):
    x = net.choose()
    return net.emit("Sum", [x] + [partner(net, net.shape(x)) for _ in range(net.rng.randint(0, 2))])


def scaled_shift(net):
    """x * s + t by channel, as batch normalization looks in some models."""
    x = net.choose(2, 4, 5)
    if not x:
        return None
    rank, c = len(net.shape(x)), net.shape(x)[1]
    shape = [c] if rank == 2 else [1, c] + [1] * (rank - 2)
    y = net.emit("Mul", [x, net.uniform(net.pick(shape, shape[1 - rank :], [1]))])
    return y and net.emit("Add", [y, net.uniform(shape, -1, 1)])


def pool(net):
    x = net.choose(3, 4, 5)
    if not x:
        return None
    size = net.shape(x)[2:]
    op = net.pick("MaxPool", "AveragePool")
    kernel = [net.pick(1, 2, 2, 3, 3, 4, 5) for _ in size]
    attributes = net.window(size, kernel, op == "MaxPool" and net.opset >= 10, lambda k, d: k - 1)
    if attributes is None:
        return None
    attributes["kernel_shape"] = kernel
    if net.opset >= 10 and net.chance(40):
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and net.chance(40):
        attributes["count_include_pad"] = 1
    return net.emit(op, [x], attributes)


def global_pool(net):
    x = net.choose(3, 4, 5)
    return x and net.emit("GlobalAveragePool", [x])


def lrn(net):
    x = net.choose(4, 3, 2)
    return x and net.emit("LRN", [x], {"size": net.rng.randint(1, 6), "alpha": net.pick(None, 0.1),
                                       "beta": net.pick(None, 0.5, 0.75), "bias": net.pick(None, 2.0)})


def softmax(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    rank = len(net.shape(x))
    axis = net.rng.randrange(0 if net.opset < 11 else -rank, rank)
    if net.chance(20) and (net.opset >= 13 or rank > 1):
        axis = None
    return net.emit("Softmax", [x], {"axis": axis})


def concat(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    axis = net.rng.randrange(len(shape))
    fits = lambda v: len(net.shape(v)) == len(shape) and all(
        a == b or i == axis for i, (a, b) in enumerate(zip(net.shape(v), shape)))
    operands = [x] + net.rng.choices([v for v in net.live if fits(v)], k=net.rng.randint(0, 2))
    if net.chance(30):
        operands.append(net.uniform(shape[:axis] + [net.rng.randint(1, 3)] + shape[axis + 1:], -1, 1))
    net.rng.shuffle(operands)
    return net.emit("Concat", operands, {"axis": axis - (len(shape) if net.opset >= 11 and net.chance(30) else 0)})


def flatten(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    rank = len(net.shape(x))
    axis = net.rng.randint(-rank if net.opset >= 11 else 0, rank)
    return net.emit("Flatten", [x], {"axis": net.pick(axis, None)})


def reshape(net):
    x = net.choose()
    shape = net.shape(x)
    total, out = int(np.prod(shape)), []
    for _ in range(net.rng.randint(0, 3)):
        divisors = [d for d in range(1, total + 1) if total % d == 0]
        out.append(net.rng.choice(divisors))
        total //= out[-1]
    out.append(total)
    net.rng.shuffle(out)
    asked = list(out)
    for i in range(min(len(out), len(shape))):
        if out[i] == shape[i] and net.chance(50):
            asked[i] = 0
    if net.chance(50):
        asked[net.rng.randrange(len(asked))] = -1
    return net.emit("Reshape", [x, net.integers(asked)])


def transpose(net):
    x = net.choose()
    perm = list(range(len(net.shape(x))))
    net.rng.shuffle(perm)
    if len(perm) == 4 and net.chance(50):
        perm = net.pick([0, 2, 3, 1], [0, 3, 1, 2])
    return net.emit("Transpose", [x], {"perm": None if not perm or net.chance(10) else perm})


def squeeze(net):
    x = net.choose()
    shape = net.shape(x)
    units = [i for i, d in enumerate(shape) if d == 1]
    if not units:
        return None
    axes = net.rng.sample(units, net.rng.randint(1, len(units)))
    if net.opset >= 11:
        axes = [a - len(shape) if net.chance(30) else a for a in axes]
    if net.chance(20):
        return net.emit("Squeeze", [x])
    return net.emit("Squeeze", [x, net.integers(axes)]) if net.opset >= 13 else net.emit("Squeeze", [x], {"axes": axes})


def unsqueeze(net):
    x = net.choose()
    rank = len(net.shape(x))
    count = net.rng.randint(1, 2)
    if rank + count > 5:
        return None
    axes = net.rng.sample(range(rank + count), count)
    if net.opset >= 11:
        axes = [a - rank - count if net.chance(30) else a for a in axes]
    if net.opset >= 13:
        return net.emit("Unsqueeze", [x, net.integers(axes)])
    return net.emit("Unsqueeze", [x], {"axes": axes})


def dropout(net):
    inputs = [net.choose()]
    if net.opset >= 12 and net.chance(50):
        inputs.append(net.constant(np.array(0.3, np.float32)))
        if net.chance(50):
            inputs.append(net.constant(np.array(False)))
    return net.emit("Dropout", inputs, {"ratio": 0.3 if net.opset < 12 else None})


def filled(net):
    """A ConstantOfShape, added."""
    if net.opset < 9:
        return None
    x = net.choose()
    shape = [d if net.chance(60) else 1 for d in net.shape(x)]
    value = numpy_helper.from_array(np.array([0.5], np.float32))
    name = net.emit("ConstantOfShape", [net.integers(shape)], {"value": net.pick(value, value, None)})
    return name and net.emit("Add", [x, name])


def residual(net):
    """Two branches that meet again."""
    x = net.choose(4)
    if not x:
        return None
    n, c, h, w = net.shape(x)
    m = c if net.chance(60) else net.rng.choice(CHANNELS)
    y = net.emit("Conv", [x, net.weight([m, c, 3, 3], 9 * c)], {"pads": [1, 1, 1, 1]})
    y = y and batch_norm_of(net, y, m)
    y = y and net.emit("Relu", [y])
    y = y and net.emit("Conv", [y, net.weight([m, m, 3, 3], 9 * m)], {"pads": [1, 1, 1, 1]})
    if y and m != c:
        x = net.emit("Conv", [x, net.weight([m, c, 1, 1], c)])
    y = y and x and net.emit("Add", [x, y])
    return y and net.emit("Relu", [y])


def batch_norm_of(net, x, c):
    return net.emit("BatchNormalization", [x, net.uniform([c]), net.uniform([c], -1, 1), net.uniform([c], -1, 1), net.uniform([c])])


STEPS = ([conv] * 8 + [gemm] * 6 + [matmul] * 3 + [batch_norm] * 3 + [unary] * 5 + [square_root] + [clip] * 2 + [binary] * 6 +
         [sum_all] + [scaled_shift] + [pool] * 3 + [global_pool] + [lrn] + [softmax] + [concat] * 3 + [flatten] * 2 +
         [reshape] * 2 + [transpose] * 3 + [squeeze] + [unsqueeze] + [dropout] + [filled] + [residual] * 2)


def make(seed):
    """The model, its inputs and its outputs in float64, by name."""
    net = Network(seed)
    rank = net.pick(4, 4, 4, 4, 3, 5, 2, 2, 1)
    n = net.pick(1, 1, 1, 2, 3)
    if rank == 4:
        net.input([n, net.rng.choice(CHANNELS[:12]), net.rng.choice(EXTENTS), net.rng.choice(EXTENTS)])
    elif rank == 5:
        net.input([n, net.rng.choice(CHANNELS[:6])] + [net.rng.choice(EXTENTS[:6]) for _ in range(3)])
    else:
        net.input([n] * (rank > 1) + [net.rng.choice(CHANNELS) for _ in range(rank - (rank > 1))])
    length, tries = net.rng.randint(1, 14), 0
    made = 0
    while (made < length or not net.nodes) and tries < 200:
        tries += 1
        made += net.rng.choice(STEPS)(net) is not None
    computed = [n.output[0] for n in net.nodes if n.op_type != "Constant"]
    outputs = [v for v in computed if v in net.unread] or computed[-1:]
    outputs += [v for v in computed if v not in outputs and net.chance(5)]
    info = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, net.shape(name))
    used = {i for node in net.nodes for i in node.input}
    inputs = [(name, array) for name, array in net.inputs if name in used or name == net.inputs[0][0]]
    graph = helper.make_graph(net.nodes, f"fuzz_{seed}", [info(name) for name, _ in inputs], [info(v) for v in outputs],
                              [i for i in net.initializers if i.name in used])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", net.opset)])
    model.ir_version = 8  # initializers are no inputs
    onnx.checker.check_model(model)
    return model, inputs, [(v, net.values[v]) for v in outputs]
