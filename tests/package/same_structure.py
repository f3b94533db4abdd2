#!/usr/bin/env python3
"""Compares two graph.json files, except for the names of nodes, the names of functions and the functions' hashes.

    same_structure.py GRAPH.json GOLDEN.json    prints the first difference; exit status 1 if there is one

Equal names must correspond: if two nodes of one graph call the same function, so must those of the other graph.
"""

import json
import sys

BUILTIN = ("__nop", "__copy")  # the executor's own functions: their names are their meaning


def structure(graph):
    """Returns a copy of the graph in which each name is replaced by the number of its first occurrence."""
    graph = json.loads(json.dumps(graph))
    names, functions = {}, {}
    for node in graph["nodes"]:
        node["name"] = names.setdefault(node["name"], len(names))
        attrs = node.get("attrs", {})
        if attrs.get("func_name") not in (None, *BUILTIN):
            attrs["func_name"] = functions.setdefault(attrs["func_name"], len(functions))
        if "hash" in attrs:
            attrs["hash"] = ""
    return graph


def first_difference(a, b, place="graph"):
    """Returns `place: a, not b` of the first place where two JSON values differ, or None."""
    if type(a) is not type(b) or not isinstance(a, (dict, list)):
        return None if type(a) is type(b) and a == b else f"{place}: {json.dumps(a)}, not {json.dumps(b)}"
    if isinstance(a, dict):
        if set(a) != set(b):
            return f"{place}: has the keys {sorted(a)}, not {sorted(b)}"
        pairs = [(f"{place}.{key}", a[key], b[key]) for key in a]
    else:
        if len(a) != len(b):
            return f"{place}: has {len(a)} elements, not {len(b)}"
        pairs = [(f"{place}[{i}]", x, y) for i, (x, y) in enumerate(zip(a, b))]
    return next(filter(None, (first_difference(x, y, where) for where, x, y in pairs)), None)


def difference(a, b):
    return first_difference(structure(a), structure(b))


def same_structure(a, b):
    return difference(a, b) is None


def main(paths):
    if len(paths) != 2:
        sys.exit(__doc__)
    found = difference(*(json.load(open(path, encoding="utf-8")) for path in paths))
    print(found or "ok")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
