"""Steps for scripts/random_network.py on images: convolutions, pools and other operators with channels and pixels."""

import numpy as np
from random_graph import CHANNELS


def window(net, size, kernel, dilated, most_pad):
    """Returns random strides, dilations and padding of a window that fits the image, or None if none was found."""
    n = len(size)
    attributes = {}
    strides = [net.pick(1, 1, 1, 2, 2, 3) for _ in range(n)]
    dilations = [net.pick(1, 1, 2, 3) if dilated else 1 for _ in range(n)]
    mode = net.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", None)
    pads = [0] * 2 * n
    if mode in ("NOTSET", None) and net.chance(70):
        symmetric = net.chance(60)
        for i in range(n):
            limit = most_pad(kernel[i], dilations[i])
            pads[i] = net.rng.randint(0, limit)
            pads[i + n] = pads[i] if symmetric else net.rng.randint(0, limit)
    for i in range(n):
        padded = size[i] + pads[i] + pads[i + n]
        if mode not in ("SAME_UPPER", "SAME_LOWER") and padded < (kernel[i] - 1) * dilations[i] + 1:
            return None
    if strides != [1] * n or net.chance(50):
        attributes["strides"] = strides
    if dilations != [1] * n:
        attributes["dilations"] = dilations
    if any(pads):
        attributes["pads"] = pads
    if mode and (mode != "NOTSET" or net.chance(20)):
        attributes["auto_pad"] = mode
    return attributes


def conv(net):
    x = net.choose(3, 4, 5)
    if not x:
        return None
    n, c, *size = net.shape(x)
    kernel = [net.pick(1, 1, 2, 3, 3, 4, 5) for _ in size]
    attributes = window(net, size, kernel, True, lambda k, d: (k - 1) * d + 1)
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


