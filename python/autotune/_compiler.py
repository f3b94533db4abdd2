"""Compiles and tunes networks, and reads the database, by the shared library libautotune.so.0. The library is loaded at the
first use, since programs that only run networks need it neither installed nor in memory."""

from __future__ import annotations

import array
import ctypes
import json
import os
import threading
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, Union

from . import _library as c
from ._library import Error, InvalidArgument, check, new_handle
from ._module import Module, _new_module

SONAME = "libautotune.so.0"
Record = Dict[str, Any]
_lock = threading.Lock()
_opened: Optional[ctypes.CDLL] = None


def _find() -> str:
    """The path of the library: $AUTOTUNE_COMPILER_LIBRARY, else beside the runtime library, else in the compiler's wheel,
    else the loader's folders."""
    chosen = os.environ.get("AUTOTUNE_COMPILER_LIBRARY")
    if chosen:
        return chosen
    import importlib.util  # not above, since programs that only run networks need not wait for it

    places = [os.path.join(os.path.dirname(c.LIB._name), SONAME)]
    wheel = importlib.util.find_spec("autotune_compiler")
    if wheel and wheel.origin:
        places.append(os.path.join(os.path.dirname(wheel.origin), "lib", SONAME))
    return next((place for place in places if os.path.exists(place)), SONAME)


def _open() -> ctypes.CDLL:
    path = _find()
    try:
        lib = ctypes.CDLL(path)
    except OSError as error:
        raise Error(
            "compiling and tuning need autotune's compiler, which is not installed: cannot load %s (%s); install the wheel "
            "autotune_compiler or Debian's package libautotune0, or set AUTOTUNE_COMPILER_LIBRARY to the library's path"
            % (path, error)
        ) from None
    out = POINTER(c_void_p)
    for result, name, *arguments in (
        (c_char_p, "autotune_compiler_version"),
        (None, "autotune_text_free", c_void_p),
        (c_int, "autotune_request_create", out),
        (c_int, "autotune_request_set", c_void_p, c_char_p, c_char_p),
        (c_int, "autotune_request_set_model", c_void_p, c_char_p, c_char_p, c_size_t),
        (None, "autotune_request_free", c_void_p),
        (c_int, "autotune_compile_file", c_void_p, c_char_p, out),
        (c_int, "autotune_compile_module", c_void_p, out),
        (c_int, "autotune_tune_start", c_void_p, out),
        (c_int, "autotune_tune_next_event", c_void_p, c_int64, POINTER(c_char_p)),
        (c_int, "autotune_tune_cancel", c_void_p),
        (None, "autotune_tune_free", c_void_p),
        (c_int, "autotune_database_open", c_char_p, out),
        (c_int, "autotune_database_top", c_void_p, c_char_p, c_char_p, c_int32, out),
        (c_int, "autotune_database_scan", c_void_p, c_char_p, c_char_p, POINTER(c_int64), c_int32, out),
        (c_int, "autotune_database_features", c_void_p, c_char_p, c_char_p, POINTER(c_int64), c_int32, out),
        (c_int, "autotune_feature_names", out),
        (c_int, "autotune_database_tasks", c_void_p, out),
        (c_int, "autotune_remote_connect", c_char_p, c_char_p, c_char_p, c_double, out),
        (c_int, "autotune_remote_load", c_void_p, c_char_p, c_int32, out),
        (c_int, "autotune_remote_tensor", c_void_p, c_void_p, out),
        (c_int, "autotune_remote_call", c_void_p, c_char_p, POINTER(c.Value), c_int32, POINTER(c.Value)),
        (None, "autotune_remote_free", c_void_p),
        (None, "autotune_database_free", c_void_p),
    ):
        function = getattr(lib, name)
        function.restype = result
        function.argtypes = arguments
    versions = lib.autotune_compiler_version(), c.LIB.autotune_version()
    if versions[0] != versions[1]:
        raise Error("%s is of version %s, but the runtime library of version %s; install the same version of both"
                    % ((path,) + tuple(version.decode() for version in versions)))  # fmt: skip
    return lib


