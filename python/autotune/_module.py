"""Modules, functions and the registry of global functions."""

from __future__ import annotations

import ctypes
import itertools
import json
import threading
from ctypes import byref, c_void_p
from typing import Any, Callable, Dict, List, NamedTuple, Optional

from . import _library as c
from ._library import LIB, Device, DType, InvalidArgument, check, new_handle, take_names
from ._tensor import Tensor, tensor


class Object:
    """An object that functions pass to each other and that Python cannot look into."""

    def __init__(self, handle: int) -> None:  # takes over the handle
        self._handle = handle

    def __del__(self, free=LIB.autotune_object_free) -> None:
        free(getattr(self, "_handle", None))

    @property
    def type_key(self) -> str:
        """What it is, such as ``'device'``."""
        return LIB.autotune_object_type(self._handle).decode()


class Function:
    """A function of the library. Call it with numbers, texts, bytes, arrays, tensors, modules, functions and devices."""

    def __init__(self, handle: int) -> None:  # takes over the handle
        self._handle = handle

    def __del__(self, free=LIB.autotune_function_free) -> None:
        free(getattr(self, "_handle", None))

    def __call__(self, *args: Any) -> Any:
        values = (c.Value * max(len(args), 1))()
        keep = [_to_value(arg, value) for arg, value in zip(args, values)]
        result = c.Value()
        code = LIB.autotune_function_call(self._handle, values, len(args), byref(result))
        del keep
        if code != 0 and getattr(_ended, "by", None) is not None:
            by, _ended.by = _ended.by, None
            raise by
        check(code)
        return _take_value(result)


class Module:
    """Functions by name, and imported modules: ``mod["name"](...)``."""

    def __init__(self, handle: int) -> None:  # takes over the handle
        self._handle = handle

    def __del__(self, free=LIB.autotune_module_free) -> None:
        free(getattr(self, "_handle", None))

    @property
    def type_key(self) -> str:
        """What kind of module it is, such as ``'library'``."""
        return LIB.autotune_module_type(self._handle).decode()

    @property
    def function_names(self) -> List[str]:
        """The names of the functions of the module and of its imports."""
        return take_names(new_handle(LIB.autotune_module_function_names, self._handle))

    def get_function(self, name: str) -> Function:
        """The function ``name`` of the module or of its imports."""
        return Function(new_handle(LIB.autotune_module_get_function, self._handle, c.text_bytes(name)))

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def time_evaluator(self, name: str, number: int = 1, repeat: int = 1) -> Callable[..., Dict[str, Any]]:
        """A function that calls the function ``name`` with its own arguments, ``repeat`` times ``number`` times. It returns
        the seconds of one call: ``mean``, ``median``, ``min``, ``max``, and ``results``, a list with those of each repeat."""
        evaluate = self._evaluator()(self[name], number, repeat)
        return lambda *args: json.loads(evaluate(*args))

    def _evaluator(self) -> Callable[..., Function]:
        return get_global_func("runtime.time_evaluator")

    def __repr__(self) -> str:
        return "<autotune.Module %s>" % self.type_key


class GraphModule(Module):
    """An executor that a factory has made: ``factory["default"](autotune.cpu(0))``.

    It belongs to one thread at a time. :class:`InferenceSession` may be used from several.
    """

    def set_input(self, key: Any = None, value: Any = None, **inputs: Any) -> None:
        """Copies an array into the input ``key``, an index or a name, and arrays into the inputs that ``inputs`` name."""
        if key is not None:
            self["set_input"](key, value)
        for name, array in inputs.items():
            self["set_input"](name, array)

    def run(self, **inputs: Any) -> None:
        """Sets the inputs and runs the network."""
        self.set_input(**inputs)
        self["run"]()

    def get_output(self, index: int) -> Tensor:
        """The tensor of an output, which the next run overwrites."""
        return self["get_output"](index)

    def get_input(self, key: Any) -> Tensor:
        """The tensor of an input, given by index or name."""
        return self["get_input"](key)

    def time_evaluator(self, name: str, number: int = 1, repeat: int = 1) -> Callable[[], Dict[str, Any]]:
        """A function that calls the function ``name``, such as ``'run'``, ``repeat`` times ``number`` times. It returns the
        seconds of one call: ``mean``, ``median``, ``min``, ``max``, and ``results``, a list with those of each repeat."""
        evaluate = self["time_evaluator"](name, number, repeat)
        return lambda: json.loads(evaluate())

    def get_num_inputs(self) -> int:
        """The number of inputs."""
        return self["get_num_inputs"]()

    def get_num_outputs(self) -> int:
        """The number of outputs."""
        return self["get_num_outputs"]()


