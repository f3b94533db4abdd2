#!/usr/bin/env python3
"""A genetic search: autotune tune ... --strategy 'python3 genetic.py'. docs/plugins.md explains the messages.

A child takes each decision from one of two good candidates of one sketch, but one decision, which is drawn anew.
"""
import json
import math
import random
import sys

PARENTS = 12  # best candidates of a task that may have children
NEWCOMERS = 0.2  # share of random candidates


def draw(knob):
    """Draws a decision: one of the values of a choice, or the factors of a tile, the innermost one last."""
    if knob["kind"] != "tile":
        return [random.choice(knob["values"])]
    step, extent = knob["multiple_of"], knob["extent"]
    factors = [step * random.randint(1, max(1, min(extent, knob["max_inner"]) // step))]
    for _ in range(knob["factors"] - 2):
        factors.insert(0, 2 ** random.randint(0, max(1, extent // math.prod(factors)).bit_length() - 1))
    return [-(-extent // math.prod(factors))] + factors


def child(task):
    """Returns a new candidate of the task."""
    best = sorted((seconds, key) for key, seconds in task["seconds"].items())[:PARENTS]
    if not best or random.random() < NEWCOMERS:
        sketch = random.randrange(len(task["sketches"]))
        return sketch, [draw(knob) for knob in task["sketches"][sketch]["knobs"]]
    sketch, mother = json.loads(random.choice(best)[1])
    father = random.choice([d for s, d in (json.loads(key) for _, key in best) if s == sketch])
    decisions = [random.choice(pair) for pair in zip(mother, father)]
    if decisions:
        knob = random.randrange(len(decisions))
        decisions[knob] = draw(task["sketches"][sketch]["knobs"][knob])
    return sketch, decisions


tasks = {}  # by id: the sketches, the seconds of candidates by their text, and the texts of all that were tried
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "task":
        tasks[message["task"]] = {"sketches": message["sketches"], "seconds": {}, "tried": set()}
    elif message["method"] == "history":
        for result in message["results"]:
            key = json.dumps([result["sketch"], result["decisions"]])
            tasks[message["task"]]["tried"].add(key)
            if result["status"] == "ok":
                tasks[message["task"]]["seconds"][key] = result["seconds"]
    elif message["method"] == "hello":
        print(json.dumps({"id": message["id"], "name": "genetic search", "version": "1"}), flush=True)
    elif message["method"] == "propose":
        random.seed(message["seed"])
        task = tasks[message["task"]]
        drawn = [child(task) for _ in range(4 * message["count"])]
        fresh = {json.dumps(c): c for c in drawn if json.dumps(c) not in task["tried"]} or {"": drawn[0]}
        candidates = [{"sketch": s, "decisions": d} for s, d in list(fresh.values())[: message["count"]]]
        print(json.dumps({"id": message["id"], "candidates": candidates}), flush=True)
