"""scripts/wheel.py: the wheel of the runtime is whole, small, the same every time, and runs a network by itself. That of
the compiler brings all that compiles one."""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile
from unittest import mock

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SOURCE, TAR

sys.path.insert(0, os.path.join(SOURCE, "scripts"))
import licences
import wheel

MOST_BYTES = 3 << 20  # installed


class WheelTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="autotune-wheel-")
        make = [sys.executable, os.path.join(SOURCE, "scripts", "wheel.py"), "--build", BUILD, "--output"]
        done = subprocess.run(make + [cls.folder.name], check=True, stdout=subprocess.PIPE, text=True)
        cls.path = done.stdout.strip()
        cls.wheel = zipfile.ZipFile(cls.path)
        with tempfile.TemporaryDirectory() as other:
            done = subprocess.run(make + [other], check=True, stdout=subprocess.PIPE, text=True)
            with open(done.stdout.strip(), "rb") as again, open(cls.path, "rb") as first:
                cls.same = again.read() == first.read()

    @classmethod
    def tearDownClass(cls):
        cls.wheel.close()
        cls.folder.cleanup()

    def test_its_record_lists_every_file(self):
        names = self.wheel.namelist()
        record = next(name for name in names if name.endswith(".dist-info/RECORD"))
        lines = [line.split(",") for line in self.wheel.read(record).decode().split()]
        self.assertEqual(sorted(line[0] for line in lines), sorted(names))
        for name, digest, size in lines:
            if name == record:
                continue
            data = self.wheel.read(name)
            found = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            self.assertEqual((digest, int(size)), ("sha256=" + found, len(data)), name)
        self.assertTrue(self.same, "two wheels of one build differ")

    def test_it_is_for_every_python_and_small(self):
        self.assertRegex(os.path.basename(self.path), r"^autotune_runtime-[0-9.]+-py3-none-manylinux_2_\d+_\w+\.whl$")
        self.assertLessEqual(sum(info.file_size for info in self.wheel.infolist()), MOST_BYTES)

    def test_it_has_the_licences_of_all_that_the_library_contains(self):
        names = {os.path.basename(name) for name in self.wheel.namelist() if "/licenses/" in name}
        self.assertLessEqual({"autotune", "Apache-2.0"} | set(licences.CONTAINED["runtime"]), names)

    def test_it_runs_by_itself(self):
        place = os.path.join(self.folder.name, "site")
        self.wheel.extractall(place)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("AUTOTUNE_")}
        program = "import autotune, sys; print(autotune.load(sys.argv[1]).get_outputs()[0].name, autotune.__file__)"
        done = subprocess.run(
            [sys.executable, "-c", program, TAR],
            env=dict(environment, PYTHONPATH=place),
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        self.assertEqual(done.stdout, "probabilities %s/autotune/__init__.py\n" % place)

    @unittest.skipUnless(shutil.which("aarch64-linux-gnu-gcc"), "no cross compiler")
    def test_a_library_of_another_machine_makes_a_wheel_for_it(self):
        library = os.path.join(self.folder.name, "other.so")
        build = ["aarch64-linux-gnu-gcc", "-shared", "-x", "c", "-", "-o", library]
        subprocess.run(build, input="int autotune_nothing;", check=True, text=True)
        make = [sys.executable, os.path.join(SOURCE, "scripts", "wheel.py"), "--output", self.folder.name]
        make += ["--library", library, "--strip"]
        done = subprocess.run(make + ["aarch64-linux-gnu-strip"], check=True, stdout=subprocess.PIPE, text=True)
        self.assertRegex(done.stdout, r"-py3-none-manylinux_2_\d+_aarch64\.whl$")
        with zipfile.ZipFile(done.stdout.strip()) as made:
            names = {name for name in made.namelist() if name.startswith("autotune/")}
            tag = next(name for name in made.namelist() if name.endswith("/WHEEL"))
            self.assertIn(b"_aarch64\n", made.read(tag))
        self.assertEqual(names, {name for name in self.wheel.namelist() if name.startswith("autotune/")})
        with self.assertRaises(subprocess.CalledProcessError):
            subprocess.run(make + ["false"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def test_it_makes_its_folder(self):
        make = [sys.executable, os.path.join(SOURCE, "scripts", "wheel.py"), "--build", BUILD, "--output"]
        folder = os.path.join(self.folder.name, "a new", "folder")
        subprocess.run(make + [folder], check=True, stdout=subprocess.DEVNULL)
        self.assertEqual(os.listdir(folder), [os.path.basename(self.path)])
        done = subprocess.run(make + [self.path], stderr=subprocess.PIPE, text=True, check=False)  # a file
        self.assertEqual((done.returncode, done.stderr), (1, "cannot make the folder %s: File exists\n" % self.path))

    @unittest.skipUnless(shutil.which("patchelf"), "no patchelf")
    def test_the_compiler_compiles_from_its_wheel(self):
        place = os.path.join(self.folder.name, "both")
        self.wheel.extractall(place)
        with mock.patch.object(wheel, "PROGRAMS", ["autotune", "rpc_server"]):  # those that the library starts
            wheel.compiler_files(BUILD, os.path.join(place, "autotune_compiler"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("AUTOTUNE_")}
        state = os.path.join(self.folder.name, "state")
        environment.update(PYTHONPATH=place, XDG_CACHE_HOME=state, XDG_STATE_HOME=state, XDG_DATA_HOME=state)
        program = (
            "import autotune, sys; module = autotune.compile(sys.argv[1]);"
            "print(autotune.InferenceSession(module).get_outputs()[0].name);"
            "print(*sorted({line.split()[-1] for line in open('/proc/self/maps') if 'libautotune' in line}))"
        )
        command = [sys.executable, "-c", program, os.path.join(SOURCE, "examples", "resnet20.onnx")]
        output = subprocess.check_output(command, env=environment, text=True).splitlines()
        libraries = ["autotune/libautotune_runtime.so.0", "autotune_compiler/lib/libautotune.so.0"]
        self.assertEqual(output, ["probabilities", " ".join(os.path.join(place, name) for name in libraries)])
        used = subprocess.check_output(["ldd", os.path.join(place, libraries[1])], text=True)
        self.assertRegex(used, r"libxgboost\.so\.0 => .*/both/autotune_compiler/")
        self.assertRegex(used, r"libautotune_runtime\.so\.0 => .*/both/")  # also for programs other than Python
        os.rename(os.path.join(place, "autotune_compiler"), os.path.join(place, "away"))
        done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)
        self.assertRegex(done.stderr.splitlines()[-1], "need autotune's compiler, which is not installed: .*the wheel")

    @unittest.skipUnless(shutil.which("patchelf"), "no patchelf")
    def test_the_programs_bring_their_libraries_and_their_licences(self):
        place = os.path.join(self.folder.name, "programs")
        with mock.patch.object(wheel, "PROGRAMS", ["rpc_tracker"]):  # the smallest one
            files, packages = wheel.compiler_files(BUILD, place)
        path = wheel.write_wheel("autotune-compiler", "x", files, packages, self.folder.name, "other", ["rpc_tracker"])
        with zipfile.ZipFile(path) as made:
            names = made.namelist()
            self.assertIn("autotune_compiler/lib/libzmq.so.5", names)
            self.assertIn("autotune_compiler/lib/libautotune.so.0", names)
            self.assertEqual([name for name in names if "/libc.so" in name or "autotune_runtime.so" in name], [])
            licence = [name for name in names if name.endswith("licenses/libzmq5")]
            self.assertIn(b"zeromq", made.read(licence[0]))
            modes = {info.filename: info.external_attr >> 16 for info in made.infolist()}
            self.assertEqual(oct(modes["autotune_compiler/bin/rpc_tracker"]), "0o100755")
            metadata = next(name for name in names if name.endswith("METADATA"))
            self.assertIn(b"Requires-Dist: other (==", made.read(metadata))
            entries = made.read(next(name for name in names if name.endswith("entry_points.txt")))
            self.assertIn(b"rpc_tracker = autotune_compiler:rpc_tracker", entries)
        os.rename(place, os.path.join(self.folder.name, "programs_moved"))
        start = "import sys; sys.path.insert(0, %r); import programs_moved as p; p.rpc_tracker()" % self.folder.name
        done = subprocess.run([sys.executable, "-c", start, "--version"], stdout=subprocess.PIPE, text=True, check=True)
        self.assertIn("rpc_tracker", done.stdout)
        program = os.path.join(self.folder.name, "programs_moved", "bin", "rpc_tracker")
        used = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True)
        self.assertRegex(used.stdout, r"libzmq\.so\.5 => .*/programs_moved/")


if __name__ == "__main__":
    unittest.main()
