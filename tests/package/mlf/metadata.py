"""Checks metadata.json alone: the type and form of every key. Private keys are allowed at every level."""

import datetime
import re

from .check import constant, decimal, integer, list_of, map_of, object_of, string

FORMAT = "%Y-%m-%d %H:%M:%SZ"


def date_time(report, place, value):
    if not string(report, place, value):
        return False
    try:
        datetime.datetime.strptime(value, FORMAT)
        good = re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ", value, re.ASCII)  # strptime takes single digits too
    except ValueError:
        good = False
    return report.require(good, place, f"is {value!r}, not of the form {FORMAT}")


def model_name(report, place, value):
    """Checks the model's name, which is part of a file's name, parameters/<model>.params."""
    return string(report, place, value) and report.require(
        "/" not in value and "\0" not in value, place, f"is {value!r}, which names no file")


DEVICE = integer(1)  # a device type: 1 = cpu
SIZE = integer(0)
MAIN = {"device": DEVICE, "workspace_size_bytes": SIZE, "constants_size_bytes": SIZE, "io_size_bytes": SIZE}
FUNCTION = {"device": DEVICE, "workspace_size_bytes": SIZE}
MEMORY = {
    "main": list_of(object_of(MAIN), least=1),
    "operator_functions": map_of(string, list_of(object_of(FUNCTION), least=1)),
}
METADATA = object_of({
    "version": constant(5),
    "model_name": model_name,
    "export_datetime": date_time,
    "executors": constant(["graph"]),
    "target": map_of(decimal(1), string, least=1),
    "memory": object_of(MEMORY),
})


def check(report, metadata):
    if not METADATA(report, "", metadata):
        return False
    memory, targets = metadata["memory"], metadata["target"]
    good = [check_devices(report, "memory.main", memory["main"], targets)]
    for name, rows in memory["operator_functions"].items():
        good.append(check_devices(report, f"memory.operator_functions.{name}", rows, targets))
    return all(good)


def check_devices(report, place, rows, targets):
    """Checks that each row is for a different device, and that each device has a target."""
    good, seen = True, set()
    for i, device in enumerate(row["device"] for row in rows):
        where = f"{place}[{i}].device"
        good &= report.require(device not in seen, where, f"is {device} in two rows")
        good &= report.require(str(device) in targets, where, f"is {device}, which has no key in target")
        seen.add(device)
    return good
