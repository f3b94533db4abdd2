"""Makes networks of one to three 3x3 convolutions whose data or weights are wild: infinities, NaN, masks, outliers, tiny
numbers. Judges each element of each layer by the sum of its own terms. For scripts/fuzz_operators.py.

Every layer is an output of its network. So a layer is judged by the layer before it as the program computed it, and
errors do not add up.
"""

import numpy as np
from onnx import helper
from random_case import Case

# An element may differ by this much of the sum of its terms' magnitudes: 1024 units in the last place.
ALLOWANCE = 1024 * 2.0**-24
LEAST_NORMAL = 2.0**-126  # numbers below may become 0; so each term may lose this much


def spots(rng, numbers, x):
    """Puts a few outliers into random places."""
    flat = x.reshape(-1)
    for _ in range(rng.randint(1, 4)):
        sign, size = rng.choice([-1, 1]), 10 ** rng.uniform(4, 12)
        flat[rng.randrange(flat.size)] = rng.choice([np.inf, -np.inf, np.nan, sign * size, sign * size, sign * size])


def mask(rng, numbers, x):
    """Masks rows, columns or a corner of all channels, as padded sequences and attention masks are."""
    h, w = x.shape[-2:]
    rows, columns = slice(0, rng.randint(1, h)), slice(rng.randint(0, w - 1), w)
    part = rng.choice([(rows, slice(None)), (slice(None), columns), (rows, columns)])
    x[(..., *part)] = rng.choice([-1e9, -1e9, -1e4, -np.inf])


def channel(rng, numbers, x):
    """Makes one channel much larger or smaller than the others."""
    x[:, rng.randrange(x.shape[1])] *= np.float32(10 ** rng.uniform(-12, 12))


def spread(rng, numbers, x):
    """Gives each pixel, or each row, a magnitude of its own."""
    shape = rng.choice([(1, 1) + x.shape[2:], (1, 1, x.shape[2], 1), x.shape])
    x *= 10 ** numbers.uniform(*rng.choice([(-3, 3), (-10, 0), (0, 10), (-10, 10)]), shape)


def spread_positions(rng, numbers, w):
    """Gives each position of the kernels a magnitude of its own."""
    w *= 10 ** numbers.uniform(-5, 5, w.shape[2:])


def tiny(rng, numbers, x):
    x *= np.float32(10 ** rng.uniform(-36, -20))


def zeros(rng, numbers, x):
    x *= numbers.uniform(size=x.shape) < rng.uniform(0, 0.5)


def sparse(rng, numbers, w):
    """Removes single weights."""
    w *= numbers.uniform(size=w.shape) < rng.uniform(0.05, 0.9)


def positions(rng, numbers, w):
    """Removes some positions of the kernels."""
    w *= numbers.uniform(size=w.shape[2:]) < rng.uniform(0.2, 0.9)


def tame(rng, numbers, x):
    pass


DATA = [spots] * 4 + [mask] * 3 + [channel, spread, spread, tiny, zeros, tame]
WEIGHTS = [tame] * 8 + [spots, spots, channel, spread_positions, tiny, positions, sparse, sparse]


class Wild(Case):
    """A network. Its expected outputs are unknown: judge() computes them. `layers` has, for each convolution, the names
    of its operands, its pads, the steps behind it with their operands, and the name of the result."""

    def __init__(self, rng):
        super().__init__(13)
        self.rng, self.numbers = rng, np.random.default_rng(rng.getrandbits(64))
        self.layers = []
        c, h, w = rng.choice([16, 16, 17, 24, 32, 48, 64]), rng.randint(6, 30), rng.randint(6, 30)
        shape = [rng.choice([1, 1, 1, 2]), c, h, w]
        name = self.draw("x", shape, rng.choice(DATA), False)
        for i in range(rng.choice([1, 1, 2, 3])):
            name, shape = self.layer(i, name, shape)

    def draw(self, name, shape, change, constant, scale=1.0):
        array = (self.numbers.standard_normal(shape) * scale).astype(np.float32)
        with np.errstate(all="ignore"):
            change(self.rng, self.numbers, array)
        return self.operand(name, array, constant)

    def layer(self, i, x, shape):
        rng, n, c = self.rng, *shape[:2]
        filters, pads = rng.choice([16, 16, 19, 32, 40, 64]), [rng.choice([1, 1, 1, 0, 2]) for _ in range(4)]
        w = self.draw(f"w{i}", [filters, c, 3, 3], rng.choice(WEIGHTS), rng.random() < 0.85, (9 * c) ** -0.5)
        shape = [n, filters] + [shape[2 + d] + pads[d] + pads[2 + d] - 2 for d in range(2)]
        operands, name = [x, w], f"conv{i}"
        if rng.random() < 0.5:
            operands.append(self.draw(f"b{i}", [filters], tame, True))
        self.nodes.append(helper.make_node("Conv", operands, [name], pads=pads, kernel_shape=[3, 3]))
        steps = []
        for kind in rng.sample(["Relu", "Clip", "Add", "Sub", "LeakyRelu"], rng.randint(0, 2)):
            result, more, attributes = f"{name}_{kind}", [], {}
            if kind in ("Add", "Sub"):  # a constant per channel, or a residual
                whole = rng.random() < 0.5
                more = [self.draw(f"{result}_b", shape if whole else [1, filters, 1, 1], tame, not whole)]
            elif kind == "Clip":
                for bound, value in (("low", rng.choice([0, -1])), ("high", rng.choice([6, 1e5]))):
                    self.initializers.append((f"{result}_{bound}", np.array(value, np.float32)))
                    more.append(f"{result}_{bound}")
            elif kind == "LeakyRelu":
                attributes["alpha"] = 0.25
            self.nodes.append(helper.make_node(kind, [name] + more, [result], **attributes))
            steps.append((kind, more))
            name = result
        self.layers.append((operands, pads, steps, name))
        self.outputs.append((name, np.empty(shape, np.float32)))
        return name, shape


