"""Checks the storage ids of a graph: no value is overwritten while it is needed.

An argument lives from before the first node to the end. A head lives to the end. Every other value lives from the node
that writes it to the last node that reads it, both included. A `__nop` writes nothing: its output is its input's value
with another shape, in the same storage. All values of a node are on one device, except for `__copy`.
"""

from .graph import COPY, NOP


def check(report, graph):
    good = [check_nodes(report, graph), check_lifetimes(report, graph, aliases(graph)), check_devices(report, graph)]
    return all(good)


def inputs_of(graph, node):
    return [graph.row[source] + index for source, index, _ in node["inputs"]]


def function_of(node):
    return node["attrs"]["func_name"] if node["op"] == "tvm_op" else None


def check_nodes(report, graph):
    good = True
    for i, node in enumerate(graph.nodes):
        results = range(graph.row[i], graph.row[i + 1])
        touched = {graph.entries[e].device for e in [*inputs_of(graph, node), *results]}
        function, place = function_of(node), f"graph.nodes[{i}]"
        if function in (NOP, COPY):
            good &= check_builtin(report, graph, i, function)
        if function != COPY:
            good &= report.require(len(touched) == 1, place, f"has inputs and outputs on the devices {sorted(touched)}")
    return good


def check_builtin(report, graph, i, function):
    """Checks a `__nop` or `__copy`: one tensor, returned in the same storage (`__nop`) or in another one (`__copy`)."""
    place, sources = f"graph.nodes[{i}]", inputs_of(graph, graph.nodes[i])
    if not report.require(len(sources) == 1 and graph.row[i + 1] - graph.row[i] == 1, place,
                          f"is {function}, which has one input and one output"):
        return False
    source, result = graph.entries[sources[0]], graph.entries[graph.row[i]]
    same = (lambda e: (e.dtype, e.bytes)) if function == NOP else (lambda e: (e.dtype, e.shape))
    good = report.require(same(source) == same(result), place,
                          f"is {function}, whose input {source.shape} and output {result.shape} do not fit together")
    if function == NOP:
        good &= report.require(source.storage == result.storage, f"graph.attrs.storage_id[1][{graph.row[i]}]",
                               f"is {result.storage}, but {function} leaves its result in storage {source.storage}")
    return good


def aliases(graph):
    """Returns, for every entry, the entry that first held its value."""
    first = list(range(len(graph.entries)))
    for i, node in enumerate(graph.nodes):
        if function_of(node) == NOP:
            source = first[inputs_of(graph, node)[0]] if node["inputs"] else graph.row[i]
            if graph.entries[source].storage == graph.entries[graph.row[i]].storage:
                first[graph.row[i]] = source
    return first


def lifetimes(graph, first):
    """Returns {entry: [node that writes it, last node that reads it]} of the entries that hold values of their own."""
    end = len(graph.nodes)
    life = {}
    for e, entry in enumerate(graph.entries):
        if first[e] == e:
            life[e] = [entry.node, entry.node] if graph.nodes[entry.node]["op"] == "tvm_op" else [-1, end]
    for i, node in enumerate(graph.nodes):
        for source in inputs_of(graph, node):
            life[first[source]][1] = max(life[first[source]][1], i)
    for head in graph.heads:
        life[first[head]][1] = end
    return life


def check_lifetimes(report, graph, first):
    good, holder = True, {}  # holder: by storage, the value that lives longest so far
    life = lifetimes(graph, first)
    for e in sorted(life, key=lambda e: (life[e], e)):
        storage = graph.entries[e].storage
        before = holder.get(storage)
        if before is not None:
            good &= report.require(
                life[before][1] < life[e][0], f"graph.attrs.storage_id[1][{e}]",
                f"is {storage}, where entry {before} is still needed: it lives over the nodes {life[before]}, this one "
                f"over {life[e]}")
        if before is None or life[before][1] < life[e][1]:
            holder[storage] = e
    return good


def check_devices(report, graph):
    good, devices = True, {}
    for e, entry in enumerate(graph.entries):
        device = devices.setdefault(entry.storage, entry.device)
        good &= report.require(device == entry.device, f"graph.attrs.device_index[1][{e}]",
                               f"is {entry.device}, but storage {entry.storage} is on device {device}")
    return good
