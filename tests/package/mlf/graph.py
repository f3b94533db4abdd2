"""Checks graph.json alone, and converts it to a Graph: nodes, references and one row of attributes per entry.

The allowed keys are those that TVM's graph executor reads. The executor refuses other keys of the graph, of nodes and
of `attrs`, except graph attributes of two kinds, which it skips. Further attributes of an operator are strings.
"""

from collections import namedtuple
from math import prod

import params

from . import dtypes
from .check import INT32_MAX, constant, decimal, integer, list_of, object_of, one_of, string, tuple_of, unknown

NOP, COPY = "__nop", "__copy"
BUILTIN = (NOP, COPY)  # the executor's own: a reshape that shares its input's storage, a copy between devices

Entry = namedtuple("Entry", "node index shape dtype bytes storage device")
Graph = namedtuple("Graph", "nodes entries row args heads")  # args: entries by name; heads: entry numbers
INT = integer(0, INT32_MAX)
REFERENCE = tuple_of(INT, INT, INT)  # node, output, version


def skipped_attribute(report, place, value):
    """Checks that an unknown attribute is of one of the two kinds that TVM skips."""
    if type(value) is list and value[:1] == ["size_t"]:
        return tuple_of(constant("size_t"), integer(0))(report, place, value)
    return tuple_of(constant("list_int"), list_of(integer(-INT32_MAX, INT32_MAX)))(report, place, value)


OP_ATTRS = object_of({"func_name": string, "flatten_data": one_of("0", "1"), "num_inputs": decimal(0),
                      "num_outputs": decimal(1), "hash": string}, others=string)
NODES = {
    "null": object_of({"op": constant("null"), "name": string, "inputs": constant([])}, others=unknown),
    "tvm_op": object_of({"op": constant("tvm_op"), "name": string, "inputs": list_of(REFERENCE), "attrs": OP_ATTRS},
                        others=unknown),
}


def node(report, place, value):
    kind = value.get("op") if type(value) is dict else None
    return NODES["tvm_op" if kind == "tvm_op" else "null"](report, place, value) if kind in ("null", "tvm_op") else (
        object_of({"op": one_of("null", "tvm_op")})(report, place, value))


ATTRS = object_of({
    "dltype": tuple_of(constant("list_str"), list_of(dtypes.check)),
    "shape": tuple_of(constant("list_shape"), list_of(list_of(integer(0)))),
    "storage_id": tuple_of(constant("list_int"), list_of(INT)),
    "device_index": tuple_of(constant("list_int"), list_of(integer(1, INT32_MAX))),
}, others=skipped_attribute)
GRAPH = object_of({
    "nodes": list_of(node, least=1),
    "arg_nodes": list_of(INT),
    "heads": list_of(REFERENCE, least=1),
    "node_row_ptr": list_of(INT),
    "attrs": ATTRS,
}, others=unknown)


def outputs(node):
    return int(node["attrs"]["num_outputs"]) if node["op"] == "tvm_op" else 1


def read(report, value):
    """Returns the Graph, or None after reporting why there is none."""
    if not GRAPH(report, "graph", value):
        return None
    nodes, row = value["nodes"], [0]
    for n in nodes:
        row.append(row[-1] + outputs(n))
    good = [check_row(report, value["node_row_ptr"], row)]
    for key in ("dltype", "shape", "storage_id", "device_index"):
        count = len(value["attrs"][key][1])
        good.append(report.require(count == row[-1], f"graph.attrs.{key}[1]",
                                   f"has {count} elements, the graph {row[-1]} entries"))
    good += [check_references(report, nodes), check_heads(report, nodes, value["heads"]),
             check_arguments(report, nodes, value["arg_nodes"])]
    if not all(good):
        return None
    args = {nodes[i]["name"]: row[i] for i in value["arg_nodes"]}
    heads = [row[i] + index for i, index, _ in value["heads"]]
    return Graph(nodes, list(entries(nodes, value["attrs"])), row, args, heads)


def check_row(report, found, row):
    place = "graph.node_row_ptr"
    count = f"has {len(found)} elements, one more than nodes is {len(row)}"
    if not report.require(len(found) == len(row), place, count):
        return False
    return all([report.require(a == b, f"{place}[{i}]", f"is {a}, the nodes before have {b} outputs")
                for i, (a, b) in enumerate(zip(found, row))])


def check_references(report, nodes):
    good = True
    for i, n in enumerate(nodes):
        for k, (source, index, _) in enumerate(n["inputs"]):
            place = f"graph.nodes[{i}].inputs[{k}]"
            if report.require(source < i, place, f"refers to node {source}, which does not come before node {i}"):
                count = outputs(nodes[source])
                good &= report.require(index < count, place,
                                       f"refers to output {index} of node {source}, which has {count}")
            else:
                good = False
        if n["op"] == "tvm_op":
            count = int(n["attrs"]["num_inputs"])
            good &= report.require(count == len(n["inputs"]), f"graph.nodes[{i}].attrs.num_inputs",
                                   f"is {count}, the node has {len(n['inputs'])}")
    return good


def check_heads(report, nodes, heads):
    return all([report.require(source < len(nodes) and index < outputs(nodes[source]), f"graph.heads[{i}]",
                               f"refers to output {index} of node {source}, which does not exist")
                for i, (source, index, _) in enumerate(heads)])


def check_arguments(report, nodes, arguments):
    """Checks that every null node is listed once as an argument, with a unique name, by which set_input finds it."""
    good, left, names = True, {i for i, n in enumerate(nodes) if n["op"] == "null"}, set()
    for i, number in enumerate(arguments):
        if not report.require(number in left, f"graph.arg_nodes[{i}]",
                              f"is {number}, which is not a node with op null, or is listed twice"):
            good = False
            continue
        left.remove(number)
        name = nodes[number]["name"]
        good &= report.require(name not in names, f"graph.nodes[{number}].name", f"is {name!r}, another argument's too")
        names.add(name)
    return good and report.require(not left, "graph.arg_nodes", f"lacks the nodes {sorted(left)}, whose op is null")


def entries(nodes, attrs):
    rows = zip(*(attrs[key][1] for key in ("shape", "dltype", "storage_id", "device_index")))
    for i, n in enumerate(nodes):
        for index in range(outputs(n)):
            shape, name, storage, device = next(rows)
            dtype = dtypes.parse(name)
            yield Entry(i, index, tuple(shape), dtype, prod(shape) * params.element_bytes(dtype), storage, device)
