"""Compares one model's untuned package with ONNX Runtime. Benches of single operators share this module."""

import collections
import fcntl
import json
import math
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from compare_ort import OnnxRuntime, compare
from conv_layers import REST, ROOT, Serving, runs_for

EMPTY_IR_VERSION, EMPTY_OPSET = 7, 13


class Case:
    """A model and its package. `write(path)` makes the model if it is not in `folder` yet. If there is no package,
    `error` is the reason. The inputs are floats of `shapes`; `text` and `kind` are for tables."""

    def __init__(self, arguments, folder, name, kind, text, shapes, write):
        self.name, self.kind, self.text, self.shapes, self.error = name, kind, text, shapes, None
        folder.mkdir(parents=True, exist_ok=True)
        self.model, self.package = folder / f"{name}.onnx", folder / f"{name}-{max(arguments.threads)}.tar"
        if not self.model.exists():
            write(self.model)
        if arguments.recompile or not self.package.exists():
            command = [arguments.autotune, "compile", "--model", self.model, "--db", folder / "empty.db", "-o", self.package]
            command += ["--target", f"llvm -mcpu=host -num-cores={max(arguments.threads)}"]
            result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if result.returncode != 0:
                self.error = (result.stderr.strip().splitlines() or ["no message"])[-1]

    def compare(self, arguments, threads, empty_ms):
        """Returns the ratio and both times in milliseconds. The ratio and ONNX Runtime's time are NaN if it refuses the
        model."""
        ours = Serving(arguments, self.package, threads)
        peer = OnnxRuntime(str(self.model), threads, must=False)
        ratios, times = [], []
        ours.best(2)
        runs = runs_for(min(peer.ask("run 3")["times_ms"]) if peer.refusal is None else ours.best(3))
        for _ in range(arguments.rounds):
            if threads > 1:
                time.sleep(REST)
            mine = ours.best(runs)
            theirs = math.nan
            if peer.refusal is None:
                theirs = max(1e-3, min(peer.ask(f"run {runs}")["times_ms"]) - empty_ms)
            ratios.append(theirs / mine)
            times.append((mine, theirs))
        peer.close()
        ours.close()
        return statistics.median(ratios), *map(min, zip(*times))

    def is_right(self, arguments):
        """Compares the outputs on random inputs. Returns None if ONNX Runtime refuses the model or cannot write its
        outputs."""
        rng = np.random.default_rng(len(self.text))
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for i, shape in enumerate(self.shapes):
                file = Path(folder) / f"input_{i}.npy"
                np.save(file, rng.standard_normal(shape, np.float32))
                given += ["--input", f"x{i}={file}"]
            peer = OnnxRuntime(str(self.model), 1, folder, must=False)
            if peer.refusal is None:
                peer.ask(f"dump {folder}/theirs")
            peer.close()
            if peer.refusal is not None:
                return None
            command = [arguments.autotune, "run", self.package, *given, "--output-dir", f"{folder}/ours"]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            return all(
                compare.error_ratio(np.load(f"{folder}/ours/{name}.npy"), np.load(f"{folder}/theirs/output_{i}.npy"))
                <= 1
                for i, name in enumerate(peer.about["outputs"])
            )


def add_arguments(parser):
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true", help="compare outputs, too")
    parser.add_argument("--recompile", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--autotune", default=str(ROOT / "build/tools/autotune"))


def empty_call_ms(arguments, threads):
    """Returns the time of a call of ONNX Runtime that computes almost nothing."""
    path = arguments.work / "empty.onnx"
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1]) for n in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "empty", [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", EMPTY_OPSET)])
    model.ir_version = EMPTY_IR_VERSION
    onnx.save(model, path)
    peer = OnnxRuntime(str(path), threads)
    least = min(min(peer.ask("run 200")["times_ms"]) for _ in range(3))
    peer.close()
    return least


def run_cases(arguments, cases):
    """Compares each of `cases` and prints a row for each. Returns the rows and the number of cases that failed."""
    arguments.work.mkdir(parents=True, exist_ok=True)
    host_lock = open(os.environ.get("AUTOTUNE_HOST_LOCK", "/tmp/autotune-host.lock"), "a", encoding="ascii")
    rows, failed, checks = [], 0, collections.Counter()
    empty = {threads: empty_call_ms(arguments, threads) for threads in arguments.threads}
    for case in cases:
        if case.error is None and arguments.check:
            right = case.is_right(arguments)
            checks[right] += 1
            if right is False:
                case.error = "WRONG output"
        if case.error:
            failed += 1
            print(f"{case.name:>16} {case.kind:8} {case.text}: {case.error}", flush=True)
            continue
        os.environ["AUTOTUNE_HOST_LOCK"] = str(arguments.work / "lock")  # this process holds the host lock itself
        fcntl.flock(host_lock, fcntl.LOCK_EX)
        here = []
        for threads in arguments.threads:
            ratio, mine, theirs = case.compare(arguments, threads, empty[threads])
            here.append({"name": case.name, "kind": case.kind, "text": case.text, "threads": threads,
                         "ratio": ratio, "ms": mine, "ort_ms": theirs})  # fmt: skip
        fcntl.flock(host_lock, fcntl.LOCK_UN)
        rows += here
        ratios = "  ".join(f"{r['ratio']:6.2f}" for r in here)
        print(f"{case.name:>16} {case.kind:8} {ratios}  {here[-1]['ms']:8.3f} ms  {case.text}", flush=True)
    if arguments.check:
        refused = f"{checks[None]} not compared (ONNX Runtime refuses the model)"
        print(f"outputs: {checks[True]} right, {checks[False]} wrong, {refused}")
    if arguments.json:
        arguments.json.write_text("\n".join(json.dumps(r) for r in rows) + "\n")
    return rows, failed


def mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


def summarize(arguments, rows, limit):
    """Prints means by kind and number of threads, how many ratios are below `limit`, and the least ratios."""
    rows = [r for r in rows if not math.isnan(r["ratio"])]

    def line(name, ratios):
        below = sum(r < limit for r in ratios)
        print(f"{name:24} {len(ratios):4} operators  mean {mean(ratios):.3f}  least {min(ratios):.3f}  below {limit}: {below}")

    print()
    for threads in arguments.threads:
        here = [r for r in rows if r["threads"] == threads]
        for kind in dict.fromkeys(r["kind"] for r in here):
            line(f"{kind}, {threads} threads", [r["ratio"] for r in here if r["kind"] == kind])
        if here:
            line(f"all, {threads} threads", [r["ratio"] for r in here])
    if rows:
        line("all", [r["ratio"] for r in rows])
    print("\nworst:")
    for row in sorted(rows, key=lambda r: r["ratio"])[:15]:
        print(f"  {row['ratio']:6.3f}  {row['name']:>4} {row['threads']} threads  {row['kind']:8} {row['text']}")


def run_all(arguments, cases, limit):
    """Compares all cases and prints the summary; returns the exit code."""
    rows, failed = run_cases(arguments, cases)
    summarize(arguments, rows, limit)
    return 1 if failed else 0
