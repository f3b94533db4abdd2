"""The shared library libautotune_runtime.so.0 and the C declarations of autotune/c_api.h. Internal."""

from __future__ import annotations

import ctypes
import operator
import os
import sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_uint8, c_uint16, c_void_p
from typing import List

_SONAME = "libautotune_runtime.so.0"


class Error(RuntimeError):
    """An error of the library. Its text is one line."""


class InvalidArgument(Error, ValueError):
    """A wrong shape, type, name or index was passed."""


class OutOfMemory(Error, MemoryError):
    """The machine has too little memory."""


class DType(ctypes.Structure):
    """An element type, as DLPack's DLDataType."""

    _fields_ = [("code", c_uint8), ("bits", c_uint8), ("lanes", c_uint16)]


class Device(ctypes.Structure):
    """A device, as DLPack's DLDevice: `type` 1 is the CPU, 2 CUDA, 4 OpenCL."""

    _fields_ = [("type", c_int32), ("id", c_int32)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.type, self.id) == (other.type, other.id)

    def __hash__(self) -> int:
        return hash((self.type, self.id))

    def __repr__(self) -> str:
        names = {1: "cpu", 2: "cuda", 4: "opencl"}
        return "%s(%d)" % (names.get(self.type, "device_type_%d" % self.type), self.id)


class DeviceRecord(ctypes.Structure):
    """An autotune_device_info."""

    _fields_ = [
        ("device", Device),
        ("text", c_char_p),
        ("name", c_char_p),
        ("uuid", c_char_p),
        ("architecture", c_char_p),
        ("error", c_char_p),
        ("memory_bytes", c_int64),
        ("units", c_int64),
    ]


class TensorInfo(ctypes.Structure):
    _fields_ = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("ndim", c_int32),
        ("dtype", DType),
        ("device", Device),
        ("size_bytes", c_int64),
        ("flags", c_int32),
    ]


class Text(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("size", c_size_t)]


class Content(ctypes.Union):
    _fields_ = [
        ("integer", c_int64),
        ("number", c_double),
        ("text", Text),
        ("dtype", DType),
        ("device", Device),
        ("handle", c_void_p),  # a tensor, a module, a function or an object
    ]


class Value(ctypes.Structure):
    _fields_ = [("kind", c_int32), ("content", Content)]


NULL, INT, FLOAT, STRING, BYTES, DTYPE, DEVICE, TENSOR, MODULE, FUNCTION, OBJECT = range(11)
READ_ONLY = 1


class ExecutorOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("device", c_char_p),
        ("share_weights", c_int32),
        ("pool", c_void_p),
    ]


class PoolOptions(ctypes.Structure):
    _fields_ = [
        ("size", c_size_t),
        ("threads", c_int32),
        ("spin_seconds", c_double),
        ("cpus", POINTER(c_int32)),
        ("num_cpus", c_size_t),
        ("parallel_for", c_void_p),
        ("user", c_void_p),
    ]


class Port(ctypes.Structure):
    _fields_ = [
        ("name", c_char_p),
        ("shape", POINTER(c_int64)),
        ("ndim", c_int32),
        ("dtype", DType),
        ("size_bytes", c_int64),
    ]


RELEASE = ctypes.CFUNCTYPE(None, c_void_p)
CALLBACK = ctypes.CFUNCTYPE(c_int, c_void_p, POINTER(Value), c_int32, POINTER(Value))


def _candidates() -> List[str]:
    """The places of the library: $AUTOTUNE_RUNTIME_LIBRARY alone, or the installed prefix, then the loader's folders."""
    chosen = os.environ.get("AUTOTUNE_RUNTIME_LIBRARY")
    if chosen:
        return [chosen]
    places = []
    folder = os.path.dirname(os.path.abspath(__file__))
    multiarch = getattr(sys.implementation, "_multiarch", "")
    for _ in range(5):  # PREFIX/lib/python3/dist-packages/autotune, and a wheel with the library inside
        places += [os.path.join(folder, name, _SONAME) for name in ("", "lib", os.path.join("lib", multiarch))]
        folder = os.path.dirname(folder)
    return [place for place in places if os.path.exists(place)] + [_SONAME]


def _open() -> ctypes.CDLL:
    candidates = _candidates()
    try:
        return ctypes.CDLL(candidates[0])
    except OSError as error:
        raise ImportError(
            "autotune cannot load %s (%s); install the runtime library, or set AUTOTUNE_RUNTIME_LIBRARY to its path"
            % (candidates[0], error)
        ) from None


LIB = _open()
_OUT = POINTER(c_void_p)


def _declare(result, name: str, *arguments) -> None:
    function = getattr(LIB, name)
    function.restype = result
    function.argtypes = list(arguments)


