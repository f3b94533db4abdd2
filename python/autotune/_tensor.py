"""Tensors: arrays of the library, which share their memory with numpy, torch and others."""

from __future__ import annotations

import ctypes
import itertools
import struct
import sys
from ctypes import byref, c_char_p, c_int, c_int64, c_ssize_t, c_void_p
from typing import Any, Dict, List, Optional, Tuple

from ._library import LIB, READ_ONLY, RELEASE, Device, DType, InvalidArgument, TensorInfo, check, new_handle, whole

# Of each element type: code and bits of DLPack; its name, that in ONNX Runtime, its letter in the buffer protocol and
# its text in numpy's array interface ("" if they have none).
_TYPES = [
    (2, 32, "float32", "tensor(float)", "f", "<f4"),
    (2, 64, "float64", "tensor(double)", "d", "<f8"),
    (2, 16, "float16", "tensor(float16)", "e", "<f2"),
    (4, 16, "bfloat16", "tensor(bfloat16)", "", ""),
    (0, 8, "int8", "tensor(int8)", "b", "|i1"),
    (0, 16, "int16", "tensor(int16)", "h", "<i2"),
    (0, 32, "int32", "tensor(int32)", "i", "<i4"),
    (0, 64, "int64", "tensor(int64)", "q", "<i8"),
    (1, 8, "uint8", "tensor(uint8)", "B", "|u1"),
    (1, 16, "uint16", "tensor(uint16)", "H", "<u2"),
    (1, 32, "uint32", "tensor(uint32)", "I", "<u4"),
    (1, 64, "uint64", "tensor(uint64)", "Q", "<u8"),
    (1, 1, "bool", "tensor(bool)", "?", "|b1"),
]
_BY_CODE = {(row[0], row[1]): row for row in _TYPES}
_BY_NAME = {row[2]: DType(row[0], row[1], 1) for row in _TYPES}
# Letters of the buffer protocol. Those of sizes that depend on the platform are found by their size.
_BY_LETTER = {row[4]: DType(row[0], row[1], 1) for row in _TYPES if row[4]}
for _letter, _alike in (("l", "bhiq"), ("n", "bhiq"), ("L", "BHIQ"), ("N", "BHIQ")):
    _same = next(c for c in _alike if struct.calcsize(c) == struct.calcsize(_letter))
    _BY_LETTER[_letter] = _BY_LETTER[_same]
_NATIVE = "<" if sys.byteorder == "little" else ">"


def type_row(dtype: DType) -> Tuple[int, int, str, str, str, str]:
    """The row of _TYPES of an element type."""
    row = _BY_CODE.get((dtype.code, dtype.bits))
    if row is None:
        raise InvalidArgument("elements of DLPack's type %d with %d bits are not supported" % (dtype.code, dtype.bits))
    return row


class _Buffer(ctypes.Structure):
    """CPython's Py_buffer."""

    _fields_ = [
        ("buf", c_void_p),
        ("obj", c_void_p),
        ("len", c_ssize_t),
        ("itemsize", c_ssize_t),
        ("readonly", c_int),
        ("ndim", c_int),
        ("format", c_char_p),
        ("shape", ctypes.POINTER(c_ssize_t)),
        ("strides", ctypes.POINTER(c_ssize_t)),
        ("suboffsets", ctypes.POINTER(c_ssize_t)),
        ("internal", c_void_p),
    ]


_COMPACT, _STRIDED = 0x0C, 0x1C  # PyBUF_ND and PyBUF_STRIDES, with PyBUF_FORMAT


