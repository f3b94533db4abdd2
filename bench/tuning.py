#!/usr/bin/env python3
"""Prints a table of the gain of tuning on whole networks, as measured by `autotune tune` itself.

    bench/tuning.py resnet50/model.onnx bert2/model.onnx --trials-per-task 64 --work FOLDER

Each network is tuned in a database of its own. At its end `autotune tune` runs the tuned and the untuned network in
turns, with all threads and with one. `gain` is untuned / tuned, with its 95 % interval; it is 1 if the network keeps
its default schedules. `choice` is the time of the choice among schedules, relative to the time of the search. If FOLDER
has the results of a network already, they are only printed. Exit code 1: a run failed, or a tuned network is
significantly slower.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def tune(arguments, model):
    """Returns the exit code of the command and the last event that it printed."""
    folder = arguments.work / (model.stem if model.stem != "model" else model.resolve().parent.name)
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"tune-{arguments.trials_per_task}.jsonl"
    code = 0
    if not (log.exists() and '"end"' in log.read_text()):
        command = [arguments.autotune, "tune", "--json", "--model", model, "--db", folder / "records.db"]
        command += ["--trials-per-task", str(arguments.trials_per_task), "--seed", str(arguments.seed)]
        command += arguments.place
        with open(log, "w") as out, open(folder / "errors.txt", "w") as errors:
            code = subprocess.run(command, stdout=out, stderr=errors, check=False).returncode
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    ends = [line for line in lines if line.get("event") == "end"]
    return folder.name, code, ends[-1] if ends else None


def gain_text(end, comparison):
    if end["choice"]["kept_defaults"]:
        return f"{1:.3f} (untuned)"
    return f"{comparison['speedup']:.3f} ({comparison['speedup_low']:.3f}-{comparison['speedup_high']:.3f})"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--trials-per-task", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--tracker", help="tune on devices of this tracker, with --key")
    parser.add_argument("--join", help="tune on devices of this farm, with --key")
    parser.add_argument("--key", help="of the devices")
    parser.add_argument("--autotune", default=str(ROOT / "build/tools/autotune"))
    arguments = parser.parse_args()
    farm = [("--tracker", arguments.tracker), ("--join", arguments.join), ("--key", arguments.key)]
    arguments.place = [word for option, value in farm if value for word in (option, value)]
    gains, failures, slower = [], 0, 0
    print(f"{'network':24} {'tasks':>5} {'trials':>6} {'per s':>6} {'choice':>7}  {'gain, all threads':22} one thread")
    for model in arguments.models:
        name, code, end = tune(arguments, model)
        if code != 0 or end is None:
            failures += 1
            print(f"{name:24} failed with exit code {code}: see {arguments.work / name}")
            continue
        comparisons = end["choice"]["comparisons"]
        texts = [gain_text(end, comparison) for comparison in comparisons] or ["1.000 (untuned)"]
        rate = end["trials"] / max(end["seconds"], 1e-9)
        share = end["choice"]["seconds"] / max(end["seconds"], 1e-9)
        print(f"{name:24} {len(end['tasks']):5} {end['trials']:6} {rate:6.1f} {share:7.0%}  {texts[0]:22} {texts[-1]}")
        sys.stdout.flush()
        kept = end["choice"]["kept_defaults"] or not comparisons
        gains.append([1.0] if kept else [comparison["speedup"] for comparison in comparisons])
        slower += not kept and any(comparison["speedup_high"] < 1 for comparison in comparisons)
    if gains:
        for place, name in ((0, "all threads"), (-1, "one thread")):
            mean = math.exp(sum(math.log(gain[place]) for gain in gains) / len(gains))
            print(f"geometric mean, {name}: {mean:.3f}; least {min(gain[place] for gain in gains):.3f}")
    print(f"{failures} failed, {slower} slower")
    return 1 if failures or slower else 0


if __name__ == "__main__":
    sys.exit(main())
