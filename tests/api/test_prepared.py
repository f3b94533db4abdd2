"""Processes that share the prepared weights of a package: their memory, and what happens to the file that they share."""

import array
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.environ["AUTOTUNE_TEST_BUILD"]
WIDTH = 1536  # three products of 9 MiB of weights each

CHILD = """
import array, sys, time
import autotune
begin = time.perf_counter()
session = autotune.InferenceSession(sys.argv[1], threads=1, share_weights={"yes": True, "no": False}.get(sys.argv[2]))
loaded = time.perf_counter() - begin
x = memoryview(array.array("f", [i %% 7 - 3.0 for i in range(%d)])).cast("B").cast("f", [1, %d])
y = session.run(None, [x])[0]
private = sum(int(line.split()[1]) for line in open("/proc/self/smaps") if line.startswith("Private_"))
print(loaded, private, sum(y.tolist()[0]), flush=True)
sys.stdin.readline()
""" % (WIDTH, WIDTH)

# Prints the KiB of private memory of a process that has run the network, beyond its inputs and outputs, and waits.
MEMORY = """
#include <autotune/c_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long private_kib(void) {
  char line[256];
  long sum = 0;
  FILE* file = fopen("/proc/self/smaps", "r");
  while (file && fgets(line, sizeof line, file)) {
    if (strncmp(line, "Private_Clean:", 14) == 0 || strncmp(line, "Private_Dirty:", 14) == 0) sum += atol(line + 14);
  }
  if (file) fclose(file);
  return sum;
}

int main(int argc, char** argv) {
  autotune_executor_options options = AUTOTUNE_EXECUTOR_OPTIONS;
  autotune_executor* network = NULL;
  autotune_tensor *x = NULL, *y = NULL;
  autotune_port in, out;
  options.threads = 1;
  options.share_weights = argc == 3 && strcmp(argv[2], "yes") == 0 ? 1 : -1;
  if (argc != 3 || autotune_executor_load(argv[1], &options, &network) || autotune_executor_input(network, 0, &in) ||
      autotune_executor_output(network, 0, &out) || autotune_tensor_create(in.shape, in.ndim, in.dtype, &x) ||
      autotune_tensor_create(out.shape, out.ndim, out.dtype, &y) ||
      autotune_executor_run_with(network, &x, 1, &y, 1)) {
    fprintf(stderr, "%s\\n", autotune_last_error());
    return 1;
  }
  printf("%ld\\n", private_kib() - (long)((in.size_bytes + out.size_bytes) / 1024));
  fflush(stdout);
  getchar();
  autotune_tensor_free(x);
  autotune_tensor_free(y);
  autotune_executor_free(network);
  return 0;
}
"""


def field(number, value):
    """A field of protobuf: a number, a text, bytes or a list of fields."""

    def varint(n):
        return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)

    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = b"".join(value) if isinstance(value, list) else value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def model():
    """y = relu(relu(x A) B) C as an ONNX file."""

    def value(name):
        shape = [field(1, [field(1, 1)]), field(1, [field(1, WIDTH)])]
        return [field(1, name), field(2, [field(1, [field(1, 1), field(2, shape)])])]

    nodes, weights, last = [], [], "x"
    for i, name in enumerate("ABC"):
        numbers = array.array("f", [((j * 2654435761 + i) % 1021 - 510) / 8192 for j in range(WIDTH)]) * WIDTH
        weights.append([field(1, WIDTH), field(1, WIDTH), field(2, 1), field(8, name), field(9, numbers.tobytes())])
        product = "y" if name == "C" else "product" + name
        nodes.append([field(1, last), field(1, name), field(2, product), field(4, "MatMul")])
        if name != "C":
            last = "relu" + name
            nodes.append([field(1, product), field(2, last), field(4, "Relu")])
    graph = [field(1, node) for node in nodes] + [field(2, "products")] + [field(5, weight) for weight in weights]
    graph += [field(11, value("x")), field(12, value("y"))]
    return b"".join([field(1, 8), field(7, graph), field(8, [field(1, ""), field(2, 13)])])


