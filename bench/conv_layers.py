#!/usr/bin/env python3
"""Compares every distinct convolution and dense layer of networks, tuned, with ONNX Runtime.

    /usr/bin/python3 bench/conv_layers.py vgg19/model.onnx resnet18/model.onnx --only 3x3s1 --trials 100 --work FOLDER

Each layer becomes a model of `--layers` copies of the layer with random weights and ReLUs, or of fewer copies if the
weights are large. ONNX Runtime and our package run the model in turns. If the output has the input's shape, the layers
form a chain, and the least times of whole runs are compared. Otherwise the layers are branches that read one input, and
only the kernels are compared, by each side's own profile (marked `p`). `reorders` are then the times of layout changes
at the ends of the branches (ours / ONNX Runtime's). Each layer is tuned for each number of threads.

`ratio` is ONNX Runtime / ours: above 1 we are faster. `% peak` is relative to the multiply-add peak of these threads
(--peak, else by `autotune doctor`). It counts the work of a direct convolution, so a Winograd convolution may exceed
100. `bound` is the least time of a direct convolution by this peak and by the memory traffic. `error` is the largest
difference from float64 arithmetic after all layers of the model, relative to the allowed one (--check); above 1 the
exit code is 1.

Models, packages and the tuning database stay in FOLDER. So an interrupted run resumes where it ended, and a second run
only measures. Needs python3-numpy, python3-onnx, (cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

from compare_ort import OnnxRuntime, compare

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
MAX_WEIGHT_BYTES = 192 << 20  # limit of one model
MEMORY = 20e9  # memory bandwidth in bytes per second
REST = 0.1  # seconds to wait until ONNX Runtime's threads stop spinning, since they would disturb the other side


class Layer:
    """A convolution (NCHW data, OIHW weights) or a dense layer (data [rows, k], weights [k, n]) of a network."""

    def __init__(self, kind, data, weight, attributes):
        self.kind, self.data, self.weight, self.attributes = kind, tuple(data), tuple(weight), attributes
        self.nets = {}

    def key(self):
        return json.dumps([self.kind, self.data, self.weight, self.attributes], sort_keys=True)

    def output(self):
        if self.kind == "dense":
            return (self.data[0], self.weight[1])
        a = self.attributes
        size = []
        for d in range(2):
            reach = a["dilations"][d] * (self.weight[2 + d] - 1) + 1
            size.append((self.data[2 + d] + a["pads"][d] + a["pads"][d + 2] - reach) // a["strides"][d] + 1)
        return (self.data[0], self.weight[0], *size)

    def flops(self):
        each = self.weight[0] if self.kind == "dense" else math.prod(self.weight[1:])
        return 2 * math.prod(self.output()) * each

    def bytes(self):
        return 4 * (math.prod(self.data) + math.prod(self.weight) + math.prod(self.output()))

    def one_pixel(self):
        """Returns whether this is a convolution of an image of one pixel. Its call takes longer than its work."""
        return self.kind == "conv" and math.prod(self.output()[2:]) == 1

    def tags(self):
        if self.kind == "dense":
            return {"dense"}
        a, kernel = self.attributes, f"{self.weight[2]}x{self.weight[3]}"
        tags = {"conv", kernel, f"{kernel}s{a['strides'][0]}"}
        if a["group"] > 1:
            tags.add("depthwise" if self.weight[1] == 1 else "grouped")
        return tags

    def text(self):
        if self.kind == "dense":
            return f"dense {self.data[0]}x{self.weight[0]} -> {self.weight[1]}"
        a = self.attributes
        text = f"{self.weight[2]}x{self.weight[3]} s{a['strides'][0]} {self.data[2]}x{self.data[3]} {self.data[1]} -> {self.weight[0]}"
        if a["dilations"] != [1, 1]:
            text += f" dilation {a['dilations'][0]}"
        return text + (f" groups {a['group']}" if a["group"] > 1 else "")


def layers_of(path):
    model = shape_inference.infer_shapes(onnx.load(path))
    graph = model.graph
    weights = {i.name: tuple(i.dims) for i in graph.initializer}
    shapes = dict(weights)
    for value in list(graph.input) + list(graph.value_info) + list(graph.output):
        dims = [d.dim_value if d.dim_value > 0 else 1 for d in value.type.tensor_type.shape.dim]
        shapes.setdefault(value.name, tuple(dims))
    for node in graph.node:
        given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        data = shapes.get(node.input[0]) if node.input else None
        weight = weights.get(node.input[1]) if len(node.input) > 1 else None
        if not data or not weight:
            continue
        if node.op_type == "Conv" and len(weight) == 4:
            if given.get("auto_pad", b"NOTSET") != b"NOTSET":
                raise SystemExit(f"{path}: node {node.name} has auto_pad; state its pads")
            attributes = {
                "strides": list(given.get("strides", [1, 1])),
                "pads": list(given.get("pads", [0] * 4)),
                "dilations": list(given.get("dilations", [1, 1])),
                "group": given.get("group", 1),
            }
            yield Layer("conv", data, weight, attributes)
        elif node.op_type in ("Gemm", "MatMul") and len(weight) == 2:
            if given.get("transB", 0):
                weight = weight[::-1]
            yield Layer("dense", (math.prod(data) // weight[0], weight[0]), weight, {})


def make_model(layer, count, path):
    """Writes the model. Returns the number of its layers, and whether they are a chain."""
    count = max(1, min(count, MAX_WEIGHT_BYTES // (4 * math.prod(layer.weight))))
    chain = layer.output() == layer.data
    rng = np.random.default_rng(int(hashlib.sha256(layer.key().encode()).hexdigest()[:8], 16))
    nodes, constants, outputs = [], [], []
    fan_in = layer.weight[0] if layer.kind == "dense" else math.prod(layer.weight[1:])
    previous = "x"
    for i in range(count):
        weight = rng.standard_normal(layer.weight, np.float32) * np.float32(math.sqrt(2 / fan_in))
        bias = rng.standard_normal(layer.output()[1], np.float32) * np.float32(0.1)
        constants += [numpy_helper.from_array(weight, f"w{i}"), numpy_helper.from_array(bias, f"b{i}")]
        names = [previous if chain else "x", f"w{i}", f"b{i}"]
        if layer.kind == "dense":
            nodes.append(helper.make_node("Gemm", names, [f"c{i}"], name=f"layer{i}"))
        else:
            attributes = dict(layer.attributes, kernel_shape=list(layer.weight[2:]))
            nodes.append(helper.make_node("Conv", names, [f"c{i}"], name=f"layer{i}", **attributes))
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"y{i}"]))
        previous = f"y{i}"
        if not chain or i + 1 == count:
            outputs.append(helper.make_tensor_value_info(previous, onnx.TensorProto.FLOAT, layer.output()))
    graph = helper.make_graph(
        nodes, "layers", [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, layer.data)], outputs, constants
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, path)
    return count, chain


def run(arguments, *words, quiet=True):
    command = [str(arguments.autotune), *[str(w) for w in words]]
    result = subprocess.run(command, stdout=subprocess.PIPE if quiet else None, text=True)
    if result.returncode != 0:
        raise SystemExit(f"exit code {result.returncode}: {' '.join(command)}")
    return result.stdout


def measured_peak(autotune):
    """Returns the GFLOPS of one core's multiply-adds, by `autotune doctor`."""
    text = subprocess.run([str(autotune), "doctor"], stdout=subprocess.PIPE, text=True).stdout
    speed = re.search(r"([\d.]+) GFLOPS \(fp32 multiply-adds, (\d+) core", text)
    if not speed:
        raise SystemExit(f"{autotune} doctor prints no speed; give --peak GFLOPS")
    return float(speed[1]) / int(speed[2])


