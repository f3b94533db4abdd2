#!/usr/bin/env python3
"""Compares `autotune bench` on a device of a farm with `autotune bench` here, for the same packages on the same machine.

    bench/remote.py resnet50/model.onnx bert2/model.onnx --work FOLDER

Starts a tracker and a device server on this host, compiles each model untuned, and measures each package in turns: here,
there, and here again, in an order that changes with each turn. Prints the least latency of all turns here and there, and
two ratios: that of these least latencies, and the median of the turns' ratios. The speed of a shared machine drifts, and
two processes differ by where their memory lies; one lucky process decides the ratio of the least latencies, so the median
is judged. The least of few runs is luck as well, so a measurement takes two seconds. `noise` is the same median of the
two measurements here: a ratio that is off by no more than that says nothing.
Bars: 2 % for the median. Exit code 1: something failed, or a median is off by more than 2 % and by more than the noise;
2: none is, but the noise of some network exceeds 2 %, so the machine was not quiet enough to judge.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MOST_OFF = 0.02


class Farm:
    """A tracker and a device server of this host, with the key `here`."""

    def __init__(self, tools, folder):
        self.socket, self.processes, self.log = folder / "tracker", [], open(folder / "farm.log", "w")
        self.start(tools / "rpc_tracker", "--listen", self.socket, "--state", folder / "state")
        self.start(tools / "rpc_server", "--tracker", self.socket, "--key", "here")
        for _ in range(300):
            status = [tools / "rpc_tracker", "status", "--json", "--tracker", self.socket]
            reply = subprocess.run(status, capture_output=True, text=True, check=False)
            if reply.returncode == 0 and [d for d in json.loads(reply.stdout)["devices"] if d["state"] == "free"]:
                return
            time.sleep(0.1)
        raise SystemExit(f"the farm did not start: see {folder / 'farm.log'}")

    def start(self, *command):
        self.processes.append(subprocess.Popen(list(map(str, command)), stdout=self.log, stderr=self.log))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()


def bench(arguments, package, place):
    """Returns the least latency in milliseconds, and whether other processes disturbed the measurement."""
    command = [arguments.tools / "autotune", "bench", package, "--json", "--seconds", str(arguments.seconds), *place]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise RuntimeError((run.stderr.strip().splitlines() or [f"exit code {run.returncode}"])[-1])
    line = json.loads(run.stdout.splitlines()[-1])
    return line["min_ms"], not line["undisturbed"]


def compare(arguments, package, farm):
    """Returns the latencies here, there and here again, each of every turn, and how many measurements were disturbed."""
    places = [[], ["--tracker", farm.socket, "--key", "here"], []]
    times, disturbed = [[] for _ in places], 0
    for turn in range(arguments.turns):
        for i in range(len(places)):
            which = (turn + i) % len(places)
            least, was_disturbed = bench(arguments, package, places[which])
            times[which].append(least)
            disturbed += was_disturbed
    return times + [disturbed]


def median_ratio(times, of):
    return statistics.median(a / b for a, b in zip(times, of))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=2, help="of each measurement")
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tools", type=Path, default=ROOT / "build/tools")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    arguments.work = arguments.work.resolve()
    os.environ["XDG_STATE_HOME"] = str(arguments.work / "state-home")  # what the farm keeps
    off = failed = noisy = 0
    with Farm(arguments.tools, arguments.work) as farm:
        print(f"{'network':24} {'here':>12} {'there':>12}  of least  of turns   noise  disturbed")
        for model in arguments.models:
            name = model.stem if model.stem != "model" else model.resolve().parent.name
            package = arguments.work / f"{name}.tar"
            try:
                compiling = [arguments.tools / "autotune", "compile", "--model", model, "-o", package]
                compiling += ["--db", arguments.work / "empty.db"]
                subprocess.run(compiling, capture_output=True, text=True, check=True)
                first, there, second, disturbed = compare(arguments, package, farm)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                failed += 1
                print(f"{name:24} failed: {(getattr(error, 'stderr', None) or str(error)).strip()}", flush=True)
                continue
            ratio, noise = median_ratio(there, first), abs(median_ratio(second, first) - 1)
            here, there = min(first), min(there)
            off += abs(ratio - 1) > max(MOST_OFF, noise)
            noisy += noise > MOST_OFF
            print(
                f"{name:24} {here:9.4f} ms {there:9.4f} ms  {there / here:8.4f}  {ratio:8.4f} {noise:7.2%}  "
                f"{disturbed} of {3 * arguments.turns}",
                flush=True,
            )
    print(f"{failed} failed, {off} off by more than {MOST_OFF:.0%} and the noise, {noisy} with more noise than that")
    return 1 if failed or off else 2 if noisy else 0


if __name__ == "__main__":
    sys.exit(main())
