"""Reads and writes parameter files, in the format of `_save_params`.

Written from the format's description alone, so that it can check the project's own reader and writer. A truncated,
oversized or inconsistent file raises ValueError. The memory used is proportional to the file's size.
"""

import struct
from collections import namedtuple
from math import prod

LIST_MAGIC, TENSOR_MAGIC = 0xF7E58D4F05049CB7, 0xDD5E40F096B4A13F
CPU = (1, 0)  # device type, device id
WIDTHS = {0: (4, 8, 16, 32, 64), 1: (1, 4, 8, 16, 32, 64), 2: (16, 32, 64), 4: (16,)}  # bits by type code

Tensor = namedtuple("Tensor", "dtype shape data")  # dtype: (code, bits, lanes); data: bytes, compact, row-major


def element_bytes(dtype):
    code, bits, lanes = dtype
    if bits not in WIDTHS.get(code, ()) or lanes < 1:
        raise ValueError(f"no data type has code {code}, {bits} bits and {lanes} lanes")
    return (bits * lanes + 7) // 8


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        if not 0 <= size <= len(self.data) - self.at:
            raise ValueError(f"byte {self.at}: {size} bytes should follow, {len(self.data) - self.at} do")
        self.at += size
        return self.data[self.at - size : self.at]

    def get(self, form):
        return struct.unpack("<" + form, self.take(struct.calcsize("<" + form)))

    def expect(self, form, *values):
        at, found = self.at, self.get(form)
        if found != values:
            raise ValueError(f"byte {at}: is {found}, not {values}")


def read_tensor(bytes_):
    bytes_.expect("QQii", TENSOR_MAGIC, 0, *CPU)
    ndim, *dtype = bytes_.get("iBBH")
    shape = struct.unpack(f"<{max(ndim, 0)}q", bytes_.take(8 * ndim))
    if min(shape, default=0) < 0:
        raise ValueError(f"byte {bytes_.at}: the shape {shape} has a negative extent")
    size = prod(shape) * element_bytes(dtype)
    bytes_.expect("q", size)
    return Tensor(tuple(dtype), shape, bytes_.take(size))


def read(data):
    """Returns the tensors by name, in the file's order."""
    bytes_ = Bytes(bytes(data))
    bytes_.expect("QQ", LIST_MAGIC, 0)
    count = bytes_.get("Q")[0]
    names = [bytes_.take(bytes_.get("Q")[0]).decode() for _ in range(count)]
    if len(set(names)) < count:
        raise ValueError("two parameters have the same name")
    bytes_.expect("Q", count)
    tensors = {name: read_tensor(bytes_) for name in names}
    if bytes_.at < len(data):
        raise ValueError(f"byte {bytes_.at}: {len(data) - bytes_.at} bytes follow the last tensor")
    return tensors


def write(tensors):
    """Returns the bytes of a file with these tensors, given by name."""
    out = struct.pack("<QQQ", LIST_MAGIC, 0, len(tensors))
    for name in map(str.encode, tensors):
        out += struct.pack("<Q", len(name)) + name
    out += struct.pack("<Q", len(tensors))
    for dtype, shape, data in tensors.values():
        if min(shape, default=0) < 0 or len(data) != prod(shape) * element_bytes(dtype):
            raise ValueError(f"{len(data)} bytes are not a tensor of shape {shape}, type {dtype}")
        out += struct.pack("<QQiiiBBH", TENSOR_MAGIC, 0, *CPU, len(shape), *dtype)
        out += struct.pack(f"<{len(shape)}qq", *shape, len(data)) + data
    return out
