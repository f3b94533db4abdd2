"""Tuning runs, and the bar that shows their progress."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from ctypes import byref, c_char_p
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from . import _library as c
from ._compiler import Model, Request, compiler
from ._library import check, new_handle

Event = Dict[str, Any]
_POLL_MS = 100  # longest wait before Python may handle a signal
_LINE_EVERY = 10.0  # seconds between lines where no bar can be drawn


class TuneResult:
    """What a run has found. ``events`` has its last event of each kind by name, with the fields that docs/cli.md states."""

    def __init__(self, events: Dict[str, Event]) -> None:
        self.events = events

    @property
    def gain(self) -> str:
        """One sentence: how much faster the network became."""
        return self.events["saved"]["gain"]

    @property
    def faster(self) -> bool:
        """Whether the network is faster than by default schedules."""
        return self.events["saved"]["faster"]

    @property
    def package(self) -> Optional[str]:
        """The file that was written, if ``output`` was given."""
        return self.events["saved"]["package"] or None

    @property
    def trials(self) -> int:
        """Candidates that the run has measured, with those of earlier calls."""
        return self.events["end"]["trials"]

    @property
    def tasks(self) -> List[Dict[str, Any]]:
        """The tasks, by their time in the network: ``task``, ``hash``, ``default_ms``, ``tuned_ms``, ``trials``..."""
        return self.events["end"]["tasks"]

    @property
    def comparisons(self) -> List[Dict[str, Any]]:
        """The whole network, tuned and untuned, at each number of threads: ``untuned_ms``, ``tuned_ms``, ``speedup``..."""
        choice = self.events["end"].get("choice")
        return choice["comparisons"] if choice else []

    def __repr__(self) -> str:
        return "<autotune.TuneResult %s>" % self.gain


def tune(
    model: Model,
    *,
    target: str = "cpu",
    trials: Optional[int] = None,
    db: Optional[str] = None,
    output: Union[str, "os.PathLike[str]", None] = None,
    progress: Union[None, bool, Callable[[Event], Any]] = None,
    shapes: Optional[Mapping[str, Sequence[int]]] = None,
    dims: Optional[Mapping[str, int]] = None,
    time_budget: Union[None, str, float] = None,
    seed: int = 0,
    **options: Any,
) -> TuneResult:
    """Searches fast schedules for every operator of a model by measuring candidates.

    ``model`` is a path of an ONNX model, its bytes, or an ``onnx.ModelProto``. ``trials`` is the number of candidates to
    measure (default 400), ``time_budget`` a limit in seconds or a text such as ``"10m"``. Results are kept in the
    database ``db``. ``output`` names the package to write, ``m.tar`` or ``m.so``. ``progress`` is True for a bar in a
    terminal or a notebook, or a function that is called with each event, a dictionary (docs/cli.md).

    KeyboardInterrupt, and any exception of ``progress``, ends the run and is raised again. What was measured is kept, and
    the same call goes on there.

    ``shapes`` and ``dims`` are as for :func:`compile`. Further options have the names of those of ``autotune tune``:
    ``key``, ``join`` and ``tracker`` for the devices of a farm, ``trials_per_task``, ``tasks``, ``search``, ``fresh``,
    and ``precision="auto"`` with ``max_error`` and ``calibrate``...
    """
    options.update(target=target, trials=trials, db=db, output=output, shapes=shapes, dims=dims, seed=seed)
    request = Request(model, dict(options, time_budget=time_budget))
    bar = ProgressBar() if progress is True else None
    show = bar if bar else progress if callable(progress) else None
    run = _Run(request)
    events: Dict[str, Event] = {}
    try:
        for event in run:
            events[event["event"]] = event
            if show:
                show(event)
    except BaseException:
        run.stop()
        raise
    finally:
        if bar:
            bar.close()
    return TuneResult(events)


class _Run:
    """A run, as an iterator over its events."""

    def __init__(self, request: Request) -> None:
        self._lib = compiler()
        self._handle = new_handle(self._lib.autotune_tune_start, request.handle)

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._lib.autotune_tune_free(self._handle)

    def __iter__(self) -> "_Run":
        return self

    def __next__(self) -> Event:
        while True:
            text = c_char_p()
            check(self._lib.autotune_tune_next_event(self._handle, _POLL_MS, byref(text)))
            if text.value == b"":
                raise StopIteration
            if text.value is not None:
                return json.loads(text.value)

    def stop(self) -> None:
        """Asks the run to stop, and waits for its end, unless another exception comes."""
        self._lib.autotune_tune_cancel(self._handle)
        try:
            for _ in self:
                pass
        except c.Error:
            pass  # the exception that stopped the run is raised


def _in_notebook() -> bool:
    """Whether standard error is a cell of a notebook."""
    return hasattr(sys.modules.get("IPython"), "get_ipython") and "ipykernel" in sys.modules


class ProgressBar:
    """Shows events of a run on a line of standard error; a line every few seconds where that is a file."""

    WIDTH = 24

    def __init__(self, stream: Any = None) -> None:
        self._stream = stream or sys.stderr
        self._live = _in_notebook() or (hasattr(self._stream, "isatty") and self._stream.isatty())
        self._shown = 0  # characters of the line that is shown
        self._last = 0.0

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind in ("round", "confirmed"):
            self._show(self._round(event if kind == "round" else event["round"]))
        elif kind == "choosing":
            self._show("%s  comparing whole networks" % self._bar(event["done"]))
        elif kind == "waiting" and event["reason"]:
            self._show("waiting for %s: %s" % (event["what"], event["reason"]))
        elif kind == "note":
            self._print("note: " + event["text"])
        elif kind == "saved":
            self._print(event["gain"])

    def close(self) -> None:
        """Erases the bar."""
        self._write("\r" + " " * self._shown + "\r" if self._shown else "")
        self._shown = 0

    def _bar(self, done: float) -> str:
        full = int(self.WIDTH * min(1.0, max(0.0, done)))
        return "[%s%s] %3.0f %%" % ("#" * full, "-" * (self.WIDTH - full), 100 * done)

    def _round(self, event: Event) -> str:
        planned = event["planned_trials"]
        text = "%s  " % self._bar(event["trials"] / planned) if planned else ""
        text += "%d trials" % event["trials"]
        if event["best_ms"]:
            text += "  kernels %.4g ms" % event["best_ms"]
        if event["seconds_left"]:
            text += "  ETA %d s" % round(event["seconds_left"])
        return text

    def _show(self, line: str) -> None:
        if self._live:
            line = line[: shutil.get_terminal_size().columns - 1]  # a line that wraps could not be erased
            self._write("\r" + line.ljust(self._shown))
            self._shown = len(line)
        elif time.monotonic() - self._last >= _LINE_EVERY:
            self._last = time.monotonic()
            self._write(line + "\n")

    def _print(self, line: str) -> None:
        self.close()
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
