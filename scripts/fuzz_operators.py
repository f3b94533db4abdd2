#!/usr/bin/python3
"""Checks small models, element by element: numbers of any magnitude, and faults that must be refused. Random
networks (scripts/fuzz_networks.py) cannot contain these, since later operators would hide or magnify their errors.

    scripts/fuzz_operators.py --count 500                    500 models of each kind
    scripts/fuzz_operators.py --kind faults --seed 7 --target c

The kinds are:
  small     functions whose small results lose their digits if a formula adds 1 on the way
  integers  arithmetic of 64-bit integers over their whole range, computed and folded
  powers    Pow of special values, with exponents that are constants and inputs
  eights    convolutions of 8-bit integers with many channels
  ranges    Range of 64-bit integers of any size
  steps     exact quotients, means and products before functions that magnify a rounding error
  scaled    convolutions with a factor or a normalization behind them, of huge, tiny and infinite numbers
  wild      networks of convolutions with infinities, NaN, masks, outliers and tiny numbers; each element of each layer is
            judged by the sum of its own terms
  links     weights in other files: beside the model, behind links, in the Hugging Face cache, and where they may not be
  declared  outputs of a wrong declared type, initializers of a wrong declared type or shape: refused by name
  faults    attributes that are misspelt, of another operator set or type, surplus inputs, missing outputs, and operands
            of a wrong type: refused by name

Prints one line for each model that fails. The exit code is 1 if one fails. Needs Debian's python3-numpy, python3-onnx.
"""

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import helper
from random_case import Case  # first: it makes examples/ known
import random_wild
from random_files import declared, links

ROOT = Path(__file__).resolve().parent.parent
SELU = float(np.float32(1.67326319)), float(np.float32(1.05070098))  # alpha and gamma
expm1 = lambda x: np.expm1(np.minimum(x, 0))
rest = lambda x: np.sum(np.exp(np.sort(x)[:-1] - x.max()))  # the exponentials but for the largest one
sigmoid = lambda x: np.exp(-np.logaddexp(0, -x))
gelu = np.vectorize(lambda x: x / 2 * math.erfc(-x * math.sqrt(0.5)))
inner = lambda x: 2 * np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)
FUNCTIONS = {  # name: (first operator set, function of float64)
    "Softplus": (7, lambda x: np.logaddexp(0, x)),
    "Elu": (7, lambda x: np.where(x < 0, expm1(x), x)),
    "Celu": (12, lambda x: np.where(x < 0, expm1(x), x)),
    "Selu": (7, lambda x: SELU[1] * np.where(x < 0, SELU[0] * expm1(x), x)),
    "Tanh": (7, np.tanh),
    "Sinh": (9, np.sinh),
    "Asinh": (9, np.arcsinh),
    "Softsign": (7, lambda x: x / (1 + np.abs(x))),
    "Mish": (18, lambda x: x * np.tanh(np.logaddexp(0, x))),
    "HardSwish": (14, lambda x: x * np.clip((x + 3) / 6, 0, 1)),
    "Gelu": (20, gelu),
    "Swish": (24, lambda x: x * sigmoid(x)),
    "com.microsoft.Gelu": (7, gelu),
    "com.microsoft.FastGelu": (7, lambda x: x * sigmoid(inner(x))),
    "com.microsoft.QuickGelu": (7, lambda x: x * sigmoid(1.702 * x)),
    "GeluOfErf": (9, gelu),  # as exporters write them
    "GeluOfTanh": (9, lambda x: x * sigmoid(inner(x))),
    "LogSigmoid": (7, lambda x: -np.logaddexp(0, -x)),  # as -Softplus(-x)
    "LogSoftmax": (13, lambda x: x - x.max() - np.log1p(rest(x))),
    "ReduceLogSumExp": (13, lambda x: np.array([x.max() + np.log1p(rest(x))])),
}
# The least arguments in float32 and float64 whose exponentials are normal numbers. Rounding errors of these functions'
# arguments count up to 90 (float64: 700) times.
TAILS = {**dict.fromkeys(["Gelu", "com.microsoft.Gelu", "GeluOfErf"], (-12.9, -37.4)),
         **dict.fromkeys(["com.microsoft.FastGelu", "GeluOfTanh"], (-9.9, -20.9)), "com.microsoft.QuickGelu": (-50, -400)}
