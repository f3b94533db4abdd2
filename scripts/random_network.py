"""Makes random networks: from a seed, an ONNX model of supported operators, its inputs, and its outputs by
examples/reference.py. For scripts/fuzz_networks.py. Extents are small and odd; every operator set from 7 to 28 occurs.
"""

import random

import numpy as np
import onnx
from onnx import helper, numpy_helper
from random_graph import CHANNELS, EXTENTS, Network  # first: it makes examples/ known
from element_types import ONNX_TYPES
from random_control import DOMAIN, Wrapper, captured
from random_attention import ATTENTION
from random_images import blocks, conv, conv_transpose, global_pool, lrn, normalized, pool, residual, resize
from random_moves import MOVES
from random_numbers import NUMBERS
from random_select import SELECTIONS


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
    attributes = {"epsilon": net.pick(None, 1e-3)}
    if net.opset >= 14 and net.chance(15):
        attributes.update(training_mode=1, momentum=net.pick(None, 0.7))
    return net.emit("BatchNormalization", [x] + statistics, attributes, 3 if "training_mode" in attributes else 1)


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


def binary(net):
    x = net.choose()
    op = net.pick("Add", "Add", "Add", "Mul", "Mul", "Sub", "Div")
    if op == "Div":
        return net.emit("Div", [x, net.uniform([d if net.chance(50) else 1 for d in net.shape(x)])])
    operands = [x, net.partner(net.shape(x))]
    if net.chance(30):
        operands.reverse()
    return net.emit(op, operands)


def sum_all(net):
    x = net.choose()
    return net.emit("Sum", [x] + net.partners(net.shape(x), net.rng.randint(0, 2)))


def scaled_shift(net):
    """Adds x * s + t per channel, the form of batch normalization in some models."""
    x = net.choose(2, 4, 5)
    if not x:
        return None
    rank, c = len(net.shape(x)), net.shape(x)[1]
    shape = [c] if rank == 2 else [1, c] + [1] * (rank - 2)
    y = net.emit("Mul", [x, net.uniform(net.pick(shape, shape[1 - rank :], [1]))])
    return y and net.emit("Add", [y, net.uniform(shape, -1, 1)])


def softmax(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    rank = len(net.shape(x))
    axis = net.rng.randrange(0 if net.opset < 11 else -rank, rank)
    if net.chance(20) and (net.opset >= 13 or rank > 1):
        axis = None
    return net.emit(net.pick("Softmax", "Softmax", "LogSoftmax", "Hardmax"), [x], {"axis": axis})


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
    return net.emit("Dropout", inputs, {"ratio": 0.3 if net.opset < 12 else None}, net.pick(1, 1, 2))


def filled(net):
    """Adds a ConstantOfShape to a live tensor."""
    if net.opset < 9:
        return None
    x = net.choose()
    shape = [d if net.chance(60) else 1 for d in net.shape(x)]
    value = numpy_helper.from_array(np.array([0.5], net.float))
    absent = None if net.float == np.float32 else value  # without the attribute, the result is float32 zeros
    name = net.emit("ConstantOfShape", [net.integers(shape)], {"value": net.pick(value, value, absent)})
    return name and net.emit("Add", [x, name])


# A network draws its steps from COMMON, from STEPS, or from five steps of STEPS only, which then occur again and again.
# A step that is listed n times is drawn n times as often.
COMMON = ([conv] * 8 + [gemm] * 6 + [matmul] * 3 + [batch_norm] * 3 + [unary] * 5 + [square_root] + [clip] * 2 +
          [binary] * 6 + [sum_all] + [scaled_shift] + [pool] * 4 + [global_pool] + [lrn] + [softmax] + [concat] * 3 +
          [flatten] * 2 + [reshape] * 2 + [transpose] * 3 + [squeeze] + [unsqueeze] + [dropout] + [filled] +
          [residual] * 2)
STEPS = COMMON + [conv_transpose] * 12 + [resize] * 6 + [pool] * 6 + [normalized] * 3 + [blocks] * 3 + MOVES + NUMBERS + SELECTIONS + ATTENTION


def wrapped(seed):
    """Returns whether parts of the network become functions, branches and loops; needs operator set 13 or newer."""
    return random.Random(f"wrapped {seed}").random() < 0.4


def make(seed):
    """Returns the model, its inputs by name and its outputs by name. Outputs are computed in float64 and then converted
    to the type of the network."""
    net = Network(seed)
    rank = net.pick(4, 4, 4, 4, 3, 5, 2, 2, 1)
    n = net.pick(1, 1, 1, 2, 3)
    if rank == 4:
        net.input([n, net.rng.choice(CHANNELS[:12]), net.rng.choice(EXTENTS), net.rng.choice(EXTENTS)])
    elif rank == 5:
        net.input([n, net.rng.choice(CHANNELS[:6])] + [net.rng.choice(EXTENTS[:6]) for _ in range(3)])
    else:
        net.input([n] * (rank > 1) + [net.rng.choice(CHANNELS) for _ in range(rank - (rank > 1))])
    steps = net.pick(COMMON, STEPS, net.rng.choices(STEPS, k=4) + [unary])
    length, tries = net.rng.randint(1, net.pick(4, 14)), 0
    made = 0
    while (made < length or not net.nodes) and tries < 200:
        tries += 1
        made += net.rng.choice(steps)(net) is not None
    computed = [v for n in net.nodes if n.op_type != "Constant" for v in n.output]
    outputs = [v for v in computed if v in net.unread] or computed[-1:]
    outputs += [v for v in computed if v not in outputs and net.chance(5)]
    kind = lambda dtype: net.float_type if dtype.kind == "f" else ONNX_TYPES[dtype]
    info = lambda name: helper.make_tensor_value_info(name, kind(net.values[name].dtype), net.shape(name))
    wrapper = Wrapper(net, outputs, lambda name: kind(net.values[name].dtype))
    if net.opset >= 13 and wrapped(seed):
        wrapper.run()
    used = {i for node in net.nodes for i in captured(node)}
    inputs = [(name, array) for name, array in net.inputs if name in used or name == net.inputs[0][0]]
    graph = helper.make_graph(net.nodes, f"fuzz_{seed}", [info(name) for name, _ in inputs], [info(v) for v in outputs],
                              [i for i in net.initializers if i.name in used])
    opsets = [helper.make_opsetid("", net.opset)] + [helper.make_opsetid(DOMAIN, 1)] * bool(wrapper.functions)
    model = helper.make_model(graph, opset_imports=opsets, functions=wrapper.functions)
    model.ir_version = 8  # since version 4, initializers need not be inputs
    if net.opset <= onnx.defs.onnx_opset_version():  # the onnx package knows this operator set
        onnx.checker.check_model(model)
    typed = lambda array: array.astype(net.float) if array.dtype.kind == "f" else array
    return model, inputs, [(v, typed(net.values[v])) for v in outputs]
