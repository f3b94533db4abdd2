#!/usr/bin/env python3
"""Compares the search with random draws from its space, for one model and number of trials.

    bench/search_vs_random.py model.onnx FOLDER --trials 400 --seeds 5

For each seed, runs `autotune tune` once with the search and once with --search random, in alternating order, each with
a database of its own. Then compares the best times of the heaviest tasks: those with the greatest weight * time,
averaged over all runs. `sum` is the sum of these times, `weighted` the sum of time * weight. `ratio` is the mean sum of
the search divided by that of random draws: below 1 the search is better. Databases and results stay in FOLDER, so the
same command resumes an interrupted comparison. The result is only meaningful on an otherwise idle machine.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("evolution", "random")


def tune(arguments, kind, seed):
    """Returns the tasks of a finished run, by hash."""
    name = f"{kind}-{seed}"
    result = arguments.folder / f"{name}.json"
    if not result.exists():
        command = [arguments.autotune, "tune", "--model", arguments.model, "--trials", str(arguments.trials)]
        command += ["--seed", str(seed), "--search", kind, "--db", str(arguments.folder / f"{name}.db"), "--json"]
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if run.returncode != 0:
            sys.exit(f"exit code {run.returncode}: {' '.join(command)}")
        end = json.loads(run.stdout.strip().splitlines()[-1])
        partial = result.with_suffix(".part")
        partial.write_text(json.dumps(end))
        partial.rename(result)
    end = json.loads(result.read_text())
    print(f"{name:<14} {end['trials']} trials, {end['seconds']:.0f} s", file=sys.stderr)
    return {task["hash"]: task for task in end["tasks"]}


def check_settings(arguments):
    """Ends the program if the folder belongs to another model or another number of trials."""
    settings = {"model": str(Path(arguments.model).resolve()), "trials": arguments.trials}
    file = arguments.folder / "settings.json"
    if file.exists() and json.loads(file.read_text()) != settings:
        sys.exit(f"{arguments.folder} holds runs of {file.read_text()}: take another folder")
    file.write_text(json.dumps(settings))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds, from seed 1 on")
    parser.add_argument("--tasks", type=int, default=5, help="number of the heaviest tasks to compare")
    parser.add_argument("--autotune", default=str(ROOT / "build" / "tools" / "autotune"))
    parser.add_argument("--json", action="store_true", help="one JSON line instead of a table")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    check_settings(arguments)

    runs = {kind: [] for kind in KINDS}
    for seed in range(1, arguments.seeds + 1):
        for kind in KINDS if seed % 2 else reversed(KINDS):
            runs[kind].append(tune(arguments, kind, seed))

    every = [run for kind in KINDS for run in runs[kind]]
    known = [h for h in every[0] if all(run[h]["tuned_ms"] is not None for run in every)]
    weight = {h: every[0][h]["weight"] for h in known}
    heavy = sorted(known, key=lambda h: -weight[h] * sum(run[h]["tuned_ms"] for run in every))[: arguments.tasks]

    sums = {kind: [sum(run[h]["tuned_ms"] for h in heavy) for run in runs[kind]] for kind in KINDS}
    weighted = {kind: [sum(weight[h] * run[h]["tuned_ms"] for h in heavy) for run in runs[kind]] for kind in KINDS}
    ratio = statistics.mean(sums["evolution"]) / statistics.mean(sums["random"])
    weighted_ratio = statistics.mean(weighted["evolution"]) / statistics.mean(weighted["random"])
    if arguments.json:
        print(json.dumps({"sums_ms": sums, "weighted_ms": weighted, "ratio": ratio, "weighted_ratio": weighted_ratio}))
        return

    width = max(len(every[0][h]["task"]) for h in heavy)
    print(f"{'task':<{width}} weight   search ms   random ms  (means of {arguments.seeds} seeds)")
    for h in heavy:
        means = [statistics.mean(run[h]["tuned_ms"] for run in runs[kind]) for kind in KINDS]
        print(f"{every[0][h]['task']:<{width}} {weight[h]:6d} {means[0]:11.4f} {means[1]:11.4f}")
    print(f"\nseed  sum: search   random    weighted: search   random   (ms)")
    for i in range(arguments.seeds):
        print(
            f"{i + 1:4d} {sums['evolution'][i]:12.4f} {sums['random'][i]:8.4f} "
            f"{weighted['evolution'][i]:19.4f} {weighted['random'][i]:8.4f}"
        )
    print(f"ratio of means: {ratio:.3f}, weighted {weighted_ratio:.3f}")


if __name__ == "__main__":
    main()