GELUS = {  # the nodes of a GELU as exporters write it: operator, operands, result; a number is a constant
    "GeluOfErf": [("Div", ["x", 2**0.5], "a"), ("Erf", ["a"], "e"), ("Add", ["e", 1], "s"), ("Mul", ["x", "s"], "p"),
                  ("Mul", ["p", 0.5], "y")],
    "GeluOfTanh": [("Mul", ["x", "x"], "q"), ("Mul", ["q", "x"], "c"), ("Mul", ["c", 0.044715], "d"), ("Add", ["x", "d"], "i"),
                   ("Mul", ["i", (2 / math.pi) ** 0.5], "a"), ("Tanh", ["a"], "t"), ("Add", [1, "t"], "s"),
                   ("Mul", ["x", 0.5], "h"), ("Mul", ["h", "s"], "y")],
}
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1.5, 1e30, -1e30, 1e-30]


def small(rng):
    name = rng.choice(list(FUNCTIONS))
    first, function = FUNCTIONS[name]
    case, kind = Case(rng.randint(first, max(first, 17))), rng.choice([np.float32, np.float32, np.float64])
    if name == "Celu" or "com.microsoft" in name:
        kind = np.float32  # the only type that ONNX has it for
    x = np.array([rng.choice([-1, 1]) * 10 ** rng.uniform(-12, 1.9) for _ in range(rng.randint(1, 40))], kind)
    if name in ("LogSoftmax", "ReduceLogSumExp"):
        if rng.random() < 0.5 or x.max() < 0:
            x -= x.max()  # a negative maximum would cancel with the logarithm
        if kind == np.float32:
            x = np.maximum(x, x.max() - 18)  # kernels add f32 numbers in f64, which has 16 digits
    if name in TAILS:
        x = np.maximum(x, kind(TAILS[name][kind == np.float64]))
    x = case.operand("x", x, rng.random() < 0.3)
    if name in GELUS:
        for op, operands, result in GELUS[name]:
            names = [v if isinstance(v, str) else case.operand(f"c_{result}", np.array(v, kind), True) for v in operands]
            case.nodes.append(helper.make_node(op, names, [result]))
    elif name == "LogSigmoid":
        case.nodes += [helper.make_node(op, [a], [b]) for op, a, b in
                       (("Neg", "x", "n"), ("Softplus", "n", "s"), ("Neg", "s", "y"))]
    else:
        domain, _, op = name.rpartition(".")
        case.nodes.append(helper.make_node(op, ["x"], ["y"], domain=domain))
    array = (case.inputs + case.initializers)[0][1]
    with np.errstate(all="ignore"):
        case.outputs.append(("y", function(array.astype(np.float64)).astype(kind)))
    if name in TAILS:
        return case, "2e-5" if kind == np.float32 else "3e-13"
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


OPERAND_TYPES = {np.float32: "float", np.float64: "double", np.int8: "int8", np.int16: "int16", np.int32: "int32",
                 np.int64: "int64", np.uint8: "uint8", np.uint32: "uint32", np.bool_: "bool"}
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
        kind, wanted = np.float32, "inputs; the most are"
        operands, fault = ["x"] * schema.min_input, rng.choice(["misspelt", "unknown", "other set", "type", "input", "operand",
                                                                "output"])
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
        elif fault == "output" and schema.min_output > 1:
            bad, wanted = None, f"lacks output 1, '{schema.outputs[1].name}'"
        elif fault == "operand" and schema.inputs and name not in ("If", "Loop", "Scan"):
            constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
            allowed = constraints.get(schema.inputs[0].typeStr, [schema.inputs[0].typeStr])
            wrong = [t for t, word in OPERAND_TYPES.items() if f"tensor({word})" not in allowed]
            if not wrong:
                continue
            kind, bad, wanted = rng.choice(wrong), None, f"{name} (node #0)"  # other lines may have more detail
        else:
            continue
        if fault != "type" and (bad in schema.attributes or bad == ""):
            continue
        if bad:
            attributes[bad] = ["a", "b"] if fault == "type" and value(schema.attributes[bad]) != ["a"] else 0.5
        case = Case(opset)
        case.operand("x", np.ones([2, 3], kind), False)
        case.nodes.append(helper.make_node(name, operands, ["y"], **attributes))
        case.outputs.append(("y", np.ones([2, 3], np.float32)))
        return case, f"'{bad}'" if bad else wanted


