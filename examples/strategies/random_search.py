"""Random search: autotune tune ... --strategy 'python3 random_search.py'. docs/plugins.md explains the messages."""
import json
import math
import random
import sys


def draw(knob):
    """Draws a decision: one of the values of a choice, or the factors of a tile, the innermost one last."""
    if knob["kind"] != "tile":
        return [random.choice(knob["values"])]
    step, extent = knob["multiple_of"], knob["extent"]
    factors = [step * random.randint(1, max(1, min(extent, knob["max_inner"]) // step))]
    for _ in range(knob["factors"] - 2):
        factors.insert(0, 2 ** random.randint(0, max(1, extent // math.prod(factors)).bit_length() - 1))
    return [-(-extent // math.prod(factors))] + factors


tasks = {}
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "task":
        tasks[message["task"]] = message["sketches"]
    elif message["method"] == "hello":
        print(json.dumps({"id": message["id"], "name": "random search", "version": "1"}), flush=True)
    elif message["method"] == "propose":
        random.seed(message["seed"])
        chosen = [random.choice(list(enumerate(tasks[message["task"]]))) for _ in range(message["count"])]
        candidates = [{"sketch": i, "decisions": [draw(k) for k in sketch["knobs"]]} for i, sketch in chosen]
        print(json.dumps({"id": message["id"], "candidates": candidates}), flush=True)