def package_of(arguments, layer, model, folder, threads):
    """Tunes a layer and compiles its package. An existing package is not tuned again."""
    options = f"{threads}-{arguments.trials}{'-no-winograd' if arguments.no_winograd else ''}"
    package = folder / f"tuned-{options}.tar"
    if package.exists() and not arguments.retune:
        return package
    words = ["tune", "--model", model, "--trials", arguments.trials, "--db", arguments.work / "records.db", "-o", package]
    words += ["--target", f"llvm -mcpu=host -num-cores={threads}"]
    words += ["--no-winograd"] if arguments.no_winograd else []
    print(f"tuning {layer.text()} for {threads} threads", file=sys.stderr)
    run(arguments, *words, "--json")
    return package


class Serving:
    """A process of `autotune bench --serve`, which measures on request."""

    def __init__(self, arguments, package, threads):
        command = [str(arguments.autotune), "bench", str(package), "--threads", str(threads), "--serve", "--json"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("autotune bench --serve ended")
        return json.loads(line)

    def best(self, runs):
        return self.ask(f"run {runs}")["min_ms"]

    def kernels(self, runs):
        return {k["name"]: k["min_us"] for k in self.ask(f"profile {runs}")["kernels"]}

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def runs_for(milliseconds):
    """Returns the number of runs of a round, which takes about 20 ms."""
    return max(1, min(200, round(20 / max(0.02, milliseconds))))


def compare_chains(arguments, model, package, threads):
    peer, ours = OnnxRuntime(str(model), threads), Serving(arguments, package, threads)
    best = [math.inf, math.inf]
    runs = runs_for(min(peer.ask("run 3")["times_ms"]))
    for _ in range(arguments.rounds):
        time.sleep(REST)
        best[0] = min(best[0], ours.best(runs))
        best[1] = min(best[1], *peer.ask(f"run {runs}")["times_ms"])
    peer.close()
    ours.close()
    return best, None


def compare_kernels(arguments, model, package, threads):
    """Returns two sums of least times: of the kernels that are named after a layer (for ONNX Runtime, the nodes of
    these operators), and of all others."""
    peer, ours = OnnxRuntime(str(model), threads, profile=True), Serving(arguments, package, threads)
    least = {}
    runs = runs_for(min(peer.ask("run 3")["times_ms"]))
    for _ in range(arguments.rounds):
        time.sleep(REST)
        for name, us in ours.kernels(runs).items():
            least[name] = min(us, least.get(name, math.inf))
        peer.ask(f"run {runs}")
    sums, others = [0, 0], [0, 0]
    for name, us in least.items():
        (sums if name.startswith("layer") else others)[0] += us / 1e3
    for node in peer.ask("nodes")["nodes"]:
        (sums if any(op in node["op"] for op in ("Conv", "Gemm", "MatMul")) else others)[1] += node["min_us"] / 1e3
    peer.close()
    ours.close()
    return sums, others


def random_input(layer):
    return np.random.default_rng(7).uniform(-1, 1, layer.data).astype(np.float32)


def error_of(arguments, layer, model, package):
    """Returns the largest error of the package's outputs, relative to the allowed one."""
    import reference

    x, network = random_input(layer), onnx.load(model)
    values = reference.run(network, {"x": x})
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "x.npy", x)
        run(arguments, "run", package, "--input", f"x={folder}/x.npy", "--output-dir", folder)
        names = [output.name for output in network.graph.output]
        return max(compare.error_ratio(np.load(Path(folder) / f"{name}.npy"), values[name]) for name in names)


