"""autotune.InferenceSession, autotune.load and modules, on the compiled example network, without other packages."""

import array
import ast
import glob
import os
import subprocess
import sys
import tempfile
import threading
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import BUILD, SO, SOURCE, TAR, image, is_expected

import autotune


def flat(result):
    """The numbers of an output: an array of numpy if there is numpy, else a tensor."""
    return result.tolist()[0]


class SessionTest(unittest.TestCase):
    def test_it_describes_inputs_and_outputs_as_onnx_runtime_does(self):
        session = autotune.InferenceSession(TAR, threads=1)
        (entry,), (result,) = session.get_inputs(), session.get_outputs()
        self.assertEqual((entry.name, entry.shape, entry.type), ("image", [1, 3, 32, 32], "tensor(float)"))
        self.assertEqual((result.name, result.shape, result.type), ("probabilities", [1, 10], "tensor(float)"))
        self.assertEqual(entry.dtype, "float32")

    def test_both_forms_run(self):
        for path in (TAR, SO):
            session = autotune.InferenceSession(path, threads=2)
            self.assertTrue(is_expected(flat(session.run(None, {"image": image()})[0])))
            self.assertTrue(is_expected(flat(session.run(["probabilities"], [image()])[0])))
            self.assertEqual(session.run([], {"image": image()}), [])
            self.assertTrue(is_expected(flat(autotune.load(path)(image()))))
            self.assertTrue(is_expected(flat(autotune.load(path, threads=1)(image=image()))))
        zeros = memoryview(bytes(4 * 3 * 32 * 32)).cast("f", [1, 3, 32, 32])
        self.assertFalse(is_expected(flat(autotune.load(TAR)(zeros))))

    def test_results_of_a_run_are_its_own(self):
        session = autotune.InferenceSession(TAR)
        first = session.run(None, [image()])[0]
        session.run(None, [memoryview(bytes(4 * 3 * 32 * 32)).cast("f", [1, 3, 32, 32])])
        self.assertTrue(is_expected(flat(first)))

    def test_outputs_may_be_given(self):
        session = autotune.InferenceSession(TAR)
        aligned = autotune.empty((1, 10))
        session.run_with({"image": image()}, {"probabilities": aligned})
        self.assertTrue(is_expected(aligned.tolist()[0]))
        memory = array.array("f", [0] * 11)
        session.run_with([image()], [memoryview(memory)[1:].cast("B").cast("f", [1, 10])])
        self.assertTrue(is_expected(memory[1:]))
        self.assertEqual(memory[0], 0)
        session.run_with([image()], {})  # no result is wanted
        with self.assertRaisesRegex(autotune.InvalidArgument, "output 'probabilities': the tensor is read-only"):
            session.run_with([image()], [memoryview(bytes(40)).cast("f", [1, 10])])
        with self.assertRaisesRegex(autotune.InvalidArgument, r"output 'probabilities' is f32\[1, 10\], got f32\[10\]"):
            session.run_with([image()], [autotune.empty((10,))])

    def test_wrong_arguments_are_one_clear_line(self):
        session = autotune.InferenceSession(TAR)
        doubles = memoryview(array.array("d", [0] * (3 * 32 * 32))).cast("B").cast("d", [1, 3, 32, 32])
        for inputs, text in (
            ({"image": image()[0:0]}, r"got f32\[0"),
            ({"image": doubles}, r"input 'image' is f32\[1, 3, 32, 32\], got f64\[1, 3, 32, 32\]"),
            ({"picture": image()}, "the network has no input 'picture'; its inputs are: image"),
            ({}, "missing inputs: image"),
            ([image(), image()], "the network has 1 inputs, got 2"),
            ({"image": [1.0, 2.0]}, "cannot make a tensor of list"),
            ({"image": "text"}, "cannot make a tensor of str"),
        ):
            with self.assertRaisesRegex(autotune.InvalidArgument, text) as raised:
                session.run(None, inputs)
            self.assertNotIn("\n", str(raised.exception))
            self.assertIsInstance(raised.exception, ValueError)
        with self.assertRaisesRegex(autotune.InvalidArgument, "has no output 'x'; its outputs are: probabilities"):
            session.run(["x"], [image()])
        with self.assertRaisesRegex(autotune.InvalidArgument, "not both"):
            session(image(), image=image())

    def test_wrong_files_are_one_clear_line(self):
        with tempfile.TemporaryDirectory() as folder:
            cut, text = os.path.join(folder, "cut.tar"), os.path.join(folder, "text")
            with open(TAR, "rb") as whole, open(cut, "wb") as part:
                part.write(whole.read()[:100000])
            with open(text, "w") as file:
                file.write("hello\n")
            for path, words in ((cut, "claims"), (text, "it is no tar file"), (folder + "/none", "no such file")):
                for load in (autotune.InferenceSession, autotune.load_module, autotune.load):
                    with self.assertRaisesRegex(autotune.Error, words) as raised:
                        load(path)
                    self.assertNotIn("\n", str(raised.exception))
        with self.assertRaisesRegex(autotune.Error, "it runs on the CPU only"):
            autotune.InferenceSession(TAR, device="cuda:0")
        with self.assertRaisesRegex(autotune.InvalidArgument, "the number of threads is -1"):
            autotune.InferenceSession(TAR, threads=-1)

    def test_threads_share_a_session_and_sessions_share_a_module(self):
        module = autotune.load_module(TAR)
        sessions = [autotune.InferenceSession(module, threads=1 + i % 2) for i in range(4)]
        del module
        wrong = []

        def work(session):
            for _ in range(20):
                if not is_expected(flat(session.run(None, {"image": image()})[0])):
                    wrong.append(session)

        threads = [threading.Thread(target=work, args=(session,)) for session in sessions * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_sessions_share_the_threads_of_a_pool(self):
        program = (
            "import autotune, os, sys; list = lambda: set(os.listdir('/proc/self/task')); before = list();"
            "cpu = max(os.sched_getaffinity(0)); pool = autotune.ThreadPool(3, spin_seconds=0, cpus=[cpu]);"
            "sessions = [autotune.InferenceSession(path, pool=pool) for path in sys.argv[1:]]; more = list() - before;"
            "print(len(more), {tuple(os.sched_getaffinity(int(thread))) for thread in more} == {(cpu,)})"
        )
        output = subprocess.check_output([sys.executable, "-c", program, TAR, SO], text=True)
        self.assertEqual(output, "2 True\n")
        pool = autotune.ThreadPool(2)
        sessions = [autotune.load(TAR, pool=pool), autotune.InferenceSession(autotune.load_module(SO), pool=pool)]
        del pool  # the sessions keep it
        for session in sessions:
            self.assertTrue(is_expected(flat(session(image()))))
        for text, make in (
            ("the CPU 99999", lambda: autotune.ThreadPool(cpus=[99999])),
            ("the number of threads is -1", lambda: autotune.ThreadPool(-1)),
            ("spin_seconds is -1", lambda: autotune.ThreadPool(spin_seconds=-1)),
            ("`threads` must be 0", lambda: autotune.load(TAR, threads=1, pool=autotune.ThreadPool(1))),
        ):
            with self.assertRaisesRegex(autotune.InvalidArgument, text):
                make()

    def test_a_child_of_fork_runs(self):
        session = autotune.InferenceSession(TAR, threads=2)
        session.run(None, [image()])
        child = os.fork()
        if child == 0:
            os._exit(0 if is_expected(flat(session.run(None, [image()])[0])) else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_modules_run_as_in_the_documents_of_others(self):
        for path in (TAR, SO):
            module = autotune.load_module(path)
            self.assertEqual(module.type_key, "library")
            self.assertIn("resnet20", module.function_names)
            for name in ("default", "resnet20"):
                network = module[name](autotune.cpu(0))
                self.assertIsInstance(network, autotune.GraphModule)
                network.set_input("image", image())
                network.run()
                self.assertTrue(is_expected(network.get_output(0).tolist()[0]))
            network.set_input(0, memoryview(bytes(4 * 3 * 32 * 32)).cast("f", [1, 3, 32, 32]))
            network.run()
            self.assertFalse(is_expected(network.get_output(0).tolist()[0]))
            network.run(image=image())
            self.assertTrue(is_expected(network.get_output(0).tolist()[0]))
            self.assertEqual((network.get_num_inputs(), network.get_num_outputs()), (1, 1))
            with self.assertRaisesRegex(autotune.InvalidArgument, "has no function 'none'"):
                module["none"]
            with self.assertRaisesRegex(autotune.Error, "no CPU|one CPU"):
                module["default"](autotune.cpu(1))

    def test_functions_of_python(self):
        same = autotune.function(lambda *args: args[0])
        for value in (None, 3, -(2**63), 2.5, "text", "ä", "", b"by\0tes", b"", autotune.cpu(0)):
            self.assertEqual(same(value), value)
        self.assertEqual(same(True), 1)
        self.assertEqual(same(memoryview(array.array("i", [1, 2]))).tolist(), [1, 2])
        self.assertEqual(same(same)(7), 7)
        self.assertEqual(same(lambda x: 2 * x)(21), 42)
        kept = autotune.tensor(array.array("f", [1]))
        self.assertEqual(autotune.function(lambda: kept)().tolist(), [1.0])
        self.assertEqual(kept.tolist(), [1.0], "the result is a handle of its own")

        def fails():
            raise KeyError("two\nlines")

        with self.assertRaisesRegex(autotune.Error, "^KeyError: 'two"):
            autotune.function(fails)()
        with self.assertRaisesRegex(autotune.InvalidArgument, "does not fit 64 bits"):
            same(2**63)

    def test_what_ends_a_program_passes_through_functions(self):
        for end in (KeyboardInterrupt, SystemExit):

            def ends(end=end):
                raise end

            with self.assertRaises(end):
                autotune.function(ends)()
        with self.assertRaisesRegex(autotune.Error, "ValueError"):
            autotune.function(lambda: int("x"))()

    def test_numbers_and_texts_are_never_cut(self):
        for threads in (2**32 + 1, -(2**31) - 1):
            with self.assertRaisesRegex(autotune.InvalidArgument, "does not fit 32 bits"):
                autotune.InferenceSession("m.tar", threads=threads)
        for call in (autotune.load_module, autotune.InferenceSession, autotune.get_global_func, autotune.device):
            with self.assertRaisesRegex(autotune.InvalidArgument, "has a NUL in it"):
                call("cpu\0m.tar")

    def test_the_registry(self):
        @autotune.register_func("tests.twice")
        def twice(x):
            return 2 * x

        try:
            self.assertEqual(autotune.get_global_func("tests.twice")(4), 8)
            self.assertIn("tests.twice", autotune.list_global_func_names())
            with self.assertRaisesRegex(autotune.InvalidArgument, "exists already"):
                autotune.register_func("tests.twice", twice)
            autotune.register_func("tests.twice", lambda x: 3 * x, override=True)
            self.assertEqual(autotune.get_global_func("tests.twice")(4), 12)
        finally:
            autotune.remove_global_func("tests.twice")
        with self.assertRaisesRegex(autotune.InvalidArgument, "there is no global function 'tests.twice'"):
            autotune.get_global_func("tests.twice")
        device = autotune.get_global_func("device_api.cpu")(0)
        self.assertEqual(device.type_key, "device")

    def test_devices(self):
        self.assertEqual(autotune.device("cpu"), autotune.cpu(0))
        self.assertNotEqual(autotune.cpu(0), autotune.cuda(0))
        self.assertEqual(repr(autotune.cuda(1)), "cuda(1)")
        with self.assertRaisesRegex(autotune.InvalidArgument, "tpu"):
            autotune.device("tpu")

    def test_the_devices_of_this_machine_are_listed(self):
        cpu = autotune.devices()[0]
        self.assertEqual((cpu.device, cpu.text, cpu.error), (autotune.cpu(0), "cpu", ""))
        self.assertTrue(cpu.name and cpu.architecture and cpu.memory_bytes > 0 and cpu.units >= 1, cpu)
        program = "import autotune; print([list(d)[1:] for d in autotune.devices() if d.device.type == 2])"
        driver = os.path.join(BUILD, "tests", "fake_cuda", "libcuda.so.1")
        expected = "['cuda:%d', 'Fake GPU %s', 'GPU-a%d112233-4455-6677-8899-aabbccddeeff', 'sm_80', '', 1000000, 132]"
        two = "[%s, %s]\n" % (expected % (0, "A", 0), expected % (1, "B", 1))
        for settings, text in (("gpus=2 sm=80 bytes=1000000", two), ("fail=cuInit:100", "[]\n")):
            with self.subTest(settings):
                done = subprocess.run(
                    [sys.executable, "-c", program],
                    env=dict(os.environ, AUTOTUNE_LIBCUDA=driver, FAKE_CUDA=settings),
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                self.assertEqual(done.stdout, text)


class SourcesTest(unittest.TestCase):
    def test_they_are_of_python_3_9(self):
        sources = glob.glob(os.path.join(SOURCE, "python", "autotune", "*.py"))
        self.assertGreater(len(sources), 3)
        for path in sources:
            with open(path) as file:
                ast.parse(file.read(), path, feature_version=(3, 9))
        with self.assertRaises(SyntaxError):
            ast.parse("match 1:\n  case 1: pass\n", feature_version=(3, 9))

    def test_what_is_public_has_a_docstring(self):
        for name in autotune.__all__:
            self.assertTrue(getattr(autotune, name).__doc__, name)
        for cls in (autotune.InferenceSession, autotune.Tensor, autotune.Module, autotune.GraphModule):
            for name, member in vars(cls).items():
                if not name.startswith("_"):
                    self.assertTrue(member.__doc__, "%s.%s" % (cls.__name__, name))


if __name__ == "__main__":
    unittest.main()
