"""Devices of a farm, with the interface of this machine's modules.

    remote = autotune.rpc.connect("alice.join", "rpi4")
    remote.upload("m.tar")
    network = remote.load_module("m.tar")["default"](remote.cpu())
    network.set_input("image", image)
    network.run()
    print(network.get_output(0).numpy(), network.time_evaluator("run", repeat=10)())

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
from ._module import Function, GraphModule, Module, _take_value, _to_value


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

    def get_function(self, name: str) -> Any:
        """The function ``name`` of the module or of its imports."""
        function = self._look_up(name)

        def call(*args: Any) -> Any:
            result = function(*args)  # a function is the only form in which a module comes here
            return RemoteGraphModule(result, self._remote) if isinstance(result, Function) else result

        return call


class RemoteGraphModule(GraphModule):
    """An executor on a device. The tensors of ``get_input`` and ``get_output`` are copies."""

    type_key = RemoteModule.type_key
    function_names = RemoteModule.function_names
    __init__ = RemoteModule.__init__

    def get_function(self, name: str) -> Function:
        """The function ``name`` of the executor."""
        return self._look_up(name)


class Remote:
    """A session with a device, which nobody else uses meanwhile. It ends with the last of its modules and functions."""

    def __init__(self, handle: int) -> None:  # takes over the handle
        self._handle = handle
        self._uploaded: Dict[str, str] = {}

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            compiler().autotune_remote_free(self._handle)

    def cpu(self, number: int = 0) -> Device:
        """The CPU of the device's host."""
        return Device(1, number)

    def upload(self, path: Any, name: Optional[str] = None) -> None:
        """Names a file, ``m.tar`` or ``m.so``, for :meth:`load_module`, which sends it. ``name``: in place of its own name."""
        path = os.fspath(path)
        if not os.path.isfile(path):
            raise Error("there is no file %s" % path)
        self._uploaded[name or os.path.basename(path)] = os.path.abspath(path)

    def load_module(self, name: str, threads: int = 0) -> RemoteModule:
        """The module of an uploaded file. ``module["default"](remote.cpu())`` makes an executor of its network on the device,
        with ``threads`` threads (0: one per CPU)."""
        if name not in self._uploaded:
            raise Error("the file %r was not uploaded" % name)
        threads = c.whole(threads, 32, "threads")
        load = compiler().autotune_remote_load
        return RemoteModule(Function(new_handle(load, self._handle, c.text_bytes(self._uploaded[name]), threads)), self)

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
