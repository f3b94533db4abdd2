"""Compares the sizes in metadata.json with those of the graph and the parameters.

On each device every entry counts once: parameters as constants, other arguments and heads as inputs or outputs, and all
others as workspace. A storage id has the size of its largest entry. If it holds arguments or heads, their bytes are not
workspace. In addition, `main` needs the largest workspace of the listed functions.
"""

from .graph import BUILTIN
from .storage import function_of


def check(report, metadata, graph, parameters):
    memory = metadata["memory"]
    main = {row["device"]: (i, row) for i, row in enumerate(memory["main"])}
    check_functions(report, graph, memory["operator_functions"])
    for device in sorted({e.device for e in graph.entries} - set(main)):
        report.add("memory.main", f"has no row for device {device}, on which the graph has tensors")
    for device, (i, row) in main.items():
        check_main(report, f"memory.main[{i}]", device, row, graph, parameters, memory["operator_functions"])


def check_functions(report, graph, functions):
    """Checks that every called function has a row for the device on which it runs."""
    for i, node in enumerate(graph.nodes):
        name = function_of(node)
        if name is None or name in BUILTIN:
            continue
        device = graph.entries[graph.row[i]].device
        place = f"memory.operator_functions.{name}"
        if report.require(name in functions, place, f"is missing, node {i} calls it"):
            report.require(device in [row["device"] for row in functions[name]], place,
                           f"has no row for device {device}, on which node {i} runs it")


def check_main(report, place, device, row, graph, parameters, functions):
    constants = {e for name, e in graph.args.items() if name in parameters}
    outside = ({*graph.args.values(), *graph.heads}) - constants

    def total(entries):
        return sum(graph.entries[e].bytes for e in entries if graph.entries[e].device == device)

    report.require(row["constants_size_bytes"] == total(constants), f"{place}.constants_size_bytes",
                   f"is {row['constants_size_bytes']}, the parameters take {total(constants)}")
    report.require(row["io_size_bytes"] == total(outside), f"{place}.io_size_bytes",
                   f"is {row['io_size_bytes']}, the graph's inputs and outputs take {total(outside)}")
    between = intermediates(graph, device, constants | outside)
    calls = [r for rows in functions.values() for r in rows if r["device"] == device]
    scratch = max((r["workspace_size_bytes"] for r in calls), default=0)
    report.require(row["workspace_size_bytes"] >= between + scratch, f"{place}.workspace_size_bytes",
                   f"is {row['workspace_size_bytes']}, intermediate results take {between}, a function takes {scratch}")


def intermediates(graph, device, accounted):
    needed, given = {}, {}
    for e, entry in enumerate(graph.entries):
        if entry.device == device:
            needed[entry.storage] = max(needed.get(entry.storage, 0), entry.bytes)
            if e in accounted:
                given[entry.storage] = max(given.get(entry.storage, 0), entry.bytes)
    return sum(size - given.get(storage, 0) for storage, size in needed.items())