def eights(rng):
    """Returns a convolution of 8-bit integers with so many channels that a convolution of floats would use Winograd's
    algorithm. Scales are powers of two, so that the result is exact."""
    case, numbers, kind = Case(13), np.random.default_rng(rng.getrandbits(64)), rng.choice([np.uint8, np.int8])
    ends, n, c, m = np.iinfo(kind), rng.choice([1, 1, 2]), rng.randint(16, 64), rng.randint(16, 64)
    x = numbers.integers(ends.min, ends.max + 1, [n, c, rng.randint(5, 28), rng.randint(5, 28)]).astype(kind)
    w = numbers.integers(-128, 128, [m, c, 3, 3]).astype(np.int8)
    zero, pads = np.array(rng.randint(ends.min, ends.max), kind), [rng.choice([1, 1, 0]) for _ in range(4)]
    total = random_wild.product(random_wild.windows(x.astype(np.float64) - zero, pads), w.astype(np.float64))
    operands, attributes = [("x", x), ("x_zero", zero), ("w", w)], {"pads": pads, "kernel_shape": [3, 3]}
    if rng.random() < 0.4:
        case.nodes.append(helper.make_node("ConvInteger", ["x", "w", "x_zero"], ["y"], **attributes))
        case.outputs.append(("y", total.astype(np.int32)))
    else:
        scales = [np.array(2.0 ** rng.randint(-8, -4), np.float32) for _ in range(2)]
        y_scale = np.array(2.0 ** rng.randint(-2, 2), np.float32)
        y = np.clip(np.rint(total * float(scales[0]) * float(scales[1]) / y_scale) + zero, ends.min, ends.max)
        operands += [("x_scale", scales[0]), ("w_scale", scales[1]), ("w_zero", np.array(0, np.int8)), ("y_scale", y_scale)]
        names = ["x", "x_scale", "x_zero", "w", "w_scale", "w_zero", "y_scale", "x_zero"]
        case.nodes.append(helper.make_node("QLinearConv", names, ["y"], **attributes))
        case.outputs.append(("y", y.astype(kind)))
    for name, array in operands:
        case.operand(name, array, name != "x")
    return case, "0"


def ranges(rng):
    """Returns a Range of 64-bit integers of any size."""
    case, count, delta = Case(13), rng.randint(0, 9), rng.choice([-1, 1]) * rng.choice([1, 2, 7, 2**31, 2**53 + 1])
    start = rng.choice([2**53 + 1, -(2**53) - 1, 2**62, 5, 2**63 - 1 - 9 * 2**55, -(2**63) + 9 * 2**55]) + rng.randint(-3, 3)
    limit = start + (count - 1) * delta + rng.randint(1, abs(delta)) * (1 if delta > 0 else -1) if count else start - delta
    for name, value in (("start", start), ("limit", limit), ("delta", delta)):
        case.operand(name, np.array(value, np.int64), True)
    case.nodes.append(helper.make_node("Range", ["start", "limit", "delta"], ["y"]))
    case.outputs.append(("y", np.array([start + i * delta for i in range(count)], np.int64)))
    return case, "0"


