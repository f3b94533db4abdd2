"""`autotune tune` with plug-ins on a recorded device: the examples, the messages of docs/plugins.md, what goes wrong, and
`autotune records export`. Needs Python's standard library, and jsonschema for T4."""

import argparse
import csv
import io
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
EXAMPLES = SOURCE / "examples/strategies"
RECORDING = SOURCE / "tests/tuner/recorded.jsonl.zst"
autotune = ""  # path of the program

GREETING = """
import json, os, sys, time
def read(): return json.loads(sys.stdin.readline())
def say(**answer): print(json.dumps(answer), flush=True)
say(id=read()["id"], name="test", version=os.environ.get("PLUGIN_VERSION", "1"))
"""
UNTIL_PROPOSE = "m = read()\nwhile m['method'] != 'propose': m = read()\n"


def keys_of(value):
    """The members of a message and of the objects in it, by their path; a list stands for all its elements."""
    if isinstance(value, dict):
        keys = set()
        for key, member in value.items():
            keys |= {key} | {key + "." + inner for inner in keys_of(member)}
        return keys
    return set().union(*map(keys_of, value)) if isinstance(value, list) else set()


class PluginTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="autotune-plugins-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.db = os.path.join(self.folder, "records.db")
        names = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")
        self.environment = dict(os.environ, **{name: self.folder for name in names}, AUTOTUNE_DB=self.db)

    def program(self, text):
        path = os.path.join(self.folder, "plugin%d.py" % len(os.listdir(self.folder)))
        Path(path).write_text(text)
        return "%s %s" % (sys.executable, path)

    def tune(self, *options, device="recorded:%s" % RECORDING, code=0, **environment):
        command = [autotune, "tune", "--device", device, "--json", *options]
        if not any(option.startswith("--trials") for option in options):
            command += ["--trials-per-task", "4"]
        done = subprocess.run(
            command, env=dict(self.environment, **environment), capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()], done.stderr

    def ends(self, *options, **more):
        return [event for event in self.tune(*options, **more)[0] if event["event"] == "end"]

    def records(self):
        done = subprocess.run([autotune, "records", "export", "--db", self.db], capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines() if "run_state" not in line]


class Examples(PluginTest):
    def check(self, name, *arguments, **environment):
        command = " ".join([sys.executable, str(EXAMPLES / name), *map(shlex.quote, arguments)])
        events, _ = self.tune("--strategy", command, "--trials-per-task", "12", **environment)
        (end,) = [event for event in events if event["event"] == "end"]
        self.assertGreater(end["trials"], 40)
        self.assertGreater(end["reached"], 0.5)
        self.assertLessEqual(end["reached"], 1)
        self.assertTrue(all(task["best_known_ms"] <= task["tuned_ms"] * 1.001 for task in end["tasks"]))
        return [event["text"] for event in events if event["event"] == "note"]

    def test_random_search(self):
        self.assertEqual(self.check("random_search.py"), [])

    def test_genetic(self):
        self.assertEqual(self.check("genetic.py"), [])

    def test_optuna(self):
        try:
            import optuna  # noqa: F401
        except ImportError:
            command = "%s %s" % (sys.executable, EXAMPLES / "optuna_tpe.py")
            events, _ = self.tune("--strategy", command, code=1)
            self.assertIn("exited with code 1", events[-1]["text"])
            self.assertTrue(any("needs Optuna: apt install python3-optuna" in event.get("text", "") for event in events))
        else:
            self.assertEqual(self.check("optuna_tpe.py"), [])

    def test_ask_command(self):
        wise = self.program(
            "import sys, json\nprompt = sys.stdin.read()\nassert 'Sketches: [' in prompt\n"
            "print('Sure! Here they are:', json.dumps([{'sketch': 0, 'decisions': 'no'}, 7]))"
        )
        notes = self.check("ask_command.py", *wise.split())
        self.assertIn("strategy: 0 of 2 answers are candidates", notes)
        self.assertIn("strategy: the answer has no list of JSON", self.check("ask_command.py", "echo", "no idea"))

    def test_ask_command_takes_what_fits(self):
        # The command repeats a candidate of the prompt with other decisions: those of a good result.
        parrot = self.program(
            "import sys, re, json\nprompt = sys.stdin.read()\n"
            "best = json.loads(re.search('^Best results.*?: (.*)$', prompt, re.M).group(1))\n"
            "print(json.dumps([{'sketch': b['sketch'], 'decisions': b['decisions'], 'why': 'good'} for b in best[:2]]))"
        )
        self.assertTrue(any("1 of 1 answers" in note for note in self.check("ask_command.py", *parrot.split())))


