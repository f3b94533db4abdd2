"""Man pages: one for a program, and one for each of its commands."""

import re

from help.words import placeholder

FARM = ["rpc_server", "rpc_tracker"]
HELP = [["-h", "--help"], ["--help-all"]]  # options of every command


def escaped(text):
    """Text for groff, in which a hyphen is a minus sign: options are copied from man pages."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"(?m)^([.'])", r"\\&\1", text)


def prose(text):
    """Running text. `words` become bold."""
    return re.sub(r"`([^`]+)`", r"\\fB\1\\fR", escaped(text))


def paragraphs(text):
    """Running text, whose lines are joined. Indented lines are examples, which keep their form. A short line that ends
    with a colon is a heading; "Exit codes: ..." begins a paragraph."""
    out = []
    lines = text.split("\n")
    while lines:
        line = lines.pop(0)
        if not line.strip():
            continue
        if line.startswith(" "):
            block = [line.strip()]
            while lines and lines[0].startswith(" "):
                block.append(lines.pop(0)[2:])
            out += [".PP", ".RS 2", ".nf"] + [escaped(each) for each in block] + [".fi", ".RE"]
        elif line.endswith(":") and len(line) < 40:
            out.append('.SS "%s"' % escaped(line[:-1]))
        else:
            while lines and re.match(r"[^\s]", lines[0]) and not re.match(r"[A-Z][a-z]+( [a-z]+)*:", lines[0]):
                line += " " + lines.pop(0)
            out += [".PP", prose(line)]
    return out


def option_lines(option):
    names = ", ".join("\\fB%s\\fR" % escaped(name) for name in option["names"])
    if option["type"] and not option["positional"]:
        names += " \\fI%s\\fR" % escaped(placeholder(option))
    help_text = option["help"].strip()
    notes = []
    if option["default"]:
        notes.append("default: " + option["default"])
    if option["required"]:
        notes.append("required")
    if option["many"]:
        notes.append("may be given several times")
    if option["needs"]:
        notes.append("needs " + ", ".join(option["needs"]))
    if option["excludes"]:
        notes.append("excludes " + ", ".join(option["excludes"]))
    if notes:
        help_text += " (%s)" % "; ".join(notes)
    return [".TP", names, prose(help_text)]


def body(tree, words):
    """The sections of a command's page between NAME and SEE ALSO, or what stands for them in its parent's page."""
    positional = [option for option in tree["options"] if option["positional"]]
    usage = ["\\fB%s\\fR" % escaped(" ".join(words)), "[\\fIOPTIONS\\fR]"]
    usage += [escaped(("%s" if option["required"] else "[%s]") % option["names"][0]) for option in positional]
    if tree["commands"]:
        usage.append("[\\fICOMMAND\\fR]")
    lines = [".SH SYNOPSIS", " ".join(usage), ".SH DESCRIPTION"] + paragraphs(tree["help"])
    if positional:
        lines.append(".SH ARGUMENTS")
        for option in positional:
            lines += option_lines(option)
    options = [option for option in tree["options"] if not option["positional"]]
    if len(words) > 1:
        options = [option for option in options if option["names"] not in HELP]
    if options:
        lines.append(".SH OPTIONS")
        for option in options:
            lines += option_lines(option)
    return lines


def nested(tree, words):
    """Subsections for the commands of a command."""
    lines = []
    for command in tree["commands"]:
        names = words + [command["name"]]
        lines += ['.SS "%s"' % escaped(" ".join(names))] + paragraphs(command["help"])
        for option in command["options"]:
            if option["names"] not in HELP:
                lines += option_lines(option)
        lines += nested(command, names)
    return lines


def summary(text):
    """The line of NAME: the first sentence of a help text."""
    first = re.split(r"[:;.]\s", text.replace("\n", " ") + " ")[0].strip(" .")
    return first[0].lower() + first[1:]


def page(tree, words, version, others):
    name = "-".join(words)
    lines = [
        '.\\" Made from the help of %s by scripts/help_files.py.' % words[0],
        '.TH "%s" "1" "" "autotune %s" "User Commands"' % (escaped(name).upper(), version),
        ".nh",
        ".ad l",
        ".SH NAME",
        "%s \\- %s" % (escaped(name), escaped(summary(tree["help"]))),
    ]
    lines += body(tree, words)
    if tree["commands"]:
        lines.append(".SH COMMANDS")
        if words == ["autotune"]:  # its commands have pages of their own
            for command in tree["commands"]:
                lines += [".TP", "\\fB%s\\fR" % escaped(command["name"]), prose(command["help"])]
        else:
            lines += nested(tree, words)
    if tree["footer"]:
        lines += [".SH NOTES"] + paragraphs(tree["footer"])
    see = ["\\fB%s\\fR(1)" % escaped(other) for other in others if other != name]
    if see:
        lines += [".SH SEE ALSO", ", ".join(see)]
    return "\n".join(lines) + "\n"


def pages(tree, version):
    """The texts of the pages of a program by their names. Programs whose commands have pages of their own: autotune."""
    name = tree["name"]
    if name != "autotune":
        return {name: page(tree, [name], version, [other for other in FARM if other != name] + ["autotune"])}
    commands = [command for command in tree["commands"] if command["options"]]
    names = ["-".join((name, command["name"])) for command in commands]
    texts = {name: page(tree, [name], version, names + FARM)}
    for command in commands:
        texts["-".join((name, command["name"]))] = page(command, [name, command["name"]], version, [name])
    return texts