def steps(rng):
    """Returns exact quotients, means or products, and a function behind them that a rounding error would change."""
    case, kind = Case(13), rng.choice(["quotient", "mean", "product"])
    f = np.float32
    if kind == "quotient":
        n = rng.randint(1, 1000)
        case.operand("x", f(n) * np.arange(1, 4, dtype=f)[: rng.randint(1, 3)], False)
        x, name = case.inputs[0][1], rng.choice(["Acosh", "Floor", "Ceil", "Sign"] + ["Atanh", "Acos", "Asin"] * 2)
        function = {"Acosh": np.arccosh, "Atanh": np.arctanh, "Acos": np.arccos, "Asin": np.arcsin, "Floor": np.floor,
                    "Ceil": np.ceil, "Sign": lambda q: np.sign(q - 1)}[name]
        case.operand("n", np.array(n, f), True)
        case.operand("one", np.array(1, f), True)
        case.nodes.append(helper.make_node("Div", ["x", "n"], ["q"]))
        if name == "Sign":
            case.nodes.append(helper.make_node("Sub", ["q", "one"], ["q1"]))
        case.nodes.append(helper.make_node(name, ["q1" if name == "Sign" else "q"], ["y"]))
        with np.errstate(all="ignore"):
            case.outputs.append(("y", function(x.astype(np.float64) / n).astype(f)))
    elif kind == "mean":
        n, value = rng.randint(1, 300), rng.randint(1, 9)
        case.operand("x", np.full([1, 1, n], value, f), False)
        name = rng.choice(["AveragePool", "GlobalAveragePool", "ReduceMean", "Mean"])
        attributes = {"AveragePool": {"kernel_shape": [n]}, "ReduceMean": {"axes": [2]}}.get(name, {})
        case.nodes.append(helper.make_node(name, ["x"] * (min(n, 50) if name == "Mean" else 1), ["m"], **attributes))
        case.nodes.append(helper.make_node("Floor", ["m"], ["y"]))
        case.outputs.append(("y", np.full([1, 1, n if name == "Mean" else 1], value, f)))
    else:
        numbers = np.random.default_rng(rng.getrandbits(64))
        x, w = (numbers.integers(-8, 9, shape).astype(f) for shape in ([1, 16, 4, 4], [8, 16, 1, 1]))
        factor = f(rng.choice([0.1, 0.3, 1 / 3, 0.01]))
        for name, array in (("x", x), ("w", w), ("s", np.array(factor, f))):
            case.operand(name, array, name != "x")
        for op, a, b in (("Conv", ["x", "w"], "c"), ("Mul", ["c", "s"], "p"), (rng.choice(["Floor", "Round"]), ["p"], "y")):
            case.nodes.append(helper.make_node(op, a, [b]))
        total = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0]).astype(f) * factor
        case.outputs.append(("y", np.floor(total) if case.nodes[-1].op_type == "Floor" else np.rint(total)))
    return case, "2e-6"


def scaled(rng):
    """Returns a convolution or product with a factor or a normalization behind it, whose numbers are huge, tiny or
    infinite."""
    case, f = Case(15), np.float32
    numbers, size = np.random.default_rng(rng.getrandbits(64)), lambda: rng.choice([1, 1, 1e-30, 1e-20, 1e20, 1e30])
    draw = lambda shape, scale: ((0.5 + numbers.uniform(size=shape)) * scale).astype(f)  # positive: no sum cancels
    data = size()
    x, w = draw([1, 3, 2, 2], data), draw([4, 3, 1, 1], rng.choice([1 / data, 1, 1e-5 / data]))
    case.operand("x", x, False)
    case.operand("w", w, True)
    case.nodes.append(helper.make_node("Conv", ["x", "w"], ["c"]))
    with np.errstate(all="ignore"):
        y = np.einsum("nchw,oc->nohw", x, w[:, :, 0, 0], dtype=np.float64).astype(f).astype(np.float64)
        if rng.random() < 0.5:
            s = draw([4, 1, 1], size() * rng.choice([1, 1, 1, np.inf, 0]))
            case.operand("s", s, True)
            case.nodes.append(helper.make_node("Mul", ["c", "s"], ["y"]))
            y = y * s
        else:
            mean, variance = np.zeros(4), draw([4], rng.choice([1, 0, 1e30, 1e-30]))
            for name, array in (("scale", draw([4], size())), ("bias", np.zeros(4)), ("mean", mean), ("variance", variance)):
                case.operand(name, np.asarray(array, f), True)
            scale = case.initializers[1][1].reshape(4, 1, 1).astype(np.float64)
            case.nodes.append(helper.make_node("BatchNormalization", ["c", "scale", "bias", "mean", "variance"], ["y"], epsilon=0.0))
            y = y / np.sqrt(variance.astype(np.float64)).reshape(4, 1, 1) * scale
        y = y.astype(f)
    if ((np.abs(y) > 0) & (np.abs(y) < 2.0**-100)).any():
        return scaled(rng)  # numbers below the normal ones may become 0
    case.outputs.append(("y", y))
    return case, "1e-4"


OPERATORS = set()  # the names in docs/operators.md; main reads them
# Each function returns a case and the relative tolerance of its results.
VERIFIED = {"small": small, "integers": integers, "powers": powers, "eights": eights, "ranges": ranges, "steps": steps,
            "scaled": scaled}
# Each function returns a case and a part of its refusal; None: its results are exact.
REFUSED = {"faults": faults, "links": links, "declared": declared}


def call(command):
    process = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return process.returncode, process.stdout


