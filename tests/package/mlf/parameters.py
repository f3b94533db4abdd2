"""Checks that every parameter of the file is an argument of the graph, with the type and shape that it has there."""

import params


def read(report, place, data):
    """Returns the tensors by name, or None after reporting why there are none."""
    try:
        return params.read(data)
    except ValueError as error:
        report.add(place, str(error))
        return None


def check(report, place, tensors, graph):
    for name, tensor in tensors.items():
        if not report.require(name in graph.args, place, f"has {name!r}, which is no argument of the graph"):
            continue
        entry = graph.entries[graph.args[name]]
        report.require(tensor.shape == entry.shape, place,
                       f"{name!r} has shape {tensor.shape}, in the graph {entry.shape}")
        report.require(tensor.dtype == entry.dtype, place,
                       f"{name!r} has type {tensor.dtype}, in the graph {entry.dtype}")
