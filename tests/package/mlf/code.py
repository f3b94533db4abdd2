"""Checks the generated code: objects and C sources are numbered from 0, have valid contents, and define every function
that the graph calls.

A user links codegen/host/lib/*.o or codegen/host/src/*.c, so other names with these endings are refused in these
folders. Other files, such as a linked library beside the objects, are allowed.
"""

import posixpath
import re

from . import c_source, elf
from .graph import BUILTIN
from .storage import function_of

LIB, SRC = "codegen/host/lib", "codegen/host/src"


def numbered(report, files, folder, ending):
    """Returns the paths folder/libN.ending in order of N. Reports other names and missing numbers."""
    found = {}
    for path in files:
        if posixpath.dirname(path) == folder and path.endswith(ending):
            name = re.fullmatch(r"lib(0|[1-9][0-9]*)" + re.escape(ending), posixpath.basename(path), re.ASCII)
            if report.require(name, path, f"is not named libN{ending}"):
                found[int(name[1])] = path
    for n in set(range(len(found))) - set(found):
        report.add(f"{folder}/lib{n}{ending}", f"is missing, there are {sorted(found)}")
    return [found[n] for n in sorted(found)]


def objects(report, files):
    defined, machine = {}, None  # defined: for each strong symbol, its file
    names = set()
    for path in numbered(report, files, LIB, ".o"):
        try:
            found = elf.read(files[path])
        except ValueError as error:
            report.add(path, str(error))
            continue
        machine = machine or found.machine
        report.require(found.machine == machine, path, f"is for the machine {found.machine}, others are for {machine}")
        for name in sorted(found.strong & set(defined)):
            report.add(path, f"defines {name}, as {defined[name]} does")
        defined.update(dict.fromkeys(found.strong, path))
        names |= found.strong | found.weak
    return names


def sources(report, files):
    defined = {}
    for path in numbered(report, files, SRC, ".c"):
        try:
            found = c_source.functions(files[path].decode("utf-8"))
        except ValueError as error:
            report.add(path, f"is no C source: {error}")
            continue
        for name in sorted(found & set(defined)):
            report.add(path, f"defines {name}, as {defined[name]} does")
        defined.update(dict.fromkeys(found, path))
    return set(defined)


CPU = 1  # its functions are the host's code; those of other devices are modules of the library


def check(report, files, graph):
    names = objects(report, files) | sources(report, files)
    if graph is None:
        return
    called = {}
    for i, node in enumerate(graph.nodes):
        on_cpu = graph.entries[graph.row[i]].device == CPU
        if on_cpu and function_of(node) not in (None, *BUILTIN):
            called.setdefault(function_of(node), i)
    any_code = any(posixpath.dirname(p) in (LIB, SRC) and p.endswith((".o", ".c")) for p in files)
    if called and not report.require(any_code, "codegen/host", "has neither lib/lib0.o nor src/lib0.c"):
        return
    for name, i in called.items():
        place = f"graph.nodes[{i}].attrs.func_name"
        report.require(name in names, place, f"is {name}, which no object or source defines")
