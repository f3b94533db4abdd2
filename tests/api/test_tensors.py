"""autotune's tensors share memory with everything that offers it: the buffer protocol, DLPack and numpy."""

import array
import ctypes
import gc
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from network import TAR, image, is_expected

import autotune
from autotune import _tensor

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None
needs_numpy = unittest.skipUnless(numpy, "no numpy")


def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


class BufferTest(unittest.TestCase):
    def test_memory_is_shared_and_released(self):
        memory = array.array("f", [1, 2, 3, 4, 5, 6])
        tensor = autotune.tensor(memoryview(memory).cast("B").cast("f", [2, 3]))
        self.assertEqual((tensor.shape, tensor.dtype, tensor.nbytes), ((2, 3), "float32", 24))
        self.assertEqual(tensor.data_ptr, address_of(memory))
        memory[5] = 7
        self.assertEqual(tensor.tolist(), [[1, 2, 3], [4, 5, 7]])
        tensor.memoryview()[0, 0] = 9
        self.assertEqual(memory[0], 9)
        with self.assertRaises(BufferError):
            memory.append(1)  # its memory is in use
        del tensor
        gc.collect()
        memory.append(1)
        self.assertEqual(_tensor._borrowed, {})

    def test_all_types(self):
        for letter, name in (
            ("b", "int8"), ("B", "uint8"), ("h", "int16"), ("H", "uint16"), ("i", "int32"), ("I", "uint32"),
            ("q", "int64"), ("Q", "uint64"), ("l", "int64"), ("L", "uint64"), ("f", "float32"), ("d", "float64"),
        ):  # fmt: skip
            tensor = autotune.tensor(array.array(letter, [1, 2]))
            self.assertEqual((tensor.dtype, tensor.tolist()), (name, [1, 2]))
        self.assertEqual(autotune.tensor(memoryview(b"\1\0").cast("?")).tolist(), [True, False])
        self.assertEqual(autotune.empty((2,), "bfloat16").nbytes, 4)
        with self.assertRaisesRegex(autotune.InvalidArgument, "unknown element type 'float33'"):
            autotune.empty((2,), "float33")
        with self.assertRaisesRegex(autotune.InvalidArgument, "elements of the format 'c'"):
            autotune.tensor(memoryview(b"ab").cast("c"))

    def test_bytes_are_read_only(self):
        tensor = autotune.tensor(b"abc")
        self.assertTrue(tensor.read_only and tensor.memoryview().readonly)
        self.assertFalse(autotune.tensor(bytearray(b"abc")).read_only)

    def test_strides_are_copied(self):
        memory = bytearray(range(6))
        tensor = autotune.tensor(memoryview(memory)[::2])
        self.assertEqual(tensor.tolist(), [0, 2, 4])
        memory[0] = 9
        self.assertEqual(tensor.tolist(), [0, 2, 4])
        self.assertEqual(_tensor._borrowed, {}, "nothing is held for a copy")
        self.assertEqual(autotune.tensor(memoryview(memory)[::-1]).tolist(), [5, 4, 3, 2, 1, 9])

    def test_scalars_and_empty_arrays(self):
        self.assertEqual(autotune.tensor(array.array("f")).tolist(), [])
        scalar = autotune.tensor(ctypes.c_float(2.5))
        self.assertEqual((scalar.shape, scalar.tolist()), ((), 2.5))

        self.assertEqual(autotune.empty((2, 0, 3)).tolist(), [[], []])
        self.assertEqual(autotune.empty((0, 3)).tolist(), [])
        with self.assertRaisesRegex(autotune.InvalidArgument, "does not fit 64 bits"):
            autotune.empty((2**64 + 1,))
        for name in ("float16", "bfloat16"):
            with self.assertRaisesRegex(autotune.InvalidArgument, "no elements of the type %s" % name):
                autotune.empty((2,), name).tolist()

    def test_a_refused_array_is_not_held(self):
        class Pair(ctypes.Structure):
            _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_float)]

        with self.assertRaises(autotune.InvalidArgument):
            autotune.tensor(Pair())
        self.assertEqual(_tensor._borrowed, {})