def windows(x, pads):
    """Returns the parts of the padded x that meet each position of the kernel: (3, 3, n, c, h, w)."""
    x = np.pad(x, [(0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])])
    h, w = x.shape[2] - 2, x.shape[3] - 2
    return np.array([[x[:, :, i:i + h, j:j + w] for j in range(3)] for i in range(3)])


def apply(steps, values, y, magnitude):
    """Returns the layer's result, and its terms' magnitudes, behind the steps that follow the convolution."""
    for kind, more in steps:
        others = [values[name].astype(np.float64) for name in more]
        if kind in ("Add", "Sub"):
            y, magnitude = (y + others[0] if kind == "Add" else y - others[0]), magnitude + abs(others[0])
        else:
            y = {"Relu": lambda: np.maximum(y, 0), "Clip": lambda: np.clip(y, *others),
                 "LeakyRelu": lambda: np.where(y < 0, y * 0.25, y)}[kind]()
            magnitude = np.where(np.isfinite(magnitude), magnitude, abs(y))  # a bound is exact
    return y, magnitude


def product(taps, w):
    """Returns the sums of products as (n, m, h, w). A product is NaN or infinite only where its terms are."""
    special = ~np.isfinite(w).all(axis=(0, 2, 3)), ~np.isfinite(taps).all(axis=(0, 1, 2, 4, 5))
    if not (special[0].any() or special[1].any()):
        return np.einsum("ijnchw,mcij->nmhw", taps, w, optimize=True)
    wild = special[0] | special[1]
    y = np.einsum("ijnchw,mcij->nmhw", taps[:, :, :, ~wild], w[:, ~wild], optimize=True)
    for c in np.flatnonzero(wild):
        for i, j in np.ndindex(3, 3):
            y = y + taps[i, j, :, None, c] * w[None, :, c, i, j, None, None]
    return y


def expected_of(layer, values):
    """Returns a layer's results, the error that each may have, and which of them have more than one right value. Call it
    with numpy's warnings off."""
    operands, pads, steps, _ = layer
    arrays = [values[v].astype(np.float64) for v in operands]
    taps, w = windows(arrays[0], pads), arrays[1]
    y, magnitude = product(taps, w), product(abs(taps), abs(w))
    if len(arrays) > 2:
        bias = arrays[2].reshape(-1, 1, 1)
        y, magnitude = y + bias, magnitude + abs(bias)
    # Terms, weights or data that are too small for a normal number may become 0.
    lost = abs(taps).sum(axis=(0, 1, 3))[:, None] + abs(w).sum(axis=(1, 2, 3))[:, None, None] + w[0].size + 1
    y, magnitude = apply(steps, values, y, magnitude)
    allowed = ALLOWANCE * np.nan_to_num(magnitude, posinf=0) + LEAST_NORMAL * np.nan_to_num(lost, posinf=1)
    return y, allowed, unjudged(arrays, pads, magnitude)


def judge(case, computed):
    """Returns the largest error in allowances, with the layer and the number of elements beyond it."""
    values = {**dict(case.inputs), **dict(case.initializers), **computed}
    worst = (0.0, "", 0)
    with np.errstate(all="ignore"):
        for layer in case.layers:
            y, allowed, skipped = expected_of(layer, values)
            actual = computed[layer[-1]].astype(np.float64)
            finite = np.isfinite(y) & np.isfinite(actual)
            same = (actual == y) | (np.isnan(actual) & np.isnan(y))
            ratio = np.where(finite, abs(actual - y) / allowed, np.where(same, 0, np.inf))
            ratio[skipped] = 0
            if ratio.max() > worst[0]:
                worst = float(ratio.max()), layer[-1], int((ratio > 1).sum())
    return worst


def unjudged(arrays, pads, magnitude):
    """Returns the elements of which more than one result is right: sums that may overflow on the way, and those where a
    weight that is not finite meets padding, whose product may be left out."""
    inside = windows(np.ones_like(arrays[0][:1, :1]), pads)[:, :, :, 0]  # (3, 3, 1, h, w)
    special = ~np.isfinite(arrays[1]).all(axis=1)  # (m, 3, 3)
    padded = np.einsum("ijnhw,mij->nmhw", 1 - inside, special.astype(np.float64)) > 0
    return padded | (np.isfinite(magnitude) & (magnitude > 1e38))
