"""Steps for scripts/random_network.py that pick, repeat and rearrange elements."""

import numpy as np
from onnx import numpy_helper
from random_graph import CHANNELS


def slice_(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    axes = net.rng.sample(range(len(shape)), net.rng.randint(1, len(shape)))
    starts, ends, steps = [], [], []
    for axis in axes:
        n = shape[axis]
        step = net.pick(1, 1, 2, 3, -1, -2) if net.opset >= 10 else 1
        low, high = sorted([net.rng.randint(0, n), net.rng.randint(0, n)])
        if low == high:
            low, high = 0, n
        start, end = (low, high) if step > 0 else (high - 1, low - 1)
        # Write the bounds relative to the end, or beyond it. The slice stays the same.
        if net.chance(30):
            start -= n
        if end == n and net.chance(50):
            end = net.pick(n + 3, 2**31 - 1, 2**63 - 1)
        elif end < 0:
            end = net.pick(-n - 1, -n - 5, -(2**31))
        elif end < n and net.chance(30):
            end -= n
        starts, ends, steps = starts + [start], ends + [end], steps + [step]
    if net.opset < 10:
        return net.emit("Slice", [x], {"starts": starts, "ends": ends, "axes": axes})
    axes = [a - len(shape) if net.chance(30) else a for a in axes]
    inputs = [x, net.integers(starts), net.integers(ends), net.integers(axes)]
    if steps != [1] * len(steps) or net.chance(30):
        inputs.append(net.integers(steps))
    return net.emit("Slice", inputs)


def split(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    axis = net.axis(len(shape))
    if shape[axis] < 2:
        return None
    cuts = sorted(net.rng.sample(range(1, shape[axis]), min(net.rng.randint(1, 2), shape[axis] - 1)))
    sizes = [b - a for a, b in zip([0] + cuts, cuts + [shape[axis]])]
    parts = net.rng.randint(2, 4)
    if shape[axis] % parts == 0 and net.chance(50):  # equal parts need no sizes
        return net.emit("Split", [x], {"axis": axis, "num_outputs": parts if net.opset >= 18 else None}, parts)
    if net.opset < 13:
        return net.emit("Split", [x], {"axis": axis, "split": sizes}, outputs=len(sizes))
    return net.emit("Split", [x, net.integers(sizes)], {"axis": axis}, outputs=len(sizes))


def pad(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    mode = net.pick(None, "constant", "edge", "reflect")
    pads = []
    for n in shape * 2:
        low = -((n - 1) // 2) if mode in (None, "constant") and net.chance(20) else 0  # a negative pad removes elements
        high = min(n - 1, 3) if mode == "reflect" else 3
        pads.append(net.rng.randint(low, high) if net.chance(50) else 0)
    value = net.pick(None, 0.0, 1.5, -2.0) if mode in (None, "constant") else None
    if net.opset < 11:
        return net.emit("Pad", [x], {"pads": pads, "mode": mode, "value": value})
    inputs = [x, net.integers(pads)] + ([] if value is None else [net.constant(np.array(value, np.float32))])
    return net.emit("Pad", inputs, {"mode": mode})


def gather(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    axis = net.axis(len(shape))
    n = shape[axis]
    lowest = -n if net.opset >= 11 else 0
    if net.opset >= 11 and net.chance(40):
        wanted = [d if net.chance(60) else net.rng.randint(1, d) for d in shape]
        wanted[axis] = net.rng.randint(1, 2 * n)
        indices = net.places(net.numbers.integers(lowest, n, wanted))
        return net.emit("GatherElements", [x, indices], {"axis": axis})
    if net.chance(25):  # the indices are known only when the network runs
        place = net.emit(net.pick("ArgMax", "ArgMin"), [x], {"axis": axis, "keepdims": net.pick(0, 1)})
        return place and net.emit("Gather", [x, place], {"axis": axis})
    indices = net.places(net.numbers.integers(lowest, n, net.pick([], [1], [3], [n], [2, 3])))
    return net.emit("Gather", [x, indices], {"axis": axis})


def repeat(net):
    x = net.choose(1, 2, 3, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    if net.opset < 8 or net.chance(50):
        return net.emit("Tile", [x, net.integers([net.pick(1, 1, 2, 3) for _ in shape])])
    wanted = [net.rng.choice(CHANNELS[:6]) if d == 1 else net.pick(d, d, 1) for d in shape]
    return net.emit("Expand", [x, net.integers(net.pick([], [], [2]) + wanted)])


def triangle(net):
    x = net.choose(2, 3, 4)
    if not x or net.opset < 14:
        return None
    inputs = [x] + ([net.constant(np.array(net.rng.randint(-4, 4), np.int64))] if net.chance(60) else [])
    return net.emit("Trilu", inputs, {"upper": net.pick(None, 0, 1)})


def one_hot(net):
    x = net.choose(1, 2, 3)
    if not x or net.opset < 9:
        return None
    rank = len(net.shape(x))
    place = net.emit(net.pick("ArgMax", "ArgMin"), [x], {"axis": net.axis(rank), "keepdims": net.pick(0, 1)})
    depth = net.constant(np.array(net.rng.choice(CHANNELS[:10]), np.int64))
    values = net.constant(np.array(net.pick([0, 1], [-1, 2]), np.float32))
    return place and net.emit("OneHot", [place, depth, values],
                              {"axis": net.pick(None, net.axis(net.values[place].ndim + 1))})


def by_shape(net):
    """Adds a Reshape or similar whose shape is computed from other shapes."""
    x = net.choose(2, 3, 4, 5)
    if not x:
        return None
    rank, kind = len(net.shape(x)), net.pick("join", "flat", "expand", "fill", "back", "eye")
    if kind == "eye" and rank == 2 and net.opset >= 9:
        y = net.emit("EyeLike", [x], {"k": net.pick(None, -1, 2)})
        return y and net.emit("Mul", [x, y])
    if kind == "back" and net.opset >= 11:
        axis = net.rng.randrange(rank)
        n, one = net.emit("Gather", [net.emit("Shape", [x]), net.integers(axis)]), net.integers(-1)
        return net.emit("Gather", [x, net.emit("Range", [net.emit("Add", [n, one]), one, one])], {"axis": axis})
    if kind in ("join", "flat") and rank > 2:  # "join" joins two dimensions, "flat" all but the first
        shape = net.emit("Shape", [x])
        dimension = lambda i: net.emit("Gather", [shape, net.integers([i])])
        if kind == "flat":
            first = dimension(0) if net.opset < 15 else net.emit("Shape", [x], {"end": 1})
            return net.emit("Reshape", [x, net.emit("Concat", [first, net.integers([-1])], {"axis": 0})])
        at = net.rng.randrange(rank - 1)
        both = net.emit("Mul", [dimension(at), dimension(at + 1)])
        parts = [dimension(i) for i in range(at)] + [both] + [dimension(i) for i in range(at + 2, rank)]
        return net.emit("Reshape", [x, net.emit("Concat", parts, {"axis": 0})])
    if kind == "expand" and net.opset >= 8:
        y = net.uniform([d if net.chance(50) else 1 for d in net.shape(x)], -1, 1)
        return net.emit("Mul", [x, net.emit("Expand", [y, net.emit("Shape", [x])])])
    if kind == "fill" and net.opset >= 9:
        value = numpy_helper.from_array(np.array([0.5], net.float))
        return net.emit("Add", [x, net.emit("ConstantOfShape", [net.emit("Shape", [x])], {"value": value})])
    count = net.emit("Size", [x])
    return net.emit("Reshape", [x, net.emit("Unsqueeze", [count], {"axes": [0]})]) if net.opset < 13 else count


def nothing(net):
    """Adds a tensor without elements, and operators on it and another tensor."""
    x = net.choose(1, 2, 3, 4)
    if not x:
        return None
    shape = net.shape(x)
    axis = net.rng.randrange(len(shape))
    without = shape[:axis] + [0] + shape[axis + 1:]
    if net.chance(30):
        cut = net.fed(np.zeros(without, np.float32))
        net.unread.add(cut)
    elif net.opset < 10:
        cut = net.emit("Slice", [x], {"starts": [1], "ends": [1], "axes": [axis]})
    else:
        bounds = [net.rng.randint(-2, shape[axis] + 2), net.pick(-(2**31), -shape[axis])]
        cut = net.emit("Slice", [x] + [net.integers([n]) for n in bounds + [axis]])
    for _ in range(net.rng.randint(0, 2)):
        cut = net.emit(net.pick("Relu", "Neg", "Sqrt", "Sigmoid"), [cut])
    kind = net.rng.randrange(4)
    if kind == 0:
        return cut
    if kind == 1:
        parts = [x] * net.rng.randint(1, 2)
        parts.insert(net.rng.randint(0, len(parts)), cut)
        return net.emit("Concat", parts, {"axis": axis})
    if kind == 2:
        product = (net.emit("ReduceProd", [cut], {"axes": [axis]}) if net.opset < 18 else
                   net.emit("ReduceProd", [cut, net.integers([axis])]))
        return net.emit("Mul", [x, product])
    rows, columns = net.pick(1, 2, 7), net.pick(1, 3, 17)
    left = net.fed(np.zeros((rows, 0), np.float32))
    net.unread.add(left)
    right = net.constant(np.zeros((0, columns), np.float32))
    return net.emit("Gemm", [left, right, net.uniform([columns])])


MOVES = [by_shape] * 3 + [slice_] * 3 + [split] * 2 + [pad] * 3 + [gather] * 3 + [repeat] * 2 + [triangle, one_hot, nothing]
