#!/usr/bin/env python3
"""Tests mlf/elf.py: it reads objects of both classes and byte orders, and refuses each inconsistent field."""

import struct
import sys
import unittest

sys.dont_write_bytecode = True  # before the imports below

from mlf import elf
from sample import elf as compose

# Offsets and formats in a 64-bit object: fields of the header, then fields of a section's row; then section numbers.
SECTION_HEADERS, HEADER_SIZE, HEADER_COUNT = (40, "<Q"), (58, "<H"), (60, "<H")
KIND, OFFSET, SIZE, LINK, ENTRY_SIZE = (4, "<I"), (24, "<Q"), (32, "<Q"), (40, "<I"), (56, "<Q")
ROW, SYMBOLS, STRINGS = 64, 2, 3


def patch(data, field, value, section=None):
    at, form = field
    if section is not None:
        at += struct.unpack_from("<Q", data, SECTION_HEADERS[0])[0] + section * ROW
    data = bytearray(data)
    struct.pack_into(form, data, at, value)
    return bytes(data)


class Elf(unittest.TestCase):
    def test_classes_and_orders(self):
        for bits in (1, 2):
            for order in (1, 2):
                found = elf.read(compose("f", "gg", bits=bits, order=order, machine=8))
                self.assertEqual(found, elf.Object((bits, order, 8), {"f", "gg"}, frozenset()))

    def test_kinds_of_symbols(self):
        for info, other, strong, weak in (
            (0x12, 0, {"f"}, set()), (0x10, 0, {"f"}, set()), (0x1A, 0, {"f"}, set()), (0x12, 3, {"f"}, set()),
            (0x22, 0, set(), {"f"}), (0x02, 0, set(), set()), (0x11, 0, set(), set()), (0x12, 1, set(), set()),
            (0x12, 2, set(), set()),
        ):
            with self.subTest(info=info, other=other):
                found = elf.read(compose("f", info=info, other=other))
                self.assertEqual((found.strong, found.weak), (strong, weak))

    def test_sections_of_symbols(self):
        self.assertEqual(elf.read(compose("f", section=0)).strong, set())
        for section in (1, 3, 0xFF00, 0xFFF1, 0xFFFF):
            self.assertEqual(elf.read(compose("f", section=section)).strong, {"f"})
        for section in (4, 0xFEFF):
            with self.assertRaises(ValueError):
                elf.read(compose("f", section=section))

    def test_fields_that_do_not_fit(self):
        good = compose("f")
        size = len(good)
        for field, section, value, text in (
            (SECTION_HEADERS, None, 0, "no section headers"), (SECTION_HEADERS, None, size, "section header 0"),
            (HEADER_SIZE, None, 40, "section headers of 40 bytes"), (HEADER_COUNT, None, 5, "section header 4"),
            (OFFSET, 1, size, "within section 1"), (SIZE, 2, 2**63, "within section 2"),
            (SIZE, 1, size, "within section 1"),
            (SIZE, SYMBOLS, 47, "47 bytes"), (ENTRY_SIZE, SYMBOLS, 16, "entries of 16"),
            (ENTRY_SIZE, SYMBOLS, 0, "of 0"),
            (LINK, SYMBOLS, 4, "without names"), (LINK, SYMBOLS, 1, "without names"),
            (SIZE, STRINGS, 2, "does not end"), (SIZE, STRINGS, 0, "does not end"),
        ):
            with self.subTest(text=text):
                with self.assertRaisesRegex(ValueError, text):
                    elf.read(patch(good, field, value, section))

    def test_the_number_of_many_sections(self):
        """If the header's field is 0, the first section's size holds the number of sections."""
        data = patch(compose("f"), HEADER_COUNT, 0)
        self.assertEqual(elf.read(patch(data, SIZE, 4, section=0)).strong, {"f"})
        with self.assertRaisesRegex(ValueError, "section header 4"):
            elf.read(patch(data, SIZE, 2**60, section=0))

    def test_a_section_without_bytes(self):
        data = patch(patch(compose("f"), KIND, 8, section=1), SIZE, 2**40, section=1)
        self.assertEqual(elf.read(data).strong, {"f"})

    def test_no_symbols(self):
        self.assertEqual(elf.read(compose()).strong, set())
        self.assertEqual(elf.read(patch(compose("f"), KIND, 1, section=SYMBOLS)).strong, set())


if __name__ == "__main__":
    unittest.main()
