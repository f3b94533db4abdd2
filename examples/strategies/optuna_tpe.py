"""Optuna's TPE: autotune tune ... --strategy 'python3 optuna_tpe.py'. docs/plugins.md explains the messages.

It needs Debian's python3-optuna, or `pip install optuna`. A parameter of Optuna is a decision, or a factor of a tile.
"""
import json
import math
import sys
import warnings

try:
    import optuna
except ImportError:
    sys.exit("optuna_tpe.py needs Optuna: apt install python3-optuna, or pip install optuna")
optuna.logging.set_verbosity(optuna.logging.WARNING)
warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of constant_liar


def tile(trial, name, knob):
    """Lets Optuna choose the factors of a tile but the first, which covers the rest of the loop."""
    step, extent = knob["multiple_of"], knob["extent"]
    most = max(1, min(extent, knob["max_inner"]) // step)
    factors = [step * trial.suggest_int(name + ".inner", 1, most, log=True)]
    for i in range(knob["factors"] - 2):
        factors.insert(0, 2 ** trial.suggest_int("%s.%d" % (name, i), 0, max(0, extent.bit_length() - 1)))
    return [-(-extent // math.prod(factors))] + factors


def choose(trial, sketches):
    sketch = trial.suggest_categorical("sketch", list(range(len(sketches))))
    decisions = []
    for i, knob in enumerate(sketches[sketch]["knobs"]):
        name = "%d.%d" % (sketch, i)
        is_tile = knob["kind"] == "tile"
        decisions.append(tile(trial, name, knob) if is_tile else [trial.suggest_categorical(name, knob["values"])])
    return {"sketch": sketch, "decisions": decisions}


tasks = {}  # by id: the sketches, a study, and its open trials by the text of the candidate
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "hello":
        seed = message["seed"] % 2**32
        print(json.dumps({"id": message["id"], "name": "optuna", "version": optuna.__version__}), flush=True)
    elif message["method"] == "task":
        study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True))
        tasks[message["task"]] = message["sketches"], study, {}
    elif message["method"] == "history":
        _, study, trials = tasks[message["task"]]
        for result in message["results"]:  # those of candidates that Optuna has not chosen are left out
            for trial in trials.pop(json.dumps([result["sketch"], result["decisions"]]), []):
                seconds = result.get("seconds")
                study.tell(trial, seconds and math.log(seconds), None if seconds else optuna.trial.TrialState.FAIL)
    elif message["method"] == "propose":
        sketches, study, trials = tasks[message["task"]]
        candidates = []
        for _ in range(message["count"]):
            trial = study.ask()
            candidates.append(choose(trial, sketches))
            trials.setdefault(json.dumps(list(candidates[-1].values())), []).append(trial)
        print(json.dumps({"id": message["id"], "candidates": candidates}), flush=True)
