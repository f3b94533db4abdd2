#!/usr/bin/env python3
"""Tests validate_mlf.py: packages composed by hand are good, and each change is reported at its place."""

import contextlib
import io
import os
import random
import sys
import tarfile
import tempfile
import unittest
import zlib

sys.dont_write_bytecode = True  # before the imports below

import sample
import validate_mlf
from cases import C_SOURCE, DROP, GRAPH, METADATA, STORAGE, put
from params import Tensor
from sample import FLOAT32, LIB, SRC, TEXT, add_package, chain_package, elf

SEAL = "autotune.seal"
PARAMS = f"parameters/{sample.NAME}.params"


def problems(package_or_bytes):
    data = package_or_bytes if isinstance(package_or_bytes, bytes) else package_or_bytes.pack()
    with tempfile.NamedTemporaryFile(suffix=".tar") as file:
        file.write(data)
        file.flush()
        return validate_mlf.validate(file.name)


def places(lines):
    return {line.split(": ")[0] for line in lines}


class Good(unittest.TestCase):
    def test_the_add_example(self):
        self.assertEqual(problems(add_package()), [])

    def test_the_chain(self):
        self.assertEqual(problems(chain_package()), [])

    def test_variants(self):
        """Packages may differ in details that the format does not fix."""
        for change in (
            lambda p: setattr(p, "prefix", "./"),
            lambda p: setattr(p, "mode", "w:gz"),
            lambda p: p.metadata.update(style="full-model", private={"a": [1]}),
            lambda p: p.metadata["memory"]["main"][0].update(arena=7),
            lambda p: p.metadata["memory"]["main"][0].update(workspace_size_bytes=193),
            lambda p: p.metadata["memory"]["main"][0].update(workspace_size_bytes=2**63 - 1),
            lambda p: p.metadata["memory"]["operator_functions"].update(
                more=[{"device": 1, "workspace_size_bytes": 9}]),
            lambda p: p.graph["nodes"][2]["attrs"].update(layout="NCHW"),
            lambda p: p.graph["attrs"].update(spare=["list_int", [1, -2]], nbytes=["size_t", 9]),
            lambda p: p.graph.update(arg_nodes=[1, 0]),
            lambda p: p.members.append((folder("codegen/host"), b"")),
            lambda p: p.raw.update({"notes/readme.txt": b"", "parameters/other.params": b"?"}),
            lambda p: p.raw.update({LIB.format(1): elf("g", info=0x22), LIB.format(2): elf("f", info=0x22)}),
            lambda p: p.raw.update({LIB.format(0): None, LIB.format(1): None, SRC.format(0): C_SOURCE}),
            lambda p: p.raw.update({LIB.format(1): None, SRC.format(0): b"int g(void) {}"}),
            lambda p: p.raw.update({LIB.format(i): elf(*names, bits=1, order=2, machine=20)
                                    for i, names in enumerate((["f", "split"], ["g"]))}),
        ):
            package = chain_package()
            change(package)
            self.assertEqual(problems(package), [])


def folder(path):
    member = tarfile.TarInfo(path)
    member.type = tarfile.DIRTYPE
    return member


def link(path, kind=tarfile.SYMTYPE):
    member = tarfile.TarInfo(path)
    member.type, member.linkname = kind, TEXT
    return member


