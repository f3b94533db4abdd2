"""Replaces the placeholder weights of a network by random ones from a seed, so that errors show in its outputs.

The ONNX project's "light" test models have the real architectures, but a ConstantOfShape node makes each weight tensor,
so that every kernel computes equal numbers. This script writes

    OUT/model.onnx                     the network with float weights as ordinary initializers
    OUT/test_data_set_0/*.pb           a random input and the expected output (float64 arithmetic, reference.py)
    OUT/logits/model.onnx, …           the network without its last Softmax, which would hide errors

    python3 examples/refill.py light_resnet50/model.onnx OUT [--seed 1]

Conv and Gemm weights are He-normal, biases small, batch-norm variances in [0.5, 1.5], other scales near 1. Integers are
not changed. If the network has a Softmax, the last layer is scaled so that the logits of the sample are 5 at most.
Needs python3-numpy, python3-onnx.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import reference

LOGIT_LIMIT = 5.0


def roles(graph):
    """Maps a tensor name to (operator, input position) of its first consumer, ignoring Unsqueeze, Reshape, Identity."""
    consumer = {}
    for node in graph.node:
        for position, name in enumerate(node.input):
            consumer.setdefault(name, (node, position))

    def role(name):
        node, position = consumer.get(name, (None, 0))
        if node is None:
            return None, 0
        if node.op_type in ("Unsqueeze", "Reshape", "Identity") and position == 0:
            return role(node.output[0])
        return node, position

    return role


def random_weights(rng, node, position, shape):
    """Returns float weights for input `position` of `node`, or None if it should stay as it is."""
    normal = lambda mean, deviation: rng.normal(mean, deviation, shape)
    kind = node.op_type if node is not None else ""
    if kind == "Conv":
        return normal(0, np.sqrt(2 / np.prod(shape[1:]))) if position == 1 else normal(0, 0.02)
    if kind in ("Gemm", "MatMul"):
        if position != 1:
            return normal(0, 0.02)
        transposed = any(a.name == "transB" and a.i for a in node.attribute)
        return normal(0, np.sqrt(2 / shape[-1 if transposed else -2]))
    if kind == "BatchNormalization":
        return {
            1: lambda: rng.uniform(0.8, 1.2, shape),
            2: lambda: normal(0, 0.1),
            3: lambda: normal(0, 0.1),
            4: lambda: rng.uniform(0.5, 1.5, shape),
        }[position]()
    if kind == "Mul":
        return rng.uniform(0.8, 1.2, shape)
    if kind in ("Add", "Sum"):
        return normal(0, 0.1)
    return None


def refill(model, seed):
    """Returns a new model: the network with random weights."""
    graph, rng = model.graph, np.random.default_rng(seed)
    role = roles(graph)
    initializers = {i.name: i for i in graph.initializer}
    filled, kept = {}, []
    for node in graph.node:
        value = None
        if node.op_type == "ConstantOfShape" and node.input[0] in initializers:
            kind = numpy_helper.to_array(node.attribute[0].t).dtype if node.attribute else np.dtype(np.float32)
            shape = [int(d) for d in numpy_helper.to_array(initializers[node.input[0]])]
            if kind == np.float32:
                value = random_weights(rng, *role(node.output[0]), shape)
        if value is None:
            kept.append(node)
        else:
            filled[node.output[0]] = value
    for name, tensor in initializers.items():
        if tensor.data_type == onnx.TensorProto.FLOAT:
            value = random_weights(rng, *role(name), list(tensor.dims))
            if value is not None:
                filled[name] = value
    used = {name for node in kept for name in node.input}
    return build(model, kept, filled, [i for name, i in initializers.items() if name in used and name not in filled])


def build(model, nodes, filled, others, output=None):
    tensors = others + [numpy_helper.from_array(v.astype(np.float32), name) for name, v in filled.items()]
    constant = {t.name for t in tensors}
    inputs = [i for i in model.graph.input if i.name not in constant and any(i.name in n.input for n in nodes)]
    # Before IR version 4, an initializer must also be an input.
    if model.ir_version < 4:
        inputs += [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in tensors]
    graph = helper.make_graph(nodes, model.graph.name, inputs, [output] if output else list(model.graph.output), tensors)
    result = helper.make_model(graph, producer_name="refill", opset_imports=model.opset_import)
    result.ir_version = model.ir_version
    return result


def last_softmax(graph):
    for node in reversed(graph.node):
        if node.op_type == "Softmax":
            return node
    return None


def scale_last_layer(model, logits):
    """Scales the last Conv, Gemm or MatMul down, so that no logit exceeds LOGIT_LIMIT. Only homogeneous operators may
    follow that layer."""
    factor = LOGIT_LIMIT / max(np.abs(logits).max(), LOGIT_LIMIT)
    last = [n for n in model.graph.node if n.op_type in ("Conv", "Gemm", "MatMul")][-1]
    for tensor in model.graph.initializer:
        if tensor.name in last.input[1:]:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(factor), tensor.name))


def up_to(model, name, shape):
    """Returns the part of the network that computes the tensor `name`."""
    wanted, nodes = {name}, []
    for node in reversed(model.graph.node):
        if wanted & set(node.output):
            nodes.insert(0, node)
            wanted |= set(node.input)
    output = helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    return build(model, nodes, {}, [i for i in model.graph.initializer if i.name in wanted], output)


def write(model, folder, inputs, outputs):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.checker.check_model(model)
    onnx.save(model, str(folder / "model.onnx"))
    for i, (name, value) in enumerate(inputs.items()):
        reference.write_pb(folder / f"test_data_set_0/input_{i}.pb", name, value)
    for i, (name, value) in enumerate(outputs.items()):
        reference.write_pb(folder / f"test_data_set_0/output_{i}.pb", name, value.astype(np.float32))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    model = refill(onnx.load(arguments.model), arguments.seed)
    rng = np.random.default_rng(arguments.seed + 1)
    inputs = {n: rng.normal(0, 1, s).astype(np.float32) for n, s in reference.graph_inputs(model).items()}
    softmax = last_softmax(model.graph)
    if softmax is not None:
        name = softmax.input[0]
        scale_last_layer(model, reference.run(model, inputs, until=name)[name])
    values = reference.run(model, inputs)
    write(model, arguments.out, inputs, {o.name: values[o.name] for o in model.graph.output})
    if softmax is not None:
        logits = values[name]
        write(up_to(model, name, logits.shape), arguments.out / "logits", inputs, {name: logits})
        print(f"{arguments.out}: logits of the sample in [{logits.min():.3g}, {logits.max():.3g}]")


if __name__ == "__main__":
    main()
