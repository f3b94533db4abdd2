#!/usr/bin/env python3
"""Makes the man pages of the programs, and the completion of their options in bash, zsh and fish. The build runs it.

    scripts/help_files.py --version VERSION --output FOLDER PROGRAM...

Each program prints its options and commands by --help-json (tools/option_tree.h). Writes FOLDER/man1/NAME.1.gz,
FOLDER/bash/NAME, FOLDER/zsh/_NAME and FOLDER/fish/NAME.fish. Equal options make equal files. It needs no package.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from help import completions, man


def tree_of(program):
    """The option tree of a program. `autotune` has an option tree that its parser alone does not tell: a command line
    without a command is one of `tune`, and `help COMMAND` shows a command's help."""
    done = subprocess.run([program, "--help-json"], check=True, stdout=subprocess.PIPE, text=True)
    tree = json.loads(done.stdout)
    if tree["name"] == "autotune":
        names = [command["name"] for command in tree["commands"]]
        text = "Shows the help of a command."
        nothing = {"options": [], "commands": []}
        tree["commands"].append(dict(nothing, name="help", help=text, footer="", words=names))
        tune = next(command for command in tree["commands"] if command["name"] == "tune")
        tree["implied"] = tune["options"]
    return tree


def write(folder, name, text):
    os.makedirs(folder, exist_ok=True)
    data = text.encode()
    if name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=9, mtime=0)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True, help="the version that the man pages state")
    parser.add_argument("--output", required=True, help="folder for the files")
    parser.add_argument("programs", nargs="+", help="paths of the programs")
    options = parser.parse_args()
    for program in options.programs:
        tree = tree_of(program)
        name = tree["name"]
        for page, text in man.pages(tree, options.version).items():
            write(os.path.join(options.output, "man1"), page + ".1.gz", text)
        write(os.path.join(options.output, "bash"), name, completions.bash(tree))
        write(os.path.join(options.output, "zsh"), "_" + name, completions.zsh(tree))
        write(os.path.join(options.output, "fish"), name + ".fish", completions.fish(tree))


if __name__ == "__main__":
    sys.exit(main())