def measure(arguments, layer):
    name = hashlib.sha256(layer.key().encode()).hexdigest()[:12]
    folder = arguments.work / name
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.onnx"
    count, chain = make_model(layer, arguments.layers, model)
    rows = []
    for threads in arguments.threads:
        package = package_of(arguments, layer, model, folder, threads)
        error = error_of(arguments, layer, model, package) if arguments.check else None
        compare = compare_chains if chain else compare_kernels
        times, others = compare(arguments, model, package, threads)
        ours, theirs = (ms / count for ms in times)
        peak = arguments.peak * 1e9 * threads
        rows.append(
            {
                "layer": layer.text(),
                "nets": layer.nets,
                "threads": threads,
                "layers": count,
                "chain": chain,
                "ms": ours,
                "ort_ms": theirs,
                "ratio": theirs / ours,
                "gflops": layer.flops() / ours / 1e6,
                "peak": 100 * layer.flops() / peak / ours * 1e3,
                "bound_ms": 1e3 * max(layer.flops() / peak, layer.bytes() / MEMORY),
                "reorders_ms": others,
                "error": error,
            }
        )
    return rows


def print_means(ratios, what, as_json):
    """Prints means. `ratios` holds lists by number of threads."""
    for threads, values in ratios.items():
        mean = math.exp(sum(math.log(v) for v in values) / len(values))
        line = {"threads": threads, what: len(values), "geomean": mean, "least": min(values)}
        text = f"{threads} threads: geomean {mean:.3f}, least {min(values):.3f}, {len(values)} {what}"
        print(json.dumps(line) if as_json else text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+")
    parser.add_argument("--only", default="", help="layers of this kind: conv, dense, depthwise, grouped, 1x1, 3x3s1, ...")
    parser.add_argument("--trials", type=int, default=100, help="trials for each layer")
    parser.add_argument("--threads", type=lambda s: [int(t) for t in s.split(",")], default=[1, 2])
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--work", type=Path, default=Path("conv_layers"))
    parser.add_argument("--peak", type=float, help="GFLOPS of a core's multiply-adds; else they are measured")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--no-winograd", action="store_true")
    parser.add_argument("--tune-only", action="store_true")
    parser.add_argument("--retune", action="store_true", help="continue tuning if --trials has grown")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune")
    arguments = parser.parse_args()
    arguments.peak = arguments.peak or measured_peak(arguments.autotune)

    layers = {}
    for path in arguments.models:
        for layer in layers_of(path):
            kept = layers.setdefault(layer.key(), layer)
            net = Path(path).resolve().parent.name
            kept.nets[net] = kept.nets.get(net, 0) + 1
    chosen = [layer for layer in layers.values() if not arguments.only or arguments.only in layer.tags()]
    if not chosen:
        raise SystemExit(f"no layer is {arguments.only}")
    if arguments.tune_only:
        for layer in chosen:
            folder = arguments.work / hashlib.sha256(layer.key().encode()).hexdigest()[:12]
            folder.mkdir(parents=True, exist_ok=True)
            make_model(layer, arguments.layers, folder / "model.onnx")
            for threads in arguments.threads:
                package_of(arguments, layer, folder / "model.onnx", folder, threads)
        return
    width = max(len(layer.text()) for layer in chosen)
    if not arguments.json:
        error = "    error" if arguments.check else ""
        print(f"{'layer':<{width}} thr      ms     ORT   ratio  GFLOPS  % peak   bound  {'reorders':<13}{error}  nets")
    ratios, larger, wrong = {}, {}, 0
    for layer in chosen:
        for row in measure(arguments, layer):
            wrong += arguments.check and row["error"] > 1
            ratios.setdefault(row["threads"], []).append(row["ratio"])
            if not layer.one_pixel():
                larger.setdefault(row["threads"], []).append(row["ratio"])
            if arguments.json:
                print(json.dumps(row), flush=True)
                continue
            error = f" {row['error']:8.1e}" if arguments.check else ""
            nets = " ".join(f"{net}:{n}" for net, n in row["nets"].items())
            reorders = "" if row["chain"] else "{:.3f}/{:.3f}".format(*row["reorders_ms"])
            print(
                f"{row['layer']:<{width}} {row['threads']}{' ' if row['chain'] else 'p'} {row['ms']:7.3f} {row['ort_ms']:7.3f} "
                f"{row['ratio']:7.3f} {row['gflops']:7.1f} {row['peak']:7.1f} {row['bound_ms']:7.3f}  {reorders:<13}{error}  {nets}",
                flush=True,
            )
    print_means(ratios, "layers", arguments.json)
    print_means(larger, "layers of more than one pixel", arguments.json)
    if wrong:
        raise SystemExit(f"{wrong} outputs are wrong")


if __name__ == "__main__":
    main()
