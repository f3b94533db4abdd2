#!/usr/bin/python3
"""Checks models of one operator, element by element: numbers of any magnitude, and faults that must be refused. Random
networks (scripts/fuzz_networks.py) cannot contain these, since later operators would hide or magnify their errors.

    scripts/fuzz_operators.py --count 500                    500 models of each kind
    scripts/fuzz_operators.py --kind faults --seed 7 --target c

The kinds are:
  small     functions whose small results lose their digits if a formula adds 1 on the way
  integers  arithmetic of 64-bit integers over their whole range, computed and folded
  powers    Pow of special values, with exponents that are constants and inputs
  faults    attributes that are misspelt, of another operator set or type, and surplus inputs: refused by name

Prints one line for each model that fails. The exit code is 1 if one fails. Needs Debian's python3-numpy, python3-onnx.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import reference
from onnx import helper, numpy_helper
from onnx.mapping import NP_TYPE_TO_TENSOR_TYPE

ROOT = Path(__file__).resolve().parent.parent
SELU = float(np.float32(1.67326319)), float(np.float32(1.05070098))  # alpha and gamma
expm1 = lambda x: np.expm1(np.minimum(x, 0))
FUNCTIONS = {  # name: (first operator set, function of float64)
    "Softplus": (7, lambda x: np.logaddexp(0, x)),
    "Elu": (7, lambda x: np.where(x < 0, expm1(x), x)),
    "Celu": (12, lambda x: np.where(x < 0, expm1(x), x)),
    "Selu": (7, lambda x: SELU[1] * np.where(x < 0, SELU[0] * expm1(x), x)),
    "Tanh": (7, np.tanh),
    "Sinh": (9, np.sinh),
    "Asinh": (9, np.arcsinh),
    "Softsign": (7, lambda x: x / (1 + np.abs(x))),
    "LogSigmoid": (7, lambda x: -np.logaddexp(0, -x)),  # as -Softplus(-x)
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, 1e30, -1e30, 1e-30]


class Case:
    """A model of a few nodes with its inputs and expected outputs."""

    def __init__(self, opset):
        self.opset, self.nodes, self.inputs, self.initializers, self.outputs = opset, [], [], [], []

    def operand(self, name, array, constant):
        (self.initializers if constant else self.inputs).append((name, array))
        return name

    def save(self, folder):
        info = lambda name, a: helper.make_tensor_value_info(name, NP_TYPE_TO_TENSOR_TYPE[a.dtype], a.shape)
        graph = helper.make_graph(self.nodes, "fuzz", [info(*i) for i in self.inputs], [info(*o) for o in self.outputs],
                                  [numpy_helper.from_array(a, name) for name, a in self.initializers])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)])
        model.ir_version = 8
        folder.mkdir(parents=True)
        onnx.save(model, folder / "model.onnx")
        for kind, arrays in (("input", self.inputs), ("output", self.outputs)):
            for i, (name, array) in enumerate(arrays):
                reference.write_pb(folder / "test_data_set_0" / f"{kind}_{i}.pb", name, array)


def small(rng):
    name = rng.choice(list(FUNCTIONS))
    first, function = FUNCTIONS[name]
    case, kind = Case(rng.randint(first, 17)), rng.choice([np.float32, np.float32, np.float64])
    x = np.array([rng.choice([-1, 1]) * 10 ** rng.uniform(-12, 1.9) for _ in range(rng.randint(1, 40))], kind)
    x = case.operand("x", x, rng.random() < 0.3)
    if name == "LogSigmoid":
        case.nodes += [helper.make_node(op, [a], [b]) for op, a, b in
                       (("Neg", "x", "n"), ("Softplus", "n", "s"), ("Neg", "s", "y"))]
    else:
        case.nodes.append(helper.make_node(name, ["x"], ["y"]))
    array = (case.inputs + case.initializers)[0][1]
    with np.errstate(all="ignore"):
        case.outputs.append(("y", function(array.astype(np.float64)).astype(kind)))
    return case, "2e-6" if kind == np.float32 else "1e-13"


def wrap(value, bits):
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def power(a, e, bits):
    if e >= 0:
        return pow(a, e, 2**bits)
    return {1: 1, -1: 1 if e % 2 == 0 else -1, 0: -(2 ** (bits - 1))}.get(a, 0)


def integers(rng):
    bits = rng.choice([64, 64, 32])
    kind, n = np.int64 if bits == 64 else np.int32, rng.randint(1, 9)
    whole = lambda: rng.choice([rng.randint(-9, 9), rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1),
                                rng.randint(-(2 ** (bits // 2)), 2 ** (bits // 2))])
    case, op = Case(13), rng.choice(["Pow", "Pow", "Add", "Sub", "Mul", "Div", "Mod", "ReduceMean", "ReduceMean",
                                     "ReduceSum", "ReduceMax", "ReduceProd", "Max", "Abs", "Neg"])
    a = [whole() for _ in range(n)]
    constant = rng.random() < 0.3 and op not in ("Add", "Sub", "Mul", "Abs", "Neg", "Div")  # folding refuses overflow
    case.operand("a", np.array(a, kind), constant)
    if op.startswith("Reduce"):
        total = {"ReduceMean": lambda: truncated(wrap(sum(a), 64), n), "ReduceSum": lambda: sum(a),
                 "ReduceMax": lambda: max(a), "ReduceProd": lambda: int(np.prod([1] + a, dtype=object))}[op]()
        case.nodes.append(helper.make_node(op, ["a"], ["y"], keepdims=1))
        case.outputs.append(("y", np.array([wrap(total, bits)], kind)))
        return case, "0"
    if op in ("Abs", "Neg"):
        y = [abs(v) if op == "Abs" else -v for v in a]
    else:
        exponent = lambda: rng.choice([0, 1, 2, 3, 63, 64, rng.randint(-9, 99), rng.randint(0, 2**31 - 1)])
        b = [exponent() if op == "Pow" else whole() for _ in range(n)]
        if op in ("Div", "Mod"):
            b = [v if v not in (0, -1) else 7 for v in b]
        case.operand("b", np.array(b, kind), rng.random() < 0.4)
        function = {"Pow": lambda x, e: power(x, e, bits), "Add": int.__add__, "Sub": int.__sub__, "Mul": int.__mul__,
                    "Div": truncated, "Mod": int.__mod__, "Max": max}[op]
        y = [function(p, q) for p, q in zip(a, b)]
    case.nodes.append(helper.make_node(op, ["a"] if op in ("Abs", "Neg") else ["a", "b"], ["y"]))
    case.outputs.append(("y", np.array([wrap(v, bits) for v in y], kind)))
    return case, "0"


def powers(rng):
    case, kind, n = Case(rng.choice([7, 12, 13, 15])), rng.choice([np.float32, np.float64]), rng.randint(1, 12)
    x = np.array([rng.choice(SPECIAL) for _ in range(n)], kind)
    e = np.array(rng.choice([0.5, 2.0, 3.0, -1.0, 1.0, rng.choice(SPECIAL)]), kind)
    if rng.random() < 0.4:
        e = np.array([rng.choice(SPECIAL) for _ in range(n)], kind)
    case.operand("x", x, rng.random() < 0.2)
    case.operand("e", e, rng.random() < 0.6)
    case.nodes.append(helper.make_node("Pow", ["x", "e"], ["y"]))
    with np.errstate(all="ignore"):
        case.outputs.append(("y", np.power(x.astype(np.float64), e.astype(np.float64)).astype(kind)))
    return case, "1e-6" if kind == np.float32 else "1e-13"


def misspelt(rng, word):
    i = rng.randrange(len(word))
    return rng.choice([word[:i] + word[i + 1:], word[:i] + word[i] + word[i:], word + "s"])


VALUES = {"INT": 1, "FLOAT": 0.5, "STRING": "a", "INTS": [1], "FLOATS": [0.5], "STRINGS": ["a"]}


def faults(rng):
    """Returns a node with one fault, and a part of the refusal."""
    names = sorted({s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""} & OPERATORS)
    while True:
        name, opset = rng.choice(names), rng.randint(7, 17)
        try:
            schema = onnx.defs.get_schema(name, opset, "")
        except onnx.defs.SchemaError:
            continue
        value = lambda attribute: VALUES.get(str(attribute.type).split(".")[-1])
        attributes = {a.name: value(a) for a in schema.attributes.values() if a.required}
        if schema.deprecated or None in attributes.values():
            continue
        operands, fault = ["x"] * schema.min_input, rng.choice(["misspelt", "unknown", "other set", "type", "input"])
        others = [a for s in onnx.defs.get_all_schemas_with_history() if s.name == name and s.domain == ""
                  for a in s.attributes.values() if a.name not in schema.attributes and value(a) is not None]
        own = sorted(a for a in schema.attributes if value(schema.attributes[a]) is not None)
        if fault == "unknown":
            bad = "bogus"
        elif fault == "misspelt" and own:
            bad = misspelt(rng, rng.choice(own))
        elif fault == "other set" and others:
            bad = rng.choice(sorted(a.name for a in others))
        elif fault == "type" and own:
            bad = rng.choice(own)
        elif fault == "input" and schema.max_input < 100:
            operands, bad = ["x"] * (schema.max_input + 1), None
        else:
            continue
        if fault != "type" and (bad in schema.attributes or bad == ""):
            continue
        if bad:
            attributes[bad] = ["a", "b"] if fault == "type" and value(schema.attributes[bad]) != ["a"] else 0.5
        case = Case(opset)
        case.operand("x", np.ones([2, 3], np.float32), False)
        case.nodes.append(helper.make_node(name, operands, ["y"], **attributes))
        case.outputs.append(("y", np.ones([2, 3], np.float32)))
        return case, f"'{bad}'" if bad else "inputs; the most are"


OPERATORS = set()  # the names in docs/operators.md; main reads them
KINDS = {"small": small, "integers": integers, "powers": powers, "faults": faults}


def check(options, kind, folder):
    """Checks the models of a kind. Returns a line for each failure."""
    groups = {}  # tolerance -> the cases that are judged by it; of faults, all cases
    wanted = {}  # fault -> a part of its refusal
    for seed in range(options.seed, options.seed + options.count):
        case, judged = KINDS[kind](random.Random(f"{kind} {seed}"))
        group = "0" if kind == "faults" else judged
        groups.setdefault(group, []).append(seed)
        wanted[f"{kind}_{seed}"] = judged
        case.save(folder / group / f"{kind}_{seed}")
    complaints = []
    for tolerance in groups:
        command = [options.autotune, "verify", "--db", ":memory:", "--target", options.target, "--rtol", tolerance,
                   "--atol", "0", "--data", folder / tolerance]
        process = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        verdicts = [line for line in process.stdout.splitlines() if f"{kind}_" in line and not line.startswith("note")]
        seen = {line.split(f"{kind}_")[1].split(":")[0].split("/")[0]: line for line in verdicts}
        for seed in groups[tolerance]:
            line = seen.get(str(seed), f"no verdict; exit code {process.returncode}: {process.stdout[-200:]}")
            refused = line.startswith("unsupported") and wanted[f"{kind}_{seed}"] in line
            if not (refused if kind == "faults" else line.startswith("passed")):
                complaints.append(f"{kind} {seed}: {line}")
    return complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of models of each kind (default 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first model (default 0); others follow")
    parser.add_argument("--kind", choices=KINDS, help="one kind (default: all)")
    parser.add_argument("--target", default="cpu", help="cpu (default), c, opencl, or another target of `verify`")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune", help="the program")
    parser.add_argument("--keep", type=Path, help="keep the models and their data in this new folder")
    options = parser.parse_args()
    page = (ROOT / "docs" / "operators.md").read_text().split("## Restrictions")[0]
    OPERATORS.update(word for word in page.split("`") if word.isalnum())
    folder = options.keep or Path(tempfile.mkdtemp(prefix="fuzz_operators_"))
    failed = 0
    for kind in [options.kind] if options.kind else KINDS:
        complaints = check(options, kind, folder / kind)
        for complaint in complaints:
            print(complaint, flush=True)
        failed += len(complaints)
        print(f"{kind}: {options.count} models, {len(complaints)} failures", flush=True)
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