class Runs(PluginTest):
    def test_the_same_seed_gives_the_same_run_and_another_one_does_not(self):
        command = "%s %s" % (sys.executable, EXAMPLES / "random_search.py")
        options = ("--strategy", command, "--trials-per-task", "16")
        first, second = (self.ends(*options)[0] for _ in range(2))
        other = self.ends(*options, "--seed", "7")[0]
        self.assertEqual(first["tasks"], second["tasks"])
        self.assertNotEqual(first["tasks"], other["tasks"])

    def test_a_recording_leaves_the_users_database_alone(self):
        self.ends()
        self.assertFalse(os.path.exists(self.db))
        self.ends("--db", self.db)
        self.assertTrue(self.records())

    def test_several_seeds(self):
        ends = self.ends("--seeds", "3", "--seed", "5")
        self.assertEqual([end["seed"] for end in ends], [5, 6, 7])
        self.assertEqual(ends[1]["tasks"], self.ends("--seed", "6")[0]["tasks"])
        # Runs of one database know nothing of each other.
        self.assertEqual([end["tasks"] for end in self.ends("--seeds", "3", "--seed", "5", "--db", self.db)],
                         [end["tasks"] for end in ends])  # fmt: skip

    def test_a_plugin_that_dies_keeps_the_records_and_the_run_goes_on(self):
        dies = GREETING + "n = 0\n" + UNTIL_PROPOSE + "if not os.environ.get('WELL'): sys.exit(9)\n"
        lives = "while True:\n    say(id=m['id'], candidates=[])\n    m = read()\n    while m['method'] != 'propose': m = read()\n"
        command = self.program(dies + lives)
        events, err = self.tune("--strategy", command, "--db", self.db, code=1)
        self.assertIn("ended: it exited with code 9", events[-1]["text"])
        self.assertEqual(events[-1]["hints"], ["the trials so far are stored; the same command goes on there"])
        self.assertEqual(len([line for line in err.splitlines() if line.startswith("error: ")]), 1)
        kept = self.records()
        self.assertTrue(kept)
        (end,) = self.ends("--strategy", command, "--db", self.db, WELL="1")
        self.assertEqual(end["resumed_trials"], len([r for r in kept if r["cost"] > 0]))
        # Another version of the plug-in begins another run.
        (end,) = self.ends("--strategy", command, "--db", self.db, WELL="1", PLUGIN_VERSION="2")
        self.assertEqual(end["resumed_trials"], 0)

    def test_a_cost_model(self):
        command = self.program(
            GREETING + "while True:\n    m = read()\n    if m['method'] == 'score':\n"
            "        say(id=m['id'], scores=[-c['draft_seconds'] for c in m['candidates']])\n"
        )
        (end,) = self.ends("--cost-model", command, "--trials-per-task", "12")
        self.assertGreater(end["reached"], 0.8)

    def test_late_answers_are_replaced(self):
        command = self.program(GREETING + "time.sleep(100)\n")
        events, _ = self.tune("--strategy", command, "--plugin-deadline", "0.5s")
        notes = [event["text"] for event in events if event["event"] == "note"]
        self.assertRegex(notes[0], "did not answer within 0.5 s; autotune's own strategy goes on meanwhile")
        self.assertRegex(notes[-1], "was too late for [0-9]+ of [0-9]+ requests")

    def test_options_that_do_not_go_together(self):
        for options, words in (
            (["--op", "matmul:8,8,8"], "leave --model and --op out"),
            (["-o", "x.tar"], "makes no package"),
            (["--key", "a"], "needs no farm"),
            (["--target", "c"], "has a target of its own"),
            (["--seeds", "0"], "--seeds"),
            (["--strategy", "a", "--cost-model", "b"], "--strategy excludes --cost-model"),
            (["--strategy", "a", "--search", "random"], "has no effect"),
            (["--plugin-deadline", "soon"], "--plugin-deadline soon is no duration"),
        ):
            self.assertIn(words, self.tune(*options, code=2)[1])
        self.assertIn("--seeds is for", self.tune("--op", "matmul:8,8,8", "--seeds", "2", device="", code=2)[1])
        self.assertIn("none.zst", self.tune(device="recorded:none.zst", code=1)[1])

    def test_the_plugin_ends_with_us(self):
        pid = os.path.join(self.folder, "pid")
        command = self.program(GREETING + "open(%r, 'w').write(str(os.getpid()))\nwhile True: time.sleep(1)\n" % pid)
        command = [autotune, "tune", "--device", "recorded:%s" % RECORDING, "--strategy", "true; " + command]
        with subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
            self.assertTrue(soon(lambda: os.path.exists(pid) and Path(pid).read_text()))
            plugin = int(Path(pid).read_text())
            self.assertNotEqual(os.getpgid(plugin), os.getpgid(run.pid), "Ctrl-C must not reach it")
            run.send_signal(signal.SIGKILL)
            run.wait()
            self.assertTrue(soon(lambda: not is_alive(plugin)))

    def test_what_a_plugin_leaves_behind_ends_too(self):
        pid = os.path.join(self.folder, "pid")
        command = self.program(
            GREETING + "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\n"
            "open(%r, 'w').write(str(child.pid))\nfor line in sys.stdin:\n    m = json.loads(line)\n"
            "    if 'id' in m: say(id=m['id'], candidates=[])\n" % pid
        )
        self.ends("--strategy", command)
        self.assertTrue(soon(lambda: not is_alive(int(Path(pid).read_text()))))


def soon(condition):
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def is_alive(pid):
    try:
        return Path("/proc/%d/stat" % pid).read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


