"""The man pages and completions that the build makes of the programs' options (scripts/help_files.py)."""

import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SOURCE

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
from help import man, words

HELP = os.path.join(BUILD, "help")
PROGRAMS = ["autotune", "rpc_server", "rpc_tracker"]
DRIVER = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_$1
printf '%s\\n' "${COMPREPLY[@]}"
"""


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def program(name):
    return os.path.join(BUILD, "tools", name)


def page(name):
    with gzip.open(os.path.join(HELP, "man1", name + ".1.gz"), "rt", encoding="utf-8") as file:
        return file.read().replace("\\-", "-")


def options_in(text):
    return set(re.findall(r"--[a-z][a-z0-9-]*", text))


class ManPageTest(unittest.TestCase):
    def test_each_command_of_autotune_has_a_page_with_the_options_of_its_help(self):
        tree = json.loads(output_of(program("autotune"), "--help-json"))
        names = [command["name"] for command in tree["commands"]]
        self.assertIn("tune", names)
        self.assertEqual(
            sorted(os.listdir(os.path.join(HELP, "man1"))),
            sorted("%s.1.gz" % name for name in PROGRAMS + ["autotune-" + name for name in names]),
        )
        for name in names:
            shown = options_in(output_of(program("autotune"), name, "--help")) - {"--help", "--help-all"}
            text = page("autotune-" + name)
            self.assertLessEqual(shown, options_in(text), name)
            self.assertIn("autotune-%s - " % name, text)
            self.assertIn("autotune-%s" % name, page("autotune"))

    def test_the_programs_of_a_farm_have_a_page_with_all_their_commands(self):
        for name in PROGRAMS[1:]:
            text, tree = page(name), json.loads(output_of(program(name), "--help-json"))
            self.assertLessEqual(options_in(output_of(program(name), "--help")), options_in(text))
            for command in tree["commands"]:
                self.assertIn('.SS "%s %s"' % (name, command["name"]), text)
                for option in words.options_of(command):
                    self.assertIn(option["names"][-1], text)

    def test_hidden_options_stay_hidden(self):
        text = "".join(page(name) for name in PROGRAMS)
        for folder, suffix in (("bash", "%s"), ("zsh", "_%s"), ("fish", "%s.fish")):
            for name in PROGRAMS:
                with open(os.path.join(HELP, folder, suffix % name), encoding="utf-8") as file:
                    text += file.read()
        for hidden in ("--help-json", "--show-sandbox", "--build-worker", "--runner "):
            self.assertNotIn(hidden, text)
        self.assertIn("--runner-prefix", text)

    def test_marks_of_groff_are_escaped(self):
        self.assertEqual(man.prose(".a\\b `c-d` e\n'f"), "\\&.a\\eb \\fBc\\-d\\fR e\n\\&'f")
        lines = man.paragraphs("A:\nb\nc\n  d\n   e")
        self.assertEqual(lines, ['.SS "A"', ".PP", "b c", ".PP", ".RS 2", ".nf", "d", " e", ".fi", ".RE"])

    @unittest.skipUnless(shutil.which("man"), "no man")
    def test_man_has_no_complaints(self):
        for name in os.listdir(os.path.join(HELP, "man1")):
            done = subprocess.run(
                ["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", os.path.join(HELP, "man1", name)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.assertEqual((done.returncode, done.stderr), (0, ""), name)


class CompletionTest(unittest.TestCase):
    def complete(self, *line):
        """What bash offers for the last word of a line."""
        file = os.path.join(HELP, "bash", line[0])
        return output_of("bash", "--norc", "-c", DRIVER, "bash", file, *line).split()

    def test_bash_completes_commands_options_and_values(self):
        self.assertEqual(self.complete("autotune", "tu"), ["tune"])
        self.assertEqual(self.complete("autotune", "re"), ["records", "replay", "report"])
        self.assertEqual(self.complete("autotune", "help", "ver"), ["verify"])
        self.assertEqual(self.complete("autotune", "records", "ex"), ["export"])
        self.assertEqual(self.complete("autotune", "records", "show", "--tas"), ["--task"])
        self.assertEqual(self.complete("autotune", "tune", "--trials-"), ["--trials-per-task"])
        self.assertEqual(self.complete("autotune", "tune", "--search", ""), ["evolution", "random"])
        self.assertEqual(self.complete("autotune", "tune", "--search", "=", "r"), ["random"])
        self.assertEqual(self.complete("autotune", "compile", "--executor", "a"), ["aot"])
        self.assertEqual(self.complete("rpc_tracker", "dr"), ["drain"])
        self.assertEqual(self.complete("rpc_server", "--sandbox", "s"), ["strict"])

    def test_bash_offers_the_options_of_tune_without_its_name(self):
        self.assertEqual(self.complete("autotune", "--model", "m.onnx", "--trials-"), ["--trials-per-task"])
        self.assertEqual(self.complete("autotune", "run", "m.tar", "--trials-"), [])

    def test_bash_leaves_files_to_the_shell_and_offers_no_number(self):
        self.assertEqual(self.complete("autotune", "run", "m"), [])
        self.assertEqual(self.complete("autotune", "tune", "--model", "tu"), [], "a value is no command")
        self.assertEqual(self.complete("autotune", "tune", "--model", "tune", "--trials", ""), [])
        self.assertEqual(self.complete("autotune", "xyz"), [])

    def test_all_that_bash_offers_is_accepted(self):
        for name in PROGRAMS:
            tree = json.loads(output_of(program(name), "--help-json"))
            for path, command in words.commands_in(tree):
                offered = set(self.complete(*path, "-"))
                self.assertEqual(offered >= {"-h", "--help"}, True, path)
                shown = output_of(program(name), *path[1:], "--help")
                if "implied" not in command and len(path) > 1:
                    self.assertLessEqual({each for each in offered if each.startswith("--")}, options_in(shown), path)

    def test_zsh_and_fish_read_their_files(self):
        for shell, names in (("zsh", "zsh/_%s"), ("fish", "fish/%s.fish")):
            if shutil.which(shell):
                for name in PROGRAMS:
                    subprocess.run([shell, "-n", os.path.join(HELP, names % name)], check=True)

    def test_short_texts_end_at_a_clause(self):
        self.assertEqual(words.short("the ONNX model; one file"), "the ONNX model")
        self.assertEqual(words.short("NAME:1,3,224,224, the shape"), "NAME:1,3,224,224, the shape")
        self.assertEqual(len(words.short("word " * 40)), 60)
        self.assertEqual(words.values_of({"type": "TEXT:{a,b}"}), ["a", "b"])
        self.assertEqual(words.values_of({"type": "TEXT"}), [])


if __name__ == "__main__":
    unittest.main()
