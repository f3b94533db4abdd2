#!/usr/bin/env python3
"""Compares tuned matrix products C = A * B with OpenBLAS and with the peak of multiply-adds.

    /usr/bin/python3 bench/sgemm.py --threads 1 --work FOLDER             A and B are inputs; packing is timed
    /usr/bin/python3 bench/sgemm.py --threads 1 --work FOLDER --constant  B is a constant, packed beforehand

Each product is an ONNX model of one MatMul, which `autotune tune` tunes for that number of threads. Then bench_sgemm
runs all products, those of OpenBLAS and a loop of multiply-adds in turns. Models, packages and the tuning database stay
in FOLDER. So an interrupted run resumes where it ended, and a second run only measures. OpenBLAS chooses its kernels by
the processor; OPENBLAS_CORETYPE, for example Zen, overrides that (the table names the kernels).
Needs python3-numpy, python3-onnx, libopenblas0-pthread, and build/bench/bench_sgemm.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

ROOT = Path(__file__).resolve().parent.parent
SHAPES = (
    "512x512x512,1024x1024x1024,2048x2048x2048,128x768x768,128x3072x768,128x768x3072,127x511x253,"
    "3136x64x576,784x128x1152,196x256x2304,49x512x4608,3136x256x64"
)


def make_model(folder, m, n, k, constant):
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    inputs, constants = [value("a", [m, k])], []
    if constant:
        b = np.random.default_rng(2).uniform(-1, 1, (k, n)).astype(np.float32)
        np.save(folder / "b.npy", b)
        constants.append(numpy_helper.from_array(b, "b"))
    else:
        inputs.append(value("b", [k, n]))
    graph = helper.make_graph([helper.make_node("MatMul", ["a", "b"], ["y"])], "sgemm", inputs, [value("y", [m, n])], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "model.onnx")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES, help="MxNxK, separated by commas")
    parser.add_argument("--constant", action="store_true")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--trials", type=int, default=300, help="trials for each product")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--work", type=Path, default=Path("sgemm"))
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    parser.add_argument("--retune", action="store_true", help="continue tuning if --trials has grown")
    parser.add_argument("--tune-only", action="store_true")
    arguments = parser.parse_args()
    folders = []
    for shape in arguments.shapes.split(","):
        m, n, k = (int(x) for x in shape.split("x"))
        folder = arguments.work / f"{shape}{'-constant' if arguments.constant else ''}-{arguments.threads}"
        folder.mkdir(parents=True, exist_ok=True)
        folders.append(str(folder))
        package = folder / "tuned.tar"
        if package.exists() and not arguments.retune:
            continue
        make_model(folder, m, n, k, arguments.constant)
        print(f"tuning {shape}", file=sys.stderr)
        words = ["tune", "--model", folder / "model.onnx", "--trials", arguments.trials, "--db", arguments.work / "records.db"]
        words += ["--target", f"llvm -mcpu=host -num-cores={arguments.threads}", "-o", package, "--json"]
        command = [str(arguments.build / "tools" / "autotune"), *[str(w) for w in words]]
        if subprocess.run(command, stdout=subprocess.DEVNULL).returncode != 0:
            raise SystemExit(f"failed: {' '.join(command)}")
    if arguments.tune_only:
        return
    command = [arguments.build / "bench" / "bench_sgemm", "--threads", arguments.threads, "--rounds", arguments.rounds, *folders]
    raise SystemExit(subprocess.run([str(w) for w in command]).returncode)


if __name__ == "__main__":
    main()
