#!/usr/bin/env python3
"""Asks any command for candidates, such as a language model's: its prompt on standard input, its answer on standard output.

    autotune tune ... --strategy 'python3 ask_command.py llm -m some-model' --plugin-deadline 2m

The prompt has the task, the knobs and the best results so far. The first list of JSON in the answer is taken. What is
no candidate is left out, and random ones fill up the batch, since the command may say anything. docs/plugins.md explains
the messages.
"""
import json
import math
import random
import subprocess
import sys

SHOWN = 20  # best results in a prompt
PROMPT = """You tune a program. Task: %(label)s, for %(target)s.
A candidate has a sketch (its place in this list) and one decision for each of the sketch's knobs. A tile is a list of
"factors" whole numbers whose product is at least "extent"; the last is at most "max_inner" and a multiple of
"multiple_of". The decision of any other knob is a list of one of its "values".
Sketches: %(sketches)s
Best results so far, in seconds (less is better): %(best)s
Answer with a list of %(count)d new candidates in JSON: [{"sketch": 0, "decisions": [[...], ...]}, ...]
"""


def draw(knob):
    """Draws a decision: one of the values of a choice, or the factors of a tile, the innermost one last."""
    if knob["kind"] != "tile":
        return [random.choice(knob["values"])]
    step, extent = knob["multiple_of"], knob["extent"]
    factors = [step * random.randint(1, max(1, min(extent, knob["max_inner"]) // step))]
    for _ in range(knob["factors"] - 2):
        factors.insert(0, 2 ** random.randint(0, max(1, extent // math.prod(factors)).bit_length() - 1))
    return [-(-extent // math.prod(factors))] + factors


def fits(knob, value):
    if not isinstance(value, list) or not all(type(v) is int and abs(v) < 2**31 for v in value):
        return False
    if knob["kind"] != "tile":
        return len(value) == 1 and value[0] in knob["values"]
    fits_inner = value and 0 < value[-1] <= knob["max_inner"] and value[-1] % knob["multiple_of"] == 0
    covers = len(value) == knob["factors"] and min(value) > 0 and math.prod(value) >= knob["extent"]
    return bool(fits_inner) and covers and math.prod(value) < 2**31


def is_candidate(c, sketches):
    if not isinstance(c, dict) or type(c.get("sketch")) is not int or not 0 <= c["sketch"] < len(sketches):
        return False
    knobs, decisions = sketches[c["sketch"]]["knobs"], c.get("decisions")
    return isinstance(decisions, list) and len(decisions) == len(knobs) and all(map(fits, knobs, decisions))


def ask(task, count):
    """Returns the command's candidates; fewer than `count` if it makes no sense."""
    best = sorted(task["results"], key=lambda result: result["seconds"])[:SHOWN]
    prompt = PROMPT % dict(task, sketches=json.dumps(task["sketches"]), best=json.dumps(best), count=count)
    text = subprocess.run(sys.argv[1:], input=prompt, stdout=subprocess.PIPE, text=True, errors="replace").stdout
    for start in (i for i, c in enumerate(text) if c == "["):
        try:
            found = json.JSONDecoder().raw_decode(text[start:])[0]
        except ValueError:
            continue
        kept = [{"sketch": c["sketch"], "decisions": c["decisions"]} for c in found if is_candidate(c, task["sketches"])]
        print("%d of %d answers are candidates" % (len(kept[:count]), len(found)), file=sys.stderr)
        return kept[:count]
    print("the answer has no list of JSON", file=sys.stderr)
    return []


if len(sys.argv) < 2:
    sys.exit("usage: ask_command.py COMMAND [ARGUMENT...]")
tasks = {}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "task":
        tasks[message["task"]] = dict(message, results=[])
    elif message["method"] == "history":
        tasks[message["task"]]["results"] += [r for r in message["results"] if r["status"] == "ok"]
    elif message["method"] == "hello":
        print(json.dumps({"id": message["id"], "name": "ask " + sys.argv[1], "version": "1"}), flush=True)
    elif message["method"] == "propose":
        random.seed(message["seed"])
        task, count = tasks[message["task"]], message["count"]
        candidates = ask(task, count)
        for _ in range(count - len(candidates)):
            sketch = random.randrange(len(task["sketches"]))
            knobs = task["sketches"][sketch]["knobs"]
            candidates.append({"sketch": sketch, "decisions": [draw(knob) for knob in knobs]})
        print(json.dumps({"id": message["id"], "candidates": candidates}), flush=True)
