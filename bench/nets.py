#!/usr/bin/env python3
"""Prints a table that compares whole tuned networks with ONNX Runtime.

    /usr/bin/python3 bench/nets.py resnet50/model.onnx bert2/model.onnx --trials-per-task 100 --work FOLDER

Each network is tuned for the machine's cores, or for the largest of --threads. Then it runs in turns with ONNX Runtime,
and the least and the median time over all rounds count. `ratio` is ONNX Runtime / ours: above 1 we are faster.
`untuned` is the time with our default schedules. --layers also prints the profile of each tuned network (`autotune
bench --profile`).

Packages and the tuning database stay in FOLDER. So an interrupted run resumes where it ended, and a second run only
measures. Needs python3-numpy, python3-onnx, (cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import json
import statistics
import sys
import time
from pathlib import Path

from compare_ort import OnnxRuntime
from conv_layers import REST, ROOT, Serving, print_means, run


def packages_of(arguments, model):
    folder = arguments.work / model.resolve().parent.name
    folder.mkdir(parents=True, exist_ok=True)
    tuned, untuned = folder / f"tuned-{arguments.trials_per_task}.tar", folder / "untuned.tar"
    common = ["--model", model, "--target", f"llvm -mcpu=host -num-cores={max(arguments.threads)}"]
    if not untuned.exists():
        run(arguments, "compile", *common, "--db", folder / "empty.db", "-o", untuned)
    if not tuned.exists():
        print(f"tuning {model}", file=sys.stderr)
        trials = ["--trials-per-task", arguments.trials_per_task]
        run(arguments, "tune", *common, *trials, "--db", arguments.work / "records.db", "-o", tuned, "--json")
    return tuned, untuned


def compare(arguments, model, threads):
    tuned, untuned = packages_of(arguments, model)
    peer = OnnxRuntime(str(model), threads)
    contenders = [Serving(arguments, tuned, threads), Serving(arguments, untuned, threads)]
    times = [[], [], []]
    for _ in range(arguments.rounds):
        for mine, contender in zip(times, contenders):
            time.sleep(REST)
            mine.append(contender.best(arguments.runs))
        times[2].append(min(peer.ask(f"run {arguments.runs}")["times_ms"]))
    for contender in contenders:
        contender.close()
    peer.close()
    least, median = [min(t) for t in times], [statistics.median(t) for t in times]
    return {
        "net": model.resolve().parent.name,
        "threads": threads,
        "ms": least[0],
        "untuned_ms": least[1],
        "ort_ms": least[2],
        "ratio": least[2] / least[0],
        "ratio_of_medians": median[2] / median[0],
    }


def print_layers(arguments, package, threads):
    print(run(arguments, "bench", package, "--threads", threads, "--seconds", 0.4, "--profile"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--trials-per-task", type=int, default=100)
    parser.add_argument("--threads", type=lambda s: [int(t) for t in s.split(",")], default=[1, 2])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--runs", type=int, default=5, help="runs of a network in a round")
    parser.add_argument("--work", type=Path, default=Path("nets"))
    parser.add_argument("--layers", action="store_true", help="a table of the kernels of each network as well")
    parser.add_argument("--tune-only", action="store_true")
    parser.add_argument("--json", action="store_true", help="one JSON line for each row")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune")
    arguments = parser.parse_args()

    if arguments.tune_only:
        for model in arguments.models:
            packages_of(arguments, model)
        return
    if not arguments.json:
        print(f"{'net':<20} thr       ms  untuned      ORT   ratio  of medians")
    ratios = {}
    for model in arguments.models:
        for threads in arguments.threads:
            row = compare(arguments, model, threads)
            ratios.setdefault(threads, []).append(row["ratio"])
            if arguments.json:
                print(json.dumps(row), flush=True)
                continue
            print(
                f"{row['net']:<20} {threads:3} {row['ms']:8.3f} {row['untuned_ms']:8.3f} {row['ort_ms']:8.3f} "
                f"{row['ratio']:7.3f} {row['ratio_of_medians']:11.3f}",
                flush=True,
            )
        if arguments.layers:
            tuned, _ = packages_of(arguments, model)
            for threads in arguments.threads:
                print_layers(arguments, tuned, threads)
    print_means(ratios, "nets", arguments.json)


if __name__ == "__main__":
    main()
