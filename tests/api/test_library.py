"""libautotune_runtime.so and libautotune.so: the symbols that they export, the libraries that they need, their size."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, LIBRARY, SOURCE

GOLDEN = os.path.join(SOURCE, "tests", "api", "symbols.golden")
COMPILER = os.environ["AUTOTUNE_COMPILER_LIBRARY"]
COMPILER_GOLDEN = os.path.join(SOURCE, "tests", "api", "compiler_symbols.golden")
ALLOWED = r"^(libc\.so\.6|libm\.so\.6|libstdc\+\+\.so\.6|libgcc_s\.so\.1|ld-linux[-a-z0-9_]*\.so\.[0-9])$"
MOST_BYTES = 2 << 20


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def exported(library):
    listed = [line.split()[-1] for line in output_of("nm", "-D", "--defined-only", library).splitlines()]
    return sorted(name for name in listed if not name.startswith("AUTOTUNE_"))  # not the version itself


def declared(*header):
    with open(os.path.join(SOURCE, *header)) as file:
        return set(re.findall(r"\b(autotune_[a-z_]+)\(", file.read()))


class LibraryTest(unittest.TestCase):
    def test_it_exports_the_functions_of_the_header_and_nothing_else(self):
        symbols = exported(LIBRARY)
        with open(GOLDEN) as golden:
            self.assertEqual(symbols, golden.read().split(), "a new function belongs into symbols.golden")
        self.assertEqual({name.split("@")[0] for name in symbols}, declared("api", "c_api.h"))

    def test_the_compiler_exports_the_functions_of_its_header_and_nothing_else(self):
        symbols = exported(COMPILER)
        with open(COMPILER_GOLDEN) as golden:
            self.assertEqual(symbols, golden.read().split(), "a new function belongs into compiler_symbols.golden")
        functions = {name.split("@")[0] for name in symbols}
        self.assertEqual(functions, declared("service", "compiler_c_api.h") - declared("api", "c_api.h"))
        self.assertEqual(functions & declared("api", "c_api.h"), set(), "handles and errors belong to the runtime")
        self.assertIn("U autotune_set_last_error@AUTOTUNE_0.2", output_of("nm", "-D", COMPILER))

    def test_it_needs_the_libraries_of_c_and_cpp_alone(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", LIBRARY))
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if not re.match(ALLOWED, name)], [])
        self.assertIsNone(re.match(ALLOWED, "libfmt.so.9"))
        self.assertRegex(output_of("readelf", "-d", LIBRARY), r"\(SONAME\).*\[libautotune_runtime\.so\.0\]")

    def test_the_compiler_has_no_llvm_in_it(self):
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", COMPILER))
        self.assertIn("libautotune_runtime.so.0", needed)
        self.assertEqual([name for name in needed if re.search("LLVM|jemalloc", name)], [])
        self.assertRegex(output_of("readelf", "-d", COMPILER), r"\(SONAME\).*\[libautotune\.so\.0\]")

    def test_it_is_small(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = os.path.join(folder, "stripped.so")
            shutil.copy(LIBRARY, stripped)
            subprocess.run(["strip", stripped], check=True)
            self.assertLessEqual(os.path.getsize(stripped), MOST_BYTES)

    def test_the_headers_are_plain_c99_and_cpp(self):
        text = "#include <autotune/compiler_c_api.h>\nint main(void) { return autotune_compiler_version() == 0; }\n"
        for command in (["cc", "-std=c99", "-x", "c"], ["c++", "-std=c++11", "-x", "c++"]):
            check = command + ["-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I", BUILD + "/include", "-"]
            subprocess.run(check, input=text, text=True, check=True)


if __name__ == "__main__":
    unittest.main()
