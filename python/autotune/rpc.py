"""Devices of a farm and this machine, with one interface: the same code runs on either.

    def classify(session):
        session.upload("m.tar")
        network = session.load_module("m.tar")["default"](session.cpu())
        network.set_input("image", image)
        network.run()
        print(network.get_output(0).numpy(), network.time_evaluator("run", repeat=10)())

    classify(autotune.rpc.LocalSession())
    classify(autotune.rpc.connect("alice.join", "rpi4"))

A farm is described in docs/farm.md. The compiler's library, libautotune.so.0, has the client of a farm.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import byref
from typing import Any, Dict, List, Optional

from . import _library as c
from ._compiler import compiler
from ._library import Device, Error, check, new_handle
from ._module import Function, GraphModule, Module, _take_value, _to_value, get_global_func, load_module
from ._tensor import Tensor, empty, tensor


class RemoteFunction(Function):
    """A function of a device, which runs there."""

    def __init__(self, function: Function, remote: "Remote") -> None:
        super().__init__(function._handle)
        function._handle = None
        self._remote = remote

    def __call__(self, *args: Any) -> Any:
        result = super().__call__(*args)  # a function is the only form in which a module comes here
        return RemoteGraphModule(result, self._remote) if isinstance(result, Function) else result


class RemoteTensor(Function):
    """A tensor in the memory of a device. Functions of the device take it as an argument and write to it."""

    def to_host(self) -> Tensor:
        """A copy on this machine."""
        return self()

    def numpy(self) -> Any:
        """A numpy array with a copy of the elements."""
        return self.to_host().numpy()

    def tolist(self) -> Any:
        """The elements as nested lists."""
        return self.to_host().tolist()


class RemoteModule(Module):
    """A module of a device: ``mod["name"](...)``. Its functions run there."""

    def __init__(self, look_up: Function, remote: "Remote") -> None:
        self._look_up = look_up
        self._remote = remote

    @property
    def type_key(self) -> str:
        """What kind of module it is: ``'remote'``."""
        return "remote"

    @property
    def function_names(self) -> List[str]:
        """Not known: a device tells its functions by their names only."""
        raise Error("the names of a device's functions are not known here")

    def get_function(self, name: str) -> Function:
        """The function ``name`` of the module or of its imports."""
        return RemoteFunction(self._look_up(name), self._remote)

    def _evaluator(self) -> Any:
        return self._remote.get_function("runtime.time_evaluator")


class RemoteGraphModule(GraphModule):
    """An executor on a device. The tensors of ``get_input`` and ``get_output`` are copies."""

    type_key = RemoteModule.type_key
    function_names = RemoteModule.function_names
    __init__ = RemoteModule.__init__

    def get_function(self, name: str) -> Function:
        """The function ``name`` of the executor."""
        return self._look_up(name)


class _Session:
    """What sessions on this machine and on a device have in common."""

    def __init__(self) -> None:
        self._uploaded: Dict[str, str] = {}

    def cpu(self, number: int = 0) -> Device:
        """The CPU of the session's machine."""
        return Device(1, number)

    def upload(self, path: Any, name: Optional[str] = None) -> None:
        """Names a file, ``m.tar`` or ``m.so``, for :meth:`load_module`, which sends it. ``name``: in place of its own name."""
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise Error("there is no file %s" % path)
        self._uploaded[name or os.path.basename(path)] = os.path.abspath(path)

    def _path_of(self, name: str) -> str:
        if name not in self._uploaded:
            raise Error("the file %r was not uploaded" % name)
        return self._uploaded[name]


class LocalSession(_Session):
    """This machine, with the interface of :class:`Remote`."""

    def load_module(self, name: str, threads: int = 0) -> Module:
        """The module of an uploaded file, as :func:`autotune.load_module` gives it. ``module["default"](session.cpu())``
        makes an executor of its network, with ``threads`` threads (0: one per CPU)."""
        return load_module(self._path_of(name), threads)

    def tensor(self, array: Any) -> Tensor:
        """A tensor with a copy of the array."""
        source = tensor(array)
        copy = empty(source.shape, source.dtype)
        check(c.LIB.autotune_tensor_copy(source._handle, copy._handle))
        return copy

    def get_function(self, name: str) -> Function:
        """The function that the registry of this process has under a name."""
        return get_global_func(name)


class Remote(_Session):
    """A session with a device, which nobody else uses meanwhile. It ends with the last of its modules and functions."""

    def __init__(self, handle: int) -> None:  # takes over the handle
        super().__init__()
        self._handle = handle

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            compiler().autotune_remote_free(self._handle)

    def load_module(self, name: str, threads: int = 0) -> RemoteModule:
        """The module of an uploaded file. ``module["default"](remote.cpu())`` makes an executor of its network on the device,
        with ``threads`` threads (0: one per CPU)."""
        path = c.text_bytes(self._path_of(name))
        threads = c.whole(threads, 32, "threads")
        return RemoteModule(Function(new_handle(compiler().autotune_remote_load, self._handle, path, threads)), self)

    def tensor(self, array: Any) -> RemoteTensor:
        """A tensor in the memory of the device, with a copy of the array."""
        source = tensor(array)
        return RemoteTensor(new_handle(compiler().autotune_remote_tensor, self._handle, source._handle))

    def get_function(self, name: str) -> Any:
        """The function that the registry of the device has under a name."""

        def call(*args: Any) -> Any:
            values = (c.Value * max(len(args), 1))()
            keep = [_to_value(arg, value) for arg, value in zip(args, values)]
            result = c.Value()
            check(compiler().autotune_remote_call(self._handle, c.text_bytes(name), values, len(args), byref(result)))
            del keep
            return _take_value(result)

        return call


def connect(join: Any = None, key: str = "", tracker: Any = None, wait_seconds: float = 0) -> Remote:
    """Waits for a device with this key of a farm. ``join`` is a join file, ``tracker`` the socket of a tracker on this host;
    without both, the tracker is found as by the command. ``wait_seconds``: at most so long; 0: half an hour."""
    where = [c.text_bytes(place) if place is not None else None for place in (join, tracker)]
    connect_ = compiler().autotune_remote_connect
    return Remote(new_handle(connect_, *where, c.text_bytes(key), ctypes.c_double(wait_seconds)))