class Foreign:
    """An object of another library: it gives one capsule, of DLPack before 1.0 unless `versioned`."""

    def __init__(self, tensor, versioned):
        self.tensor, self.versioned = tensor, versioned

    def __dlpack__(self, **options):
        if not self.versioned and options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.tensor.__dlpack__(**options)


class Strided:
    """A tensor of another library whose elements lie two apart."""

    def __dlpack__(self, **options):
        if options:
            raise TypeError("unexpected keyword argument 'max_version'")
        self.floats, self.strides = autotune.empty((1, 10)), (ctypes.c_int64 * 2)(20, 2)
        capsule = self.floats.__dlpack__()
        dl = _tensor._DLTensor.from_address(_tensor._capsule_pointer(capsule, b"dltensor"))
        dl.strides = ctypes.addressof(self.strides)
        memory = autotune.empty((20,))  # the elements with the spaces between them
        dl.data, self.memory = memory.data_ptr, memory
        return capsule


class DLPackTest(unittest.TestCase):
    def test_both_capsules_share_the_memory(self):
        for versioned in (False, True):
            memory = array.array("i", [1, 2, 3])
            tensor = autotune.from_dlpack(Foreign(autotune.tensor(memory), versioned))
            self.assertEqual((tensor.data_ptr, tensor.tolist()), (address_of(memory), [1, 2, 3]))
            self.assertEqual(autotune.tensor(Foreign(tensor, versioned)).data_ptr, address_of(memory))
            del tensor
            self.assertEqual(_tensor._borrowed, {})

    def test_an_output_that_would_be_copied_is_refused(self):
        session = autotune.InferenceSession(TAR)
        given = array.array("f", [0] * 10)
        target = autotune.tensor(memoryview(given).cast("B").cast("f", [1, 10]))
        for versioned in (False, True):
            given[:] = array.array("f", [0] * 10)
            session.run_with([image()], [Foreign(target, versioned)])
            self.assertTrue(is_expected(given))
        with self.assertRaisesRegex(autotune.InvalidArgument, "output 'probabilities': the array is not compact"):
            session.run_with([image()], [Strided()])
        with self.assertRaisesRegex(autotune.InvalidArgument, "output 'probabilities': the array is not compact"):
            session.run_with([image()], [memoryview(bytearray(20))[::2]])

    def test_the_names_of_capsules(self):
        tensor = autotune.empty((2,))
        plain, versioned = tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 1))
        self.assertIn('"dltensor"', repr(plain))
        self.assertIn('"dltensor_versioned"', repr(versioned))
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))
        autotune.from_dlpack(plain)
        self.assertIn('"used_dltensor"', repr(plain))
        with self.assertRaisesRegex(autotune.InvalidArgument, "used before"):
            autotune.from_dlpack(plain)

    def test_a_capsule_that_nobody_takes_frees_its_tensor(self):
        memory = bytearray(b"abc")
        tensor = autotune.tensor(memory)
        capsules = [tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0))]
        del tensor
        with self.assertRaises(BufferError):
            memory.append(1)
        capsules.clear()
        memory.append(1)

    def test_read_only_memory_needs_the_newer_capsule(self):
        constant = autotune.tensor(b"abc")
        self.assertTrue(autotune.from_dlpack(Foreign(constant, True)).read_only)
        with self.assertRaisesRegex(autotune.InvalidArgument, "read-only"):
            constant.__dlpack__()
        with self.assertRaises(BufferError):
            constant.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            constant.__dlpack__(dl_device=(2, 0))