def check(options, kind, folder):
    """Checks the models of a kind. Returns a line for each failure."""
    groups = {}  # tolerance -> the cases that are judged by it
    wanted = {}  # seed -> a part of the refusal, or None
    for seed in range(options.seed, options.seed + options.count):
        case, judged = (VERIFIED | REFUSED)[kind](random.Random(f"{kind} {seed}"))
        tolerance, wanted[seed] = (judged, None) if kind in VERIFIED else ("0", judged)
        groups.setdefault(tolerance, []).append(seed)
        case.save(folder / tolerance / f"{kind}_{seed}")
    complaints = []
    for tolerance in groups:
        code, text = call([options.autotune, "verify", "--db", ":memory:", "--target", options.target, "--rtol",
                           tolerance, "--atol", "0", "--data", folder / tolerance])
        verdicts = [line for line in text.splitlines() if f"{kind}_" in line and line[:1].isalpha() and not line.startswith("note")]
        seen = {line.split(f"{kind}_")[1].split(":")[0].split("/")[0]: line for line in verdicts}
        for seed in groups[tolerance]:
            line = seen.get(str(seed), f"no verdict; exit code {code}: {text[-200:]}")
            refused = wanted[seed] is not None and line.startswith("unsupported") and wanted[seed] in line
            if not (refused or wanted[seed] is None and line.startswith("passed")):
                complaints.append(f"{kind} {seed}: {line}")
    return complaints


def run_wild(options, case, folder):
    """Returns the outputs by name, or a line that says why there are none."""
    folder.mkdir(parents=True)
    onnx.save(case.model(), folder / "model.onnx")
    feeds = []
    for name, array in case.inputs:
        np.save(folder / f"{name}.npy", array)
        feeds += ["--input", f"{name}={folder / name}.npy"]
    package = folder / "package.tar"
    for command in (["compile", "--db", ":memory:", "--target", options.target, "--model", folder / "model.onnx", "-o",
                     package], ["run", package, "--output-dir", folder / "outputs", *feeds]):
        code, text = call([options.autotune, *command])
        if code:
            return f"{command[0]}: exit code {code}: {text[-200:]}"
    return {name: np.load(folder / "outputs" / f"{name}.npy") for name, _ in case.outputs}


def check_wild(options, kind, folder):
    """Like check, for networks of convolutions of wild data."""
    complaints, worst = [], 0.0
    for seed in range(options.seed, options.seed + options.count):
        case = random_wild.Wild(random.Random(f"{kind} {seed}"))
        outputs = run_wild(options, case, folder / f"{kind}_{seed}")
        if isinstance(outputs, str):
            complaints.append(f"{kind} {seed}: {outputs}")
            continue
        error, layer, count = random_wild.judge(case, outputs)
        worst = max(worst, error)
        if error > 1:
            complaints.append(f"{kind} {seed}: {layer}: {count} elements are wrong, the worst by {error:.3g} allowances")
        if not options.keep:
            shutil.rmtree(folder / f"{kind}_{seed}")
    print(f"{kind}: the largest error is {worst:.3g} of the allowed one", flush=True)
    return complaints


CHECKS = {**dict.fromkeys(VERIFIED | REFUSED, check), "wild": check_wild}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="number of models of each kind (default 100)")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("AUTOTUNE_MUTANTS_SEED", 0)),
                        help="seed of the first model; others follow (default: $AUTOTUNE_MUTANTS_SEED, or 0)")
    parser.add_argument("--kind", choices=CHECKS, help="one kind (default: all)")
    parser.add_argument("--target", default="cpu", help="cpu (default), c, opencl, or another target of `verify`")
    parser.add_argument("--autotune", default=ROOT / "build" / "tools" / "autotune", help="the program")
    parser.add_argument("--keep", type=Path, help="keep the models and their data in this new folder")
    options = parser.parse_args()
    page = (ROOT / "docs" / "operators.md").read_text().split("## Restrictions")[0]
    OPERATORS.update(word for word in page.split("`") if word.isalnum())
    folder = options.keep or Path(tempfile.mkdtemp(prefix="fuzz_operators_"))
    failed = 0
    for kind in [options.kind] if options.kind else CHECKS:
        complaints = CHECKS[kind](options, kind, folder / kind)
        for complaint in complaints:
            print(complaint, flush=True)
        failed += len(complaints)
        print(f"{kind}: {options.count} models, {len(complaints)} failures", flush=True)
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
