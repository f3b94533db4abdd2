#!/usr/bin/env python3
"""Prints a table of the gain of tuning on whole networks, as measured by `autotune tune` itself.

    bench/tuning.py resnet50/model.onnx bert2/model.onnx --trials-per-task 64 --work FOLDER

Each network is tuned in a database of its own. At its end `autotune tune` runs the tuned and the untuned network in
turns, with all threads and with one; a GPU has one place only. `untuned` and `tuned` are the latencies with all
threads. `gain` is untuned / tuned, with its 95 % interval; it is 1 if the network keeps its default schedules. `choice`
is the time of the choice among schedules, relative to the time of the search. If FOLDER has the results of a network
already, they are only printed. `--beside OTHER` adds the gain with all threads of the same network in the folder OTHER
of another run, and `=` if the intervals of both gains overlap, `+` or `-` if the one of this run is higher or lower.
Exit code 1: a run failed, or a tuned network is significantly slower.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def name_of(model):
    return model.stem if model.stem != "model" else model.resolve().parent.name


def log_of(arguments, work, model):
    return work / name_of(model) / f"tune-{arguments.trials_per_task}.jsonl"


def end_of(log):
    """Returns the last event of a run; None if it has not ended."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    ends = [line for line in lines if line.get("event") == "end"]
    return ends[-1] if ends else None


def tune(arguments, model):
    """Returns the exit code of the command and the last event that it printed."""
    log = log_of(arguments, arguments.work, model)
    folder = log.parent
    folder.mkdir(parents=True, exist_ok=True)
    code = 0
    if end_of(log) is None:
        command = [arguments.autotune, "tune", "--json", "--model", model, "--db", folder / "records.db"]
        command += ["--trials-per-task", str(arguments.trials_per_task), "--seed", str(arguments.seed)]
        command += arguments.place
        with open(log, "w") as out, open(folder / "errors.txt", "w") as errors:
            code = subprocess.run(command, stdout=out, stderr=errors, check=False).returncode
    return code, end_of(log)


def gains_of(end):
    """Returns the gain at each number of threads, all threads first, each with its interval."""
    comparisons = end["choice"]["comparisons"]
    if end["choice"]["kept_defaults"] or not comparisons:
        return [(1.0, 1.0, 1.0)]
    return [(c["speedup"], c["speedup_low"], c["speedup_high"]) for c in comparisons]


def gain_text(gain):
    return "1.000 (untuned)" if gain == (1.0, 1.0, 1.0) else f"{gain[0]:.3f} ({gain[1]:.3f}-{gain[2]:.3f})"


def latencies(end):
    """Returns the texts of the untuned and the tuned latency with all threads, where the run has measured them."""
    comparisons = end["choice"]["comparisons"]
    if not comparisons:
        return ["-", "-"]
    tuned = "untuned_ms" if end["choice"]["kept_defaults"] else "tuned_ms"
    return [f"{comparisons[0][key]:.3f} ms" for key in ("untuned_ms", tuned)]


def beside_text(gain, other):
    """Compares a gain with that of another run of the network."""
    if other is None:
        return "no result"
    there = gains_of(other)[0]
    sign = "+" if gain[1] > there[2] else "-" if gain[2] < there[1] else "="
    return f"{gain_text(there):22} {sign}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--trials-per-task", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tracker", help="tune on devices of this tracker, with --key")
    parser.add_argument("--join", help="tune on devices of this farm, with --key")
    parser.add_argument("--key", help="of the devices")
    parser.add_argument("--target", help="for example opencl")
    parser.add_argument("--beside", type=Path, metavar="OTHER", help="a folder with the results of another run")
    parser.add_argument("--autotune", default=str(ROOT / "build/tools/autotune"))
    arguments = parser.parse_args()
    farm = [("--tracker", arguments.tracker), ("--join", arguments.join), ("--key", arguments.key)]
    farm.append(("--target", arguments.target))
    arguments.place = [word for option, value in farm if value for word in (option, value)]
    gains, failures, slower = [], 0, 0
    print(
        f"{'network':24} {'tasks':>5} {'trials':>6} {'per s':>6} {'choice':>7} {'untuned':>11} {'tuned':>11}  "
        f"{'gain, all threads':22} {'one thread':22}" + (f" {arguments.beside.name}" if arguments.beside else "")
    )
    for model in arguments.models:
        name = name_of(model)
        code, end = tune(arguments, model)
        if code != 0 or end is None or not end.get("choice"):
            failures += 1
            print(f"{name:24} failed with exit code {code}: see {arguments.work / name}")
            continue
        found = gains_of(end)
        rate = end["trials"] / max(end["seconds"], 1e-9)
        share = end["choice"]["seconds"] / max(end["seconds"], 1e-9)
        row = f"{name:24} {len(end['tasks']):5} {end['trials']:6} {rate:6.1f} {share:7.0%}"
        row += "".join(f" {text:>11}" for text in latencies(end)) + f"  {gain_text(found[0]):22} "
        row += f"{gain_text(found[-1]):22}" if len(found) > 1 or end["choice"]["kept_defaults"] else " " * 22
        if arguments.beside:
            row += " " + beside_text(found[0], end_of(log_of(arguments, arguments.beside, model)))
        print(row.rstrip(), flush=True)
        gains.append([gain for gain, _, _ in found])
        slower += any(high < 1 for _, _, high in found)
    if gains:
        for place, name in ((0, "all threads"), (-1, "one thread")):
            mean = math.exp(sum(math.log(gain[place]) for gain in gains) / len(gains))
            print(f"geometric mean, {name}: {mean:.3f}; least {min(gain[place] for gain in gains):.3f}")
    print(f"{failures} failed, {slower} slower")
    return 1 if failures or slower else 0


if __name__ == "__main__":
    sys.exit(main())
