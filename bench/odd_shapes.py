#!/usr/bin/env python3
"""Single operators of random shapes, untuned, beside ONNX Runtime: finds shapes for which the default schedules are bad.

    /usr/bin/python3 bench/odd_shapes.py --seed 1 --work FOLDER
    /usr/bin/python3 bench/odd_shapes.py --seed 1 --only conv --threads 1 --count 40 --work FOLDER

A seed draws convolutions (channels from 1 to 300, groups, windows from 1 to 11, strides, dilations), matrix products
(M, N and K from 1 to 5,000, with a constant or a computed second operand), reductions over any axes, softmax, and
pooling. Sizes are drawn so that an operator takes between about 30 us and 30 ms.

Each operator is a model of its own, in ONNX's layout. So both sides pay for changes of layout, and the whole run is
compared. ONNX Runtime and the package take turns. `ratio` is ONNX Runtime / ours: above 1 we are faster. It is the
median over the rounds, of the least times in each round. The time of an empty model is subtracted from ONNX Runtime's,
since a call through its JavaScript interface takes tens of microseconds.

--check compares the outputs, too. Exit code 1: an output is wrong, or an operator failed. Models and packages stay in
FOLDER. --recompile compiles them anew. Needs python3-numpy, python3-onnx,
(cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import fcntl
import json
import math
import os
import random
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

FLOPS, BYTES = 60e9, 10e9  # a second, of a core: only to choose sizes
LEAST_SECONDS, MOST_SECONDS = 30e-6, 30e-3
OPSET = 13
TOLERANCE = {"rtol": 1e-3, "atol": 1e-4}


def log_uniform(rng, low, high):
    return min(high, int(math.exp(rng.uniform(math.log(low), math.log(high + 1)))))


class Operator:
    """One node, its inputs and its constants. `flops` and `bytes` estimate its work."""

    def __init__(self, kind, text, op, data, constants, flops, out_elements, attributes):
        self.kind, self.text, self.op, self.data = kind, text, op, data
        self.constants, self.attributes, self.flops = constants, attributes, flops
        elements = sum(math.prod(s) for s in data + constants) + out_elements
        self.bytes = 4 * elements

    def seconds(self):
        return max(self.flops / FLOPS, self.bytes / BYTES)


def window(rng, size, most):
    """Kernel, stride, dilation and padding of one dimension; None if the window is larger than the image."""
    kernel, stride = rng.randint(1, most), rng.choice([1, 1, 1, 2, 2, 3])
    dilation = rng.choice([1, 1, 1, 1, 2, 3]) if kernel > 1 else 1
    reach = dilation * (kernel - 1) + 1
    pad = rng.choice([0, reach // 2, reach // 2])
    out = (size + 2 * pad - reach) // stride + 1
    return (kernel, stride, dilation, pad, out) if out >= 1 else None


def draw_conv(rng):
    size = [log_uniform(rng, 1, 160), log_uniform(rng, 1, 160)]
    form = rng.choice(["plain", "plain", "plain", "grouped", "grouped", "depthwise"])
    if form == "plain":
        groups, inputs, outputs = 1, log_uniform(rng, 1, 300), log_uniform(rng, 1, 300)
    elif form == "depthwise":
        groups = inputs = log_uniform(rng, 2, 300)
        outputs = inputs * rng.choice([1, 1, 1, 2])
    else:
        groups = rng.randint(2, 12)
        inputs, outputs = groups * rng.randint(1, 300 // groups), groups * rng.randint(1, 300 // groups)
    dims = [window(rng, s, 11) for s in size]
    if rng.random() < 0.6:
        dims[1] = dims[0] if size[0] == size[1] else window(rng, size[1], 11)
    if None in dims or outputs > 300:
        return None
    batch = rng.choice([1, 1, 1, 1, 2, 5])
    out = [d[4] for d in dims]
    kernel = [d[0] for d in dims]
    flops = 2 * batch * math.prod(out) * outputs * (inputs // groups) * math.prod(kernel)
    attributes = {
        "kernel_shape": kernel,
        "strides": [d[1] for d in dims],
        "dilations": [d[2] for d in dims],
        "pads": [d[3] for d in dims] * 2,
        "group": groups,
    }
    text = f"{batch}x{inputs}x{size[0]}x{size[1]} -> {outputs}, {kernel[0]}x{kernel[1]}"
    for name, key, plain in (("s", "strides", [1, 1]), ("d", "dilations", [1, 1]), ("p", "pads", [0] * 4)):
        if attributes[key] != plain:
            text += f" {name}{'x'.join(map(str, attributes[key][:2]))}"
    text += f" groups {groups}" if groups > 1 else ""
    data, weight = [[batch, inputs, *size]], [[outputs, inputs // groups, *kernel], [outputs]]
    return Operator("conv", text, "Conv", data, weight, flops, batch * outputs * math.prod(out), attributes)


def draw_matmul(rng):
    m, n, k = (log_uniform(rng, 1, 5000) for _ in range(3))
    text = f"{m}x{k} * {k}x{n}"
    return Operator("matmul", text, "MatMul", [[m, k]], [[k, n]], 2 * m * n * k, m * n, {})


def draw_batched(rng):
    batch = log_uniform(rng, 1, 64)
    m, n, k = (log_uniform(rng, 1, 5000) for _ in range(3))
    text = f"{batch}: {m}x{k} * {k}x{n}"
    data = [[batch, m, k], [batch, k, n]]
    return Operator("batched", text, "MatMul", data, [], 2 * batch * m * n * k, batch * m * n, {})


def draw_reduction(rng):
    rank = rng.randint(1, 5)
    shape = [log_uniform(rng, 1, 5000 if rank < 3 else 400) for _ in range(rank)]
    axes = sorted(rng.sample(range(rank), rng.randint(1, rank)))
    op = rng.choice(["ReduceMean", "ReduceMean", "ReduceMax", "ReduceL2"])
    kept = math.prod(d for i, d in enumerate(shape) if i not in axes)
    text = f"{op} {'x'.join(map(str, shape))} over {','.join(map(str, axes))}"
    return Operator("reduce", text, op, [shape], [], math.prod(shape), kept, {"axes": axes, "keepdims": rng.randint(0, 1)})


def draw_softmax(rng):
    rank = rng.randint(1, 4)
    shape = [log_uniform(rng, 1, 5000 if rank < 3 else 400) for _ in range(rank)]
    axis = rng.randrange(rank)
    text = f"{'x'.join(map(str, shape))} over {axis}"
    elements = math.prod(shape)
    return Operator("softmax", text, "Softmax", [shape], [], 20 * elements, elements, {"axis": axis})


def draw_pool(rng):
    batch, channels = rng.choice([1, 1, 2, 5]), log_uniform(rng, 1, 300)
    size = [log_uniform(rng, 1, 160), log_uniform(rng, 1, 160)]
    op = rng.choice(["MaxPool", "AveragePool"])
    dims = [window(rng, s, 11) for s in size]
    if None in dims:
        return None
    kernel, strides = [d[0] for d in dims], [d[1] for d in dims]
    pads = [min(d[3], d[0] // 2) for d in dims]
    out = [(s + 2 * p - k) // t + 1 for s, p, k, t in zip(size, pads, kernel, strides)]
    if min(out) < 1:
        return None
    outputs = batch * channels * math.prod(out)
    text = f"{op} {batch}x{channels}x{size[0]}x{size[1]}, {kernel[0]}x{kernel[1]} s{strides[0]}x{strides[1]} p{pads[0]}x{pads[1]}"
    attributes = {"kernel_shape": kernel, "strides": strides, "pads": pads * 2}
    return Operator("pool", text, op, [[batch, channels, *size]], [], outputs * math.prod(kernel), outputs, attributes)


DRAWS = {
    "conv": (40, draw_conv),
    "matmul": (20, draw_matmul),
    "batched": (10, draw_batched),
    "reduce": (15, draw_reduction),
    "softmax": (5, draw_softmax),
    "pool": (10, draw_pool),
}


def draw_operators(seed, count):
    rng = random.Random(seed)
    kinds, weights = list(DRAWS), [weight for weight, _ in DRAWS.values()]
    operators = []
    while len(operators) < count:
        operator = DRAWS[rng.choices(kinds, weights)[0]][1](rng)
        if operator and LEAST_SECONDS <= operator.seconds() <= MOST_SECONDS:
            operators.append(operator)
    return operators


def write_model(path, op, data, constants, attributes, seed=0):
    rng = np.random.default_rng(seed)
    inputs = [helper.make_tensor_value_info(f"x{i}", onnx.TensorProto.FLOAT, s) for i, s in enumerate(data)]
    scale = 1 / math.sqrt(math.prod(constants[0][1:]) if op == "Conv" else constants[0][0]) if constants else 1
    weights = [
        numpy_helper.from_array((rng.standard_normal(s, np.float32) * np.float32(scale)), f"w{i}")
        for i, s in enumerate(constants)
    ]
    names = [x.name for x in inputs] + [w.name for w in weights]
    node = helper.make_node(op, names, ["y"], **attributes)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    model = helper.make_model(
        helper.make_graph([node], "operator", inputs, [output], weights), opset_imports=[helper.make_opsetid("", OPSET)]
    )
    model.ir_version = 7
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, path)


class Case:
    def __init__(self, arguments, number, operator):
        self.operator, self.number = operator, number
        folder = arguments.work / f"seed-{arguments.seed}"
        folder.mkdir(parents=True, exist_ok=True)
        self.model, self.package = folder / f"{number}.onnx", folder / f"{number}.tar"
        if not self.model.exists():
            write_model(self.model, operator.op, operator.data, operator.constants, operator.attributes, number)
        self.error = None
        if arguments.recompile or not self.package.exists():
            command = [arguments.autotune, "compile", "--model", self.model, "--db", folder / "empty.db", "-o", self.package]
            command += ["--target", f"llvm -mcpu=host -num-cores={max(arguments.threads)}"]
            result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if result.returncode != 0:
                self.error = (result.stderr.strip().splitlines() or ["no message"])[-1]

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
        rng = np.random.default_rng(self.number)
        with tempfile.TemporaryDirectory() as folder:
            given = []
            for i, shape in enumerate(self.operator.data):
                file = Path(folder) / f"input_{i}.npy"
                np.save(file, rng.standard_normal(shape, np.float32))
                given += ["--input", f"x{i}={file}"]
            peer = OnnxRuntime(str(self.model), 1, folder)
            peer.ask(f"dump {folder}/theirs")
            peer.close()
            command = [arguments.autotune, "run", self.package, *given, "--output-dir", f"{folder}/ours"]
            subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
            ours = next(f for f in Path(f"{folder}/ours").iterdir() if f.suffix == ".npy")
            return error_ratio(read_npy(ours), read_npy(f"{folder}/theirs/output_0.npy"), **TOLERANCE) <= 1


def empty_call_ms(arguments, threads):
    """What a call of ONNX Runtime takes that computes next to nothing."""
    model = arguments.work / "empty.onnx"
    write_model(model, "Relu", [[1]], [], {})
    peer = OnnxRuntime(str(model), threads)
    least = min(min(peer.ask("run 200")["times_ms"]) for _ in range(3))
    peer.close()
    return least


def mean(ratios):
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


def summarize(name, ratios):
    below = sum(r < 0.85 for r in ratios)
    print(f"{name:24} {len(ratios):4} operators  mean {mean(ratios):.3f}  least {min(ratios):.3f}  below 0.85: {below}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=list(DRAWS), help="only operators of this kind, among those of the seed")
    parser.add_argument("--numbers", type=int, nargs="+", help="only these operators of the seed")
    parser.add_argument("--check", action="store_true", help="compare outputs, too")
    parser.add_argument("--recompile", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the rows to FILE")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--autotune", default=str(ROOT / "build/tools/autotune"))
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    host_lock = open(os.environ.get("AUTOTUNE_HOST_LOCK", "/tmp/autotune-host.lock"), "a", encoding="ascii")

    rows, failed = [], 0
    empty = {threads: empty_call_ms(arguments, threads) for threads in arguments.threads}
    for number, operator in enumerate(draw_operators(arguments.seed, arguments.count)):
        if arguments.only not in (None, operator.kind) or (arguments.numbers and number not in arguments.numbers):
            continue
        case = Case(arguments, number, operator)
        if case.error is None and arguments.check and not case.is_right(arguments):
            case.error = "WRONG output"
        if case.error:
            failed += 1
            print(f"{number:4} {operator.kind:8} {operator.text}: {case.error}", flush=True)
            continue
        os.environ["AUTOTUNE_HOST_LOCK"] = str(arguments.work / "lock")  # we hold the real one
        fcntl.flock(host_lock, fcntl.LOCK_EX)
        for threads in arguments.threads:
            ratio, mine, theirs = case.compare(arguments, threads, empty[threads])
            rows.append({"number": number, "kind": operator.kind, "text": operator.text, "threads": threads,
                         "ratio": ratio, "ms": mine, "ort_ms": theirs})  # fmt: skip
        fcntl.flock(host_lock, fcntl.LOCK_UN)
        ratios = "  ".join(f"{r['ratio']:6.2f}" for r in rows if r["number"] == number)
        print(f"{number:4} {operator.kind:8} {ratios}  {rows[-1]['ms']:8.3f} ms  {operator.text}", flush=True)

    print()
    for threads in arguments.threads:
        here = [r for r in rows if r["threads"] == threads]
        for kind in DRAWS:
            ratios = [r["ratio"] for r in here if r["kind"] == kind]
            if ratios:
                summarize(f"{kind}, {threads} threads", ratios)
        if here:
            summarize(f"all, {threads} threads", [r["ratio"] for r in here])
    if rows:
        summarize("all", [r["ratio"] for r in rows])
    print("\nworst:")
    for row in sorted(rows, key=lambda r: r["ratio"])[:15]:
        print(f"  {row['ratio']:6.3f}  {row['number']:4} {row['threads']} threads  {row['kind']:8} {row['text']}")
    if arguments.json:
        arguments.json.write_text("\n".join(json.dumps(r) for r in rows) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
