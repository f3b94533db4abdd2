"""Operators on images for reference.py: windows, normalization per channel and resizing, in float64 and for any number
of dimensions."""

import math

import numpy as np


def _windows(attributes, size, kernel):
    """Returns strides, dilations and pads (begin, end) per spatial axis. ceil_mode increases the pads at the end."""
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
    """Yields, for each position in the window, its index and the input elements that it reads for all outputs."""
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
        if depthwise:  # multiply element-wise, which avoids one matrix product per channel
            y += (part * w[(slice(None), 0) + position].reshape([1, m] + [1] * len(counts))).reshape(y.shape)
            continue
        columns = part.reshape(n, groups, c // groups, -1)
        weights = w[(slice(None), slice(None)) + position].reshape(groups, m // groups, c // groups)
        y += np.matmul(weights[None], columns)
    y = y.reshape([n, m] + counts)
    return y if b is None else y + b.reshape([1, m] + [1] * len(counts))


def conv_transpose(attributes, _, x, w, b=None):
    """Adds the kernel, times each input element, to the output around that element. Pads then crop the output."""
    groups, n, c, size, kernel = attributes.get("group", 1), x.shape[0], x.shape[1], x.shape[2:], w.shape[2:]
    dims, m = len(size), w.shape[1] * groups
    strides = attributes.get("strides", [1] * dims)
    dilations = attributes.get("dilations", [1] * dims)
    more = attributes.get("output_padding", [0] * dims)
    full = [(s - 1) * t + (k - 1) * d + 1 for s, t, k, d in zip(size, strides, kernel, dilations)]
    y = np.zeros([n, m] + full)
    columns = x.reshape(n, groups, c // groups, -1)
    for position in np.ndindex(*kernel):
        cut = tuple(slice(p * d, p * d + (s - 1) * t + 1, t) for p, d, s, t in zip(position, dilations, size, strides))
        weights = w[(slice(None), slice(None)) + position].reshape(groups, c // groups, m // groups)
        product = np.matmul(weights.transpose(0, 2, 1)[None], columns)
        y[(slice(None), slice(None)) + cut] += product.reshape((n, m) + size)
    auto = attributes.get("auto_pad", b"NOTSET").decode()
    flat = attributes.get("pads", [0] * 2 * dims) if auto == "NOTSET" else [0] * 2 * dims
    wanted = attributes.get("output_shape")
    if wanted is None and auto.startswith("SAME"):
        wanted = [s * t for s, t in zip(size, strides)]
    for i in range(dims):
        reach = full[i] + more[i]  # output_padding extends the end before the pads crop
        begin, extent = flat[i], reach - flat[i] - flat[dims + i]
        if wanted is not None:
            total = max(reach - wanted[i], 0)
            begin, extent = total // 2 if auto == "SAME_UPPER" else total - total // 2, wanted[i]
        beyond = [(0, 0)] * y.ndim
        beyond[2 + i] = (0, max(begin + extent - full[i], 0))
        y = np.pad(y, beyond).take(range(begin, begin + extent), axis=2 + i)
    return y if b is None else y + b.reshape([1, m] + [1] * dims)


def max_pool(attributes, _, x):
    """Returns the largest elements, and the index of the first occurrence of each in the whole input. If storage_order
    is 1, the pixels of an image are numbered column by column."""
    kernel, size = attributes["kernel_shape"], x.shape[2:]
    strides, dilations, pads, counts = _windows(attributes, size, kernel)
    pixels = int(np.prod(size))
    order = "F" if attributes.get("storage_order", 0) else "C"
    places = np.arange(pixels).reshape((1, 1) + size, order=order)
    least = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    y = np.full(x.shape[:2] + tuple(counts), least, x.dtype)
    indices = np.zeros(y.shape, np.int64)
    window = lambda array, fill: _taps(array, kernel, strides, dilations, pads, counts, fill)
    for (_, part), (_, place) in zip(window(x, least), window(places, 0)):
        indices = np.where(part > y, place, indices)
        y = np.maximum(y, part)
    planes = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[:2] + (1,) * len(size))
    return y, indices + planes * pixels


def average_pool(attributes, _, x):
    kernel = attributes["kernel_shape"]
    strides, dilations, pads, counts = _windows(attributes, x.shape[2:], kernel)
    total, weight = 0.0, 0.0
    inside = np.ones((1, 1) + x.shape[2:])
    rest = pads
    if attributes.get("count_include_pad", 0):  # pads count, but the elements that ceil_mode adds at the end do not
        declared = _windows({**attributes, "ceil_mode": 0}, x.shape[2:], kernel)[2]
        inside = np.pad(inside, [(0, 0), (0, 0)] + [tuple(p) for p in declared], constant_values=1.0)
        rest = [[0, p[1] - d[1]] for p, d in zip(pads, declared)]
    for _, part in _taps(x, kernel, strides, dilations, pads, counts, 0.0):
        total = total + part
    for _, part in _taps(inside, kernel, strides, dilations, rest, counts, 0.0):
        weight = weight + part
    return total / weight


def batch_norm(attributes, _, x, scale, bias, mean, variance):
    if attributes.get("training_mode", 0):  # normalizes by the batch's statistics, and updates the running statistics
        axes = tuple(d for d in range(x.ndim) if d != 1)
        momentum = attributes.get("momentum", 0.9)
        pairs = (mean, x.mean(axes)), (variance, x.var(axes))
        running = [old * momentum + now * (1 - momentum) for old, now in pairs]
        y = standardized(x, axes, attributes.get("epsilon", 1e-5)) * _channels(scale, x) + _channels(bias, x)
        return y, *running
    scale, bias, mean, variance = (_channels(v, x) for v in (scale, bias, mean, variance))
    return (x - mean) / np.sqrt(variance + attributes.get("epsilon", 1e-5)) * scale + bias


def lrn(attributes, _, x):
    size, channels = attributes["size"], x.shape[1]
    square = np.zeros_like(x)
    for c in range(channels):
        square[:, c] = (x[:, max(0, c - (size - 1) // 2) : min(channels, c + size // 2 + 1)] ** 2).sum(axis=1)
    factor = attributes.get("bias", 1.0) + attributes.get("alpha", 1e-4) / size * square
    return x / factor ** attributes.get("beta", 0.75)


def instance_norm(attributes, _, x, scale, bias):
    return standardized(x, range(2, x.ndim), attributes.get("epsilon", 1e-5)) * _channels(scale, x) + _channels(bias, x)


def standardized(x, axes, epsilon):
    mean, variance = (f(x, axis=tuple(axes), keepdims=True) for f in (np.mean, np.var))
    return (x - mean) / np.sqrt(variance + epsilon)


def _channels(v, x):
    return v.reshape([1, -1] + [1] * (x.ndim - 2))


def depth_to_space(attributes, _, x):
    n, c, h, w = x.shape
    s = attributes["blocksize"]
    y = np.empty((n, c // (s * s), h * s, w * s))
    for row, column in np.ndindex(s, s):  # position in each block
        block = row * s + column
        part = x[:, block * (c // (s * s)) :][:, : c // (s * s)]
        if attributes.get("mode", b"DCR") == b"CRD":
            part = x[:, block :: s * s]
        y[:, :, row::s, column::s] = part
    return y


def space_to_depth(attributes, _, x):
    s = attributes["blocksize"]
    return np.concatenate([x[:, :, row::s, column::s] for row, column in np.ndindex(s, s)], axis=1)


def _source(mode, i, length, scale, wanted, out, box):
    """Returns the position of output element i of an axis in the input."""
    if mode == "tf_crop_and_resize":
        start, end = box[0] * (length - 1), box[1] * (length - 1)
        return start + i * (end - start) / (out - 1) if out > 1 else (start + end) / 2
    if mode == "align_corners":
        return i * (length - 1) / (wanted - 1) if wanted != 1 else 0.0
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_half_pixel_for_nn":
        return (i + 0.5) / scale
    if mode == "pytorch_half_pixel" and wanted <= 1:
        return 0.0
    return (i + 0.5) / scale - 0.5


def _neighbours(attributes, place):
    """Returns the indices of input elements, of which some may lie outside the input, and their weights."""
    mode, below = attributes.get("mode", b"nearest").decode(), math.floor(place)
    if mode == "nearest":
        rule = attributes.get("nearest_mode", b"round_prefer_floor").decode()
        f = place - below
        up = {"floor": False, "ceil": f > 0, "round_prefer_floor": f > 0.5, "round_prefer_ceil": f >= 0.5}[rule]
        return [(below + up, 1.0)]
    if mode == "linear":
        return [(below, 1 - (place - below)), (below + 1, place - below)]
    a, weights = attributes.get("cubic_coeff_a", -0.75), []
    for element in range(below - 1, below + 3):
        d = abs(place - element)
        near = (a + 2) * d**3 - (a + 3) * d**2 + 1
        weights.append((element, near if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a))
    return weights


def resize(attributes, opset, x, *rest):
    """Resizes with one matrix per axis. Before operator set 11, coordinates are asymmetric; `nearest` rounds down."""
    if opset < 11:
        attributes = {"mode": attributes.get("mode", b"nearest"), "nearest_mode": b"floor",
                      "coordinate_transformation_mode": b"asymmetric", "scales": attributes.get("scales", rest[-1:])}
    coordinates = attributes.get("coordinate_transformation_mode", b"half_pixel").decode()
    box, scales, sizes = (list(rest) + [None] * 3)[:3] if opset >= 11 else (None, np.ravel(attributes["scales"]), None)
    outside = np.zeros([1] * x.ndim, bool)
    for axis, length in enumerate(x.shape):
        scale = sizes[axis] / length if sizes is not None else float(scales[axis])
        out = int(sizes[axis]) if sizes is not None else math.floor(scale * length + 1e-6)
        span = (box[axis], box[x.ndim + axis]) if coordinates == "tf_crop_and_resize" else (0.0, 1.0)
        if out == length and span == (0.0, 1.0) and scale == 1:
            continue
        matrix, beyond = np.zeros((out, length)), np.zeros(out, bool)
        for i in range(out):
            place = _source(coordinates, i, length, scale, scale * length, out, span)
            beyond[i] = coordinates == "tf_crop_and_resize" and not 0 <= place <= length - 1
            taps = _neighbours(attributes, place)
            if attributes.get("exclude_outside", 0):
                taps = [(element, weight) for element, weight in taps if 0 <= element < length]
                taps = [(element, weight / sum(w for _, w in taps)) for element, weight in taps]
            for element, weight in taps:
                matrix[i, min(max(element, 0), length - 1)] += weight
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
        outside = outside | beyond.reshape([-1 if d == axis else 1 for d in range(x.ndim)])
    return np.where(outside, attributes.get("extrapolation_value", 0.0), x)
