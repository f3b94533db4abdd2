"""The examples devices.py and devices.cc, and the documents' calls of kernels: the same code runs on this machine and on a
device of a farm that is joined by a file, with the same bytes as result."""

import array
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import IMAGE, SO, SOURCE, TAR, image, is_expected

import autotune

PROGRAMS = os.environ["AUTOTUNE_LIBEXEC"]
EXAMPLE = os.path.join(SOURCE, "examples", "devices.py")
EXAMPLE_OF_CPP = os.environ["AUTOTUNE_DEVICES_EXAMPLE"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def kernel_with_arguments():
    """The name of the network's softmax, and arrays for its input and its output."""
    name = next(name for name in autotune.load_module(SO).function_names if "softmax" in name)
    inputs = array.array("f", [0.5 * i for i in range(10)])
    return name, [memoryview(numbers).cast("B").cast("f", [1, 10]) for numbers in (inputs, array.array("f", [0] * 10))]


class DevicesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-devices-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        for name in ("STATE_HOME", "RUNTIME_DIR", "CONFIG_HOME"):
            os.environ["XDG_" + name] = cls.path(name)
            os.mkdir(cls.path(name), 0o700)
        address = "127.0.0.1:%d" % free_port()
        for name, role in (("board", "server"), ("alice", "client")):
            invite = [os.path.join(PROGRAMS, "rpc_tracker"), "invite", name, "--role", role, "--advertise", address]
            done = subprocess.run(invite, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
            with open(os.open(cls.path(name + ".join"), os.O_CREAT | os.O_WRONLY, 0o600), "wb") as file:
                file.write(done.stdout)
        cls.join = cls.path("alice.join")
        cls.start("rpc_tracker", "--listen", address)
        cls.start("rpc_server", "--join", cls.path("board.join"), "--key", "pi", "--listen", "127.0.0.1:0")
        status = [os.path.join(PROGRAMS, "rpc_tracker"), "status", "--json"]
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            shown = subprocess.run(status, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            if '"state":"free"' in shown.stdout:
                break
            time.sleep(0.1)
        with open(cls.path("in.bin"), "wb") as file:
            file.write(IMAGE.tobytes())

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def start(cls, program, *arguments):
        null = subprocess.DEVNULL
        process = subprocess.Popen([os.path.join(PROGRAMS, program), *arguments], stdout=null, stderr=null)
        cls.addClassCleanup(process.wait)
        cls.addClassCleanup(process.terminate)

    def output_of(self, *command):
        """What an example writes to its file."""
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, r"^[0-9.]+ ms on (pi|this machine)\n$")
        with open(self.path("out.bin"), "rb") as file:
            return file.read()

    def sessions(self):
        yield "local", autotune.rpc.LocalSession()
        yield "remote", autotune.rpc.connect(self.join, "pi", wait_seconds=60)

    def test_the_example_of_python(self):
        for package in (TAR, SO):
            example = [sys.executable, EXAMPLE, package, self.path("in.bin"), self.path("out.bin")]
            here = self.output_of(*example)
            there = self.output_of(*example, "--join", self.join, "--key", "pi")
            self.assertTrue(is_expected(array.array("f", here)))
            self.assertEqual(here, there, package)

    def test_the_example_of_cpp(self):
        for package in (TAR, SO):
            example = [EXAMPLE_OF_CPP, package, self.path("in.bin"), self.path("out.bin")]
            here = self.output_of(*example)
            there = self.output_of(*example, self.join, "pi")
            self.assertTrue(is_expected(array.array("f", here)))
            self.assertEqual(here, there, package)

    def test_the_example_of_cpp_tells_errors(self):
        for arguments, words in (((self.join, "none"), "none"), ((self.path("no.join"), "pi"), "no.join")):
            command = [EXAMPLE_OF_CPP, TAR, self.path("in.bin"), self.path("out.bin"), *arguments]
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 1)
            self.assertIn(words, done.stdout)

    def test_another_input_gives_other_bytes(self):
        results = []
        for name, session in self.sessions():
            session.upload(TAR)
            network = session.load_module("net.tar")["default"](session.cpu())
            for picture in (image(), memoryview(array.array("f", [1.0] * 3072)).cast("B").cast("f", [1, 3, 32, 32])):
                network.run(image=picture)
                results.append(network.get_output(0).tolist())
        self.assertEqual(results[:2], results[2:])
        self.assertNotEqual(results[0], results[1])

    # A kernel writes to a tensor in the memory of its machine, and is timed with arguments.
    def test_a_kernel_and_its_tensors(self):
        name, arrays = kernel_with_arguments()
        results = []
        for place, session in self.sessions():
            for package in (TAR, SO):
                with self.subTest(place=place, package=package):
                    session.upload(package)
                    module = session.load_module(os.path.basename(package))
                    tensors = [session.tensor(numbers) for numbers in arrays]
                    module[name](*tensors)
                    results.append([tensor.tolist() for tensor in tensors])
                    times = module.time_evaluator(name, number=3, repeat=2)(*tensors)
                    self.assertEqual(len(times["results"]), 2)
                    self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])
                    with self.assertRaisesRegex(autotune.Error, "at least 1"):
                        module.time_evaluator(name, number=0)
                    with self.assertRaisesRegex(autotune.Error, "no function 'none'"):
                        module.time_evaluator("none")
        self.assertEqual(results, [results[0]] * 4)
        self.assertNotEqual(results[0][-1], arrays[-1].tolist(), "the kernel wrote nothing")
        self.assertEqual(results[0][0], arrays[0].tolist(), "an input has changed")

    # What a function of a device has returned is an argument of others there, and of none here.
    def test_handles_are_arguments_of_their_session_only(self):
        remote = autotune.rpc.connect(self.join, "pi", wait_seconds=60)
        echo = remote.get_function("remote.echo")
        held = remote.tensor(image())
        self.assertEqual(echo(held).tolist(), image().tolist())
        remote.upload(SO)
        module = remote.load_module("net.so")
        self.assertTrue(callable(echo(module["default"])))
        self.assertTrue(callable(echo(module)))
        self.assertEqual(echo(autotune.cpu(0)), autotune.cpu(0))
        with self.assertRaisesRegex(autotune.InvalidArgument, "cannot be sent to a device"):
            echo(autotune.function(lambda: 1))


if __name__ == "__main__":
    unittest.main()
