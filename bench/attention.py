#!/usr/bin/env python3
"""Attention, softmax(q * k) * v, untuned, beside ONNX Runtime's MatMul, Softmax and MatMul: one row per number of tokens.

    /usr/bin/python3 bench/attention.py --work FOLDER
    /usr/bin/python3 bench/attention.py --work FOLDER --tokens 512 --queries 1 --form decoder --threads 1

Forms: `plain` is the three nodes; `masked` has a scale and an additive mask between the products; `decoder` is `masked`
with keys as they are kept, a row for each token, behind a Transpose.

ONNX Runtime and the package take turns. `ratio` is ONNX Runtime / ours, the median over the rounds, of the least times
in each round: above 1 we are faster. The time of an empty model is subtracted from ONNX Runtime's, as in odd_shapes.py.
--check compares the outputs, too. Exit code 1: an output is wrong, or a model failed. Needs python3-numpy, python3-onnx,
(cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import fcntl
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compare_ort import OnnxRuntime, error_ratio, read_npy
from conv_layers import REST, ROOT, Serving, runs_for
from odd_shapes import OPSET, TOLERANCE, empty_call_ms, mean


def write_model(path, arguments, tokens):
    heads, width, queries = arguments.heads, arguments.width, arguments.queries or tokens
    shapes = {"q": [1, heads, queries, width], "k": [1, heads, width, tokens], "v": [1, heads, tokens, width]}
    nodes, weights, keys, scores = [], [], "k", "products"
    if arguments.form == "decoder":
        shapes["k"] = [1, heads, tokens, width]
        nodes.append(helper.make_node("Transpose", ["k"], ["columns"], perm=[0, 1, 3, 2]))
        keys = "columns"
    nodes.append(helper.make_node("MatMul", ["q", keys], ["products"]))
    if arguments.form != "plain":
        shapes["mask"] = [1, 1, queries, tokens]
        weights.append(numpy_helper.from_array(np.float32(1 / math.sqrt(width)), "scale"))
        nodes.append(helper.make_node("Mul", ["products", "scale"], ["scaled"]))
        nodes.append(helper.make_node("Add", ["scaled", "mask"], ["masked"]))
        scores = "masked"
    nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], axis=-1))
    nodes.append(helper.make_node("MatMul", ["probabilities", "v"], ["y"]))
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "attention", [value(n, s) for n, s in shapes.items()], [value("y", [1, heads, queries, width])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 7
    onnx.save(model, path)
    return shapes


class Case:
    def __init__(self, arguments, tokens):
        name = f"{arguments.form}-{arguments.heads}x{arguments.queries or tokens}x{tokens}x{arguments.width}"
        self.model, self.package = arguments.work / f"{name}.onnx", arguments.work / f"{name}.tar"
        self.shapes = write_model(self.model, arguments, tokens)
        command = [arguments.autotune, "compile", "--model", self.model, "--db", arguments.db, "-o", self.package]
        command += ["--target", f"llvm -mcpu=host -num-cores={max(arguments.threads)}"]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)

    def compare(self, arguments, threads, empty_ms):
        """Returns the ratio and both times in milliseconds."""
        peer, ours = OnnxRuntime(str(self.model), threads), Serving(arguments, self.package, threads)
        ratios, times = [], []
        runs = runs_for(min(peer.ask("run 3")["times_ms"]))
        ours.best(2)
        for _ in range(arguments.rounds):
            if threads > 1:
                time.sleep(REST)
            mine = ours.best(runs)
            theirs = max(1e-3, min(peer.ask(f"run {runs}")["times_ms"]) - empty_ms)
            ratios.append(theirs / mine)
            times.append((mine, theirs))
        peer.close()
        ours.close()
        return statistics.median(ratios), *map(min, zip(*times))

    def is_right(self, arguments):
        rng = np.random.default_rng(0)
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for i, (name, shape) in enumerate(self.shapes.items()):
                file = Path(folder) / f"input_{i}.npy"
                np.save(file, rng.standard_normal(shape, np.float32))
                given += ["--input", f"{name}={file}"]
            peer = OnnxRuntime(str(self.model), 1, folder)
            peer.ask(f"dump {folder}/theirs")
            peer.close()
            command = [arguments.autotune, "run", self.package, *given, "--output-dir", f"{folder}/ours"]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            ours = next(f for f in Path(f"{folder}/ours").iterdir() if f.suffix == ".npy")
            return error_ratio(read_npy(ours), read_npy(f"{folder}/theirs/output_0.npy"), **TOLERANCE) <= 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--queries", type=int, help="rows of q; default: as many as tokens")
    parser.add_argument("--form", choices=["plain", "masked", "decoder"], default="plain")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true", help="compare outputs, too")
    parser.add_argument("--db", type=Path, help="records to compile from; default: none")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--autotune", default=str(ROOT / "build/tools/autotune"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.db = arguments.db or arguments.work / "empty.db"
    host_lock = open(os.environ.get("AUTOTUNE_HOST_LOCK", "/tmp/autotune-host.lock"), "a", encoding="ascii")

    ratios, failed = [], 0
    empty = {threads: empty_call_ms(arguments, threads) for threads in arguments.threads}
    print("tokens  threads    ours ms     ort ms  ratio")
    for tokens in arguments.tokens:
        case = Case(arguments, tokens)
        if arguments.check and not case.is_right(arguments):
            failed += 1
            print(f"{tokens:6}  WRONG output")
        os.environ["AUTOTUNE_HOST_LOCK"] = str(arguments.work / "lock")  # we hold the real one
        fcntl.flock(host_lock, fcntl.LOCK_EX)
        for threads in arguments.threads:
            ratio, mine, theirs = case.compare(arguments, threads, empty[threads])
            ratios.append(ratio)
            print(f"{tokens:6}  {threads:7}  {mine:9.3f}  {theirs:9.3f}  {ratio:5.2f}", flush=True)
        fcntl.flock(host_lock, fcntl.LOCK_UN)
    print(f"geometric mean {mean(ratios):.2f}, least {min(ratios):.2f}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
