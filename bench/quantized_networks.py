#!/usr/bin/python3
"""Compares the speed of random networks of 8 bits with that of their float forms.

    bench/quantized_networks.py --count 20 --threads 1 --work FOLDER

Each seed gives a network of images (dense, depthwise, grouped and strided convolutions, sums, concatenations, pools and
activations of several kinds) or of vectors (products, activations, normalizations). `autotune quantize` makes its form
of 8 bits. Both are compiled with default schedules and timed in turns; a time is the least one of all turns. Prints the
speed of the form of 8 bits as a multiple of the float one's, and the smallest at the end. Needs Debian's python3-numpy
and python3-onnx.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
TURNS = 5


class Net:
    """A network under construction; `shape` is that of the tensor `x`."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.constants = [], []

    def pick(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def constant(self, array):
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weights(self, *shape):
        terms = math.prod(shape[1:])
        return self.constant((self.rng.standard_normal(shape) * math.sqrt(2 / terms)).astype(np.float32))

    def add(self, op, inputs, **attributes):
        result = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [result], name=f"{op}_{len(self.nodes)}", **attributes))
        return result

    def activation(self, x):
        kind = self.pick("Relu", "Relu", "Clip", "HardSwish", "Silu", "none")
        if kind == "Clip":
            return self.add("Clip", [x, self.constant(np.float32(0)), self.constant(np.float32(6))])
        if kind == "HardSwish":
            return self.add("Mul", [x, self.add("HardSigmoid", [x], alpha=1 / 6, beta=0.5)])
        if kind == "Silu":
            return self.add("Mul", [x, self.add("Sigmoid", [x])])
        return x if kind == "none" else self.add(kind, [x])

    def conv(self, x, channels, out, kernel=1, stride=1, groups=1):
        bias = self.constant(self.rng.standard_normal(out).astype(np.float32) * np.float32(0.1))
        pads = [(kernel - 1) // 2] * 4
        return self.add("Conv", [x, self.weights(out, channels // groups, kernel, kernel), bias], group=groups,
                        kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=pads)


def image_network(net):
    channels, size = int(net.pick(16, 24, 32, 48, 64, 96)), int(net.pick(28, 32, 56, 64))
    x = net.conv("input", 3, channels, 3, 2)
    size = (size + 1) // 2
    x = net.activation(x)
    for _ in range(net.rng.integers(4, 9)):
        kind = net.pick("dense", "dense", "bottleneck", "separable", "grouped", "pool", "branches")
        if kind == "dense":
            out, stride = int(net.pick(channels, 2 * channels)), int(net.pick(1, 1, 2)) if size > 7 else 1
            out = min(out, 512)
            x = net.activation(net.conv(x, channels, out, int(net.pick(1, 3, 3, 5)), stride))
            channels, size = out, (size + stride - 1) // stride
        elif kind == "bottleneck":
            y = net.activation(net.conv(x, channels, max(8, channels // 4)))
            y = net.activation(net.conv(y, max(8, channels // 4), max(8, channels // 4), 3))
            x = net.activation(net.add("Add", [x, net.conv(y, max(8, channels // 4), channels)]))
        elif kind == "separable":
            wide = channels * int(net.pick(2, 4, 6))
            y = net.activation(net.conv(x, channels, wide))
            y = net.activation(net.conv(y, wide, wide, int(net.pick(3, 3, 5)), groups=wide))
            x = net.add("Add", [x, net.conv(y, wide, channels)])
        elif kind == "grouped":
            groups = int(net.pick(2, 4, 8))
            x = net.activation(net.conv(x, channels, channels, 3, groups=groups))
        elif kind == "pool" and size > 7:
            x = net.add(net.pick("MaxPool", "AveragePool"), [x], kernel_shape=[2, 2], strides=[2, 2])
            size //= 2
        elif kind == "branches":
            a, b = net.activation(net.conv(x, channels, channels // 2)), net.activation(
                net.conv(x, channels, channels // 2, 3))
            x = net.add("Concat", [a, b], axis=1)
            channels = channels // 2 * 2
    x = net.add("Flatten", [net.add("GlobalAveragePool", [x])])
    return net.add("Gemm", [x, net.weights(100, channels)], transB=1), [1, 3, *[int(net.pick(56, 64, 112))] * 2]


def vector_network(net):
    rows, width = int(net.pick(1, 4, 16, 49, 128, 197)), int(net.pick(96, 192, 384, 512, 768))
    x = "input"
    for _ in range(net.rng.integers(2, 5)):
        wide = width * int(net.pick(1, 2, 4))
        y = net.add("MatMul", [x, net.constant((net.rng.standard_normal((width, wide)) / math.sqrt(width)).astype(np.float32))])
        y = net.activation(net.add("Add", [y, net.constant(net.rng.standard_normal(wide).astype(np.float32) * np.float32(0.1))]))
        y = net.add("MatMul", [y, net.constant((net.rng.standard_normal((wide, width)) / math.sqrt(wide)).astype(np.float32))])
        x = net.add("Add", [x, y])
        if net.pick(True, False):
            ones = net.constant(np.ones(width, np.float32))
            x = net.add("LayerNormalization", [x, ones], axis=-1)
    return x, [1, rows, width]


def make(seed):
    net = Net(seed)
    result, shape = vector_network(net) if seed % 3 == 2 else image_network(net)
    graph = helper.make_graph(net.nodes, f"random_{seed}", [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
                              [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)], net.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


def call(*command):
    process = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {process.stderr.strip()}")
    return process.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="networks")
    parser.add_argument("--seed", type=int, default=0, help="of the first one")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.3, help="of each turn of a network")
    parser.add_argument("--work", type=Path, required=True, help="a folder for models and packages")
    parser.add_argument("--target", default="cpu", help="for a CPU whose code this one runs")
    parser.add_argument("--autotune", default=ROOT / "build/tools/autotune")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    ratios = []
    for seed in range(args.seed, args.seed + args.count):
        files = {form: args.work / f"{seed}_{form}" for form in ("f32", "int8")}
        onnx.save(make(seed), f"{files['f32']}.onnx")
        call(args.autotune, "quantize", "--model", f"{files['f32']}.onnx", "--calibrate", "random", "-o",
             f"{files['int8']}.onnx")
        for path in files.values():
            call(args.autotune, "compile", "--model", f"{path}.onnx", "--no-records", "--target", args.target,
                 "-o", f"{path}.tar")
        least = dict.fromkeys(files, math.inf)
        for turn in range(TURNS):
            for form in sorted(files, reverse=turn % 2 == 1):
                line = call(args.autotune, "bench", f"{files[form]}.tar", "--threads", args.threads, "--seconds",
                            args.seconds, "--json")
                least[form] = min(least[form], json.loads(line)["min_ms"])
        ratios.append(least["f32"] / least["int8"])
        print(f"seed {seed}: f32 {least['f32']:.3f} ms, 8 bits {least['int8']:.3f} ms, {ratios[-1]:.2f} times as fast",
              flush=True)
    print(f"geometric mean {math.prod(ratios) ** (1 / len(ratios)):.2f}, least {min(ratios):.2f}")
    return 0 if min(ratios) >= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
