"""Operators for reference.py: recurrent operators, and operators that sort, scatter or sample."""

import itertools

import numpy as np

SIGMOID = lambda x: 1 / (1 + np.exp(-x))
ACTIVATIONS = {"Sigmoid": SIGMOID, "Tanh": np.tanh, "Relu": lambda x: np.maximum(x, 0),
               "Softsign": lambda x: x / (1 + np.abs(x)), "HardSigmoid": lambda x: np.clip(0.2 * x + 0.5, 0, 1)}
DEFAULTS = {"RNN": ["Tanh"], "GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"]}


def recurrent(kind):
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]

    def run(attributes, _, x, w, r, b=None, lengths=None, h0=None, c0=None, p=None):
        directions, hidden = w.shape[0], r.shape[2]
        if attributes.get("layout", 0):
            x = x.transpose(1, 0, 2)
            h0, c0 = (None if s is None else s.transpose(1, 0, 2) for s in (h0, c0))
        steps, batch = x.shape[:2]
        names = [n.decode() for n in attributes.get("activations", [])] or DEFAULTS[kind] * directions
        functions = [ACTIVATIONS[n] for n in names]
        bound = attributes.get("clip", np.inf)
        clipped = lambda v: np.clip(v, -bound, bound)
        direction = attributes.get("direction", b"forward").decode()
        y = np.zeros((steps, directions, batch, hidden))
        states = np.zeros((2, directions, batch, hidden))
        for d, n in itertools.product(range(directions), range(batch)):
            f = functions[d * len(DEFAULTS[kind]):]
            bias = np.zeros(2 * gates * hidden) if b is None else b[d]
            front, behind = np.split(bias, 2)
            peep = np.zeros((3, hidden)) if p is None else p[d].reshape(3, hidden)
            h = np.zeros(hidden) if h0 is None else h0[d, n]
            c = np.zeros(hidden) if c0 is None else c0[d, n]
            length = steps if lengths is None else int(lengths[n])
            times = range(length)
            for t in reversed(times) if direction == "reverse" or d else times:
                u, v = np.split(w[d] @ x[t, n] + front, gates), np.split(r[d] @ h + behind, gates)
                if kind == "RNN":
                    h = f[0](clipped(u[0] + v[0]))
                elif kind == "GRU":
                    z, reset = f[0](clipped(u[0] + v[0])), f[0](clipped(u[1] + v[1]))
                    if attributes.get("linear_before_reset", 0):
                        inner = u[2] + reset * v[2]
                    else:
                        inner = u[2] + r[d][2 * hidden:] @ (reset * h) + behind[2 * hidden:]
                    h = (1 - z) * f[1](clipped(inner)) + z * h
                else:
                    i = f[0](clipped(u[0] + v[0] + peep[0] * c))
                    forget = 1 - i if attributes.get("input_forget", 0) else f[0](clipped(u[2] + v[2] + peep[2] * c))
                    c = forget * c + i * f[1](clipped(u[3] + v[3]))
                    h = f[0](clipped(u[1] + v[1] + peep[1] * c)) * f[2](c)
                y[t, d, n] = h
            states[:, d, n] = h, c
        if attributes.get("layout", 0):
            return y.transpose(2, 0, 1, 3), states[0].transpose(1, 0, 2), states[1].transpose(1, 0, 2)
        return y, states[0], states[1]

    return run


def reverse_sequence(attributes, _, x, lengths):
    time, y = attributes.get("time_axis", 0), x.copy()
    for b, n in enumerate(int(v) for v in lengths):
        own = (slice(n), b) if time == 0 else (b, slice(n))
        y[own] = x[own][::-1]
    return y


