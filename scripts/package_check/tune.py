"""Tunes ResNet-20, sys.argv[1], with 32 trials, compiles it with the records, and runs both packages as resnet20.py does."""

import os
import subprocess
import sys

import autotune

HERE = os.path.dirname(os.path.abspath(__file__))

if __name__ == "__main__":
    model = sys.argv[1]
    result = autotune.tune(model, trials=32, seed=1, db="python.db", output="tuned_by_python.tar")
    assert result.trials == 32, result.trials
    print(result.gain)
    report = autotune.compile(model, "compiled_by_python.tar", db="python.db")
    assert report["followed_choice"], report  # of the run, which may have kept default schedules
    for package in ("tuned_by_python.tar", "compiled_by_python.tar"):
        subprocess.run([sys.executable, os.path.join(HERE, "resnet20.py"), package], check=True)
    session = autotune.InferenceSession(autotune.compile(model, db="python.db"), threads=2)
    assert session.get_inputs()[0].shape == [1, 3, 32, 32]