class Running:
    """A process that has loaded the package and run it, and waits."""

    def __init__(self, package, share, **environment):
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, package, share], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **environment},
        )
        words = self.process.stdout.readline().split()
        self.seconds, self.private_kb, self.result = float(words[0]), int(words[1]), float(words[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate("\n")
        assert self.process.returncode == 0


class SharedWeights(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-prepared-")
        cls.kept = os.environ.get("XDG_CACHE_HOME")
        onnx = os.path.join(cls.folder, "products.onnx")
        cls.package = os.path.join(cls.folder, "products.tar")
        with open(onnx, "wb") as file:
            file.write(model())
        subprocess.run(
            [os.path.join(BUILD, "tools", "autotune"), "compile", "--model", onnx, "-o", cls.package, "--no-records", "-q"],
            check=True,
        )
        time.sleep(0.2)  # a file that changed just now is not cached

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)
        os.environ.pop("XDG_CACHE_HOME", None)
        if cls.kept is not None:
            os.environ["XDG_CACHE_HOME"] = cls.kept

    def setUp(self):
        self.cache = os.path.join(self.folder, self.id().split(".")[-1])
        os.environ["XDG_CACHE_HOME"] = self.cache
        os.environ.pop("AUTOTUNE_CACHE", None)

    def files(self):
        return glob.glob(os.path.join(self.cache, "autotune", "prepared", "*.prepared"))

    def test_processes_share_the_weights(self):
        with Running(self.package, "no") as alone:
            self.assertEqual(self.files(), [])
            with Running(self.package, "yes") as first, Running(self.package, "yes") as second:
                (path,) = self.files()
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
                self.assertEqual((first.result, second.result), (alone.result, alone.result))
                weights = 3 * WIDTH * WIDTH * 4 // 1024
                self.assertGreater(alone.private_kb, weights)
                # What is left is the interpreter, the library and the network's own memory.
                self.assertLess(second.private_kb, alone.private_kb - 0.95 * weights)

    def test_a_second_process_has_a_tenth_of_the_first_ones_memory(self):
        program = os.path.join(self.folder, "memory")
        library = os.path.join(BUILD, "api")
        build = ["cc", "-std=c99", "-Wall", "-Werror", "-I", os.path.join(BUILD, "include"), "-x", "c", "-", "-o", program]
        build += ["-L" + library, "-lautotune_runtime", "-Wl,-rpath," + library]
        subprocess.run(build, input=MEMORY, text=True, check=True)
        weights = 3 * WIDTH * WIDTH * 4 // 1024
        for share in ("yes", "no"):
            processes, kib = [], []
            for _ in range(2):  # the second one is measured while the first one still runs
                processes.append(
                    subprocess.Popen([program, self.package, share], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                )
                kib.append(int(processes[-1].stdout.readline()))
            for process in processes:
                process.communicate("\n")
                self.assertEqual(process.returncode, 0)
            with self.subTest(share=share, kib=kib):
                self.assertGreater(kib[0], weights)  # nobody shares the mapped file with it yet
                if share == "yes":
                    self.assertLessEqual(kib[1], 0.1 * kib[0])
                else:
                    self.assertGreater(kib[1], weights)

    def test_the_environment_decides(self):
        for use, share, files in (("1", "default", 1), ("0", "yes", 0), ("1", "no", 0), ("", "default", 0)):
            with self.subTest(use=use, share=share):
                shutil.rmtree(self.cache, ignore_errors=True)
                with Running(self.package, share, AUTOTUNE_CACHE=use):
                    self.assertEqual(len(self.files()), files)

    def test_a_changed_package_is_loaded_anew(self):
        package = os.path.join(self.folder, "changed.tar")
        shutil.copy(self.package, package)
        time.sleep(0.2)
        with Running(package, "yes") as first:
            (old,) = self.files()
        info = os.stat(package)
        with open(package, "r+b") as file:  # a weight of the last product, so that the seal does not match
            file.seek(-WIDTH * 4, os.SEEK_END)
            byte = file.read(1)
            file.seek(-WIDTH * 4, os.SEEK_END)
            file.write(bytes([byte[0] ^ 64]))
        os.utime(package, ns=(info.st_atime_ns, info.st_mtime_ns))
        time.sleep(0.2)
        load = "import sys, autotune; autotune.InferenceSession(sys.argv[1], share_weights=True)"
        run = subprocess.run([sys.executable, "-c", load, package], capture_output=True, text=True, check=False)
        self.assertIn("changed.tar is not a package", run.stderr)
        self.assertEqual(self.files(), [old])
        shutil.copy(self.package, package + ".new")
        os.rename(package + ".new", package)
        time.sleep(0.2)
        with Running(package, "yes") as again:
            self.assertEqual(again.result, first.result)
            self.assertEqual(len(self.files()), 2)

    def test_a_damaged_file_is_made_anew(self):
        with Running(self.package, "yes") as first:
            (path,) = self.files()
        for damage in ("header", "size", "mode"):
            with self.subTest(damage=damage):
                made = os.stat(path).st_ino
                if damage == "header":
                    with open(path, "r+b") as file:
                        file.seek(100)
                        file.write(b"damaged")
                elif damage == "size":
                    os.truncate(path, os.stat(path).st_size // 2)
                else:
                    os.chmod(path, 0o644)
                with open(path, "rb"):  # keeps the inode in use, so that the new file has another one
                    with Running(self.package, "yes") as again:
                        self.assertEqual(again.result, first.result)
                        self.assertNotEqual(os.stat(path).st_ino, made)
                self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_a_folder_that_cannot_be_used(self):
        os.makedirs(os.path.join(self.cache, "autotune", "prepared"))
        os.chmod(os.path.join(self.cache, "autotune"), 0o755)  # others could put files into it
        with Running(self.package, "yes") as shared, Running(self.package, "no") as alone:
            self.assertEqual(shared.result, alone.result)
            self.assertEqual(self.files(), [])

    def test_processes_that_begin_together(self):
        running = [subprocess.Popen([sys.executable, "-c", CHILD, self.package, "yes"], stdin=subprocess.PIPE,
                                    stdout=subprocess.PIPE, text=True) for _ in range(4)]
        results = {process.communicate("\n")[0].split()[2] for process in running}
        self.assertEqual(len(results), 1)
        self.assertEqual(len(self.files()), 1)


if __name__ == "__main__":
    unittest.main()
