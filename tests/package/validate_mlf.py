#!/usr/bin/env python3
"""Validates packages in Model Library Format 5.

    validate_mlf.py PACKAGE.tar...    prints `ok` or one line per problem for each; exit status 1 if there is a problem

The rules come from the format's description and, for details that it leaves open, from TVM's graph executor. They do
not come from the project's writer, which they check. The rules of the seal, which is not part of the format, come from
docs/package.md. Other programs call `validate`.
"""

import sys

sys.dont_write_bytecode = True  # before the imports below

from mlf import archive, code, graph, metadata, parameters, seal, sizes, storage, stored
from mlf.check import Report, parse_json

METADATA, GRAPH, TEXT = "metadata.json", "executor-config/graph/graph.json", "src/relay.txt"


def validate(path):
    """Returns the problems of the package at `path`, each a line `place: what is wrong`; none for a good package."""
    report = Report()
    files = archive.read(report, path)
    if files is not None:
        check_files(report, files)
    return report.lines


def check_files(report, files):
    check_text(report, files)
    description = read_json(report, files, METADATA)
    seal.check(report, files, needed=isinstance(description, dict) and "autotune" in description)
    described = description is not None and metadata.check(report, description)
    value = read_json(report, files, GRAPH)
    net = graph.read(report, value) if value is not None else None
    sound = net is not None and storage.check(report, net)
    code.check(report, files, net)
    if not described:
        return
    place = f"parameters/{description['model_name']}.params"
    tensors = None
    if report.require(place in files, place, "is missing"):
        tensors = parameters.read(report, place, files[place])
    if tensors is not None and sound:
        tensors = stored.restore(report, place, tensors, net)
        parameters.check(report, place, tensors, net)
        sizes.check(report, description, net, tensors)


def check_text(report, files):
    if report.require(TEXT in files, TEXT, "is missing"):
        try:
            report.require(files[TEXT].decode("utf-8").strip(), TEXT, "is empty")
        except UnicodeDecodeError as error:
            report.add(TEXT, f"is no text: {error}")


def read_json(report, files, path):
    return parse_json(report, path, files[path]) if report.require(path in files, path, "is missing") else None


def main(paths):
    if not paths:
        sys.exit(__doc__)
    sys.stdout.reconfigure(errors="backslashreplace")
    status = 0
    for path in paths:
        lines = validate(path)
        for line in lines or ["ok"]:
            print(f"{path}: {line}")
        status |= bool(lines)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