def compiler() -> ctypes.CDLL:
    """The library. Raises Error with one line if it is not installed."""
    global _opened
    with _lock:
        if _opened is None:
            _opened = _open()
        return _opened


def take_text(function: Any, *arguments: Any) -> str:
    """Calls a function whose last argument gets a text, and frees that."""
    handle = new_handle(function, *arguments)
    try:
        return ctypes.string_at(handle).decode()
    finally:
        compiler().autotune_text_free(handle)


def is_model(source: Any) -> bool:
    """Whether it is a model to compile, and not a compiled network: an ONNX file, its bytes, or an onnx.ModelProto."""
    if isinstance(source, (str, os.PathLike)):
        return os.fspath(source).endswith(".onnx")
    return isinstance(source, (bytes, bytearray)) or hasattr(source, "SerializeToString")


def _shape_text(shape: Any) -> str:
    return ",".join(str(int(extent)) for extent in shape)


class Request:
    """What to compile or to tune. `options` are those of :func:`autotune.compile` and :func:`autotune.tune`."""

    def __init__(self, model: Any, options: Mapping[str, Any]) -> None:
        self._lib = compiler()
        self.handle = new_handle(self._lib.autotune_request_create)
        if model is not None:
            self._set_model(model)
        for name, value in options.items():
            self._set_option(name, value)

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self._lib.autotune_request_free(self.handle)

    def set(self, name: str, value: Any) -> None:
        check(self._lib.autotune_request_set(self.handle, name.encode(), c.text_bytes(value)))

    def _set_model(self, model: Any) -> None:
        if isinstance(model, (str, os.PathLike)):
            return self.set("model", model)
        name = "model"
        if hasattr(model, "SerializeToString"):
            name = getattr(getattr(model, "graph", None), "name", "") or name
            model = model.SerializeToString()
        data = bytes(model)
        check(self._lib.autotune_request_set_model(self.handle, c.text_bytes(name), data, len(data)))

    def _set_option(self, name: str, value: Any) -> None:
        if value is None:
            return
        option = name.replace("_", "-")
        if name in ("shapes", "dims", "bind"):
            if not isinstance(value, Mapping):
                raise InvalidArgument("%s must be a mapping of names, got %r" % (name, value))
            for key, entry in value.items():
                if name == "shapes":
                    self.set("shape", "%s:%s" % (key, _shape_text(entry)))
                else:
                    self.set("dim" if name == "dims" else "bind", "%s=%s" % (key, os.fspath(entry) if name == "bind" else entry))
        elif name == "winograd":
            self.set("no-winograd", "0" if value else "1")
        elif isinstance(value, bool):
            self.set(option, "1" if value else "0")
        elif name == "time_budget" and isinstance(value, (int, float)):
            self.set(option, "%gs" % value)
        elif isinstance(value, (str, os.PathLike)):
            self.set(option, value)
        else:
            self.set(option, str(value))


Model = Any  # a path of an ONNX model, its bytes, or an onnx.ModelProto


def compile(  # noqa: A001, the command's name
    model: Model,
    output: Union[str, "os.PathLike[str]", None] = None,
    *,
    target: str = "cpu",
    db: Optional[str] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    dims: Optional[Mapping[str, int]] = None,
    **options: Any,
) -> Any:
    """Compiles a model with the best schedules in the database. Searches nothing.

    ``model`` is a path of an ONNX model, its bytes, or an ``onnx.ModelProto``. With ``output``, writes a package
    (``m.tar`` or ``m.so``) and returns what was compiled, as a dictionary. Without, returns a module as
    :func:`load_module` does, for :class:`InferenceSession`; a network that was compiled before comes from a cache.

    ``target`` is what to compile for, ``db`` the database, ``shapes`` and ``dims`` give inputs the sizes that the model
    leaves open: ``{"x": (1, 3, 224, 224)}``, ``{"batch": 1}``. Further options have the names of those of ``autotune
    compile``: ``bind``, ``device``, ``winograd``, ``allow_tf32``, ``lenient``, ``schedules``, ``op``, ``programs``.
    """
    request = Request(model, dict(options, target=target, db=db, shapes=shapes, dims=dims))
    if output is None:
        return _new_module(new_handle(compiler().autotune_compile_module, request.handle))
    return json.loads(take_text(compiler().autotune_compile_file, request.handle, c.text_bytes(output)))


