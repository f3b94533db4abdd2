"""What man pages and completions read from the option tree of a program (tools/option_tree.h)."""

import re


def values_of(option):
    """The words that an option takes, if its type lists them: TEXT:{a,b} or a|b."""
    listed = re.search(r"\{([^{}]*)\}", option["type"])
    if listed:
        return listed.group(1).split(",")
    return option["type"].split("|") if "|" in option["type"] else []


def is_number(option):
    return re.match(r"(INT|UINT|FLOAT)\b", option["type"]) is not None


def placeholder(option):
    """What stands for an option's value in a man page: TEXT, or a|b."""
    return "|".join(values_of(option)) or option["type"].split(":")[0]


def short(help_text):
    """The beginning of a help text, for a list of completions: its first clause, or its first words."""
    clause = re.split(r"[;:.(](?:\s|$)|\s\(", help_text.split("\n")[0])[0].strip()
    if len(clause) <= 60:
        return clause
    return clause[:60].rsplit(" ", 1)[0] + "…"


def commands_in(tree, path=()):
    """Yields the path of each command, as a tuple of names, and its tree: the program first."""
    path += (tree["name"],)
    yield path, tree
    for command in tree["commands"]:
        yield from commands_in(command, path)


def options_of(tree):
    """The options of a command that are written with a dash, those of its implied command as well."""
    return [option for option in tree["options"] + tree.get("implied", []) if not option["positional"]]