_declare(c_char_p, "autotune_version")
_declare(c_char_p, "autotune_last_error")
_declare(None, "autotune_set_last_error", c_char_p)
_declare(c_int, "autotune_device_from_text", c_char_p, POINTER(Device))
_declare(c_int, "autotune_devices_list", _OUT)
_declare(c_size_t, "autotune_devices_size", c_void_p)
_declare(c_int, "autotune_devices_get", c_void_p, c_size_t, POINTER(DeviceRecord))
_declare(None, "autotune_devices_free", c_void_p)
_declare(c_size_t, "autotune_names_size", c_void_p)
_declare(c_char_p, "autotune_names_at", c_void_p, c_size_t)
_declare(None, "autotune_names_free", c_void_p)
_declare(c_int, "autotune_tensor_create", POINTER(c_int64), c_int32, DType, _OUT)
_declare(
    c_int, "autotune_tensor_borrow", c_void_p, POINTER(c_int64), POINTER(c_int64), c_int32, DType, c_int32, c_void_p,
    c_void_p, _OUT,
)  # fmt: skip
_declare(c_int, "autotune_tensor_from_dlpack", c_void_p, _OUT)
_declare(c_int, "autotune_tensor_from_dlpack_versioned", c_void_p, _OUT)
_declare(c_int, "autotune_tensor_to_dlpack", c_void_p, _OUT)
_declare(c_int, "autotune_tensor_to_dlpack_versioned", c_void_p, _OUT)
_declare(c_int, "autotune_tensor_get_info", c_void_p, POINTER(TensorInfo))
_declare(c_int, "autotune_tensor_copy", c_void_p, c_void_p)
_declare(None, "autotune_tensor_free", c_void_p)
_declare(None, "autotune_value_clear", POINTER(Value))
_declare(c_int, "autotune_value_copy", POINTER(Value), POINTER(Value))
_declare(c_int, "autotune_function_call", c_void_p, POINTER(Value), c_int32, POINTER(Value))
_declare(c_int, "autotune_function_create", CALLBACK, c_void_p, c_void_p, _OUT)
_declare(None, "autotune_function_free", c_void_p)
_declare(c_char_p, "autotune_object_type", c_void_p)
_declare(None, "autotune_object_free", c_void_p)
_declare(c_int, "autotune_registry_get", c_char_p, _OUT)
_declare(c_int, "autotune_registry_add", c_char_p, c_void_p, c_int32)
_declare(c_int, "autotune_registry_remove", c_char_p)
_declare(c_int, "autotune_registry_names", _OUT)
_declare(c_int, "autotune_module_load_with", c_char_p, c_int32, _OUT)
_declare(c_char_p, "autotune_module_type", c_void_p)
_declare(c_int, "autotune_module_get_function", c_void_p, c_char_p, _OUT)
_declare(c_int, "autotune_module_function_names", c_void_p, _OUT)
_declare(None, "autotune_module_free", c_void_p)
_declare(c_int, "autotune_pool_create", POINTER(PoolOptions), _OUT)
_declare(None, "autotune_pool_free", c_void_p)
_declare(c_int, "autotune_executor_load", c_char_p, POINTER(ExecutorOptions), _OUT)
_declare(c_int, "autotune_executor_create", c_void_p, POINTER(ExecutorOptions), _OUT)
_declare(c_int32, "autotune_executor_num_inputs", c_void_p)
_declare(c_int32, "autotune_executor_num_outputs", c_void_p)
_declare(c_int, "autotune_executor_input", c_void_p, c_int32, POINTER(Port))
_declare(c_int, "autotune_executor_output", c_void_p, c_int32, POINTER(Port))
_declare(
    c_int, "autotune_executor_run_with", c_void_p, POINTER(c_void_p), c_int32, POINTER(c_void_p), c_int32
)  # fmt: skip
_declare(None, "autotune_executor_free", c_void_p)

_ERRORS = {2: InvalidArgument, 3: OutOfMemory}


def check(code: int) -> None:
    """Raises the exception of an error code."""
    if code != 0:
        text = LIB.autotune_last_error().decode("utf-8", "replace")
        raise _ERRORS.get(code, Error)(text)


def new_handle(function, *arguments) -> int:
    """Calls a function whose last argument is `out`, and returns the handle."""
    out = c_void_p()
    check(function(*arguments, byref(out)))
    return out.value


def take_names(handle: int) -> List[str]:
    """Returns the texts of a list, and frees it."""
    try:
        return [LIB.autotune_names_at(handle, i).decode() for i in range(LIB.autotune_names_size(handle))]
    finally:
        LIB.autotune_names_free(handle)


def text_bytes(text) -> bytes:
    """The bytes of a text or a path, for a C function, which would stop reading at a NUL."""
    data = os.fsencode(text)
    if b"\0" in data:
        raise InvalidArgument("%r has a NUL in it" % (text,))
    return data


def whole(number, bits: int, what: str) -> int:
    """A number as an int of so many bits. ctypes would drop what does not fit."""
    number = operator.index(number)
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise InvalidArgument("%s %d does not fit %d bits" % (what, number, bits))
    return number
