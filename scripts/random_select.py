"""Steps for scripts/random_network.py that recur, sort, scatter and sample."""

import numpy as np


def recurrent(net):
    x = net.choose(2, 3)
    if x and len(net.shape(x)) == 2:
        x = net.emit("Reshape", [x, net.integers([net.shape(x)[0], 1, -1])])
    if not x:
        return None
    kind = net.pick("RNN", "GRU", "LSTM")
    first = net.opset >= 14 and net.chance(30)
    shape = net.shape(x)
    batch, steps = shape[:2] if first else shape[1::-1]
    if steps > 9 or batch > 9:
        return None
    hidden, gates = net.rng.randint(1, 9), {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    direction = net.pick(None, "forward", "reverse", "bidirectional")
    d = 2 if direction == "bidirectional" else 1
    state = lambda: net.uniform([batch, d, hidden] if first else [d, batch, hidden], -1, 1) if net.chance(50) else ""
    inputs = [x, net.weight([d, gates * hidden, shape[2]], shape[2]), net.weight([d, gates * hidden, hidden], hidden),
              net.uniform([d, 2 * gates * hidden], -1, 1) if net.chance(70) else "",
              net.fed(np.array([net.rng.randint(1, steps) for _ in range(batch)], np.int32)) if net.chance(30) else "",
              state()]
    if kind == "LSTM":
        inputs += [state(), net.uniform([d, 3 * hidden], -1, 1) if net.chance(30) else ""]
    while not inputs[-1]:
        inputs.pop()
    names = {"RNN": 1, "GRU": 2, "LSTM": 3}[kind] * d
    attributes = {"hidden_size": hidden, "direction": direction, "clip": net.pick(None, None, 0.75),
                  "layout": 1 if first else None}
    if net.chance(30):
        attributes["activations"] = [net.pick("Sigmoid", "Tanh", "Softsign", "HardSigmoid") for _ in range(names)]
    if kind == "GRU":
        attributes["linear_before_reset"] = net.pick(None, 0, 1)
    if kind == "LSTM":
        attributes["input_forget"] = net.pick(None, 0, 1)
    return net.emit(kind, inputs, attributes, net.rng.randint(1, 3 if kind == "LSTM" else 2))


def reverse_sequence(net):
    x = net.choose(2, 3, 4)
    if not x or net.opset < 10:
        return None
    time = net.pick(0, 1)
    steps, batch = net.shape(x)[time], net.shape(x)[1 - time]
    lengths = net.places([net.rng.randint(0, steps) for _ in range(batch)])
    return net.emit("ReverseSequence", [x, lengths], {"time_axis": time, "batch_axis": 1 - time})


def top_k(net):
    x = net.choose(1, 2, 3, 4)
    if not x:
        return None
    shape = net.shape(x)
    axis = net.axis(len(shape))
    k = net.rng.randint(1, shape[axis])
    if net.opset < 10:
        return net.emit("TopK", [x], {"axis": axis, "k": k}, 2)
    attributes = {"axis": axis}
    if net.opset >= 11:
        attributes["largest"] = net.pick(None, 0, 1)
    return net.emit("TopK", [x, net.integers([k])], attributes, 2)


def _reduction(net):
    if net.opset < 16:
        return None
    return net.pick(None, "none", "add", "mul", *(["max", "min"] if net.opset >= 18 else []))


def scatter(net):
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 9:
        return None
    shape = net.shape(x)
    axis = net.axis(len(shape))
    reduction = _reduction(net)
    wanted = [d if net.chance(60) else net.rng.randint(1, d) for d in shape]
    n = shape[axis]
    wanted[axis] = net.rng.randint(1, 2 * n)
    indices = net.places(net.numbers.integers(-n if net.opset >= 11 else 0, n, wanted))
    op = "Scatter" if net.opset < 11 else "ScatterElements"
    return net.emit(op, [x, indices, net.uniform(wanted)], {"axis": axis, "reduction": reduction})


def scatter_nd(net):
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 11:
        return None
    shape = net.shape(x)
    depth, batch = net.rng.randint(1, len(shape)), [net.rng.randint(1, 5) for _ in range(net.rng.randint(0, 2))]
    indices = np.stack([net.numbers.integers(-n, n, batch) for n in shape[:depth]], -1)
    updates = net.uniform(batch + shape[depth:])
    return net.emit("ScatterND", [x, net.places(indices), updates], {"reduction": _reduction(net)})


def gather_nd(net):
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 11:
        return None
    shape = net.shape(x)
    depth = net.rng.randint(1, len(shape))
    batch = [net.rng.randint(1, 5) for _ in range(net.rng.randint(0, 2))]
    return net.emit("GatherND", [x, net.places(np.stack([net.numbers.integers(-n, n, batch) for n in shape[:depth]], -1))])


def einsum(net):
    x = net.choose(1, 2, 3, 4)
    if not x or net.opset < 12:
        return None
    shape = net.shape(x)
    labels = "abcd"[:len(shape)]
    kind = net.pick("own", "product", "product", "ellipsis")
    if kind == "own":
        kept = [label for label in labels if net.chance(60)]
        net.rng.shuffle(kept)
        return net.emit("Einsum", [x], {"equation": f"{labels}->{''.join(kept)}"})
    if kind == "ellipsis":
        n = net.rng.randint(1, 8)
        y = net.weight([shape[-1], n], shape[-1])
        return net.emit("Einsum", [x, y], {"equation": net.pick("...i,ij->...j", "...i, ij -> j...")})
    own = [label for label in labels if net.chance(60)] + ["z"] * net.rng.randint(0, 1)
    net.rng.shuffle(own)
    y = net.uniform([net.rng.randint(1, 8) if label == "z" else shape[labels.index(label)] for label in own], -1, 1)
    kept = [label for label in labels + "z" if (label in labels or label in own) and net.chance(60)]
    net.rng.shuffle(kept)
    return net.emit("Einsum", [x, y], {"equation": f"{labels},{''.join(own)}->{''.join(kept)}"})


def grid_sample(net):
    x = net.choose(4, 5) if net.opset >= 20 else net.choose(4)
    if not x or net.opset < 16:
        return None
    shape = net.shape(x)
    dims = len(shape) - 2
    out = [net.rng.randint(1, 6) for _ in range(dims)]
    grid = net.uniform([shape[0]] + out + [dims], -1.4, 1.4)
    modes = ["nearest", "linear", "cubic"] if net.opset >= 20 else ["nearest", "bilinear", "bicubic"]
    return net.emit("GridSample", [x, grid], {"mode": net.pick(None, *modes), "align_corners": net.pick(None, 0, 1),
                                              "padding_mode": net.pick(None, "zeros", "border", "reflection")})


def determinant(net):
    x = net.choose(2, 3)
    if not x or net.opset < 11:
        return None
    n = net.rng.randint(1, 4)
    square = net.emit("MatMul", [net.weight([n, net.shape(x)[-2]], net.shape(x)[-2]), x])
    square = square and net.emit("MatMul", [square, net.weight([net.shape(x)[-1], n], net.shape(x)[-1])])
    return square and net.emit("Det", [square])


def spectrum(net):
    x = net.choose(1, 2, 3)
    if not x or net.opset < 17:
        return None
    shape = net.shape(x)
    if len(shape) == 2 and net.chance(30) and shape[1] > 2:
        n = net.rng.randint(2, shape[1])
        inputs = [x, net.constant(np.array(net.rng.randint(1, 4), np.int64)), net.uniform([n])]
        return net.emit("STFT", inputs, {"onesided": net.pick(None, 0, 1)})
    z = net.emit("Reshape", [x, net.integers([1] + shape + [1])])
    axis = net.rng.randint(1, len(shape))
    attributes = {"onesided": net.pick(None, 0, 1), "axis": axis if net.opset < 20 else None}
    inputs = [z]
    if net.opset >= 20:
        inputs += ["", net.constant(np.array(axis, np.int64))]
    return net.emit("DFT", inputs, attributes)


def col2im(net):
    x = net.choose(2)
    if not x or net.opset < 18:
        return None
    taps, places = net.shape(x)
    if taps > 64 or places > 64:
        return None
    heights = [n for n in range(1, places + 1) if places % n == 0]
    oh, kh = net.rng.choice(heights), net.rng.choice([n for n in range(1, taps + 1) if taps % n == 0])
    kh, channels = net.pick((kh, 1), (1, kh))
    kw, ow = taps // (kh * channels), places // oh
    image = [oh + kh - 1, ow + kw - 1]
    columns = net.emit("Unsqueeze", [x, net.integers([0])])
    return net.emit("Col2Im", [columns, net.integers(image), net.integers([kh, kw])])


def compress(net):
    x = net.choose(1, 2, 3)
    if not x or net.opset < 9:
        return None
    axis = net.pick(None, net.axis(len(net.shape(x))))
    n = int(np.prod(net.shape(x))) if axis is None else net.shape(x)[axis]
    keep = np.array([net.chance(60) for _ in range(n)])
    keep[net.rng.randrange(n)] = True
    return net.emit("Compress", [x, net.constant(keep)], {"axis": axis})


SELECTIONS = [recurrent] * 3 + [scatter, scatter_nd, top_k, einsum] * 2 + [
    reverse_sequence, gather_nd, grid_sample, determinant, spectrum, col2im, compress]
