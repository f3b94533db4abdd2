"""A graph under construction that knows the values of all its tensors. scripts/random_network.py adds random nodes."""

import random
import sys
from pathlib import Path

import numpy as np
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import reference  # noqa: E402
from compare import error_ratio  # noqa: E402
from element_types import ONNX_TYPES  # noqa: E402

EXTENTS = [1, 1, 2, 3, 4, 5, 7, 8, 9, 13, 14, 16, 17, 19, 28]
CHANNELS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 15, 16, 17, 24, 31, 32, 33, 48, 64]
MAX_ELEMENTS = 1 << 15
DOUBLES = 0.2  # share of the networks whose floats are float64
# Operators that do not round: their results are elements of their operands, whole numbers or otherwise exact.
EXACT = set("""Abs And ArgMax ArgMin Cast Ceil Clip Compress Concat ConstantOfShape DepthToSpace Dropout Equal Expand EyeLike
Flatten Floor Gather GatherElements GatherND GlobalMaxPool Greater GreaterOrEqual Hardmax Identity IsNaN Less LessOrEqual
MatMulInteger Max MaxPool Min Mod Neg Not OneHot Or Pad Range ReduceMax ReduceMin Relu Reshape ReverseSequence Round Shape
Sign Size Slice SpaceToDepth Split Squeeze Tile TopK Transpose Trilu Unsqueeze Where Xor""".split())
NOISE = 2e-6  # relative error of the shaken operands; well above float32's rounding
MOST_SHIFT = 0.5  # largest effect of the noise, relative to the tolerance of `autotune verify`


