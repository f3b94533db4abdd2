"""Restores constants that autotune stores in fewer bits than the graph has, as docs/package.md describes.

This is the one extension of Model Library Format in the file of parameters: TVM's runtime reads the file, and its
executor refuses these tensors. Written from the description alone.
"""

import struct
from math import prod

import params

FLOAT32, SMALL, HALVES = (2, 32, 1), (0, 8, 1), (1, 8, 1)
NARROW = {(2, 16, 1): "<e", (4, 16, 1): None}  # f16, and bf16, which struct does not know
PARTS = (".numbers", ".offsets", ".scales")


def floats(tensor):
    """Returns the numbers of a tensor of f32, f16 or bf16."""
    if tensor.dtype == FLOAT32:
        return [x for (x,) in struct.iter_unpack("<f", tensor.data)]
    if NARROW[tensor.dtype]:
        return [x for (x,) in struct.iter_unpack("<e", tensor.data)]
    return [struct.unpack("<f", b"\0\0" + tensor.data[i : i + 2])[0] for i in range(0, len(tensor.data), 2)]


def packed(numbers):
    return b"".join(struct.pack("<f", x) for x in numbers)


def spread(part, shape):
    """Returns for each element of a tensor of this shape the index of the element of `part` that belongs to it."""
    indices = [0]
    for size, extent in zip(part, shape):
        indices = [i * size + (k if size > 1 else 0) for i in indices for k in range(extent)]
    return indices


def repeats(part, shape):
    return len(part) == len(shape) and all(a in (1, b) for a, b in zip(part, shape))


def product(numbers, offsets, scales):
    """Returns the shape and the numbers of a constant; raises ValueError if its parts do not fit."""
    shape, halves = list(numbers.shape), numbers.dtype == HALVES
    if numbers.dtype not in (SMALL, HALVES) or (halves and not shape) or halves != (offsets is not None):
        raise ValueError("its numbers are neither i8 nor u8 with offsets")
    if halves:
        shape[-1] *= 2
        integers = [x for byte in numbers.data for x in (byte & 15, byte >> 4)]
        if offsets.dtype != SMALL or not repeats(offsets.shape, shape):
            raise ValueError("its offsets do not fit")
        of = struct.unpack(f"{len(offsets.data)}b", offsets.data)
        integers = [x + of[i] for x, i in zip(integers, spread(offsets.shape, shape))]
    else:
        integers = struct.unpack(f"{len(numbers.data)}b", numbers.data)
    if scales.dtype not in (FLOAT32, *NARROW) or not repeats(scales.shape, shape):
        raise ValueError("its scales do not fit")
    factors = floats(scales)
    return shape, [x * factors[i] for x, i in zip(integers, spread(scales.shape, shape))]


def restore(report, place, tensors, graph):
    """Returns the tensors with the types and shapes of the graph."""
    restored = dict(tensors)
    for name, entry in ((name, graph.entries[e]) for name, e in graph.args.items()):
        tensor = tensors.get(name)
        if tensor and tensor.dtype in NARROW and entry.dtype == FLOAT32:
            restored[name] = tensor._replace(dtype=FLOAT32, data=packed(floats(tensor)))
        numbers, offsets, scales = (tensors.get(name + part) for part in PARTS)
        if tensor or not numbers or not scales or any(name + part in graph.args for part in PARTS):
            continue
        for part in PARTS:
            restored.pop(name + part, None)
        try:
            shape, values = product(numbers, offsets, scales)
        except ValueError as error:
            report.add(place, f"{name!r}: {error}")
            continue
        fits = report.require(prod(shape) == prod(entry.shape), place, f"{name!r} has {shape} numbers")
        if fits:
            restored[name] = params.Tensor(FLOAT32, tuple(entry.shape), packed(values))
    return restored