def _new_module(handle: int) -> Module:
    executor = LIB.autotune_module_type(handle) == b"graph_executor"
    return GraphModule(handle) if executor else Module(handle)


def _to_value(arg: Any, value: c.Value) -> Any:
    """Fills in an argument. Returns what must live as long as it."""
    content = value.content
    if arg is None:
        value.kind = c.NULL
    elif isinstance(arg, int) or (hasattr(arg, "__index__") and getattr(arg, "ndim", 0) == 0):  # bool and numpy's, too
        value.kind, content.integer = c.INT, c.whole(arg, 64, "the integer")
    elif isinstance(arg, float):
        value.kind, content.number = c.FLOAT, arg
    elif isinstance(arg, (str, bytes)):
        value.kind = c.STRING if isinstance(arg, str) else c.BYTES
        data = arg.encode() if isinstance(arg, str) else arg
        buffer = ctypes.create_string_buffer(data, len(data) + 1)
        content.text.data, content.text.size = ctypes.addressof(buffer), len(data)
        return buffer
    elif isinstance(arg, Device):
        value.kind, content.device = c.DEVICE, arg
    elif isinstance(arg, DType):
        value.kind, content.dtype = c.DTYPE, arg
    else:
        kinds = ((Tensor, c.TENSOR), (Module, c.MODULE), (Function, c.FUNCTION), (Object, c.OBJECT))
        arg = getattr(arg, "_look_up", arg)  # a module of a device, as a function
        kind = next((kind for type_, kind in kinds if isinstance(arg, type_)), None)
        if kind is None:
            arg, kind = (function(arg), c.FUNCTION) if callable(arg) else (tensor(arg), c.TENSOR)
        value.kind, content.handle = kind, arg._handle
        return arg
    return None


_HANDLES: Dict[int, Callable[[int], Any]] = {
    c.TENSOR: Tensor,
    c.MODULE: _new_module,
    c.FUNCTION: Function,
    c.OBJECT: Object,
}


def _take_value(value: c.Value) -> Any:
    """The Python object of a result, which takes over what the value holds."""
    if value.kind in _HANDLES:
        return _HANDLES[value.kind](value.content.handle)
    try:
        return _plain_value(value)
    finally:
        LIB.autotune_value_clear(byref(value))


def _plain_value(value: c.Value) -> Any:
    content = value.content
    if value.kind == c.INT:
        return content.integer
    if value.kind == c.FLOAT:
        return content.number
    if value.kind in (c.STRING, c.BYTES):
        data = ctypes.string_at(content.text.data, content.text.size)
        return data.decode("utf-8", "replace") if value.kind == c.STRING else data
    if value.kind == c.DEVICE:
        return Device(content.device.type, content.device.id)
    if value.kind == c.DTYPE:
        return DType(content.dtype.code, content.dtype.bits, content.dtype.lanes)
    return None


# The functions of Python that the library may call, by number.
_callbacks: Dict[int, Callable[..., Any]] = {}
_numbers = itertools.count(1)
_ended = threading.local()  # by: what ended the callback of this thread's call


def _argument(value: c.Value) -> Any:
    """The Python object of an argument of a callback, which stays the caller's."""
    copy = c.Value()
    check(LIB.autotune_value_copy(byref(value), byref(copy)))
    return _take_value(copy)