class Document(PluginTest):
    """The messages of docs/plugins.md have the members of real ones, and its answers are taken."""

    def test_messages(self):
        examples, answers = {}, {}
        for line in (SOURCE / "docs/plugins.md").read_text().splitlines():
            if line.startswith("    > {"):
                method = json.loads(line[6:])["method"]
                self.assertNotIn(method, examples)
                examples[method] = json.loads(line[6:])
            elif line.startswith("    < {"):
                answers[method] = json.loads(line[6:])
        self.assertEqual(set(examples), {"hello", "task", "history", "propose", "samples", "score"})
        sent = {}
        for role, answer in (
            ("--strategy", "draw = lambda k: k['values'][:1] if k['kind'] != 'tile' else [k['extent']] + [1] * (k['factors'] - 2) + [k['multiple_of']]\n"
             "def answer(m): return {'candidates': [{'sketch': 0, 'decisions': [draw(k) for k in tasks[m['task']][0]['knobs']]}]}\n"),
            ("--cost-model", "def answer(m): return {'scores': [1.0] * len(m['candidates'])}\n"),
        ):  # fmt: skip
            log = os.path.join(self.folder, "log" + role)
            command = self.program(
                answer + "import json, sys\ntasks = {}\nfor line in sys.stdin:\n    print(line, file=open(%r, 'a'), end='')\n"
                "    m = json.loads(line)\n    if m['method'] == 'task': tasks[m['task']] = m['sketches']\n"
                "    greeting = dict(%r)\n    if 'id' in m: greeting['id'] = m['id']\n"
                "    if m['method'] == 'hello': print(json.dumps(greeting), flush=True)\n"
                "    elif 'id' in m: print(json.dumps(dict(answer(m), id=m['id'])), flush=True)\n" % (log, answers["hello"])
            )
            self.tune(role, command, "--trials-per-task", "6")
            for line in Path(log).read_text().splitlines():
                message = json.loads(line)
                sent.setdefault(message["method"], set()).update(keys_of(message))
        for method, example in examples.items():
            self.assertEqual(keys_of(example), sent[method], method)
        self.assertEqual(keys_of(answers["propose"]), {"id", "candidates", "candidates.sketch", "candidates.decisions"})
        self.assertEqual(keys_of(answers["score"]), {"id", "scores"})


class Export(PluginTest):
    def export(self, *options, code=0):
        command = [autotune, "records", "export", "--db", self.db, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout

    def setUp(self):
        super().setUp()
        self.ends("--db", self.db)

    def test_csv(self):
        plain = list(csv.DictReader(io.StringIO(self.export("--format", "csv"), newline="")))
        records = self.records()
        self.assertEqual([row["id"] for row in plain], [record["id"] for record in records])
        self.assertEqual([row["trace"] for row in plain], [record["trace"] for record in records])
        self.assertNotIn("function.flops", plain[0])
        rows = list(csv.DictReader(io.StringIO(self.export("--format", "csv", "--features"), newline="")))
        lines = [json.loads(line) for line in self.export("--features").splitlines()]
        listed = [line["features"] for line in lines if "features" in line]
        self.assertEqual(len(rows), len(listed))
        names = list(rows[0])[-len(listed[0]) :]
        self.assertEqual(names[0], "function.flops")
        for row, features in zip(rows, listed):
            self.assertEqual([float(row[name]) for name in names], features)

    def test_lines_with_features_can_be_imported(self):
        path = os.path.join(self.folder, "records.jsonl")
        self.export("--features", "-o", path)
        copy = os.path.join(self.folder, "copy.db")
        subprocess.run([autotune, "records", "import", path, "--db", copy], check=True, capture_output=True)
        self.assertTrue(os.path.exists(copy))
        self.assertIn("--format", subprocess.run(
            [autotune, "records", "export", "--db", self.db, "--format", "xml"], capture_output=True, text=True, check=False
        ).stderr)  # fmt: skip

    def test_t4(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest("needs python3-jsonschema")
        schema = json.loads((SOURCE / "tests/tools/t4_schema.json").read_text())
        validator = jsonschema.Draft7Validator(schema)
        for options in ((), ("--features",)):
            results = json.loads(self.export("--format", "t4", *options))
            validator.validate(results)
            self.assertEqual(len(results["results"]), len(self.records()))
        for record, result in zip(self.records(), results["results"]):
            self.assertEqual(result["invalidity"] == "correct", record["status"] == "ok")
            self.assertEqual(result["times"]["runtimes"], [1e3 * seconds for seconds in record["times"]])
            self.assertEqual(result["configuration"]["trace"], record["trace"])
        # The schema refuses what is no T4.
        for change in ({"invalidity": "slow"}, {"correctness": "yes"}, {"times": None}, {"configuration": []}):
            wrong = dict(results, results=[dict(results["results"][0], **change)])
            self.assertFalse(validator.is_valid(wrong), change)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--autotune", required=True)
    autotune, rest = parser.parse_known_args()[0].autotune, parser.parse_known_args()[1]
    unittest.main(argv=[sys.argv[0], *rest])
