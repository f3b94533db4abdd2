"""autotune.rpc: a network on a device of a farm has the interface of one on this machine."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import SO, TAR, image, is_expected

import autotune

PROGRAMS = os.environ["AUTOTUNE_LIBEXEC"]


class RemoteTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="autotune-rpc-")
        cls.tracker = os.path.join(cls.folder, "tracker")
        state = os.path.join(cls.folder, "state")
        os.environ["XDG_STATE_HOME"] = os.environ["XDG_RUNTIME_DIR"] = cls.folder
        cls.processes = [cls.start("rpc_tracker", "--listen", cls.tracker, "--state", state)]
        deadline = time.monotonic() + 60
        while not os.path.exists(cls.tracker) and time.monotonic() < deadline:
            time.sleep(0.05)
        cls.processes.append(cls.start("rpc_server", "--tracker", cls.tracker, "--key", "pi"))

    @classmethod
    def start(cls, program, *arguments):
        null = subprocess.DEVNULL
        return subprocess.Popen([os.path.join(PROGRAMS, program), *arguments], stdout=null, stderr=null)

    @classmethod
    def tearDownClass(cls):
        for process in reversed(cls.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(cls.folder)

    def connect(self):
        return autotune.rpc.connect(tracker=self.tracker, key="pi", wait_seconds=60)

    def test_a_network_runs_on_a_device(self):
        for path in (TAR, SO):
            with self.subTest(path=path):
                remote = self.connect()
                remote.upload(path)
                module = remote.load_module(os.path.basename(path), threads=1)
                network = module["default"](remote.cpu())
                self.assertIsInstance(network, autotune.GraphModule)
                self.assertEqual((network.get_num_inputs(), network.get_num_outputs()), (1, 1))
                network.set_input("image", image())
                network.run()
                self.assertTrue(is_expected(network.get_output(0).tolist()[0]))
                network.run(image=autotune.tensor(image()))
                self.assertTrue(is_expected(network.get_output(0).tolist()[0]))
                times = network.time_evaluator("run", number=2, repeat=3)()
                self.assertEqual(len(times["results"]), 3)
                self.assertTrue(0 < times["min"] <= times["median"] <= times["max"])
                self.assertEqual(network.get_input("image").tolist(), image().tolist())

    def test_this_machine_has_the_same_interface(self):
        network = autotune.load_module(TAR)["default"](autotune.cpu(0))
        network.run(image=image())
        self.assertEqual(len(network.time_evaluator("run", number=2, repeat=3)()["results"]), 3)

    def test_a_module_of_this_machine_has_as_many_threads_as_on_a_device(self):
        program = (
            "import autotune, os, sys; s = autotune.rpc.LocalSession(); s.upload(sys.argv[1], 'm');"
            "before = len(os.listdir('/proc/self/task'));"
            "network = s.load_module('m', threads=int(sys.argv[2]))['default'](s.cpu()); network.run();"
            "print(len(os.listdir('/proc/self/task')) - before)"
        )
        for path in (TAR, SO):
            for threads in (1, 3):
                with self.subTest(path=path, threads=threads):
                    more = subprocess.check_output([sys.executable, "-c", program, path, str(threads)], text=True)
                    # beside the caller: those for kernels that are called directly, and those of the executor
                    self.assertEqual(int(more), 2 * (threads - 1))
        session = autotune.rpc.LocalSession()
        session.upload(TAR, "network")
        with self.assertRaisesRegex(autotune.InvalidArgument, "the number of threads is -1"):
            session.load_module("network", threads=-1)
        with self.assertRaisesRegex(autotune.InvalidArgument, "does not fit 32 bits"):
            session.load_module("network", threads=2**40)

    def test_values_of_all_kinds(self):
        echo = self.connect().get_function("remote.echo")
        for value in (None, 1, -(2**63), 2.5, "text", "", b"\0bytes"):
            self.assertEqual(echo(value), value)
        self.assertEqual(echo(image()).tolist(), image().tolist())
        for value in (autotune.function(lambda: 1), autotune.load_module(TAR)):
            with self.assertRaisesRegex(autotune.InvalidArgument, "cannot be sent to a device"):
                echo(value)

    def test_errors(self):
        remote = self.connect()
        remote.upload(TAR, "network")
        module = remote.load_module("network")
        network = module["default"](remote.cpu())
        bad = os.path.join(self.folder, "bad.tar")
        with open(bad, "w") as file:
            file.write("no package")
        remote.upload(bad)
        for words, call in (
            ("'m.tar' was not uploaded", lambda: remote.load_module("m.tar")),
            ("there is no file none.tar", lambda: remote.upload("none.tar")),
            ("bad.tar", lambda: remote.load_module("bad.tar")),
            ("no function 'other'", lambda: module["other"]),
            ("no_such", lambda: network["no_such"]()),
            ("input", lambda: network.set_input(7, image())),
            ("no_such", lambda: remote.get_function("no_such")()),
            ("too wide|integer|range|threads", lambda: remote.load_module("network", threads=-1)),
            ("alice.join", lambda: autotune.rpc.connect("alice.join", "pi")),
            ("key", lambda: autotune.rpc.connect(tracker=self.tracker)),
            ("seconds", lambda: autotune.rpc.connect(tracker=self.tracker, key="pi", wait_seconds=-1)),
        ):
            with self.subTest(words=words), self.assertRaisesRegex(autotune.Error, words) as raised:
                call()
            self.assertNotIn("\n", str(raised.exception))
        network.run()  # the session goes on

    def test_a_key_that_no_device_has(self):
        with self.assertRaises(autotune.Error):
            autotune.rpc.connect(tracker=self.tracker, key="none", wait_seconds=1)

    def test_the_device_is_given_back(self):
        remote = self.connect()
        remote.upload(TAR)
        network = remote.load_module("net.tar")["default"](remote.cpu())
        del remote
        network.run()  # a module keeps the session
        del network
        self.connect()  # would wait for the device, which is the farm's only one


if __name__ == "__main__":
    unittest.main()
