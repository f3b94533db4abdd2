#!/usr/bin/env python3
"""Measures packages and ONNX Runtime in turns, so that both meet the same state of the machine; or compares outputs.

    bench/compare_ort.py model.onnx tuned.tar [default.tar ...] --threads 2 --rounds 10
    bench/compare_ort.py model.onnx tuned.tar --check test_data_set_0

A round runs ONNX Runtime for some seconds, then each package. `ratio` is the median over the rounds of ONNX Runtime's
median time in a round divided by the package's; `of min` uses the least times instead. Above 1 the package is faster.
--check runs both on the same inputs and compares the outputs by the rule of examples/compare.py; if ours are wrong, the
exit code is 1. Needs python3-numpy and (cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "examples"))
import compare  # noqa: E402
PEER = ROOT / "bench" / "peer" / "ort_bench.js"


class OnnxRuntime:
    """A process that runs ONNX Runtime, answers one command at a time and is idle between commands. If ONNX Runtime
    refuses the model, the program ends. With must=False it continues, and `refusal` holds the reason."""

    def __init__(self, model, threads, inputs=None, profile=False, must=True):
        self.refusal, self.must = None, must
        command = ["node", str(PEER), "--serve", "--threads", str(threads)]
        command += ["--inputs", str(inputs)] if inputs else []
        command += ["--profile"] if profile else []
        self.process = subprocess.Popen(command + [model], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.about = self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit("ONNX Runtime ended; is it installed? (cd bench/peer && npm install --ignore-scripts)")
        answer = json.loads(line)
        if "error" in answer and not self.must:
            self.refusal = answer["error"]
        elif "error" in answer:
            sys.exit(f"ONNX Runtime: {answer['error']}")
        return answer

    def ask(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self.answer()

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def autotune(arguments, *words):
    command = [arguments.autotune, *words]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"exit code {result.returncode}: {' '.join(command)}")
    return result.stdout


def measure(arguments):
    peer = OnnxRuntime(arguments.model, arguments.threads)
    rounds = {package: [] for package in arguments.packages}
    for _ in range(arguments.rounds):
        times = peer.ask(f"seconds {arguments.seconds}")["times_ms"]
        theirs = (min(times), statistics.median(times))
        for package in arguments.packages:
            text = autotune(
                arguments, "bench", package, "--threads", str(arguments.threads), "--seconds", str(arguments.seconds), "--json"
            )
            ours = json.loads(text.strip().splitlines()[-1])
            rounds[package].append(((ours["min_ms"], ours["median_ms"]), theirs))
    peer.close()

    rows = []
    for package, pairs in rounds.items():
        rows.append(
            {
                "package": package,
                "threads": arguments.threads,
                "rounds": len(pairs),
                "min_ms": min(ours[0] for ours, _ in pairs),
                "median_ms": statistics.median(ours[1] for ours, _ in pairs),
                "ort_min_ms": min(theirs[0] for _, theirs in pairs),
                "ort_median_ms": statistics.median(theirs[1] for _, theirs in pairs),
                "ratio": statistics.median(theirs[1] / ours[1] for ours, theirs in pairs),
                "ratio_of_min": statistics.median(theirs[0] / ours[0] for ours, theirs in pairs),
            }
        )
    if arguments.json:
        print(json.dumps({"model": arguments.model, "rows": rows}))
        return
    width = max(len("package"), *(len(row["package"]) for row in rows))
    print(f"{arguments.model}, {arguments.threads} threads, {arguments.rounds} rounds")
    print(f"{'package':<{width}}   min ms  median   ORT min  median   ratio  of min")
    for row in rows:
        print(
            f"{row['package']:<{width}} {row['min_ms']:8.3f} {row['median_ms']:7.3f}  {row['ort_min_ms']:8.3f} "
            f"{row['ort_median_ms']:7.3f} {row['ratio']:7.3f} {row['ratio_of_min']:7.3f}"
        )


def check(arguments):
    data = Path(arguments.check)
    peer = OnnxRuntime(arguments.model, arguments.threads, data)
    passed = True
    with tempfile.TemporaryDirectory() as folder:
        theirs = Path(folder) / "ort"
        peer.ask(f"dump {theirs}")
        peer.close()
        given = []
        for i, name in enumerate(peer.about["inputs"]):
            file = next(f for f in (data / f"input_{i}.npy", data / f"input_{i}.pb") if f.exists())
            given += ["--input", f"{name}={file}"]
        for number, package in enumerate(arguments.packages):
            ours = Path(folder) / str(number)
            autotune(arguments, "run", package, *given, "--output-dir", str(ours), "--threads", str(arguments.threads))
            for i, name in enumerate(peer.about["outputs"]):
                names = [f"output_{i}.npy", f"{name}.npy", re.sub(r"[^A-Za-z0-9_.-]", "_", name) + ".npy"]
                file = next((ours / n for n in names if (ours / n).exists()), None)
                if file is None:
                    sys.exit(f"{package} wrote no {' or '.join(names)}")
                ratio = compare.error_ratio(np.load(file), np.load(theirs / f"output_{i}.npy"))
                passed = passed and ratio <= 1
                print(f"{package} {name}: largest error {ratio:.3g} of the allowed one: {'right' if ratio <= 1 else 'WRONG'}")
    sys.exit(0 if passed else 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("packages", nargs="+", metavar="package")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="time of each side in each round")
    parser.add_argument("--autotune", default=str(ROOT / "build" / "tools" / "autotune"), help="program that runs packages")
    parser.add_argument("--json", action="store_true", help="one JSON line instead of a table")
    parser.add_argument("--check", metavar="DIR", help="compare outputs on the inputs in DIR instead of times")
    arguments = parser.parse_args()
    check(arguments) if arguments.check else measure(arguments)


if __name__ == "__main__":
    main()
