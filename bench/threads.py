#!/usr/bin/env python3
"""Compares N threads, each with an executor of one thread, with N workers of ONNX Runtime, each with a session of one.

    bench/threads.py model.onnx model.tar --threads 8 --rounds 5

Both run in turns, and the order changes with each round. The throughput is the sum of the threads' runs per second. The
bar: 1.2 times the peer's throughput, and a p99 of the latencies that is not above the peer's, each in 4 of 5 rounds. The
exit code is 1 if it is missed. Needs `cmake --build build --target bench_threads` and
(cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import fcntl
import json
import math
import os
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPEEDUP, SHARE = 1.2, 0.8


class Side:
    """A process that runs all threads for some seconds when it is asked, and is idle else."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer()

    def answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"error": "the process has ended"}
        if "error" in answer:
            sys.exit(f"{self.process.args[0]}: {answer['error']}")
        return answer

    def measure(self, seconds):
        """Returns the throughput in runs per second, and p50 and p99 of the latencies in milliseconds."""
        self.process.stdin.write(f"seconds {seconds}\n")
        self.process.stdin.flush()
        streams = self.answer()["streams"]
        times = sorted(time for stream in streams for time in stream["times_ms"])
        rate = sum(len(stream["times_ms"]) / stream["seconds"] for stream in streams)
        return rate, times[len(times) // 2], times[math.ceil(0.99 * len(times)) - 1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("package")
    parser.add_argument("--threads", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="time of each side in each round")
    parser.add_argument("--program", default=str(ROOT / "build" / "bench" / "bench_threads"))
    arguments = parser.parse_args()
    ours = Side(arguments.program, arguments.package, "--threads", str(arguments.threads))
    peer = Side("node", str(ROOT / "bench/peer/ort_workers.js"), "--workers", str(arguments.threads), arguments.model)
    print(f"{arguments.model}, {arguments.threads} threads on {len(os.sched_getaffinity(0))} cores")
    print("round    ours/s   peer/s   ratio   ours p50     p99   peer p50     p99")
    ratios, tails = [], []
    with open(os.environ.get("AUTOTUNE_HOST_LOCK", "/tmp/autotune-host.lock"), "a", encoding="ascii") as lock:
        for number in range(arguments.rounds):
            fcntl.flock(lock, fcntl.LOCK_EX)
            order = (ours, peer) if number % 2 == 0 else (peer, ours)
            found = {side: side.measure(arguments.seconds) for side in order}
            fcntl.flock(lock, fcntl.LOCK_UN)
            (rate, median, tail), (peer_rate, peer_median, peer_tail) = found[ours], found[peer]
            ratios.append(rate / peer_rate)
            tails.append(tail / peer_tail)
            print(f"{number + 1:5} {rate:9.1f} {peer_rate:8.1f} {ratios[-1]:7.3f} {median:10.3f} {tail:7.3f} "
                  f"{peer_median:10.3f} {peer_tail:7.3f}", flush=True)  # fmt: skip
    fast, calm = sum(ratio >= SPEEDUP for ratio in ratios), sum(tail <= 1 for tail in tails)
    print(f"median ratio of throughput {statistics.median(ratios):.3f}, of p99 {statistics.median(tails):.3f}; "
          f"at least {SPEEDUP} in {fast}, p99 not above in {calm} of {len(ratios)} rounds")  # fmt: skip
    least = SHARE * len(ratios)
    return 0 if fast >= least and calm >= least else 1


if __name__ == "__main__":
    sys.exit(main())