def top_k(attributes, _, x, k=None):
    axis = attributes.get("axis", -1)
    k = attributes["k"] if k is None else int(k[0])
    keys = -x if attributes.get("largest", 1) else x
    places = np.argsort(keys, axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(x, places, axis), places.astype(np.int64)


COMBINED = {"none": lambda old, new: new, "add": lambda old, new: old + new, "mul": lambda old, new: old * new,
            "max": max, "min": min}


def scatter_elements(attributes, _, x, indices, updates):
    axis, y = attributes.get("axis", 0) % x.ndim, x.copy()
    combined = COMBINED[attributes.get("reduction", b"none").decode()]
    for place in np.ndindex(*indices.shape):
        at = place[:axis] + (int(indices[place]),) + place[axis + 1:]
        y[at] = combined(y[at], updates[place])
    return y


def scatter_nd(attributes, _, x, indices, updates):
    y, combined = x.copy(), COMBINED[attributes.get("reduction", b"none").decode()]
    elements = np.vectorize(combined, otypes=[x.dtype])
    for place in np.ndindex(*indices.shape[:-1]):
        at = tuple(int(i) for i in indices[place])
        y[at] = elements(y[at], updates[place]) if np.size(updates[place]) else updates[place]
    return y


def gather_nd(attributes, _, x, indices):
    batch = attributes.get("batch_dims", 0)
    rows = [x[place[:batch]][tuple(int(i) for i in indices[place])] for place in np.ndindex(*indices.shape[:-1])]
    return np.array(rows).reshape(indices.shape[:-1] + x.shape[batch + indices.shape[-1]:])


def einsum(attributes, _, *xs):
    return np.einsum(attributes["equation"].decode(), *xs)


def _reflected(v, low, high):
    span = high - low
    if span <= 0:
        return 0 * v
    u = (v - low) % (2 * span)
    return low + np.minimum(u, 2 * span - u)


def _taps(position, n, mode, outside, align):
    """Returns pairs of pixels and weights along a dimension of n pixels."""
    low, high = (0, n - 1) if align else (-0.5, n - 0.5)
    if mode == "nearest":
        position = np.rint(position)
    elif outside == "border":
        position = np.clip(position, 0, n - 1)
    elif outside == "reflection":
        position = _reflected(position, low, high)
    if mode == "nearest":
        taps = [(position, 1.0)]
    else:
        first = np.floor(position)
        places = [first + i for i in (range(-1, 3) if mode == "cubic" else range(2))]
        taps = [(place, _weight(abs(place - position), mode)) for place in places]
    inside = []
    for place, weight in taps:
        if outside == "zeros" and not 0 <= place < n:
            continue
        if outside == "reflection":
            place = _reflected(place, low, high)
        inside.append((int(np.clip(place, 0, n - 1)), weight))
    return inside


def _weight(s, mode, a=-0.75):
    if mode == "linear":
        return 1 - s
    return ((a + 2) * s - (a + 3)) * s * s + 1 if s < 1 else ((a * s - 5 * a) * s + 8 * a) * s - 4 * a


def grid_sample(attributes, _, x, grid):
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(*[attributes.get("mode", b"linear").decode()] * 2)
    outside, align = attributes.get("padding_mode", b"zeros").decode(), attributes.get("align_corners", 0)
    y = np.zeros(x.shape[:2] + grid.shape[1:-1])
    for place in np.ndindex(*grid.shape[:-1]):
        taps = []
        for g, n in zip(grid[place][::-1], x.shape[2:]):
            position = (g + 1) / 2 * (n - 1) if align else ((g + 1) * n - 1) / 2
            taps.append(_taps(position, n, mode, outside, align))
        for chosen in itertools.product(*taps):
            at = tuple(t[0] for t in chosen)
            y[(place[0], slice(None)) + place[1:]] += np.prod([t[1] for t in chosen]) * x[(place[0], slice(None)) + at]
    return y


def dft(attributes, opset, x, length=None, axis=None):
    axis = int(axis) if axis is not None else -2 if opset >= 20 else attributes.get("axis", 1)
    axis %= x.ndim
    z = x[..., 0] + (1j * x[..., 1] if x.shape[-1] == 2 else 0)
    inverse, n = attributes.get("inverse", 0), None if length is None else int(length)
    y = (np.fft.ifft if inverse else np.fft.fft)(z, n, axis)
    if attributes.get("onesided", 0):
        y = y.take(range(y.shape[axis] // 2 + 1), axis)
    return np.stack([y.real, y.imag], -1)


def stft(attributes, _, x, step, window=None, length=None):
    step, x = int(step), x.reshape(x.shape[0], -1)
    n = int(length) if length is not None else len(window)
    frames = np.stack([x[:, i:i + n] for i in range(0, x.shape[1] - n + 1, step)], 1)
    frames = frames if window is None else frames * window
    y = np.fft.rfft(frames) if attributes.get("onesided", 1) else np.fft.fft(frames)
    return np.stack([y.real, y.imag], -1)


def col2im(attributes, _, x, image, block):
    dims = len(image)
    image, block = [int(n) for n in image], [int(n) for n in block]
    strides, dilations = attributes.get("strides", [1] * dims), attributes.get("dilations", [1] * dims)
    pads = attributes.get("pads", [0] * 2 * dims)
    windows = [(n + pads[d] + pads[d + dims] - dilations[d] * (block[d] - 1) - 1) // strides[d] + 1
               for d, n in enumerate(image)]
    x = x.reshape([x.shape[0], -1] + block + windows)
    y = np.zeros(list(x.shape[:2]) + image)
    for k in np.ndindex(*block):
        for o in np.ndindex(*windows):
            at = [o[d] * strides[d] + k[d] * dilations[d] - pads[d] for d in range(dims)]
            if all(0 <= a < n for a, n in zip(at, image)):
                y[(slice(None), slice(None)) + tuple(at)] += x[(slice(None), slice(None)) + k + o]
    return y


SELECT_OPS = {
    "RNN": recurrent("RNN"),
    "GRU": recurrent("GRU"),
    "LSTM": recurrent("LSTM"),
    "ReverseSequence": reverse_sequence,
    "TopK": top_k,
    "Scatter": scatter_elements,
    "ScatterElements": scatter_elements,
    "ScatterND": scatter_nd,
    "GatherND": gather_nd,
    "Einsum": einsum,
    "GridSample": grid_sample,
    "Det": lambda _, __, x: np.linalg.det(x),
    "DFT": dft,
    "STFT": stft,
    "Col2Im": col2im,
    "Compress": lambda attributes, _, x, condition: np.compress(condition, x, attributes.get("axis")),
}
