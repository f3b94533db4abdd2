#!/usr/bin/env python3
"""Measures what the Python package costs beyond the kernels: its import, its calls, and loading a package.

    bench/python_binding.py [--package resnet50.tar] [--calls 1000000]

import     `import autotune` beside `import ctypes`, in processes of their own, in turns: the median of the differences of
           processor time, since a busy machine makes the import of ten files wait for long
run_with   a call on bound arrays, beside the same call from C (bench_threads), on a network of 256 elements
run        the same for InferenceSession.run, whose inputs and outputs are numpy's arrays
growth     of the memory after so many calls
aligned    runs of --package on arrays at addresses that are multiples of 16, beside multiples of 64: ratio of speeds
load       with --package and share_weights: from the call to the first result, less the time of a run; the second
           process that loads the package, without numpy

Prints the bar of each, and ends with the exit code 1 if one is missed. Needs numpy, and
`cmake --build build --target autotune autotune_runtime bench_threads`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
IMPORT_MS, RUN_WITH_US, RUN_US, GROWTH_KIB, ALIGNED, LOAD_MS = 30, 5, 15, 1024, 0.98, 100

LOAD = """
import sys, time
import autotune
begin = time.perf_counter()
session = autotune.InferenceSession(sys.argv[1], threads=int(sys.argv[2]), share_weights=True)
inputs = [entry.new_tensor() for entry in session.get_inputs()]
outputs = [entry.new_tensor() for entry in session.get_outputs()]
session.run_with(inputs, outputs)
first = time.perf_counter() - begin
times = []
for _ in range(10):
    begin = time.perf_counter()
    session.run_with(inputs, outputs)
    times.append(time.perf_counter() - begin)
print(1e3 * (first - min(times)))
"""


def python(environment, program, *words):
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def import_ms(environment):
    """The median of the differences, and of the import of ctypes."""
    program = "import time; b = time.process_time(); import %s; print(1e3 * (time.process_time() - b))"
    pairs = [[float(python(environment, program % name)) for name in ("ctypes", "autotune")] for _ in range(21)]
    pairs = pairs[1:]  # the first one reads the files from the disk
    return statistics.median(b - a for a, b in pairs), statistics.median(a for a, _ in pairs)


def call_us(function, count=20000):
    """The median time of a call in microseconds."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return 1e6 * statistics.median(times)


def c_us(program, package):
    """The median time of the same call from C."""
    done = subprocess.run([program, package, "--threads", "1"], input="seconds 1\n", stdout=subprocess.PIPE, text=True)
    return 1e3 * statistics.median(json.loads(done.stdout.splitlines()[-1])["streams"][0]["times_ms"])


def resident_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def calls(arguments, package, report):
    import numpy

    import autotune

    session = autotune.InferenceSession(str(package), threads=1)
    x, y = (autotune.empty(entry.shape, entry.dtype) for entry in (session.get_inputs()[0], session.get_outputs()[0]))
    x.numpy()[...] = numpy.random.rand(*x.shape)
    session.run_with([x], [y])
    inputs = {session.get_inputs()[0].name: x.numpy()}
    turns = []
    for _ in range(5):
        in_c = c_us(arguments.program, package)
        run_with, run = call_us(lambda: session.run_with([x], [y])), call_us(lambda: session.run(None, inputs))
        turns.append((run_with - in_c, run - in_c))
    report("run_with", statistics.median(a for a, _ in turns), "us above C", RUN_WITH_US)
    report("run", statistics.median(b for _, b in turns), "us above C", RUN_US)
    for i in range(arguments.calls + 1000):
        if i == 1000:
            before = resident_kib()
        session.run_with([x], [y])
        session.run(None, inputs)
    report("growth", resident_kib() - before, f"KiB after {arguments.calls} calls of each", GROWTH_KIB)


def aligned(package, report):
    """Kernels use arrays at multiples of 16, as numpy makes them, in place."""
    import numpy

    import autotune

    session = autotune.InferenceSession(package, threads=1)

    def at(entry, shift):
        count = numpy.prod(entry.shape)
        memory = numpy.zeros(count + 32, entry.dtype)
        begin = (-memory.ctypes.data % 64 + shift) // memory.itemsize
        return memory[begin : begin + count].reshape(entry.shape)

    bound = [[[at(e, s) for e in session.get_inputs()], [at(e, s) for e in session.get_outputs()]] for s in (0, 16)]
    ratios = []
    for _ in range(30):
        times = []
        for inputs, outputs in bound:
            begin = time.perf_counter()
            session.run_with(inputs, outputs)
            times.append(time.perf_counter() - begin)
        ratios.append(times[0] / times[1])
    report("aligned", statistics.median(ratios), "of the speed at multiples of 64", ALIGNED, most=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--package", help="a network whose loading is measured")
    parser.add_argument("--threads", type=int, default=0, help="threads of that network; 0: one per CPU")
    parser.add_argument("--calls", type=int, default=1000000)
    parser.add_argument("--build", type=Path, default=ROOT / "build")
    arguments = parser.parse_args()
    arguments.program = str(arguments.build / "bench" / "bench_threads")
    library = os.environ.setdefault("AUTOTUNE_RUNTIME_LIBRARY", str(arguments.build / "api" / "libautotune_runtime.so.0"))
    sys.path.insert(0, str(ROOT / "python"))
    environment = dict(os.environ, PYTHONPATH=str(ROOT / "python"), AUTOTUNE_RUNTIME_LIBRARY=library)
    missed = []

    def report(name, value, words, bar, most=True):
        right = value <= bar if most else value >= bar
        missed.extend([] if right else [name])
        kind = "at most" if most else "at least"
        print(f"{name:9} {value:9.3f} {words}; bar: {kind} {bar}{'' if right else ', MISSED'}", flush=True)

    above, beside = import_ms(environment)
    report("import", above, f"ms above ctypes, which takes {beside:.1f} ms", IMPORT_MS)
    with tempfile.TemporaryDirectory() as folder:
        environment["XDG_CACHE_HOME"] = folder
        package = Path(folder) / "softmax.tar"
        compile_ = [arguments.build / "tools" / "autotune", "compile", "--op", "softmax:16,16", "--no-records", "--quiet"]
        subprocess.run([*compile_, "-o", package], check=True)
        calls(arguments, package, report)
        if arguments.package:
            aligned(arguments.package, report)
            python(environment, LOAD, arguments.package, arguments.threads)  # makes the cache
            times = [float(python(environment, LOAD, arguments.package, arguments.threads)) for _ in range(11)]
            report("load", statistics.median(times), "ms above a run, from load to the first result", LOAD_MS)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
