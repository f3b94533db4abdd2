#!/usr/bin/env python3
"""Compares untuned attention, softmax(q * k) * v, with ONNX Runtime's MatMul, Softmax, MatMul: one row per token count.

    /usr/bin/python3 bench/attention.py --work FOLDER
    /usr/bin/python3 bench/attention.py --work FOLDER --tokens 512 --queries 1 --form decoder --threads 1

Forms: `plain` is the three nodes; `masked` has a scale and an additive mask between the products; `decoder` is `masked`
with a Transpose of the keys, which are cached with one row per token.

ONNX Runtime and the package take turns. `ratio` is the median over the rounds of ONNX Runtime's least time in the round
divided by ours: above 1 we are faster. The time of an empty model is subtracted from ONNX Runtime's (odd_shapes.py).
--check compares the outputs, too. The exit code is 1 if an output is wrong or a model failed. Needs python3-numpy,
python3-onnx, (cd bench/peer && npm install --ignore-scripts).
"""

import argparse
import math
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

from beside_ort import Case, add_arguments, run_all

OPSET, IR_VERSION = 13, 7
LEAST_RATIO = 1.3  # no row should fall below this ratio


def make_model(arguments, tokens):
    """Makes a model whose inputs are x0 to x2 (q, k and v of attention) and x3 (the mask)."""
    heads, width, queries = arguments.heads, arguments.width, arguments.queries or tokens
    shapes = {"x0": [1, heads, queries, width], "x1": [1, heads, width, tokens], "x2": [1, heads, tokens, width]}
    nodes, weights, keys, scores = [], [], "x1", "products"
    if arguments.form == "decoder":
        shapes["x1"] = [1, heads, tokens, width]
        nodes.append(helper.make_node("Transpose", ["x1"], ["columns"], perm=[0, 1, 3, 2]))
        keys = "columns"
    nodes.append(helper.make_node("MatMul", ["x0", keys], ["products"]))
    if arguments.form != "plain":
        shapes["x3"] = [1, 1, queries, tokens]
        weights.append(numpy_helper.from_array(np.float32(1 / math.sqrt(width)), "scale"))
        nodes.append(helper.make_node("Mul", ["products", "scale"], ["scaled"]))
        nodes.append(helper.make_node("Add", ["scaled", "x3"], ["masked"]))
        scores = "masked"
    nodes.append(helper.make_node("Softmax", [scores], ["probabilities"], axis=-1))
    nodes.append(helper.make_node("MatMul", ["probabilities", "x2"], ["y"]))
    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph(
        nodes, "attention", [value(n, s) for n, s in shapes.items()], [value("y", [1, heads, queries, width])], weights
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = IR_VERSION
    return model


def cases_of(arguments):
    for tokens in arguments.tokens:
        name = f"{arguments.form}-{arguments.heads}x{arguments.queries or tokens}x{tokens}x{arguments.width}"
        model = make_model(arguments, tokens)
        shapes = [[d.dim_value for d in x.type.tensor_type.shape.dim] for x in model.graph.input]
        text = f"{tokens} tokens"
        yield Case(arguments, arguments.work, name, arguments.form, text, shapes, lambda path, m=model: onnx.save(m, path))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[128, 256, 512, 1024, 2048])
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--queries", type=int, help="rows of q; default: as many as tokens")
    parser.add_argument("--form", choices=["plain", "masked", "decoder"], default="plain")
    add_arguments(parser)
    arguments = parser.parse_args()
    sys.exit(run_all(arguments, cases_of(arguments), LEAST_RATIO))


if __name__ == "__main__":
    main()
