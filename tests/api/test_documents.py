"""The examples of docs/c.md, docs/python.md and docs/embedding.md run as they are: C programs are compiled strictly and
run on m.tar; the pieces of Python of a page run in their order, in one program. Those of the sections on tuning are for test_tune_documents.py."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, LIBRARY, SO, SOURCE, TAR

STRICT = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"]


def examples(document, language, tuning=False):
    with open(os.path.join(SOURCE, "docs", document)) as file:
        parts = file.read().split("\n## Tuning and compiling\n")
    return re.findall(r"^```%s\n(.*?)^```$" % language, parts[tuning], re.DOTALL | re.MULTILINE)


class DocumentsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="autotune-documents-")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(TAR, os.path.join(self.folder, "m.tar"))
        shutil.copy(SO, os.path.join(self.folder, "m.so"))

    def run_here(self, *command):
        done = subprocess.run(command, cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_c(self):
        programs = examples("c.md", "c") + examples("embedding.md", "c")
        self.assertGreaterEqual(len(programs), 6)
        os.mkdir(os.path.join(self.folder, "autotune"))
        shutil.copy(os.path.join(SOURCE, "api", "c_api.h"), os.path.join(self.folder, "autotune"))
        for i, text in enumerate(programs):
            with self.subTest(program=i):
                with open(os.path.join(self.folder, "main.c"), "w") as file:
                    file.write(text)
                library = os.path.dirname(os.path.abspath(LIBRARY))
                self.run_here("cc", *STRICT, "-I.", "main.c", "-o", "main", LIBRARY, "-Wl,-rpath," + library)
                output = self.run_here("./main", "m.tar")
                self.assertRegex(output, r"\S")
                self.assertNotIn("not available", output)

    def test_python(self):
        try:
            import numpy  # noqa: F401, the examples use it
        except ImportError:
            self.skipTest("no numpy")
        for document, least in (("python.md", 4), ("embedding.md", 1)):
            pieces = examples(document, "python")
            self.assertGreaterEqual(len(pieces), least)
            with open(os.path.join(self.folder, "main.py"), "w") as file:
                file.write("\n".join(pieces))
            self.run_here(sys.executable, "main.py")


if __name__ == "__main__":
    unittest.main()