class Network:
    """A graph under construction, with the values of all its tensors, and with shaken values: those that result if
    operands have small errors wherever float32 rounds. A step is refused if its values become huge or tiny, or if values
    and shaken values differ so much that float32 could not be compared with float64, as after a subtraction or a
    comparison of nearly equal numbers."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.opset = self.rng.randint(7, 28)
        # The type of all floats. Its generator is separate, so that a seed gives the same network in both types.
        self.float = np.float64 if random.Random(f"type {seed}").random() < DOUBLES else np.float32
        self.float_type = ONNX_TYPES[np.dtype(self.float)]
        self.noise = np.random.default_rng(~seed & 0xFFFFFFFF)
        self.nodes, self.inputs, self.initializers, self.values, self.shaken = [], [], [], {}, {}
        self.live = []  # tensors of floats that steps may read
        self.flags = []  # tensors of bools that steps may read; nearly all steps read floats
        self.unread = set()

    def name(self, prefix):
        return f"{prefix}{len(self.values)}"

    def pick(self, *choices):
        return self.rng.choice(choices)

    def chance(self, percent):
        return self.rng.randrange(100) < percent

    def constant(self, array, single=False):
        """Adds an initializer, or sometimes a Constant node. Floats get the network's type, unless the operator takes
        only 32-bit floats (`single`)."""
        name = self.name("c")
        if array.dtype.kind == "f" and not single:
            array = array.astype(self.float)
        self.values[name] = self.shaken[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
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

    def places(self, numbers):
        """Adds indices, as a constant or an input of the network."""
        return self.fed(np.array(numbers, np.int64)) if self.chance(30) else self.integers(numbers)

    def input(self, shape):
        name = self.fed(self.numbers.standard_normal(shape).astype(np.float32))
        self.live.append(name)
        self.unread.add(name)
        return name

    def fed(self, array):
        name = self.name("x")
        if array.dtype.kind == "f":
            array = array.astype(self.float)
        self.values[name] = self.shaken[name] = array.astype(np.float64) if array.dtype.kind == "f" else array
        self.inputs.append((name, array))
        return name

    def shape(self, name):
        return list(self.values[name].shape)

    def axis(self, rank, since=11):
        """Returns the axis, sometimes counted from the end if the operator set is `since` or newer."""
        axis = self.rng.randrange(rank)
        return axis - rank if self.opset >= since and self.chance(30) else axis

    def choose(self, *ranks):
        """Returns a live tensor of one of these ranks (of any rank, if none is given), or None."""
        fitting = [v for v in self.live if not ranks or self.values[v].ndim in ranks]
        # Prefer the latest tensors, so that networks become deep.
        return self.rng.choice(fitting[-3:] if self.chance(80) else fitting) if fitting else None

    def joined(self, *shapes):
        """Returns whether the shapes broadcast to a shape of at most MAX_ELEMENTS elements."""
        try:
            return np.prod(np.broadcast_shapes(*map(tuple, shapes))) <= MAX_ELEMENTS
        except ValueError:
            return False

    def partners(self, shape, count):
        """Returns operands that broadcast with the shape and with each other."""
        operands = []
        for _ in range(count):
            operands.append(self.partner(shape))
            shape = np.broadcast_shapes(tuple(shape), self.values[operands[-1]].shape)
        return operands

    def partner(self, shape):
        """Returns an operand that broadcasts with the shape: a live tensor if there is one, else a constant."""
        for v in self.rng.sample(self.live, len(self.live)):
            if self.joined(shape, self.values[v].shape) and self.chance(70):
                return v
        kept = [d if self.chance(50) else 1 for d in shape]
        drop = self.rng.randint(0, len(kept)) if self.chance(50) else 0
        if self.chance(10):
            kept = [1] + kept if self.chance(50) else kept
        return self.uniform(kept[drop:])

    def errors(self, op, inputs):
        """Returns random relative errors of the operands; 0 for operators that do not round."""
        known = 0 if op in EXACT else 1 if op in ("Resize", "Upsample") else len(inputs)  # do not shake scales
        floats = [bool(x) and i < known and self.values[x].dtype.kind == "f" for i, x in enumerate(inputs)]
        return [NOISE * self.noise.uniform(-1, 1, self.values[x].shape) if f else 0 for x, f in zip(inputs, floats)]

    def compute(self, op, attributes, inputs, values, errors):
        """Returns the outputs of the operator for operands with these relative errors."""
        operands = [values[i] if i else None for i in inputs]
        operands = [x if np.isscalar(e) else x * (1 + e) for x, e in zip(operands, errors)]
        with np.errstate(all="ignore"):
            y = reference.OPS[op](attributes, self.opset, *operands)
        y = [np.asarray(v) for v in (y if isinstance(y, tuple) else (y,))]
        return [v.astype(np.float64) if v.dtype.kind == "f" else v for v in y]

    def stored(self, y):
        """Rounds the numbers to the network's type. Different numbers may become equal."""
        with np.errstate(over="ignore"):
            return y.astype(self.float).astype(np.float64) if y.dtype.kind == "f" else y

    def opposite(self, name):
        """Returns the operand with the opposite error of the shaken one."""
        if not name or self.values[name].dtype.kind != "f":
            return self.values.get(name)
        return 2 * self.values[name] - self.shaken[name]

    def comparable(self, y, shaken):
        if y.size == 0:
            return True
        if y.size > MAX_ELEMENTS or y.ndim > 6 or not (np.isfinite(y) & np.isfinite(shaken)).all():
            return False
        if y.dtype.kind != "f":  # the limit keeps the noise small if the integers are converted to floats
            return np.abs(y.astype(np.float64)).max() < 1e6 and y.shape == shaken.shape and (y == shaken).all()
        return 1e-4 < np.abs(y).max() < 1e4 and error_ratio(shaken, y) < MOST_SHIFT

    def emit(self, op, inputs, attributes=None, outputs=1):
        """Adds the node and returns its first output. Returns None if its values would not be comparable, or if an
        operand is None, since its node was refused. Later steps may read all outputs of floats."""
        if None in inputs:
            return None
        attributes = {k: v for k, v in (attributes or {}).items() if v is not None}
        node = helper.make_node(op, inputs, ["y"], **attributes)
        parsed = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        parsed["outputs"] = outputs
        results = self.compute(op, parsed, inputs, self.values, [0] * len(inputs))[:outputs]
        errors = self.errors(op, inputs)
        shaken = [self.stored(v) for v in self.compute(op, parsed, inputs, self.shaken, errors)]
        # Try the opposite errors, too: a function may jump on that side of the operands.
        opposite = self.compute(op, parsed, inputs, {i: self.opposite(i) for i in inputs}, [-e for e in errors])
        if not all(self.comparable(y, s) and self.comparable(y, o) for y, s, o in zip(results, shaken, opposite)):
            return None
        del node.output[:]
        for y, other in zip(results, shaken):
            name = self.name("t")
            self.values[name], self.shaken[name] = y, other
            node.output.append(name)
            if y.size == 0:
                pass  # only the step that makes an empty tensor uses it
            elif y.dtype.kind == "f":
                self.live.append(name)
            elif y.dtype.kind == "b":
                self.flags.append(name)
            self.unread.add(name)
        self.unread.difference_update(inputs)
        node.name = "n_" + node.output[0]
        self.nodes.append(node)
        return node.output[0]