@c.CALLBACK
def _call(number: int, args: Any, num_args: int, result: Any) -> int:
    try:
        value = c.Value()
        keep = _to_value(_callbacks[number](*[_argument(args[i]) for i in range(num_args)]), value)
        check(LIB.autotune_value_copy(byref(value), result))
        del keep
        return 0
    except BaseException as error:  # an exception must not go through C
        if not isinstance(error, Exception):  # Ctrl-C, sys.exit(): goes on when the call has returned
            _ended.by = error
        text = " ".join(("%s: %s" % (type(error).__name__, error)).split())
        LIB.autotune_set_last_error(text.encode("utf-8", "replace"))
        return 1


@c.RELEASE
def _forget(number: int) -> None:
    _callbacks.pop(number, None)


def function(callable_: Callable[..., Any]) -> Function:
    """A function of the library that calls ``callable_``, on the thread of the caller."""
    number = next(_numbers)
    _callbacks[number] = callable_
    try:
        return Function(new_handle(LIB.autotune_function_create, _call, number, ctypes.cast(_forget, c_void_p)))
    except BaseException:
        _forget(number)
        raise


def load_module(path: Any, threads: int = 0) -> Module:
    """The module of a file that ``autotune compile -o`` wrote, ``m.tar`` or ``m.so``.

    ``module["default"](autotune.cpu(0))`` makes an executor of the network, with ``threads`` threads (0: one per CPU).
    """
    threads = c.whole(threads, 32, "threads")
    return _new_module(new_handle(LIB.autotune_module_load_with, c.text_bytes(path), threads))


def get_global_func(name: str) -> Function:
    """The function that the registry has under a name."""
    return Function(new_handle(LIB.autotune_registry_get, c.text_bytes(name)))


def register_func(name: str, func: Optional[Callable[..., Any]] = None, override: bool = False) -> Any:
    """Adds a function to the registry. Without ``func``, a decorator."""
    if func is None:
        return lambda decorated: register_func(name, decorated, override)
    handle = func if isinstance(func, Function) else function(func)
    check(LIB.autotune_registry_add(c.text_bytes(name), handle._handle, int(override)))
    return func


def remove_global_func(name: str) -> None:
    """Removes a function from the registry."""
    check(LIB.autotune_registry_remove(c.text_bytes(name)))


def list_global_func_names() -> List[str]:
    """The names of the registry, sorted."""
    return take_names(new_handle(LIB.autotune_registry_names))


def device(text: str) -> Device:
    """A device of this machine: ``'cpu'``, ``'cuda:1'``, ``'opencl'``."""
    found = Device()
    check(LIB.autotune_device_from_text(c.text_bytes(text), byref(found)))
    return found


class DeviceInfo(NamedTuple):
    """A device of this machine, as :func:`devices` lists it. A text that is not known is ``""``, a number 0."""

    device: Device
    text: str
    """``'cpu'``, ``'cuda:0'``: for :func:`device`; of a GPU also for the sessions' ``device``."""
    name: str
    uuid: str
    architecture: str
    """``'x86_64'``, ``'sm_90'``."""
    error: str
    """Why no network can run on it; ``""`` if one can."""
    memory_bytes: int
    units: int
    """Threads of the CPU that may run at once; multiprocessors or compute units of a GPU."""


def devices() -> List[DeviceInfo]:
    """The devices of this machine: the CPU, the CUDA devices, the OpenCL devices. A GPU may be in the list as both."""
    handle = new_handle(LIB.autotune_devices_list)
    try:
        found = []
        for index in range(LIB.autotune_devices_size(handle)):
            record = c.DeviceRecord()
            check(LIB.autotune_devices_get(handle, index, byref(record)))
            texts = (record.text, record.name, record.uuid, record.architecture, record.error)
            device_ = Device(record.device.type, record.device.id)
            words = [text.decode("utf-8", "replace") for text in texts]
            found.append(DeviceInfo(device_, *words, record.memory_bytes, record.units))
        return found
    finally:
        LIB.autotune_devices_free(handle)


def cpu(number: int = 0) -> Device:
    """The CPU."""
    return Device(1, number)


def cuda(number: int = 0) -> Device:
    """A GPU of NVIDIA."""
    return Device(2, number)


def opencl(number: int = 0) -> Device:
    """An OpenCL device."""
    return Device(4, number)

