"""Networks that run: the face that users of ONNX Runtime know."""

from __future__ import annotations

import ctypes
from ctypes import byref, c_void_p
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

from . import _library as c
from ._compiler import compile, is_model  # noqa: A004, the command's name
from ._library import LIB, InvalidArgument, check, new_handle
from ._module import Module
from ._tensor import BorrowedBuffer, NotCompact, Tensor, new_tensor, type_row, unbuffered


class NodeArg:
    """An input or an output: its name, its shape and its type."""

    __slots__ = ("name", "shape", "type", "dtype", "_shape", "_dtype")

    def __init__(self, port: c.Port) -> None:
        row = type_row(port.dtype)
        #: The name in the model.
        self.name: str = port.name.decode()
        #: The extents, such as ``[1, 3, 32, 32]``.
        self.shape: List[int] = list(port.shape[: port.ndim])
        #: The type as ONNX Runtime spells it, such as ``'tensor(float)'``.
        self.type: str = row[3]
        #: The element type as numpy spells it, such as ``'float32'``.
        self.dtype: str = row[2]
        self._shape = (ctypes.c_int64 * port.ndim)(*self.shape)
        self._dtype = c.DType(port.dtype.code, port.dtype.bits, port.dtype.lanes)

    def new_tensor(self) -> Tensor:
        """A tensor of this shape and type, with elements of any value."""
        return new_tensor(self._shape, self._dtype)

    def __repr__(self) -> str:
        return "<autotune.NodeArg %s %s%s>" % (self.name, self.type, self.shape)


Arrays = Union[Mapping[str, Any], Sequence[Any]]


class ThreadPool:
    """Threads that run kernels, for any number of sessions: ``InferenceSession("m.tar", pool=pool)``.

    ``threads`` counts the caller of a run (0: one for each of ``cpus``). ``spin_seconds`` is how long an idle thread waits
    for work before it sleeps (``None``: as long as is fast). ``cpus`` are the numbers of the CPUs on which the threads
    run, but the caller's (``None``: all of the process).

    Sessions of one pool may run at once. Where a kernel needs several threads and finds them busy with another session's,
    it runs on the caller's thread alone.
    """

    def __init__(
        self, threads: int = 0, spin_seconds: Optional[float] = None, cpus: Optional[Sequence[int]] = None
    ) -> None:
        numbers = [c.whole(cpu, 32, "the CPU") for cpu in cpus or ()]
        options = c.PoolOptions(ctypes.sizeof(c.PoolOptions), c.whole(threads, 32, "threads"), -1.0)
        if spin_seconds is not None:
            if not spin_seconds >= 0:
                raise InvalidArgument("spin_seconds is %s" % spin_seconds)
            options.spin_seconds = spin_seconds
        options.cpus, options.num_cpus = (ctypes.c_int32 * len(numbers))(*numbers), len(numbers)
        self._handle = new_handle(LIB.autotune_pool_create, byref(options))

    def __del__(self, free=LIB.autotune_pool_free) -> None:
        free(getattr(self, "_handle", None))


