"""What `autotune tune`, `compile` and `bench` print with --json fits json_lines.schema.json, line by line."""

import copy
import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import jsonschema
except ImportError:
    print("skipped: needs python3-jsonschema")
    sys.exit(0)

HERE = Path(__file__).resolve().parent
MODEL = str(HERE.parents[1] / "examples/resnet20.onnx")
AUTOTUNE = os.environ["AUTOTUNE_PROGRAM"]
SCHEMA = json.loads((HERE / "json_lines.schema.json").read_text())
TUNE = ("tune", "--model", MODEL, "--trials", "16", "--json")


def faults(command, line):
    """What is wrong with an object that `command` printed."""
    schema = {**SCHEMA, "$ref": f"#/definitions/lines_{command}"}
    validator = jsonschema.Draft7Validator(schema)
    if validator.is_valid(line):
        return []
    kind = SCHEMA["definitions"].get(str(line.get("event")))  # its own faults say more than that no kind fits
    own = jsonschema.Draft7Validator({**SCHEMA, **kind}).iter_errors(line) if kind else ()
    return [error.message for error in own] or ["no kind of line fits"]


class JsonLines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="autotune-json-")
        cls.path = Path(cls.folder.name)
        cls.environment = {**os.environ, "XDG_STATE_HOME": cls.folder.name, "XDG_CACHE_HOME": cls.folder.name,
                           "AUTOTUNE_DB": str(cls.path / "records.db")}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def lines(self, *words, code=0):
        """The lines of a command, each of which fits the schema, and what it printed on standard error."""
        result = subprocess.run([AUTOTUNE, *words], capture_output=True, text=True, check=False, env=self.environment)
        self.assertEqual(result.returncode, code, result.stderr)
        return self.checked(words[0], result.stdout), result.stderr

    def checked(self, command, text):
        lines = [json.loads(line) for line in text.splitlines()]
        for line in lines:
            self.assertEqual(faults(command, line), [], line)
        return lines

    def assert_notes_are_in(self, lines, errors):
        """Each note on standard error is in a line, too: in `notes`, or an event."""
        carried = [note for line in lines for note in line.get("notes", [])]
        carried += [line["text"] for line in lines if line.get("event") == "note"]
        noted = [line.removeprefix("note: ") for line in errors.splitlines() if line.startswith("note: ")]
        for note in noted:
            self.assertTrue(any(note in text for text in carried), note)
        return noted

    def test_1_a_run_is_interrupted_resumed_and_repeated(self):
        text = ""
        with subprocess.Popen([AUTOTUNE, *TUNE], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                              env=self.environment) as run:
            for line in run.stdout:
                text += line
                if json.loads(line)["event"] == "round":
                    run.send_signal(signal.SIGINT)
        self.assertEqual(run.returncode, 130)
        interrupted = self.checked("tune", text)
        self.assertEqual(interrupted[-1]["event"], "interrupted")

        package = str(self.path / "net.tar")
        resumed, errors = self.lines(*TUNE, "-o", package)
        kinds = [line["event"] for line in resumed]
        first = next(kind for kind in kinds if kind not in ("waiting", "note"))
        self.assertEqual((first, kinds[-1]), ("begin", "saved"))
        self.assertLessEqual({"round", "end"}, set(kinds))
        end = resumed[kinds.index("end")]
        self.assertGreater(end["resumed_trials"], 0)
        self.assertIsNotNone(end["choice"])
        self.assert_notes_are_in(resumed, errors)
        self.assertEqual(resumed[-1]["package"], package)

        trace = str(self.path / "tune-trace.json")
        again, _ = self.lines(*TUNE, "--trace", trace)
        self.assertEqual([line["resumed_trials"] for line in again if line["event"] == "end"], [16])
        self.assertEqual([line["event"] for line in again[-2:]], ["saved", "trace"])
        self.assertEqual(again[-1], {"event": "trace", "file": trace})
        self.assertIn("traceEvents", json.loads(Path(trace).read_text()))
        tasks, _ = self.lines("tune", "--model", MODEL, "--tasks", "list", "--json")
        self.assertEqual({line["event"] for line in tasks}, {"task"})
        self.assertEqual(len(tasks), len(end["tasks"]))
        self.__class__.seen = interrupted + resumed + again

    def test_2_lines_of_compile_and_bench(self):
        package = str(self.path / "default.tar")
        compiled, errors = self.lines("compile", "--model", MODEL, "-o", package, "--db", str(self.path / "none.db"),
                                      "--json", "--time-passes")
        self.assertEqual(compiled[0]["tuned_kernels"], 0)
        self.assertIn("pass", compiled[1])
        self.assertEqual(len(self.assert_notes_are_in(compiled, errors)), 1)  # that there are no records
        quiet, _ = self.lines("compile", "--model", MODEL, "-o", package, "--db", str(self.path / "none.db"), "--json",
                              "-q")
        self.assertNotIn("notes", quiet[0])
        file = str(self.path / "bench-trace.json")
        latency, profile, trace = self.lines("bench", package, "--seconds", "0.2", "--profile", "--trace", file, "--json")[0]
        self.assertEqual(trace, {"event": "trace", "file": file})
        self.assertEqual(len(profile["kernels"]), 25)
        self.assertEqual(latency["model"], "resnet20")

    def test_3_errors(self):
        for code, *words in (
            (1, "tune", "--model", "none.onnx", "--json"),
            (1, "compile", "--model", "none.onnx", "-o", str(self.path / "m.tar"), "--json"),
            (1, "bench", "none.tar", "--json"),
            (2, "tune", "--json", "--trials", "none"),
            (2, "bench", "--json"),
        ):
            with self.subTest(words=words):
                (error,), errors = self.lines(*words, code=code)
                self.assertEqual((error["event"], error["code"]), ("error", code))
                self.assertIn(error["text"].split("\n")[0], errors)

    def test_4_precisions(self):
        lines, _ = self.lines("tune", "--model", MODEL, "--trials", "1", "--json", "--precision", "auto", "--max-error",
                              "0.1", "--calibrate", "random")
        kinds = [line["event"] for line in lines]
        self.assertLess(kinds.index("step"), kinds.index("precisions"))
        self.assertLess(kinds.index("precisions"), kinds.index("begin"))
        self.__class__.seen = self.seen + lines

    def test_4_the_page_of_a_run_is_in_a_line(self):
        lines, errors = self.lines(*TUNE, "--http", "127.0.0.1:0")
        self.assertTrue(lines[0]["text"].startswith("live page of this run: http://127.0.0.1:"), lines[0])
        self.assertIn(lines[0]["text"], errors)

    def test_5_a_changed_line_is_refused(self):
        """So the schema is strict: in each kind of line, no member may be missing, new, or of another type."""
        made = [  # a run has them only at times
            {"event": "waiting", "what": "a device", "reason": "all devices are in use", "seconds": 3.5},
            {"event": "choosing", "done": 0.5},
        ]
        self.checked("tune", "\n".join(map(json.dumps, made)))
        by_kind = {line["event"]: line for line in [*made, *self.seen]}
        self.assertLessEqual({"step", "precisions", "begin", "round", "choosing", "end", "saved", "interrupted", "waiting", "trace"},
                             set(by_kind))
        for kind, line in by_kind.items():
            for name in set(line) - {"notes"}:
                changed = copy.deepcopy(line)
                del changed[name]
                self.assertNotEqual(faults("tune", changed), [], f"{kind} without {name}")
                changed[name] = {"some": ["object"]}
                self.assertNotEqual(faults("tune", changed), [], f"{kind} with a wrong {name}")
            self.assertNotEqual(faults("tune", {**line, "new_member": 1}), [], kind)
            if kind != "note":
                self.assertNotEqual(faults("compile", line), [], kind)
        renamed = {**by_kind["end"], "tasks": [{**by_kind["end"]["tasks"][0], "hash": "xyz"}]}
        self.assertNotEqual(faults("tune", renamed), [])


if __name__ == "__main__":
    unittest.main()