class FeatureMatrix:
    """The features of records, from which the cost model learns (docs/records.md).

    ``names`` has a text for each column, ``records`` a record for each row. ``values`` is a memoryview of 32-bit floats of
    shape ``(len(records), len(names))``, from which ``numpy.asarray(matrix.values)`` makes an array without a copy.
    """

    def __init__(self, names: List[str], records: List[Record]) -> None:
        self.names = names
        self.records = [record for record in records if record["features"] is not None]
        numbers = array.array("f")
        for record in self.records:
            numbers.extend(record.pop("features"))
        flat = memoryview(numbers)
        self.values = flat.cast("B").cast("f", (len(self.records), len(names))) if self.records else flat

    def __len__(self) -> int:
        return len(self.records)

    def column(self, name: str) -> List[float]:
        """The values of one feature, in the order of the records."""
        i = self.names.index(name)
        return [self.values[row, i] for row in range(len(self.records))]

    def __repr__(self) -> str:
        return "<autotune.FeatureMatrix of %d records x %d features>" % (len(self.records), len(self.names))


class Database:
    """The records of tuning runs.

    Records are dictionaries, as ``autotune records export`` writes them: ``task``, ``target``, ``times`` and ``cost`` in
    seconds, ``status``, ``trace``... Without ``path``, the database of ``$AUTOTUNE_DB``, else of the user. It must exist.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]", None] = None) -> None:
        self._lib = compiler()
        self._handle = new_handle(self._lib.autotune_database_open, c.text_bytes(path) if path else None)

    def __del__(self) -> None:
        self.close()

    def close(self) -> None:
        """Closes the file. Further calls raise an error."""
        if getattr(self, "_handle", None):
            self._lib.autotune_database_free(self._handle)
            self._handle = None

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def best(self, task: str, target: str = "cpu") -> Optional[Record]:
        """The best record of a task, by its hash; None if there is none."""
        records = self.top(task, target, 1)
        return records[0] if records else None

    def top(self, task: str, target: str = "cpu", n: int = 10) -> List[Record]:
        """The ``n`` best distinct schedules of a task, the best first."""
        n = c.whole(n, 32, "n")
        return _lines(
            take_text(self._lib.autotune_database_top, self._handle, c.text_bytes(task), c.text_bytes(target), n)
        )

    def scan(self, task: Optional[str] = None, target: Optional[str] = None, batch: int = 1000) -> Iterator[Record]:
        """All records in the order stored, those of a task and a target if they are given. Reads ``batch`` at a time."""
        return self._pages(self._lib.autotune_database_scan, task, target, batch)

    def _pages(self, function: Any, task: Optional[str], target: Optional[str], batch: int) -> Iterator[Record]:
        cursor = c_int64(0)
        wanted: Tuple[Optional[bytes], ...] = tuple(c.text_bytes(text) if text else None for text in (task, target))
        batch = c.whole(batch, 32, "batch")
        while True:
            records = _lines(take_text(function, self._handle, *wanted, byref(cursor), batch))
            if not records:
                return
            yield from records

    def features(self, task: Optional[str] = None, target: Optional[str] = None) -> "FeatureMatrix":
        """The features of all records, those of a task and a target if they are given: a row for each record.

        Leaves out records that this version cannot replay.
        """
        return FeatureMatrix(
            json.loads(take_text(self._lib.autotune_feature_names)),
            list(self._pages(self._lib.autotune_database_features, task, target, 1000)),
        )

    def tasks(self) -> List[Record]:
        """The tasks in the database: ``task``, ``target``, and the numbers of ``records``, ``trials`` and ``ranked`` ones."""
        return _lines(take_text(self._lib.autotune_database_tasks, self._handle))


def _lines(text: str) -> List[Record]:
    return [json.loads(line) for line in text.splitlines()]
