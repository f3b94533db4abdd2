"""Strict checks of JSON values. Small checks are combined into larger ones.

A check is a function (report, place, value) -> bool. It reports each problem with its place and returns True if there
is none. It distinguishes JSON's types: true is not 1, and 5.0 is not 5.
"""

import json
import re

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
KINDS = {type(None): "null", bool: "a boolean", int: "an integer", float: "a float", str: "a string", list: "a list",
         dict: "an object"}


class Report:
    """Collects problems as lines `place: what is wrong`."""

    def __init__(self):
        self.lines = []

    def add(self, place, text):
        self.lines.append(f"{place}: {text}".replace("\n", "\\n"))
        return False

    def require(self, condition, place, text):
        return bool(condition) or self.add(place, text)


def parse_json(report, place, data):
    """Returns the value of the JSON text `data`, or None after reporting why there is none."""

    def unique(pairs):
        if len(dict(pairs)) < len(pairs):
            raise ValueError(f"a key occurs twice in an object with the keys {sorted(key for key, _ in pairs)}")
        return dict(pairs)

    def refuse(name):
        raise ValueError(f"{name} is not JSON")

    try:
        value = json.loads(data.decode("utf-8"), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        report.add(place, f"is no JSON text: {error}")
        return None
    report.require(value is not None, place, "is null")
    return value


def inside(place, key):
    return f"{place}.{key}" if place else key


def is_kind(report, place, value, kind):
    return report.require(type(value) is kind, place, f"is {KINDS[type(value)]}, not {KINDS[kind]}")


def anything(report, place, value):
    return True


def string(report, place, value):
    return is_kind(report, place, value, str) and report.require(value, place, "is empty")


def constant(expected):
    def check(report, place, value):
        text, wanted = json.dumps(value), json.dumps(expected)
        return report.require(text == wanted, place, f"is {text}, not {wanted}")

    return check


def one_of(*expected):
    def check(report, place, value):
        return string(report, place, value) and report.require(
            value in expected, place, f"is {value!r}, not one of {', '.join(expected)}")

    return check


def integer(least=0, most=INT64_MAX):
    def check(report, place, value):
        return is_kind(report, place, value, int) and report.require(
            least <= value <= most, place, f"is {value}, not from {least} to {most}")

    return check


def decimal(least=0):
    """Checks for a string that holds an integer of `least` or more in its shortest form."""

    def check(report, place, value):
        return string(report, place, value) and report.require(
            re.fullmatch("0|[1-9][0-9]{0,17}", value) and int(value) >= least, place,
            f"is {value!r}, not an integer from {least} in decimal digits")

    return check


def list_of(check_item, least=0):
    def check(report, place, value):
        if not is_kind(report, place, value, list):
            return False
        enough = report.require(len(value) >= least, place, f"has {len(value)} elements, fewer than {least}")
        return all([check_item(report, f"{place}[{i}]", item) for i, item in enumerate(value)]) and enough

    return check


def tuple_of(*checks):
    def check(report, place, value):
        if not is_kind(report, place, value, list):
            return False
        if not report.require(len(value) == len(checks), place, f"has {len(value)} elements, not {len(checks)}"):
            return False
        return all([c(report, f"{place}[{i}]", item) for i, (c, item) in enumerate(zip(checks, value))])

    return check


def unknown(report, place, value):
    return report.add(place, "is unknown to the format")


def object_of(fields, others=anything):
    """Checks for an object with all keys of `fields`, whose values pass their checks. Other values pass `others`."""

    def check(report, place, value):
        if not is_kind(report, place, value, dict):
            return False
        missing = [report.add(inside(place, key), "is missing") for key in fields if key not in value]
        good = [fields.get(key, others)(report, inside(place, key), item) for key, item in value.items()]
        return all(missing + good)

    return check


def map_of(check_key, check_item, least=0):
    def check(report, place, value):
        if not is_kind(report, place, value, dict):
            return False
        enough = report.require(len(value) >= least, place, f"has {len(value)} keys, fewer than {least}")
        keys = [check_key(report, inside(place, key), key) for key in value]
        return all(keys + [check_item(report, inside(place, key), item) for key, item in value.items()]) and enough

    return check
