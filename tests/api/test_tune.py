"""autotune.tune, .compile and .Database: a run that is cancelled and resumed, a model in memory, and what goes wrong."""

import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import SOURCE, image, is_expected

import autotune
from autotune._tune import ProgressBar

MODEL = os.path.join(SOURCE, "examples", "resnet20.onnx")
KEPT = ("AUTOTUNE_DB", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME")


class TuneTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-tune-")
        cls.db = os.path.join(cls.folder, "records.db")
        cls.before = {name: os.environ.get(name) for name in KEPT}
        for name in KEPT:
            os.environ[name] = os.path.join(cls.folder, name)

    @classmethod
    def tearDownClass(cls):
        for name, value in cls.before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        shutil.rmtree(cls.folder)

    def probabilities(self, session):
        return session.run(None, [image()])[0].tolist()[0]

    def test_1_a_run_is_cancelled_and_resumed(self):
        seen = []

        def interrupt(event):
            seen.append(event)
            if event["event"] == "round":
                signal.raise_signal(signal.SIGINT)  # as Ctrl-C does

        options = dict(db=self.db, trials=12, output=os.path.join(self.folder, "net.tar"))
        with self.assertRaises(KeyboardInterrupt):
            autotune.tune(MODEL, progress=interrupt, **options)
        self.assertEqual(seen[-1]["event"], "round")
        self.assertFalse(os.path.exists(options["output"]))

        result = autotune.tune(MODEL, **options)
        self.assertEqual(result.trials, 12)
        self.assertGreater(result.events["end"]["resumed_trials"], 0)
        self.assertIn("resnet20", result.gain)
        self.assertEqual(result.package, options["output"])
        self.assertTrue(all(task["default_ms"] for task in result.tasks if task["trials"]))
        self.assertTrue(is_expected(self.probabilities(autotune.InferenceSession(result.package))))

    def test_2_the_database_has_its_records(self):
        with autotune.Database(self.db) as database:
            tasks = database.tasks()
            best = database.best(tasks[0]["task"])
            self.assertEqual(best["status"], "ok")
            self.assertEqual(database.top(tasks[0]["task"], n=1), [best])
            records = list(database.scan(batch=5))
            self.assertEqual(len(records), sum(task["records"] for task in tasks))
            self.assertEqual(len(list(database.scan(task=best["task"], target="cpu"))), tasks[0]["records"])
            self.assertIsNone(database.best("0" * 32))
            matrix = database.features()
            self.assertEqual([r["id"] for r in matrix.records], [r["id"] for r in records if r["id"] in {m["id"] for m in matrix.records}])
            self.assertEqual(matrix.values.shape, (len(matrix), len(matrix.names)))
            self.assertGreater(len(matrix), len(records) // 2)
            flops = matrix.column("function.flops")  # 0 for tasks that only move elements
            self.assertTrue(all(count >= 0 for count in flops) and any(count > 0 for count in flops))
            self.assertEqual(len(database.features(task=best["task"])), tasks[0]["records"])
            self.assertEqual(len(database.features(task="0" * 32)), 0)
            with self.assertRaises(ValueError):
                matrix.column("no such feature")
        with self.assertRaisesRegex(autotune.Error, "null pointer"):
            database.tasks()
        with self.assertRaisesRegex(autotune.Error, "none.db"):
            autotune.Database(os.path.join(self.folder, "none.db"))

    def test_3_a_model_is_compiled_in_memory_and_cached(self):
        session = autotune.InferenceSession(MODEL, threads=1)
        self.assertTrue(is_expected(self.probabilities(session)))
        cache = os.path.join(os.environ["XDG_CACHE_HOME"], "autotune")
        (package,) = [name for name in os.listdir(cache) if name.endswith(".tar")]
        made = os.stat(os.path.join(cache, package)).st_ino
        self.assertTrue(is_expected(self.probabilities(autotune.load(MODEL))))
        self.assertEqual(os.stat(os.path.join(cache, package)).st_ino, made)  # not made again
        with open(MODEL, "rb") as file:
            data = file.read()
        self.assertTrue(is_expected(self.probabilities(autotune.load(data))))
        # The schedules of a tuned database are others.
        module = autotune.compile(MODEL, db=self.db)
        self.assertTrue(is_expected(self.probabilities(autotune.InferenceSession(module))))
        self.assertGreaterEqual(len([name for name in os.listdir(cache) if name.endswith(".tar")]), 2)

    def test_4_a_file_is_compiled(self):
        path = os.path.join(self.folder, "net.so")
        report = autotune.compile(MODEL, path, db=self.db)
        self.assertEqual((report["model"], report["package"]), ("resnet20", path))
        self.assertTrue(is_expected(self.probabilities(autotune.load(path))))

    def test_errors(self):
        bad = os.path.join(self.folder, "bad.onnx")
        with open(bad, "w") as file:
            file.write("not a model")
        for error, words, call in (
            (autotune.Error, "none.onnx", lambda: autotune.tune("none.onnx", db=self.db)),
            (autotune.Error, "bad.onnx", lambda: autotune.compile(bad)),
            (autotune.Error, "bad.onnx", lambda: autotune.load(bad)),
            (autotune.Error, "nonsense", lambda: autotune.tune(MODEL, target="llvm -mcpu=nonsense", db=self.db)),
            (autotune.InvalidArgument, "no option 'trails'", lambda: autotune.tune(MODEL, trails=3)),
            (autotune.InvalidArgument, "whole number", lambda: autotune.tune(MODEL, trials=0)),
            (autotune.InvalidArgument, "M.tar", lambda: autotune.tune(MODEL, output="m.txt")),
            (autotune.InvalidArgument, "needs a bound", lambda: autotune.tune(MODEL, precision="auto", calibrate="random")),
            (autotune.InvalidArgument, "a number above 0", lambda: autotune.tune(MODEL, max_error="small")),
            (autotune.InvalidArgument, "time-budget", lambda: autotune.tune(MODEL, time_budget="soon")),
            (autotune.InvalidArgument, "mapping", lambda: autotune.compile(MODEL, shapes=[1])),
            (autotune.Error, "starting a build worker", lambda: autotune.compile(MODEL, self.folder + "/m.tar", programs="/none")),
        ):
            with self.subTest(words=words), self.assertRaises(error) as raised:
                call()
            self.assertIn(words, str(raised.exception))
            self.assertNotIn("\n", str(raised.exception))

    def test_an_exception_of_progress_ends_the_run(self):
        def fail(event):
            raise ZeroDivisionError(event["event"])

        with self.assertRaises(ZeroDivisionError):
            autotune.tune(MODEL, trials=4, db=":memory:", progress=fail)

    def test_beside_another_llvm(self):
        # Such as that of a framework whose symbols are global and have no versions. Any use of one ends the process.
        source = os.path.join(self.folder, "llvm.c")
        with open(source, "w") as file:
            for name in ("LLVMInitializeX86Target", "_ZN4llvm2cl6Option11addArgumentEv", "_ZN4llvm3sys14getHostCPUNameEv"):
                file.write("void %s(void) { __builtin_trap(); }\n" % name)
            file.write("int _ZN4llvm2cl18getGeneralCategoryEv;\n")
        library = os.path.join(self.folder, "llvm.so")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        program = (
            "import ctypes, sys; ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL); import autotune;"
            "print(len(autotune.compile(sys.argv[2]).function_names) > 10, 'libLLVM' in open('/proc/self/maps').read())"
        )
        environment = dict(os.environ, XDG_CACHE_HOME=os.path.join(self.folder, "beside"))
        output = subprocess.run(
            [sys.executable, "-c", program, library, MODEL], env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        self.assertEqual(output, "True False\n")

    def test_without_the_compiler(self):
        program = "import autotune, sys\ntry:\n  autotune.load('m.onnx')\nexcept autotune.Error as e:\n  print(e)"
        environment = dict(os.environ, AUTOTUNE_COMPILER_LIBRARY="/none/libautotune.so.0")
        output = subprocess.run(
            [sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        self.assertRegex(output, r"^compiling and tuning need autotune's compiler, .*install the wheel .*\n$")

    def test_the_bar(self):
        stream = io.StringIO()
        stream.isatty = lambda: True
        bar = ProgressBar(stream)
        event = {"event": "round", "trials": 3, "planned_trials": 12, "best_ms": 1.25, "seconds_left": 9.6}
        bar(event)
        bar({"event": "note", "text": "something"})
        bar.close()
        self.assertEqual(
            stream.getvalue().replace("\r", "\n").split("\n")[1], "[######------------------]  25 %  3 trials  kernels 1.25 ms  ETA 10 s"
        )  # fmt: skip
        self.assertIn("\nnote: something\n", stream.getvalue().replace("\r", "\n"))
        stream = io.StringIO()  # a file: no bar, but a line now and then
        bar = ProgressBar(stream)
        for _ in range(3):
            bar(event)
        self.assertEqual(stream.getvalue().count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