class InferenceSession:
    """A network that is ready to run.

    ``source`` is a file that ``autotune compile -o`` wrote, ``m.tar`` or ``m.so``, or a module of :func:`load_module` or
    :func:`compile`; sessions of one module share its weights. A model, ``m.onnx``, the bytes of one or an
    ``onnx.ModelProto``, is compiled with defaults and the schedules in the database (:func:`compile`). ``threads`` is
    the number of threads that run kernels (0: one per CPU); ``pool``, a :class:`ThreadPool`, has them instead. ``device``
    chooses the device of a network for GPUs.

    With ``share_weights=True``, all processes of this user that load the package ``m.tar`` so share its prepared weights,
    and load it faster, by a file in ``autotune/prepared/`` of ``$XDG_CACHE_HOME`` or ``~/.cache``; ``None``: if the
    environment variable ``AUTOTUNE_CACHE`` is 1. If that is 0, no process shares.

    A session may be used from several threads; its runs take turns. Sessions run independently of each other. Python's
    global lock is free while a network runs.
    """

    def __init__(
        self,
        source: Any,
        threads: int = 0,
        device: Optional[str] = None,
        share_weights: Optional[bool] = None,
        pool: Optional[ThreadPool] = None,
    ) -> None:
        threads = c.whole(threads, 32, "threads")
        where = c.text_bytes(device) if device else None
        share = 0 if share_weights is None else 1 if share_weights else -1
        its_pool = pool._handle if pool else None
        options = c.ExecutorOptions(ctypes.sizeof(c.ExecutorOptions), threads, where, share, its_pool)
        if is_model(source):
            source = compile(source)
        if isinstance(source, Module):
            self._handle = new_handle(LIB.autotune_executor_create, source._handle, byref(options))
        else:
            self._handle = new_handle(LIB.autotune_executor_load, c.text_bytes(source), byref(options))
        self._inputs = self._ports(LIB.autotune_executor_num_inputs, LIB.autotune_executor_input)
        self._outputs = self._ports(LIB.autotune_executor_num_outputs, LIB.autotune_executor_output)
        self._input_index = {arg.name: i for i, arg in enumerate(self._inputs)}
        self._output_index = {arg.name: i for i, arg in enumerate(self._outputs)}

    def __del__(self, free=LIB.autotune_executor_free) -> None:
        free(getattr(self, "_handle", None))

    def _ports(self, count: Any, describe: Any) -> List[NodeArg]:
        ports = []
        for i in range(count(self._handle)):
            port = c.Port()
            check(describe(self._handle, i, byref(port)))
            ports.append(NodeArg(port))
        return ports

    def get_inputs(self) -> List[NodeArg]:
        """The inputs, in their order."""
        return list(self._inputs)

    def get_outputs(self) -> List[NodeArg]:
        """The outputs, in their order."""
        return list(self._outputs)

    def run(self, output_names: Optional[Sequence[str]], inputs: Arrays) -> List[Any]:
        """Runs the network and returns new arrays, those of ``output_names`` (None: of all outputs) in that order.

        ``inputs`` has an array for each input, by name or in their order: of its shape and type, with the buffer protocol
        (numpy) or ``__dlpack__`` (torch). The results are numpy's arrays, or tensors if there is no numpy.
        """
        wanted = range(len(self._outputs))
        if output_names is not None:
            wanted = [_index(self._output_index, name, "output") for name in output_names]
        results: List[Optional[Tensor]] = [None] * len(self._outputs)
        for i in wanted:
            results[i] = results[i] or self._outputs[i].new_tensor()
        self._run(inputs, results)
        return [_as_array(results[i]) for i in wanted]

    def run_with(self, inputs: Arrays, outputs: Arrays) -> None:
        """Runs the network and writes the results into ``outputs``: an array for each output, by name or in their order.

        Outputs that a mapping does not name are not stored. Kernels read and write the arrays themselves. Only
        arrays that are strided, or not aligned to their elements, are copied. An output must be compact, row-major and
        writable.
        """
        self._run(inputs, self._in_order(outputs, self._output_index, "output", optional=True))

    def __call__(self, *arrays: Any, **named: Any) -> Any:
        """Runs the network on arrays in the order of the inputs, or by name; returns its output, a list if it has several."""
        if arrays and named:
            raise InvalidArgument("pass the inputs in their order or by name, not both")
        results = self.run(None, named or arrays)
        return results[0] if len(results) == 1 else results

    def _in_order(self, arrays: Arrays, index: Dict[str, int], what: str, optional: bool = False) -> List[Any]:
        if not isinstance(arrays, Mapping):
            if len(arrays) != len(index):
                raise InvalidArgument("the network has %d %ss, got %d" % (len(index), what, len(arrays)))
            return list(arrays)
        ordered: List[Any] = [None] * len(index)
        for name, array in arrays.items():
            ordered[_index(index, name, what)] = array
        if not optional and len(arrays) < len(index):
            raise InvalidArgument("missing %ss: %s" % (what, ", ".join(name for name in index if name not in arrays)))
        return ordered

    def _run(self, inputs: Arrays, outputs: Sequence[Any]) -> None:
        arrays = self._in_order(inputs, self._input_index, "input")
        with _Arguments() as arguments:
            to = (c_void_p * len(outputs))()
            for i, array in enumerate(outputs):
                if array is not None:
                    to[i] = arguments.output(array, self._outputs[i])
            handles = (c_void_p * len(arrays))(*[arguments.handle(array) for array in arrays])
            check(LIB.autotune_executor_run_with(self._handle, handles, len(handles), to, len(to)))


class _Arguments:
    """The tensors over the arrays of one call."""

    def __init__(self) -> None:
        self._borrowed: List[BorrowedBuffer] = []
        self._kept: List[Tensor] = []

    def __enter__(self) -> "_Arguments":
        return self

    def __exit__(self, *exception: Any) -> None:
        for buffer in self._borrowed:
            buffer.close()

    def handle(self, array: Any, compact: bool = False) -> int:
        """The handle of a tensor that is valid during the call."""
        if not isinstance(array, Tensor):
            try:
                buffer = BorrowedBuffer(array, compact)
                self._borrowed.append(buffer)
                return buffer.handle
            except (TypeError, BufferError):
                array = unbuffered(array, compact)
        self._kept.append(array)
        return array._handle

    def output(self, array: Any, arg: NodeArg) -> int:
        """The same for an array that receives an output, which a copy would not."""
        try:
            return self.handle(array, compact=True)
        except NotCompact as error:
            raise InvalidArgument("output '%s': %s" % (arg.name, error)) from None


def _index(index: Dict[str, int], name: str, what: str) -> int:
    if name not in index:
        raise InvalidArgument("the network has no %s '%s'; its %ss are: %s" % (what, name, what, ", ".join(index)))
    return index[name]


def _as_array(result: Tensor) -> Any:
    try:
        return result.numpy()
    except (ImportError, InvalidArgument):  # no numpy, or no such type in numpy
        return result


def load(
    path: Any,
    threads: int = 0,
    device: Optional[str] = None,
    share_weights: Optional[bool] = None,
    pool: Optional[ThreadPool] = None,
) -> InferenceSession:
    """The network of a file, compiled or not: ``autotune.load("m.tar")(x)``, ``autotune.load("m.onnx")(x)``."""
    return InferenceSession(path, threads, device, share_weights, pool)