def conv_transpose(net):
    x = net.choose(3, 4, 5)
    if not x:
        return None
    n, c, *size = net.shape(x)
    kernel = [net.pick(1, 2, 2, 3, 3, 4) for _ in size]
    strides = [net.pick(1, 1, 2, 2, 3) for _ in size]
    dilations = [net.pick(1, 1, 1, 2, 3) for _ in size]
    groups = net.rng.choice([g for g in range(1, c + 1) if c % g == 0]) if net.chance(40) else 1
    multiplier = net.pick(1, 1, 2, 3) if groups > 1 else net.rng.choice(CHANNELS[:12])
    attributes = {"strides": strides, "dilations": dilations, "group": groups}
    for name, plain in [("strides", [1] * len(size)), ("dilations", [1] * len(size)), ("group", 1)]:
        if attributes[name] == plain and net.chance(50):
            del attributes[name]
    full = [(s - 1) * t + (k - 1) * d + 1 for s, t, k, d in zip(size, strides, kernel, dilations)]
    mode = net.pick("NOTSET", "NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", None)
    more = [0] * len(size)
    if net.chance(30):  # ONNX requires output_padding to be less than the stride or the dilation
        more = [net.rng.randint(0, max(t, d) - 1) for t, d in zip(strides, dilations)]
        attributes["output_padding"] = more
    if net.chance(25):
        attributes["output_shape"] = [net.rng.randint(max(1, f + m - 4), f + m) for f, m in zip(full, more)]
    elif mode in ("NOTSET", None) and net.chance(60):
        symmetric, begins, ends = net.chance(50), [], []
        for f, k, d in zip(full, kernel, dilations):
            begins.append(net.rng.randint(0, min((k - 1) * d + 1, (f - 1) // 2)))
            ends.append(begins[-1] if symmetric else net.rng.randint(0, min((k - 1) * d + 1, (f - 1) // 2)))
        attributes["pads"] = begins + ends
    attributes["auto_pad"] = mode if mode != "NOTSET" or net.chance(20) else None
    if net.chance(50):
        attributes["kernel_shape"] = kernel
    shape = [c, multiplier] + kernel
    small = net.chance(10) and int(np.prod(shape)) < 4096
    w = net.input(shape) if small else net.weight(shape, c // groups * int(np.prod(kernel)))
    bias = [net.uniform([groups * multiplier], -1, 1)] if net.chance(50) else []
    return net.emit("ConvTranspose", [x, w] + bias, attributes)


def pool(net):
    x = net.choose(3, 4, 5)
    if not x:
        return None
    size = net.shape(x)[2:]
    op = net.pick("MaxPool", "MaxPool", "AveragePool")
    kernel = [net.pick(1, 2, 2, 3, 3, 4, 5) for _ in size]
    attributes = window(net, size, kernel, op == "MaxPool" and net.opset >= 10, lambda k, d: k - 1)
    if attributes is None:
        return None
    attributes["kernel_shape"] = kernel
    if net.opset >= 10 and net.chance(40):
        attributes["ceil_mode"] = 1
    if op == "AveragePool" and net.chance(40):
        attributes["count_include_pad"] = 1
    if op == "AveragePool" or net.opset < 8 or net.chance(50):
        return net.emit(op, [x], attributes)
    attributes["storage_order"] = net.pick(None, 0, 1)
    return net.emit(op, [x], attributes, outputs=2)


def global_pool(net):
    x = net.choose(3, 4, 5)
    return x and net.emit(net.pick("GlobalAveragePool", "GlobalMaxPool"), [x])


def lrn(net):
    x = net.choose(4, 3, 2)
    return x and net.emit("LRN", [x], {"size": net.rng.randint(1, 6), "alpha": net.pick(None, 0.1),
                                       "beta": net.pick(None, 0.5, 0.75), "bias": net.pick(None, 2.0)})


def normalized(net):
    x = net.choose(3, 4, 4, 5)
    if not x:
        return None
    c = net.shape(x)[1]
    if net.opset >= 17 and net.chance(60):
        axis = net.rng.randrange(1, len(net.shape(x)))
        shape = net.shape(x)[axis:]
        operands = [x, net.uniform(shape)] + ([net.uniform(shape, -1, 1)] if net.chance(50) else [])
        return net.emit("LayerNormalization", operands,
                        {"axis": axis - len(net.shape(x)) if net.chance(50) else axis, "epsilon": net.pick(None, 1e-3)})
    if net.opset >= 9 and net.chance(30):
        rank = len(net.shape(x))
        axes = net.rng.sample(range(rank), net.rng.randint(1, rank))
        return net.emit("MeanVarianceNormalization", [x], {"axes": None if rank == 4 and net.chance(50) else axes})
    return net.emit("InstanceNormalization", [x, net.uniform([c]), net.uniform([c], -1, 1)],
                    {"epsilon": net.pick(None, 1e-3)})


def blocks(net):
    x = net.choose(4)
    if not x:
        return None
    _, c, h, w = net.shape(x)
    s = net.pick(1, 2, 2, 3)
    if net.chance(50):
        if c % (s * s) != 0:
            x = net.emit("Conv", [x, net.weight([s * s * net.rng.randint(1, 5), c, 1, 1], c)])
        mode = net.pick(None, "DCR", "CRD") if net.opset >= 11 else None
        return net.emit("DepthToSpace", [x], {"blocksize": s, "mode": mode})
    if h % s != 0 or w % s != 0:
        x = net.emit("Conv", [x, net.weight([c, c, 1, 1], c)], {"pads": [0, 0, -h % s, -w % s]})
    return net.emit("SpaceToDepth", [x], {"blocksize": s})


def resize(net):
    x = net.choose(3, 4, 4, 5)
    if not x:
        return None
    shape = net.shape(x)
    scales = [1.0] * 2 + [net.pick(0.5, 1.0, 1.5, 2.0, 2.0, 3.0, 0.6, 1.3) for _ in shape[2:]]
    if net.chance(10):
        scales[1] = 2.0
    if any(int(d * s + 1e-6) < 1 for d, s in zip(shape, scales)):
        return None
    numbers = lambda: net.constant(np.array(scales, np.float32), single=True)
    if net.opset < 11:
        mode = net.pick(None, "nearest", "linear")
        if net.opset == 10 and net.chance(70):
            return net.emit("Resize", [x, numbers()], {"mode": mode})
        if net.opset == 9:
            return net.emit("Upsample", [x, numbers()], {"mode": mode})
        return net.emit("Upsample", [x], {"mode": mode, "scales": scales}) if net.opset < 9 else None
    mode = net.pick(None, "nearest", "linear", "linear", "cubic")
    coordinates = net.pick(None, "half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric",
                           "tf_crop_and_resize")
    if net.opset < 13 and mode in (None, "nearest") and net.chance(20):
        coordinates = "tf_half_pixel_for_nn"
    attributes = {"mode": mode, "coordinate_transformation_mode": coordinates}
    if mode in (None, "nearest"):
        attributes["nearest_mode"] = net.pick(None, "round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
    if mode == "cubic":
        attributes["cubic_coeff_a"] = net.pick(None, -0.5)
        attributes["exclude_outside"] = net.pick(None, 1)
    roi = ""
    if coordinates == "tf_crop_and_resize":
        rank = len(shape)
        box = [0.0] * 2 + [net.pick(0.0, 0.25, -0.125) for _ in shape[2:]] + [1.0] * 2
        roi = net.constant(np.array(box + [net.pick(1.0, 0.75, 1.25, 0.5) for _ in range(rank - 2)], np.float32), single=True)
        attributes["extrapolation_value"] = net.pick(None, 2.0)
    # ONNX does not define the output's length for align_corners if scales make it a fraction.
    whole = all(float(d * np.float32(s)).is_integer() for d, s in zip(shape, scales))
    if net.chance(50) and (whole or coordinates in (None, "half_pixel", "asymmetric")) and not roi:
        if net.opset < 13:  # the input is required there; it may be an empty tensor
            roi = net.constant(np.zeros([0], np.float32), single=True)
        return net.emit("Resize", [x, roi, numbers()], attributes)
    sizes = [int(d * s + 1e-6) for d, s in zip(shape, scales)]
    empty = "" if net.opset >= 13 else net.constant(np.zeros([0], np.float32), single=True)
    return net.emit("Resize", [x, roi or empty, empty, net.integers(sizes)], attributes)


def residual(net):
    """Adds two branches and joins them."""
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
    statistics = [net.uniform([c]), net.uniform([c], -1, 1), net.uniform([c], -1, 1), net.uniform([c])]
    return net.emit("BatchNormalization", [x] + statistics)
