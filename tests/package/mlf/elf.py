"""Finds the functions that a relocatable ELF object exports, for both classes and both byte orders."""

import struct
from collections import namedtuple

ET_REL, SHT_NULL, SHT_SYMTAB, SHT_STRTAB, SHT_NOBITS, SHN_UNDEF = 1, 0, 2, 3, 8, 0
SHN_LORESERVE = 0xFF00  # the first reserved number, which means no section
STB_GLOBAL, STB_WEAK = 1, 2
FUNCTION_TYPES = (0, 2, 10)  # untyped (assembler), function, indirect function
LINKABLE = (0, 3)  # visibility default, protected: hidden and internal symbols do not leave the library

# By class (1: 32 bits, 2: 64): struct formats of header, section header and symbol, the symbol's fields in file order.
HEADER = {1: "HHIIIIIHHHHHH", 2: "HHIQQQIHHHHHH"}
SECTION = {1: "IIIIIIIIII", 2: "IIQQQQIIQQ"}
SYMBOL = {1: ("IIIBBH", "name value size info other section"), 2: ("IBBHQQ", "name info other section value size")}

Section = namedtuple("Section", "name type flags address offset size link info alignment entry_size")
Object = namedtuple("Object", "machine strong weak")  # machine: (class, byte order, e_machine); names of functions


def read(data):
    """Returns the Object in `data`. Raises ValueError if there is none."""
    if data[:4] != b"\x7fELF" or len(data) < 16:
        raise ValueError("does not begin with an ELF header")
    bits, order, version = data[4:7]
    if bits not in HEADER or order not in (1, 2) or version != 1:
        raise ValueError(f"is of ELF class {bits}, byte order {order}, version {version}, which do not exist")
    mark = "<>"[order - 1]
    header = unpack(data, 16, mark + HEADER[bits], "the ELF header")
    kind, machine, start, size, count = header[0], header[1], header[5], header[10], header[11]
    if kind != ET_REL:
        raise ValueError(f"has ELF type {kind}, a relocatable object has {ET_REL}")
    if size != struct.calcsize(mark + SECTION[bits]):
        raise ValueError(f"has section headers of {size} bytes")
    sections = read_sections(data, mark + SECTION[bits], start, count)
    symbols = [s for section in sections if section.type == SHT_SYMTAB
               for s in read_symbols(data, mark, bits, sections, section)]
    return Object((bits, order, machine), frozenset(name for name, bind in symbols if bind == STB_GLOBAL),
                  frozenset(name for name, bind in symbols if bind == STB_WEAK))


def unpack(data, at, form, what):
    if at + struct.calcsize(form) > len(data):
        raise ValueError(f"ends within {what}")
    return struct.unpack_from(form, data, at)


def read_sections(data, form, start, count):
    if start == 0:
        raise ValueError("has no section headers")
    if count == 0:  # more than e_shnum can say: the first section's size is their number
        count = Section(*unpack(data, start, form, "the section headers")).size
    sections = []
    for i in range(count):  # each section takes bytes, so too large a count is an error at the end of the file
        section = Section(*unpack(data, start + i * struct.calcsize(form), form, f"section header {i}"))
        if section.type not in (SHT_NULL, SHT_NOBITS) and section.offset + section.size > len(data):
            raise ValueError(f"ends within section {i}")
        sections.append(section)
    return sections


def read_symbols(data, mark, bits, sections, table):
    """Yields (name, binding) of each function that is defined and visible from outside."""
    form, fields = SYMBOL[bits]
    size = struct.calcsize(mark + form)
    if table.entry_size != size or table.size % size:
        raise ValueError(f"has a symbol table of {table.size} bytes, in entries of {table.entry_size}")
    if table.link >= len(sections) or sections[table.link].type != SHT_STRTAB:
        raise ValueError("has a symbol table without names")
    strings = sections[table.link]
    text = data[strings.offset : strings.offset + strings.size]
    for at in range(table.offset, table.offset + table.size, size):
        symbol = dict(zip(fields.split(), struct.unpack_from(mark + form, data, at)))
        binding, kind = symbol["info"] >> 4, symbol["info"] & 15
        if symbol["section"] == SHN_UNDEF or kind not in FUNCTION_TYPES or symbol["other"] & 3 not in LINKABLE:
            continue
        if len(sections) <= symbol["section"] < SHN_LORESERVE:
            raise ValueError(f"has a symbol in section {symbol['section']} of {len(sections)}")
        end = text.find(b"\0", symbol["name"])
        if end < 0:
            raise ValueError("has a symbol whose name does not end")
        yield text[symbol["name"] : end].decode("utf-8", "replace"), binding