@needs_numpy
class NumpyTest(unittest.TestCase):
    def test_arrays_share_memory_both_ways(self):
        a = numpy.arange(6, dtype="f4").reshape(2, 3)
        tensor = autotune.tensor(a)
        self.assertEqual(tensor.data_ptr, a.ctypes.data)
        back = tensor.numpy()
        self.assertEqual(back.ctypes.data, a.ctypes.data)
        self.assertEqual(numpy.from_dlpack(tensor).ctypes.data, a.ctypes.data)
        del tensor
        back[0, 0] = 5  # the array keeps the tensor alive
        self.assertEqual(a[0, 0], 5)
        self.assertFalse(autotune.tensor(b"abc").numpy().flags.writeable)

    def test_odd_arrays(self):
        a = numpy.arange(12, dtype="f8").reshape(3, 4)
        for odd in (a.T, a[:, ::2], a[::-1], a[1:1], numpy.zeros((0, 3)), numpy.float32(3), a.astype("f2"), a > 5):
            self.assertTrue(numpy.array_equal(autotune.tensor(odd).numpy(), odd))
        unaligned = numpy.frombuffer(bytearray(33), "u1")[1:].view("f4")
        self.assertEqual(autotune.tensor(unaligned).data_ptr % 4, unaligned.ctypes.data % 4)
        a.flags.writeable = False
        self.assertTrue(autotune.tensor(a).read_only)
        with self.assertRaisesRegex(autotune.InvalidArgument, "byte order"):
            autotune.tensor(a.astype(">f8"))
        with self.assertRaises(autotune.InvalidArgument):
            autotune.tensor(numpy.zeros(2, "c8"))
        with self.assertRaises(autotune.InvalidArgument):
            autotune.tensor(numpy.zeros(2, "O"))
        with self.assertRaisesRegex(autotune.InvalidArgument, "bfloat16"):
            autotune.empty((2,), "bfloat16").numpy()

    def test_sessions_take_and_give_arrays(self):
        session = autotune.InferenceSession(TAR)
        x = numpy.array(image())
        for odd in (x, x[:, ::-1][:, ::-1], numpy.asfortranarray(x)):
            result = session.run(None, {"image": odd})[0]
            self.assertIsInstance(result, numpy.ndarray)
            self.assertTrue(is_expected(result[0]))
        given = numpy.zeros((1, 10), "f4")
        session.run_with([x], [given])
        self.assertTrue(is_expected(given[0]))
        with self.assertRaisesRegex(autotune.InvalidArgument, "output 'probabilities': the array is not compact"):
            session.run_with([x], [numpy.zeros((1, 20), "f4")[:, ::2]])

    def test_nothing_grows(self):
        session = autotune.InferenceSession(TAR, threads=1)
        x, given = numpy.array(image()), numpy.zeros((1, 10), "f4")

        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        def work(count):
            for _ in range(count):
                session.run(None, {"image": x})
                session.run_with([autotune.tensor(x)], [given])
                autotune.tensor(x).__dlpack__()

        work(200)
        before = resident()
        work(1000)
        self.assertLess(resident() - before, 1 << 20)


@unittest.skipIf(torch is None, "no torch")
class TorchTest(unittest.TestCase):
    def test_tensors_share_memory_both_ways(self):
        t = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        shared = autotune.from_dlpack(t)
        self.assertEqual(shared.data_ptr, t.data_ptr())
        self.assertEqual(torch.from_dlpack(shared).data_ptr(), t.data_ptr())
        del shared
        own = autotune.empty((2, 3))
        torch.from_dlpack(own).copy_(t)
        self.assertEqual(own.tolist(), t.tolist())

    def test_all_that_torch_has(self):
        for kind in (torch.float16, torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.uint8):
            t = torch.arange(12).to(kind).reshape(3, 4)
            for odd in (t, t.T, t[:, ::2], t[1:1]):
                back = torch.from_dlpack(autotune.from_dlpack(odd))
                self.assertEqual(back.dtype, kind)
                self.assertTrue(torch.equal(back, odd))
        self.assertNotEqual(autotune.from_dlpack(t.T).data_ptr, t.data_ptr())  # a copy, as it is not row-major

    def test_sessions_take_and_give_them(self):
        session = autotune.InferenceSession(TAR)
        x = torch.tensor(image().tolist())
        self.assertTrue(is_expected(session.run(None, {"image": x})[0].tolist()[0]))
        given = torch.zeros(1, 10)
        session.run_with([x], [given])
        self.assertTrue(is_expected(given.tolist()[0]))
        with self.assertRaisesRegex(autotune.InvalidArgument, "got f64"):
            session.run(None, [x.double()])


if __name__ == "__main__":
    if numpy is None:
        print("no numpy: its tests are skipped")
    unittest.main()
