#!/usr/bin/env python3
"""Tests params.py: bytes written by hand, round trips, and refusal of truncated, longer or inconsistent files."""

import struct
import sys
import unittest

sys.dont_write_bytecode = True  # before the imports below

import params
from params import Tensor

SCALAR = Tensor((2, 64, 1), (), struct.pack("<d", 0.5))
SEVERAL = {
    "weight": Tensor((2, 32, 1), (2, 3), bytes(range(24))),
    "scalar": SCALAR,
    "empty": Tensor((0, 8, 1), (0, 7), b""),
    "flags": Tensor((1, 1, 1), (3,), b"\1\0\1"),
    "brain": Tensor((4, 16, 1), (1,), b"\x80\x3f"),
    "vectors": Tensor((0, 8, 4), (2,), bytes(8)),
    "größe": Tensor((1, 64, 1), (1, 1, 1, 1), bytes(8)),
}
# A file with one tensor `n` of 2 x 1 int16, field by field.
ONE = [
    ("list magic", "<Q", 0xF7E58D4F05049CB7), ("list reserved", "<Q", 0), ("names", "<Q", 1), ("name length", "<Q", 1),
    ("name", "<B", 0x6E), ("tensors", "<Q", 1), ("tensor magic", "<Q", 0xDD5E40F096B4A13F),
    ("tensor reserved", "<Q", 0),
    ("device type", "<i", 1), ("device id", "<i", 0), ("ndim", "<i", 2), ("type code", "<B", 0), ("bits", "<B", 16),
    ("lanes", "<H", 1), ("extent 0", "<q", 2), ("extent 1", "<q", 1), ("size", "<q", 4), ("data", "<I", 0x02010403),
]
# For each field, values that are inconsistent with the rest of the file.
WRONG = {
    "list magic": [0, 0xDD5E40F096B4A13F], "list reserved": [1], "names": [0, 2, 2**61, 2**64 - 1],
    "name length": [0, 2, 2**63, 2**64 - 1], "name": [0xFF], "tensors": [0, 2, 2**64 - 1], "tensor magic": [0],
    "tensor reserved": [1], "device type": [0, 2, -1], "device id": [1], "ndim": [-1, 0, 1, 3, 2**31 - 1],
    "type code": [3, 5, 255], "bits": [0, 1, 8, 17, 32], "lanes": [0, 2, 65535], "extent 0": [-2, 0, 1, 3, 2**62],
    "extent 1": [-1, 0, 2, 2**63 - 1], "size": [-1, 0, 3, 5, 2**62],
}


def compose(**changed):
    return b"".join(struct.pack(form, changed.get(name.replace(" ", "_"), value)) for name, form, value in ONE)


class Params(unittest.TestCase):
    def test_bytes_written_by_hand(self):
        tensors = {"n": Tensor((0, 16, 1), (2, 1), b"\3\4\1\2")}
        self.assertEqual(params.read(compose()), tensors)
        self.assertEqual(params.write(tensors), compose())

    def test_round_trips(self):
        for tensors in ({}, {"x": SCALAR}, SEVERAL):
            data = params.write(tensors)
            self.assertEqual(params.read(data), tensors)
            self.assertEqual(list(params.read(data)), list(tensors))
            self.assertEqual(params.write(params.read(data)), data)

    def test_truncation_at_every_byte(self):
        data = params.write(SEVERAL)
        for size in range(len(data)):
            with self.assertRaises(ValueError, msg=f"the first {size} bytes"):
                params.read(data[:size])
        with self.assertRaises(ValueError):
            params.read(data + b"\0")

    def test_each_wrong_field(self):
        self.assertEqual(set(WRONG), {name for name, _, _ in ONE} - {"data"})
        for name, values in WRONG.items():
            for value in values:
                with self.assertRaises(ValueError, msg=f"{name} {value}"):
                    params.read(compose(**{name.replace(" ", "_"): value}))
        with self.assertRaises(ValueError):
            params.read(compose(extent_0=-2, extent_1=-1))  # their product is positive

    def test_two_tensors_of_one_name(self):
        data = params.write({"a": SCALAR, "b": SCALAR})
        params.read(data)
        with self.assertRaises(ValueError):
            params.read(data.replace(b"b", b"a", 1))

    def test_what_is_no_tensor_is_not_written(self):
        for tensor in (SCALAR._replace(data=b""), SCALAR._replace(shape=(2,)), SCALAR._replace(dtype=(2, 8, 1)),
                       Tensor((0, 8, 1), (-1, -1), b"\0")):
            with self.assertRaises(ValueError, msg=str(tensor)):
                params.write({"x": tensor})


if __name__ == "__main__":
    unittest.main()