def _python(result: Any, name: str, *arguments: Any) -> Any:
    """A function of CPython. Not an attribute of ctypes.pythonapi, whose types all packages share."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


_get_buffer = _python(c_int, "PyObject_GetBuffer", ctypes.py_object, ctypes.POINTER(_Buffer), c_int)
_release_buffer = _python(None, "PyBuffer_Release", ctypes.POINTER(_Buffer))
_new_capsule = _python(ctypes.py_object, "PyCapsule_New", c_void_p, c_char_p, c_void_p)
_capsule_pointer = _python(c_void_p, "PyCapsule_GetPointer", ctypes.py_object, c_char_p)
_capsule_is = _python(c_int, "PyCapsule_IsValid", ctypes.py_object, c_char_p)
_rename_capsule = _python(c_int, "PyCapsule_SetName", ctypes.py_object, c_char_p)
# The same for a capsule that is being destroyed, which must not be referred to.
_dying_capsule_is = _python(c_int, "PyCapsule_IsValid", c_void_p, c_char_p)
_dying_capsule_pointer = _python(c_void_p, "PyCapsule_GetPointer", c_void_p, c_char_p)

_PLAIN, _VERSIONED = b"dltensor", b"dltensor_versioned"
_USED = {_PLAIN: b"used_dltensor", _VERSIONED: b"used_dltensor_versioned"}  # names must outlive capsules
_FROM_DLPACK = {_PLAIN: LIB.autotune_tensor_from_dlpack, _VERSIONED: LIB.autotune_tensor_from_dlpack_versioned}

# The objects whose memory the library has borrowed, by the owner's number. The library releases them on any thread.
_borrowed: Dict[int, Any] = {}
_numbers = itertools.count(1)


@RELEASE
def _release(number: int, pop: Any = _borrowed.pop, release: Any = _release_buffer) -> None:
    view = pop(number, None)
    if view is not None:
        release(view)


def _numbers_array(numbers: Any) -> Any:
    numbers = [whole(number, 64, "the extent") for number in numbers]
    return (c_int64 * len(numbers))(*numbers)


def _element_type(letters: bytes) -> DType:
    """The element type of a format of the buffer protocol."""
    text = letters.decode()
    order, letter = (text[0], text[1:]) if text[:1] and text[0] in "@=<>!" else ("@", text)
    if order in "<>!" and letter not in "bB?" and order.replace("!", ">") != _NATIVE:
        raise InvalidArgument("the array is not in this machine's byte order; convert it first, e.g. a.astype('=f4')")
    dtype = _BY_LETTER.get(letter)
    if dtype is None:
        raise InvalidArgument("no tensor has elements of the format '%s'" % text)
    return dtype


# The element types of the formats that occurred.
_by_format: Dict[bytes, DType] = {}


class NotCompact(InvalidArgument):
    """The array is not compact and row-major, so its memory cannot be shared."""


def _view_of(array: Any, compact: bool) -> _Buffer:
    """The buffer of an object. Raises TypeError if it has none, NotCompact if it is not compact but must be."""
    view = _Buffer()
    try:
        _get_buffer(array, view, _COMPACT)
    except (BufferError, ValueError):
        if compact:
            raise NotCompact("the array is not compact and row-major") from None
        _get_buffer(array, view, _STRIDED)
    return view


def _borrow(view: _Buffer, release: Any, number: int) -> int:
    letters = view.format or b"B"
    dtype = _by_format.get(letters)
    if dtype is None:
        dtype = _by_format[letters] = _element_type(letters)
    shape, strides = view.shape, None
    if view.strides:
        size = max(view.itemsize, 1)
        if any(stride % size for stride in view.strides[: view.ndim]):
            raise InvalidArgument("the array's strides are no multiples of its elements; copy it first")
        strides = _numbers_array(stride // size for stride in view.strides[: view.ndim])
    if c_ssize_t is not c_int64:
        shape = _numbers_array(view.shape[: view.ndim])
    flags = READ_ONLY if view.readonly else 0
    return new_handle(
        LIB.autotune_tensor_borrow, view.buf, shape, strides, view.ndim, dtype, flags, release, number
    )  # fmt: skip


class BorrowedBuffer:
    """A tensor over the memory of an object with the buffer protocol, for one call: the quick way for its arguments.

    Raises TypeError if the object has no such buffer, and NotCompact if it is not compact but must be.
    """

    __slots__ = ("handle", "_view")

    def __init__(self, array: Any, compact: bool = False) -> None:
        self._view = _view_of(array, compact)
        try:
            self.handle = _borrow(self._view, None, 0)
        except BaseException:
            _release_buffer(self._view)
            raise

    def close(self) -> None:
        LIB.autotune_tensor_free(self.handle)
        _release_buffer(self._view)


class Tensor:
    """A compact, row-major array in the memory of the host or of a device.

    numpy takes it without a copy: ``numpy.asarray(t)`` or ``t.numpy()``. So does anything with ``from_dlpack``. Make one
    with :func:`tensor` or :func:`empty`.
    """

    def __init__(self, handle: int) -> None:  # takes over the handle
        self._handle = handle
        self._info = TensorInfo()
        check(LIB.autotune_tensor_get_info(handle, byref(self._info)))

    def __del__(self, free=LIB.autotune_tensor_free) -> None:
        free(getattr(self, "_handle", None))

    @property
    def shape(self) -> Tuple[int, ...]:
        """The extents, such as ``(1, 3, 32, 32)``."""
        return tuple(self._info.shape[: self._info.ndim])

    @property
    def dtype(self) -> str:
        """The element type, as numpy spells it: ``'float32'``."""
        return type_row(self._info.dtype)[2]

    @property
    def device(self) -> Device:
        """The device that has the memory."""
        return self._info.device

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self._info.size_bytes

    @property
    def data_ptr(self) -> int:
        """The address of the first element, in the memory of :attr:`device`."""
        return self._info.data or 0

    @property
    def read_only(self) -> bool:
        """True if nothing may write to the tensor."""
        return bool(self._info.flags & READ_ONLY)

    def to_host(self) -> "Tensor":
        """The tensor itself if the host has its memory, else a copy there."""
        if self.device.type == 1:
            return self
        copy = empty(self.shape, self.dtype)
        check(LIB.autotune_tensor_copy(self._handle, copy._handle))
        return copy

    def numpy(self) -> Any:
        """A numpy array that shares the memory (of a copy, for a tensor of another device)."""
        import numpy

        return numpy.asarray(self.to_host())

    def memoryview(self) -> memoryview:
        """A memoryview of shape :attr:`shape` that shares the memory of the host."""
        self._need_host("memoryview")
        letter = type_row(self._info.dtype)[4]
        if letter in ("", "e"):
            raise InvalidArgument("a memoryview has no elements of the type %s; see numpy()" % self.dtype)
        if self.nbytes == 0:
            return memoryview(b"").cast(letter)
        array = (ctypes.c_char * self.nbytes).from_address(self._info.data)
        array.owner = self  # type: ignore[attr-defined]
        view = memoryview(array).cast("B").cast(letter, list(self.shape))
        return view.toreadonly() if self.read_only else view

    def tolist(self) -> Any:
        """The elements as nested lists, or the number of a tensor without dimensions."""
        if self.nbytes == 0:
            return _empty_lists(self.shape)
        return self.to_host().memoryview().tolist()

    @property
    def __array_interface__(self) -> Dict[str, Any]:
        self._need_host("numpy")
        text = type_row(self._info.dtype)[5]
        if not text:
            raise InvalidArgument("numpy has no elements of the type %s; use from_dlpack of another library" % self.dtype)
        # An array without elements needs an address all the same.
        address = self._info.data or ctypes.addressof(self._info)
        return {"version": 3, "shape": self.shape, "typestr": text, "data": (address, self.read_only)}

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Optional[Tuple[int, int]] = None,
        dl_device: Optional[Tuple[int, int]] = None,
        copy: Optional[bool] = None,
    ) -> Any:
        if copy or (dl_device is not None and tuple(dl_device) != self.__dlpack_device__()):
            raise BufferError("autotune's tensors are given without a copy, on their own device")
        versioned = max_version is not None and max_version[0] >= 1
        give = LIB.autotune_tensor_to_dlpack_versioned if versioned else LIB.autotune_tensor_to_dlpack
        return _new_capsule(new_handle(give, self._handle), _VERSIONED if versioned else _PLAIN, _free_capsule)

    def __dlpack_device__(self) -> Tuple[int, int]:
        return (self.device.type, self.device.id)

    def __repr__(self) -> str:
        return "<autotune.Tensor %s%s on %s>" % (self.dtype, list(self.shape), self.device)

    def _need_host(self, what: str) -> None:
        if self.device.type != 1:
            raise InvalidArgument("%s cannot read the memory of %s; call to_host() first" % (what, self.device))


def _empty_lists(shape: Tuple[int, ...]) -> List[Any]:
    """The nested lists of a tensor without elements."""
    return [_empty_lists(shape[1:]) for _ in range(shape[0])] if shape[0] else []


@ctypes.PYFUNCTYPE(None, c_void_p)
def _free_unused_capsule(capsule: int) -> None:
    """The destructor of capsules: frees a tensor that nobody took over."""
    for name in (_PLAIN, _VERSIONED):
        if _dying_capsule_is(capsule, name):
            handle = c_void_p()
            if _FROM_DLPACK[name](_dying_capsule_pointer(capsule, name), byref(handle)) == 0:
                LIB.autotune_tensor_free(handle)


_free_capsule = ctypes.cast(_free_unused_capsule, c_void_p)
_release_pointer = ctypes.cast(_release, c_void_p)


def empty(shape: Any, dtype: Any = "float32") -> Tensor:
    """A new tensor in the host's memory, aligned to 64 bytes, with elements of any value.

    ``shape`` is a sequence of extents, ``dtype`` a name such as ``'float32'``, or what numpy has for it.
    """
    name = dtype.__name__ if isinstance(dtype, type) else getattr(dtype, "name", dtype)
    if name not in _BY_NAME:
        raise InvalidArgument("unknown element type '%s'" % name)
    return new_tensor(_numbers_array(shape), _BY_NAME[name])


def new_tensor(shape: Any, dtype: DType) -> Tensor:
    return Tensor(new_handle(LIB.autotune_tensor_create, shape, len(shape), dtype))


class _DLTensor(ctypes.Structure):
    """The beginning of a DLPack tensor."""

    _fields_ = [
        ("data", c_void_p),
        ("device", Device),
        ("ndim", ctypes.c_int32),
        ("dtype", DType),
        ("shape", c_void_p),
        ("strides", c_void_p),
        ("byte_offset", ctypes.c_uint64),
    ]


class _DLVersioned(ctypes.Structure):
    _fields_ = [
        ("version", ctypes.c_uint32 * 2),
        ("manager", c_void_p),
        ("deleter", c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    ]


def _address_in(pointer: int, name: bytes) -> int:
    """The address of the first element of the DLPack tensor of a capsule."""
    dl = _DLTensor.from_address(pointer) if name == _PLAIN else _DLVersioned.from_address(pointer).tensor
    return (dl.data or 0) + dl.byte_offset


def from_dlpack(array: Any) -> Tensor:
    """A tensor that shares the memory of an object with ``__dlpack__``, such as a tensor of torch.

    Memory of the host that is not compact and row-major is copied.
    """
    return take_dlpack(array, compact=False)


def take_dlpack(array: Any, compact: bool) -> Tensor:
    """The same; raises NotCompact in place of a copy if `compact`."""
    if type(array).__name__ == "PyCapsule":
        capsule = array
    else:
        try:
            capsule = array.__dlpack__(max_version=(1, 0))
        except TypeError:  # a library from before DLPack 1.0
            capsule = array.__dlpack__()
    for name in (_PLAIN, _VERSIONED):
        if _capsule_is(capsule, name):
            pointer = _capsule_pointer(capsule, name)
            address = _address_in(pointer, name)
            _rename_capsule(capsule, _USED[name])  # the library takes the tensor over, also after an error
            taken = Tensor(new_handle(_FROM_DLPACK[name], pointer))
            if compact and taken.nbytes > 0 and taken.data_ptr != address:
                raise NotCompact("the array is not compact and row-major")
            return taken
    raise InvalidArgument("the capsule holds no DLPack tensor, or was used before")


def tensor(array: Any) -> Tensor:
    """A tensor that shares the memory of ``array``: anything with the buffer protocol or ``__dlpack__``.

    So arrays of numpy, tensors of torch, ``array.array``, ``bytes`` and memoryviews are not copied, unless they are not
    compact and row-major. A tensor is returned as it is. Read-only memory makes a read-only tensor.
    """
    if isinstance(array, Tensor):
        return array
    try:
        view = _view_of(array, compact=False)
    except (TypeError, ValueError, BufferError):
        return unbuffered(array, compact=False)
    number = next(_numbers)
    _borrowed[number] = view
    try:
        return Tensor(_borrow(view, _release_pointer, number))
    except BaseException:
        _release(number)
        raise


def unbuffered(array: Any, compact: bool) -> Tensor:
    """The tensor of an object without the buffer protocol."""
    if hasattr(array, "__dlpack__"):
        return take_dlpack(array, compact)
    raise InvalidArgument(
        "cannot make a tensor of %s: pass an array with the buffer protocol or __dlpack__, e.g. numpy.asarray(x)"
        % type(array).__name__
    ) from None