class Bad(unittest.TestCase):
    def expect(self, package, *expected, text=""):
        lines = problems(package)
        self.assertEqual(places(lines), set(expected), lines)
        self.assertTrue(any(text in line for line in lines), lines)

    def test_metadata(self):
        for path, value in METADATA:
            with self.subTest(path=path, value="dropped" if value is DROP else value):
                package = chain_package()
                put(package.metadata, path, value)
                self.expect(package, path)

    def test_metadata_of_devices(self):
        for path, value, place in (
            ("target", {"cpu": "llvm"}, "target.cpu"), ("target", {"01": "llvm"}, "target.01"),
            ("target", {"1": 5}, "target.1"),
            ("target", {"1": ""}, "target.1"), ("target", {"1": {"kind": "llvm"}}, "target.1"),
            ("memory.operator_functions.f[0].device", 2, "memory.operator_functions.f[0].device"),
        ):
            with self.subTest(path=path, value=value):
                package = chain_package()
                put(package.metadata, path, value)
                self.expect(package, place)
        package = chain_package()
        package.metadata["memory"]["main"] *= 2
        self.expect(package, "memory.main[1].device", text="in two rows")

    def test_graph(self):
        for path, value in GRAPH:
            with self.subTest(path=path, value="dropped" if value is DROP else str(value)[:40]):
                package = chain_package()
                put(package.graph, path, value)
                # metadata.json has no row for a function with a changed name, which is reported, too.
                more = {f"memory.operator_functions.{value}"} if value in ("absent", "F") else ()
                self.expect(package, f"graph.{path}", *more)

    def test_storage(self):
        for ids, entries in STORAGE:
            with self.subTest(ids=ids):
                package = chain_package()
                package.graph["attrs"]["storage_id"][1] = ids
                package.metadata["memory"]["main"][0]["workspace_size_bytes"] = 1000
                lines = problems(package)
                self.assertEqual(places(lines), {f"graph.attrs.storage_id[1][{e}]" for e in entries}, lines)

    def test_heads_stay(self):
        package = chain_package()
        package.graph["heads"].append([2, 0, 0])  # entry 2, whose storage the joined halves reuse
        self.expect(package, "graph.attrs.storage_id[1][5]", text="entry 2 is still needed")

    def test_a_head_is_no_workspace(self):
        package = chain_package()
        package.graph["heads"].append([3, 1, 0])  # entry 4, of 16 bytes in a storage of its own
        self.expect(package, "memory.main[0].io_size_bytes", text="take 80")
        package.metadata["memory"]["main"][0].update(io_size_bytes=80, workspace_size_bytes=176)
        self.assertEqual(problems(package), [])

    def test_what_counts_twice_or_not(self):
        package = chain_package()
        package.graph["heads"] += [[6, 0, 0], [0, 0, 0], [1, 0, 0]]  # a head again, an input, a parameter
        self.assertEqual(problems(package), [])
        package = chain_package()
        package.graph["attrs"]["shape"][1][2] = [4, 4]  # the largest entry of storage 2
        self.expect(package, "memory.main[0].workspace_size_bytes", text="intermediate results take 96")
        package = chain_package()
        package.graph["attrs"]["storage_id"][1][7] = 3  # the head's 32 bytes account for all of storage 3
        package.metadata["memory"]["main"][0]["workspace_size_bytes"] = 176
        self.assertEqual(problems(package), [])
        package.metadata["memory"]["main"][0]["workspace_size_bytes"] = 175
        self.expect(package, "memory.main[0].workspace_size_bytes")

    def test_builtin_functions(self):
        package = chain_package()
        package.graph["attrs"]["shape"][1][6] = [9]
        self.expect(package, "graph.nodes[5]", text="do not fit together")
        package = chain_package()
        package.graph["attrs"]["dltype"][1][6] = "int32"
        self.expect(package, "graph.nodes[5]", text="do not fit together")
        package = chain_package()
        package.graph["nodes"][4]["attrs"]["func_name"] = "__nop"
        self.expect(package, "graph.nodes[4]", text="one input and one output")
        package = chain_package()
        package.graph["nodes"][5]["attrs"]["func_name"] = "__copy"
        self.expect(package, "graph.nodes[5]", "graph.attrs.storage_id[1][6]")

    def two_devices(self):
        """Returns the chain with other last nodes: they copy to device 2 (entry 6) and compute there (entry 7)."""
        package = chain_package()
        attrs = package.graph["attrs"]
        package.graph["nodes"][5]["attrs"]["func_name"] = "__copy"
        package.graph["nodes"][6] = sample.op("last", "f", [(5, 0)])
        attrs["shape"][1][6] = [2, 4]
        attrs["storage_id"][1][6] = 6
        attrs["device_index"][1][6:] = [2, 2]
        memory = package.metadata["memory"]
        memory["main"].append({"device": 2, "workspace_size_bytes": 37, "constants_size_bytes": 0, "io_size_bytes": 32})
        memory["main"][0]["io_size_bytes"] = 32
        memory["operator_functions"]["f"].append({"device": 2, "workspace_size_bytes": 5})
        package.metadata["target"]["2"] = "test"
        return package

    def test_two_devices(self):
        self.assertEqual(problems(self.two_devices()), [])
        for path, value, *places in (
            ("graph.attrs.device_index[1][6]", 1, "graph.nodes[6]"),
            ("graph.nodes[6].inputs[0]", [4, 0, 0], "graph.nodes[6]"),
            ("graph.nodes[5].attrs.func_name", "g", "graph.nodes[5]"),
            ("graph.attrs.storage_id[1][6]", 3, "graph.attrs.device_index[1][6]"),
            ("metadata.memory.main[1]", DROP, "memory.main"),
            ("metadata.memory.main[1].workspace_size_bytes", 36, "memory.main[1].workspace_size_bytes"),
            ("metadata.memory.main[1].io_size_bytes", 64, "memory.main[1].io_size_bytes"),
            ("metadata.memory.operator_functions.f[1]", DROP, "memory.operator_functions.f"),
            ("metadata.target", {"1": "llvm"}, "memory.main[1].device", "memory.operator_functions.f[1].device"),
        ):
            with self.subTest(path=path):
                package = self.two_devices()
                put({"graph": package.graph, "metadata": package.metadata}, path, value)
                self.expect(package, *places)

    def test_json(self):
        for path in (sample.METADATA, sample.GRAPH):
            for text in (b"", b"{", b"null", b"{} {}", b'{"version": NaN}', b"\xff{}", b"{'a': 1}", b"[" * 100000,
                         b'{"a": 1, "a": 1}'):
                with self.subTest(path=path, text=text[:20]):
                    package = chain_package()
                    package.raw[path] = text
                    self.expect(package, path)
        package = chain_package()
        package.raw[sample.GRAPH] = b"[]"
        self.expect(package, "graph", text="is a list, not an object")

    def test_files(self):
        for path in (sample.METADATA, sample.GRAPH, TEXT, PARAMS, LIB.format(0)):
            with self.subTest(path=path):
                package = chain_package()
                package.raw[path] = None
                expected = {path}
                if path == LIB.format(0):
                    expected |= {f"graph.nodes[{i}].attrs.func_name" for i in (2, 3)}
                self.expect(package, *expected, text="is missing")
        for text in (b"", b" \n", b"\xff\xfe"):
            package = chain_package()
            package.raw[TEXT] = text
            self.expect(package, TEXT)

    def test_archive(self):
        for member, place in (
            (tarfile.TarInfo("/notes.txt"), "/notes.txt"), (tarfile.TarInfo("../notes.txt"), "../notes.txt"),
            (tarfile.TarInfo("codegen/../notes.txt"), "codegen/../notes.txt"), (tarfile.TarInfo(TEXT), TEXT),
            (tarfile.TarInfo("./" + TEXT), "./" + TEXT), (link("notes.txt"), "notes.txt"),
            (link("notes.txt", tarfile.LNKTYPE), "notes.txt"), (link("notes.txt", tarfile.FIFOTYPE), "notes.txt"),
            (folder(TEXT), TEXT),
        ):
            with self.subTest(place=place):
                package = chain_package()
                package.members.append((member, b""))
                self.expect(package, place)
        data = add_package().pack()
        used = len(data.rstrip(b"\0"))
        for name, changed in {
            "empty": b"", "text": b"hello", "cut": data[: used - 10], "no end": data[: (used + 511) // 512 * 512],
            "half an end": data[: (used + 511) // 512 * 512 + 512], "more": data + b"x",
        }.items():
            with self.subTest(name):
                self.assertIn("archive", places(problems(changed)))
        self.assertEqual(places(validate_mlf.validate("/nonexistent.tar")), {"archive"})

    def test_a_damaged_member_does_not_hide(self):
        data = bytearray(chain_package().pack())
        at = data.rindex(b"codegen/host/lib/kernels.so")
        data[at] ^= 1  # its checksum no longer fits, so tarfile ends there
        self.expect(bytes(data), "archive")

    def test_changed_bytes_never_stop_the_validator(self):
        package = chain_package()
        package.raw["notes/" + "long" * 60] = b"a name that needs an extended header"
        data = package.pack()
        used = [i for i, byte in enumerate(data) if byte]
        rng = random.Random(1)
        for _ in range(300):
            changed = bytearray(data)
            for at in rng.sample(used, 3):
                changed[at] = rng.choice([0, 0x2D, 0x30, 0xFF, rng.randrange(256)])
            self.assertIsInstance(problems(bytes(changed)), list)

    def test_params(self):
        good = chain_package().tensors["w"]
        for tensors in (
            {"v": good}, {"w": good, "sum": good}, {"w": good._replace(shape=(4, 2))}, {"w": good._replace(shape=(8,))},
            {"w": good._replace(dtype=(0, 32, 1))}, {"w": good._replace(dtype=(1, 32, 1))},
        ):
            with self.subTest(tensors=tensors):
                package = chain_package()
                package.tensors = tensors
                self.assertIn(PARAMS, places(problems(package)))
        data = sample.params.write({"w": good})
        for changed in (b"", data[:-1], data + b"\0", b"\0" + data[1:]):
            package = chain_package()
            package.raw[PARAMS] = changed
            self.expect(package, PARAMS, text="byte ")

    def test_constants_in_fewer_bits(self):
        numbers, scales = Tensor((0, 8, 1), (2, 4), bytes(8)), Tensor(FLOAT32, (2, 1), bytes(8))
        halves, offsets = Tensor((1, 8, 1), (2, 2), bytes(4)), Tensor((0, 8, 1), (1, 1), b"\xf8")
        right = (
            {"w": Tensor((2, 16, 1), (2, 4), bytes(16))}, {"w": Tensor((4, 16, 1), (2, 4), bytes(16))},
            {"w.numbers": numbers, "w.scales": scales},
            {"w.numbers": numbers, "w.scales": Tensor((4, 16, 1), (1, 4), bytes(8))},
            {"w.numbers": halves, "w.offsets": offsets, "w.scales": scales},
        )
        wrong = (
            {"w": Tensor((2, 16, 1), (8,), bytes(16))}, {"w.numbers": numbers}, {"w.scales": scales},
            {"w.numbers": halves, "w.scales": scales},
            {"w.numbers": numbers, "w.offsets": offsets, "w.scales": scales},
            {"w.numbers": numbers, "w.scales": scales._replace(shape=(2,))},
            {"w.numbers": numbers, "w.scales": scales._replace(dtype=(0, 32, 1))},
            {"w.numbers": numbers._replace(shape=(4, 2)), "w.scales": scales},
            {"w.numbers": numbers._replace(shape=(2, 3), data=bytes(6)), "w.scales": scales},
        )
        for tensors in (*right, *wrong):
            with self.subTest(tensors=tensors):
                package = chain_package()
                package.tensors = tensors
                found = places(problems(package))
                self.assertEqual(any(place == PARAMS for place in found), tensors in wrong, found)

    def test_parameters_and_inputs_are_told_apart(self):
        package = chain_package()
        package.tensors = {}
        self.expect(package, "memory.main[0].constants_size_bytes", "memory.main[0].io_size_bytes")
        package = chain_package()
        package.tensors["x"] = Tensor(FLOAT32, (2, 4), bytes(32))
        self.expect(package, "memory.main[0].constants_size_bytes", "memory.main[0].io_size_bytes")

    def test_names_of_code(self):
        one = LIB.format(1)
        for names, place in (
            ({one: None, LIB.format(2): elf("g")}, one), ({one: None, LIB.format(7): elf("g")}, one),
            ({"codegen/host/lib/extra.o": elf("h")}, "codegen/host/lib/extra.o"),
            ({"codegen/host/lib/lib01.o": elf("h")}, "codegen/host/lib/lib01.o"),
            ({"codegen/host/lib/default_lib0.o": elf("h")}, "codegen/host/lib/default_lib0.o"),
            ({SRC.format(1): b"int h(void) {}"}, SRC.format(0)),
            ({"codegen/host/src/main.c": b""}, "codegen/host/src/main.c"),
        ):
            with self.subTest(place=place):
                package = chain_package()
                package.raw.update(names)
                self.expect(package, place)
        package = add_package()
        package.raw.update({LIB.format(0): None, "codegen/lib0.c": b"int add(void) {}", "codegen/host/src/lib0.h": b""})
        self.expect(package, "codegen/host", text="neither")

    def test_objects(self):
        good = elf("g")
        one, call = LIB.format(1), "graph.nodes[4].attrs.func_name"
        for name, data, expected in (
            ("another symbol", elf("gg"), [call]), ("executable", elf("g", kind=2), [one, call]),
            ("shared", elf("g", kind=3), [one, call]), ("undefined", elf("g", section=0), [call]),
            ("local", elf("g", info=0x02), [call]), ("variable", elf("g", info=0x11), [call]),
            ("hidden", elf("g", other=2), [call]), ("internal", elf("g", other=1), [call]),
            ("no such section", elf("g", section=9), [one, call]), ("defined twice", elf("g", "f"), [one]),
            ("another machine", elf("g", machine=183), [one]), ("another class", elf("g", bits=1), [one]),
            ("class 3", good[:4] + b"\3" + good[5:], [one, call]),
            ("order 0", good[:5] + b"\0" + good[6:], [one, call]),
            ("version 0", good[:6] + b"\0" + good[7:], [one, call]), ("magic", b"\x7fELG" + good[4:], [one, call]),
            ("text", b"int g(void) {}", [one, call]), ("empty", b"", [one, call]),
        ):
            with self.subTest(name):
                package = chain_package()
                package.raw[one] = data
                self.expect(package, *expected)

    def test_objects_cut_anywhere(self):
        good = elf("g")
        for size in range(len(good)):
            package = chain_package()
            package.raw[LIB.format(1)] = good[:size]
            self.expect(package, LIB.format(1), "graph.nodes[4].attrs.func_name")

    def test_sources(self):
        place, call = SRC.format(0), "graph.nodes[4].attrs.func_name"
        for text, expected in (
            (b"int g(void);", [call]), (b"static int g(void) {}", [call]), (b"inline int g(void) {}", [call]),
            (b"int h(void) { int g(void) {} }", [call]), (b"/* int g(void) {} */", [call]),
            (b"// int g(void) {}", [call]),
            (b'char* h = "int g(void) {}";', [call]), (b"#define g() int g(void) {}", [call]),
            (b"int G(void) {}", [call]),
            (b"int g[] = {1};", [call]), (b"int h(void) { g(); { } }", [call]), (b"int h(int g(void)) {}", [call]),
            (b"int g(void) {", [place, call]), (b"int g(void) {}}", [place, call]), (b"\xff", [place, call]),
        ):
            with self.subTest(text):
                package = chain_package()
                package.raw.update({LIB.format(1): None, place: text})
                self.expect(package, *expected)
        package = chain_package()
        package.raw.update({LIB.format(1): None, place: b"int g(void) {}", SRC.format(1): b"int g(void) {}"})
        self.expect(package, SRC.format(1), text="defines g")

    def test_enough(self):
        self.assertGreaterEqual(len(METADATA) + len(GRAPH) + len(STORAGE), 60)


class Seal(unittest.TestCase):
    """A package of autotune has a seal; each damage to a member or to the seal is reported."""

    def sealed(self):
        package = chain_package()
        package.metadata["autotune"] = {}
        lines = [f"{zlib.crc32(data):08x} {len(data)} {path}" for path, data in package.contents().items()]
        package.raw[SEAL] = "\n".join(["autotune-seal 1", *lines, ""]).encode()
        return package

    def test_a_seal_that_fits(self):
        package = self.sealed()
        self.assertEqual(problems(package), [])
        package.prefix = "./"
        self.assertEqual(problems(package), [])

    def test_a_package_of_autotune_needs_one(self):
        package = self.sealed()
        package.raw[SEAL] = None
        self.assertEqual(places(problems(package)), {SEAL})

    def test_damage(self):
        seal = self.sealed().raw[SEAL]
        notes = "notes.txt"
        for raw, place, text in (
            ({TEXT: b"graqh\n"}, TEXT, "differs"), ({TEXT: b"graph\n\n"}, TEXT, "differs"),
            ({notes: b"new"}, notes, "is not in autotune.seal"),
            ({SEAL: seal.replace(b"seal 1", b"seal 2")}, SEAL, "as a seal does"), ({SEAL: seal[:-1]}, SEAL, "as a seal"),
            ({SEAL: seal + b"00000000 3 notes.txt\n"}, notes, "but not in the package"),
            ({SEAL: seal + b"text\n"}, SEAL, "without a name"),
            ({SEAL: seal + seal.split(b"\n")[1] + b"\n"}, SEAL, "a name twice"),
        ):
            with self.subTest(raw=raw):
                package = self.sealed()
                package.raw.update(raw)
                lines = problems(package)
                self.assertEqual(places(lines), {place}, lines)
                self.assertIn(text, lines[0])


class Program(unittest.TestCase):
    def test_lines_and_status(self):
        bad = add_package()
        bad.metadata["memory"]["main"][0]["io_size_bytes"] = 299
        with tempfile.TemporaryDirectory() as work:
            paths = [os.path.join(work, name) for name in ("good.tar", "bad.tar")]
            for path, package in zip(paths, (add_package(), bad)):
                with open(path, "wb") as file:
                    file.write(package.pack())
            for chosen, status, text in (
                (paths[:1], 0, f"{paths[0]}: ok\n"),
                (paths[1:], 1, f"{paths[1]}: memory.main[0].io_size_bytes: "
                 "is 299, the graph's inputs and outputs take 300\n"),
            ):
                out = io.TextIOWrapper(io.BytesIO(), "utf-8")
                with contextlib.redirect_stdout(out):
                    self.assertEqual(validate_mlf.main(chosen), status)
                out.flush()
                self.assertEqual(out.buffer.getvalue().decode(), text)
        with self.assertRaises(SystemExit):
            validate_mlf.main([])


if __name__ == "__main__":
    unittest.main()
