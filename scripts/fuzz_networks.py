#!/usr/bin/python3
"""Checks random networks against an independent reference. scripts/random_network.py makes each network from a seed,
and `autotune verify` checks it, untuned and, with --trials, also tuned.

    scripts/fuzz_networks.py --count 50                      seeds 0 to 49, default schedules
    scripts/fuzz_networks.py --count 50 --target opencl      the same networks on an OpenCL device
    scripts/fuzz_networks.py --seed 1234 --count 1 --keep /tmp/case --trials 24

Prints one line for each network that fails, with the seed that makes it again, and the notes of `verify`, such as one on
a kernel without a schedule. The exit code is 1 if a network fails.
Needs Debian's python3-numpy and python3-onnx.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
import random_network
import reference

ROOT = Path(__file__).resolve().parent.parent


def write_case(seed, folder):
    model, inputs, outputs = random_network.make(seed)
    folder.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for i, (name, array) in enumerate(inputs):
        reference.write_pb(folder / "test_data_set_0" / f"input_{i}.pb", name, array)
    for i, (name, array) in enumerate(outputs):
        reference.write_pb(folder / "test_data_set_0" / f"output_{i}.pb", name, array)


def call(command):
    process = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return process.returncode, process.stdout.strip()


# The error of `tune` if a shape depends on an input's values. `verify` binds such an input to the values of the case.
NEEDS_VALUE = "computed at run time; it must be a constant"


# Lines that say nothing about a network. The second one is of the compiler of an OpenCL device.
CHATTER = ("note: waiting for this host", "1 warning generated.")


def check(autotune, folder, seeds, target, trials, threads):
    """Checks the networks of these seeds and returns a line for each failure."""
    for seed in seeds:
        write_case(seed, folder / f"seed_{seed}")
    flags = ["--target", target] + (["--threads", threads] if threads else [])
    code, text = call([autotune, "verify", "--db", ":memory:", "--data", folder] + flags)
    lines = [line for line in text.splitlines() if not line.startswith(CHATTER)]
    complaints = [f"untuned: {line}" for line in lines if not line.startswith("passed seed_")][:-1]
    if code not in (0, 3) or not lines or not lines[-1].endswith("unsupported"):
        complaints.append(f"untuned: exit code {code}: {lines[-1] if lines else ''}")
    for seed in seeds if trials else []:
        case, db = folder / f"seed_{seed}", folder / f"seed_{seed}.db"
        code, text = call([autotune, "tune", "--model", case / "model.onnx", "--target", target, "--trials", trials,
                           "--db", db, "--seed", seed])
        if code == 1 and NEEDS_VALUE in text:
            continue
        if code:
            complaints.append(f"tuning: seed_{seed}: exit code {code}: {text.splitlines()[-1] if text else ''}")
            continue
        complaints += [f"tuning: seed_{seed}: {line}" for line in text.splitlines() if "wrong" in line.lower()]
        code, text = call([autotune, "verify", "--model", case / "model.onnx", "--db", db, "--data", case] + flags)
        if code:
            complaints.append(f"tuned: seed_{seed}: exit code {code}: {text.splitlines()[-1] if text else ''}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="number of networks (default 20)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AUTOTUNE_MUTANTS_SEED", 0)),
                        help="seed of the first network; others follow (default: $AUTOTUNE_MUTANTS_SEED, or 0)")
    parser.add_argument("--target", default="cpu", help="cpu (default), c, opencl, or another target of `verify`")
    parser.add_argument("--trials", type=int, default=0, help="tune each with this many candidates, and check again")
    parser.add_argument("--threads", type=int, default=0, help="threads of the kernels; 0: one per CPU")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune", help="the program")
    parser.add_argument("--keep", type=Path, help="keep models, data and databases in this new folder")
    options = parser.parse_args()
    folder = options.keep or Path(tempfile.mkdtemp(prefix="fuzz_networks_"))
    failed, last = 0, options.seed + options.count
    try:
        for first in range(options.seed, last, 10):
            seeds = range(first, min(first + 10, last))
            complaints = check(options.autotune, folder / f"from_{first}", seeds, options.target, options.trials,
                               options.threads)
            for complaint in complaints:
                print(complaint, flush=True)
            failed += any("untuned: note: " not in complaint for complaint in complaints)
            if not options.keep:
                shutil.rmtree(folder / f"from_{first}")
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"seeds {options.seed} to {last - 1}: {'failures, see above' if failed else 'all right'}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
