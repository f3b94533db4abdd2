"""Data types by TVM's names: `float32`, `int8`, `bool`, `float32x4`."""

import re

import params

CODES = {"int": 0, "uint": 1, "float": 2, "bfloat": 4}
NAME = re.compile(r"(int|uint|float|bfloat)([1-9][0-9]?)(?:x([1-9][0-9]{0,4}))?")


def parse(name):
    """Returns (code, bits, lanes), or None if no type has this name."""
    match = NAME.fullmatch("uint1" if name == "bool" else name)
    if not match:
        return None
    kind, bits, lanes = match.groups()
    dtype = (CODES[kind], int(bits), int(lanes or 1))
    return dtype if dtype[1] in params.WIDTHS[dtype[0]] and dtype[2] < 2**16 else None


def check(report, place, value):
    return report.require(type(value) is str and parse(value), place, f"is {value!r}, not the name of a data type")
