"""For test_mlf.py: two packages composed by hand. One is the add example of the format's description. The other one has
a graph with all other features."""

import io
import json
import os
import struct
import tarfile

import params

FLOAT32 = (2, 32, 1)
HERE = os.path.dirname(os.path.abspath(__file__))
METADATA, GRAPH, TEXT = "metadata.json", "executor-config/graph/graph.json", "src/relay.txt"
LIB, SRC = "codegen/host/lib/lib{}.o", "codegen/host/src/lib{}.c"


def elf(*names, kind=1, info=0x12, other=0, section=1, bits=2, order=1, machine=62):
    """Returns a relocatable object of this class and byte order that defines `names`."""
    mark = "<>"[order - 1]
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in names)
    form, header = (mark + "IBBHQQ", 64) if bits == 2 else (mark + "IIIBBH", 52)
    symbols, at = struct.calcsize(form) * b"\0", 1
    for name in names:
        fields = (at, info, other, section, 0, 1) if bits == 2 else (at, 0, 1, info, other, section)
        symbols += struct.pack(form, *fields)
        at += len(name.encode()) + 1
    text = b"\xc3"
    size = struct.calcsize(form)
    starts = [header, header + len(text), header + len(text) + len(symbols)]
    rows = [(0,) * 10, (0, 1, 6, 0, starts[0], len(text), 0, 0, 1, 0),
            (0, 2, 0, 0, starts[1], len(symbols), 3, 1, 1, size), (0, 3, 0, 0, starts[2], len(strings), 0, 0, 1, 0)]
    section_form = mark + ("IIQQQQIIQQ" if bits == 2 else "IIIIIIIIII")
    start = starts[2] + len(strings)
    head_form = mark + ("HHIQQQIHHHHHH" if bits == 2 else "HHIIIIIHHHHHH")
    row = struct.calcsize(section_form)
    head = struct.pack(head_form, kind, machine, 1, 0, 0, start, 0, header, 0, 0, row, len(rows), 3)
    ident = bytes([*b"\x7fELF", bits, order, 1]).ljust(16, b"\0")
    return ident + head + text + symbols + strings + b"".join(struct.pack(section_form, *row) for row in rows)


class Package:
    """The contents of a tarball, which tests change. `files`: the bytes of every path but those of `metadata`, `graph`
    and `tensors`. `raw` overrides the bytes of a path; None drops it. `members`: further members of the archive."""

    def __init__(self, metadata, graph, tensors, files):
        self.metadata, self.graph, self.tensors, self.files = metadata, graph, tensors, files
        self.raw, self.members, self.prefix, self.mode = {}, [], "", "w"

    def contents(self):
        files = {METADATA: json.dumps(self.metadata).encode(), GRAPH: json.dumps(self.graph).encode(),
                 f"parameters/{NAME}.params": params.write(self.tensors), **self.files, **self.raw}
        return {path: data for path, data in files.items() if data is not None}

    def pack(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode=self.mode) as archive:
            for path, data in self.contents().items():
                self.add(archive, tarfile.TarInfo(self.prefix + path), data)
            for member, data in self.members:
                self.add(archive, member, data)
        return out.getvalue()

    @staticmethod
    def add(archive, member, data):
        member.size = len(data)
        archive.addfile(member, io.BytesIO(data))


NAME = "default"


def metadata(main, functions):
    sizes = dict(zip(("workspace_size_bytes", "constants_size_bytes", "io_size_bytes"), main))
    return {
        "version": 5, "model_name": NAME, "export_datetime": "2026-01-31 09:05:00Z", "executors": ["graph"],
        "target": {"1": "llvm -keys=cpu"},
        "memory": {
            "main": [{"device": 1, **sizes}],
            "operator_functions": {f: [{"device": 1, "workspace_size_bytes": size}] for f, size in functions.items()},
        },
    }


def golden():
    with open(os.path.join(HERE, "golden", "add_graph.json"), encoding="utf-8") as file:
        return json.load(file)


def add_package():
    """Returns the package of add(a, b) for two 5 x 5 float32 tensors of 100 bytes."""
    return Package(metadata((0, 0, 300), {"add": 0}), golden(), {}, {TEXT: b"add(a, b)\n", LIB.format(0): elf("add")})


def op(name, function, inputs, outputs=1):
    attrs = {"func_name": function, "flatten_data": "0", "num_inputs": str(len(inputs)), "num_outputs": str(outputs),
             "hash": "h" + function}
    return {"op": "tvm_op", "name": name, "attrs": attrs, "inputs": [[node, index, 0] for node, index in inputs]}


def chain_package():
    """Returns a package with a parameter, a node of two outputs, a storage that is reused, and a reshape.

    entry    value                  shape     storage   bytes
    0        x, an input            2 x 4     0         32
    1        w, a parameter         2 x 4     1         32
    2        f(x, w)                2 x 4     2         32
    3, 4     halves of entry 2      2 x 2     3, 4      16
    5        g(entries 3, 4)        2 x 4     2         32    entry 2 is no longer needed
    6        entry 5, reshaped      8         2         32    the same memory
    7        f(entry 6, w), a head  8         5         32
    """
    graph = {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []}, {"op": "null", "name": "w", "inputs": []},
            op("sum", "f", [(0, 0), (1, 0)]), op("halves", "split", [(2, 0)], outputs=2),
            op("joined", "g", [(3, 0), (3, 1)]), op("reshape_nop", "__nop", [(4, 0)]),
            op("last", "f", [(5, 0), (1, 0)]),
        ],
        "arg_nodes": [0, 1], "heads": [[6, 0, 0]], "node_row_ptr": [0, 1, 2, 3, 5, 6, 7, 8],
        "attrs": {
            "dltype": ["list_str", ["float32"] * 8],
            "shape": ["list_shape", [[2, 4], [2, 4], [2, 4], [2, 2], [2, 2], [2, 4], [8], [8]]],
            "storage_id": ["list_int", [0, 1, 2, 3, 4, 2, 2, 5]],
            "device_index": ["list_int", [1] * 8],
        },
    }
    functions = {"f": 0, "split": 128, "g": 64}  # a workspace of 192: 64 bytes in storages 2, 3 and 4, 128 for split
    tensors = {"w": params.Tensor(FLOAT32, (2, 4), bytes(range(32)))}
    files = {TEXT: b"graph\n", LIB.format(0): elf("f", "split"), LIB.format(1): elf("g"),
             "codegen/host/lib/kernels.so": b"linked"}
    return Package(metadata((192, 32, 64), functions), graph, tensors, files)
