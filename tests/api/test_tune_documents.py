"""The examples of the sections on tuning of docs/c.md and docs/python.md run as they are, on m.onnx."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, LIBRARY, SOURCE
from test_documents import STRICT, examples

COMPILER = os.environ["AUTOTUNE_COMPILER_LIBRARY"]


class TuneDocumentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="autotune-documents-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(os.path.join(SOURCE, "examples", "resnet20.onnx"), os.path.join(self.folder, "m.onnx"))
        names = ("XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "AUTOTUNE_DB")
        self.environment = dict(os.environ, **{name: os.path.join(self.folder, name) for name in names})

    def run_here(self, *command):
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_c(self):
        (program,) = examples("c.md", "c", tuning=True)
        with open(os.path.join(self.folder, "main.c"), "w") as file:
            file.write(program)
        paths = ["-Wl,-rpath," + os.path.dirname(os.path.abspath(library)) for library in (LIBRARY, COMPILER)]
        self.run_here("cc", *STRICT, "-I", BUILD + "/include", "main.c", "-o", "main", COMPILER, LIBRARY, *paths)
        output = self.run_here("./main", "m.onnx")
        self.assertIn('"event":"saved"', output)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "net.tar")))

    def test_python(self):
        pieces = examples("python.md", "python", tuning=True)
        self.assertGreaterEqual(len(pieces), 5)
        with open(os.path.join(self.folder, "main.py"), "w") as file:
            file.write("\n".join(pieces))
        output = self.run_here(sys.executable, "main.py")
        self.assertIn("m on ", output)
        self.assertTrue(os.path.exists(os.path.join(self.folder, "m.tar")))


if __name__ == "__main__":
    unittest.main()
