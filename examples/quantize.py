"""Quantizes a network to 8 bits, in the forms that exporters write.

    python3 examples/quantize.py model.onnx OUT [qdq qoperator dynamic s8qdq s8qoperator]

qdq: QuantizeLinear and DequantizeLinear around each product, sum and pool; weights are i8 with a scale for each output
channel, biases i32. qoperator: QLinearConv and QLinearMatMul, whose images and matrices stay u8 from one product to the
next. dynamic: DynamicQuantizeLinear before ConvInteger and MatMulInteger, floats everywhere else. s8qdq, s8qoperator:
activations are i8 with the zero point 0, not u8.

Batch normalization is folded into the weights first, as quantizers do. The ranges of activations come from one forward
pass (reference.py). The model's operator set must be 13. Needs python3-numpy, python3-onnx.
"""

import argparse
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import reference
from refill import write

FORMS = ("qdq", "qoperator", "dynamic", "s8qdq", "s8qoperator")
CLIPPING = ("Relu", "Clip")  # end in the same bounds as the range of their result, so quantization does their work


def attributes_of(node):
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def fold_batch_norm(model):
    """Folds each BatchNormalization behind a Conv into the weights of the Conv, in place."""
    graph = model.graph
    wide = lambda v: v.astype(np.float64) if v.dtype.kind == "f" else v
    weights = {i.name: wide(numpy_helper.to_array(i)) for i in graph.initializer}
    makers = {node.output[0]: node for node in graph.node}
    for norm in [n for n in graph.node if n.op_type == "BatchNormalization"]:
        conv = makers.get(norm.input[0])
        if conv is None or conv.op_type != "Conv":
            continue
        scale, shift, mean, variance = (weights[name] for name in norm.input[1:5])
        factor = scale / np.sqrt(variance + attributes_of(norm).get("epsilon", 1e-5))
        w, bias = conv.input[1], conv.input[2] if len(conv.input) > 2 else f"{conv.name}.folded"
        old = weights.get(bias, np.zeros(len(factor)))
        weights[w] = weights[w] * factor.reshape(-1, 1, 1, 1)
        weights[bias] = (old - mean) * factor + shift
        del conv.input[2:]
        conv.input.append(bias)
        conv.output[0] = norm.output[0]
        graph.node.remove(norm)
    keep(model, weights)


def keep(model, weights):
    """Replaces the initializers by those of `weights` that a node reads. Keeps the type of integers."""
    used = {name for node in model.graph.node for name in node.input}
    narrow = lambda v: v.astype(np.float32) if v.dtype == np.float64 else v
    tensors = [numpy_helper.from_array(narrow(v), name) for name, v in weights.items() if name in used]
    del model.graph.initializer[:]
    model.graph.initializer.extend(tensors)


class Quantizer:
    def __init__(self, model, values, form):
        self.form, self.values = form.removeprefix("s8"), values
        self.signed = form.startswith("s8")
        self.weights = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
        self.given = [i.name for i in model.graph.input if i.name not in self.weights]
        self.old = list(model.graph.node)
        self.nodes, self.scales, self.small = [], {}, {}  # small: the bytes of a tensor of floats
        self.outputs = {o.name for o in model.graph.output}
        self.readers = {}
        for node in self.old:
            for name in node.input:
                self.readers.setdefault(name, []).append(node)

    def node(self, kind, inputs, output, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name, value):
        self.weights[name] = value
        return name

    def scale_of(self, name):
        """Returns the names of scale and zero point of the activation `name`, whose range includes 0."""
        if name not in self.scales:
            x = self.values[name]
            low, high = min(x.min(), 0.0), max(x.max(), 0.0)
            if self.signed:
                scale, zero = np.float32(max(high, -low, 1e-6) / 127), np.int8(0)
            else:
                scale = np.float32(max(high - low, 1e-6) / 255)
                zero = np.uint8(np.clip(np.round(-low / scale), 0, 255))
            names = [self.constant(f"{name}.scale8", np.array(scale)), self.constant(f"{name}.zero8", np.array(zero))]
            self.scales[name] = names
        return self.scales[name]

    def quantized(self, name):
        """Returns the name of the 8-bit form of an activation."""
        if name not in self.small:
            self.small[name] = self.node("QuantizeLinear", [name, *self.scale_of(name)], f"{name}.u8")
        return self.small[name]

    def floats(self, name):
        """Returns the name of an activation's floats; in the form qdq, after a trip through u8."""
        if self.form == "qdq" and name in self.values and name not in self.weights:
            key = f"{name}.f32"
            if not any(n.output[0] == key for n in self.nodes):
                self.node("DequantizeLinear", [self.quantized(name), *self.scale_of(name)], key)
            return key
        return name

    def weight8(self, name, axis):
        """Makes i8 weights with one scale for each index of `axis`; returns the names of weights, scales and zeros."""
        if f"{name}.i8" not in self.weights:
            w = self.weights[name].astype(np.float64)
            others = tuple(d for d in range(w.ndim) if d != axis)
            scale = (np.maximum(np.abs(w).max(axis=others), 1e-9) / 127).astype(np.float32)
            along = [-1 if d == axis else 1 for d in range(w.ndim)]
            small = np.clip(np.round(w / scale.reshape(along)), -127, 127).astype(np.int8)
            self.constant(f"{name}.i8", small)
            self.constant(f"{name}.scale8", scale)
            self.constant(f"{name}.zero8", np.zeros(scale.shape, np.int8))
        return f"{name}.i8", f"{name}.scale8", f"{name}.zero8"

    def bias32(self, name, x, weight):
        """Returns the names of an i32 bias in units of the product's scales, and of these scales."""
        scale = self.weights[self.scale_of(x)[0]] * self.weights[f"{weight}.scale8"]
        self.constant(f"{name}.i32", np.round(self.weights[name] / scale).astype(np.int32))
        return f"{name}.i32", self.constant(f"{name}.scale8", scale.astype(np.float32))

    def result_of(self, node):
        """Returns the tensor that holds the result after an activation that quantization does, and that activation."""
        readers = self.readers.get(node.output[0], [])
        if not self.signed and len(readers) == 1 and readers[0].op_type in CLIPPING and node.output[0] not in self.outputs:
            return readers[0].output[0], readers[0]
        return node.output[0], None

    def run(self):
        done = set()
        for node in self.old:
            if id(node) in done:
                continue
            clipping = {"qdq": self.qdq, "qoperator": self.qoperator, "dynamic": self.dynamic}[self.form](node)
            if clipping is not None:
                done.add(id(clipping))

    def has_weight(self, node):
        return node.op_type in ("Conv", "MatMul", "Gemm") and node.input[1] in self.weights

    def channel_axis(self, node):
        if node.op_type == "Conv":
            return 0
        return 0 if attributes_of(node).get("transB", 0) else 1

    def plain(self, node, inputs, output=None):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        if output:
            copy.output[0] = output
        self.nodes.append(copy)

    def qdq(self, node):
        if node.op_type not in ("Conv", "MatMul", "Gemm", "Add", "MaxPool", "GlobalAveragePool"):
            return self.plain(node, [self.floats(n) if n in self.small else n for n in node.input])
        inputs = [self.floats(node.input[0])]
        if self.has_weight(node):
            axis = self.channel_axis(node)
            w, scale, zero = self.weight8(node.input[1], axis)
            inputs.append(self.node("DequantizeLinear", [w, scale, zero], f"{node.output[0]}.weight.f32", axis=axis))
            if len(node.input) > 2:
                bias, scale = self.bias32(node.input[2], node.input[0], node.input[1])
                inputs.append(self.node("DequantizeLinear", [bias, scale], f"{node.output[0]}.bias.f32", axis=0))
        else:
            inputs += [self.floats(n) for n in node.input[1:]]
        if node.op_type == "Add" and any(n in self.weights for n in node.input):
            inputs = [n if n in self.weights else self.floats(n) for n in node.input]
        result, clipping = self.result_of(node)
        self.plain(node, inputs, result)
        if result not in self.outputs:
            self.quantized(result)
        return clipping

    def qoperator(self, node):
        if node.op_type == "Gemm" or not (node.op_type in ("Conv", "MatMul") and node.input[0] in self.values):
            if node.op_type == "MaxPool" and node.input[0] in self.small:  # of u8, whose order is that of the floats
                self.scales[node.output[0]] = self.scale_of(node.input[0])
                self.small[node.output[0]] = f"{node.output[0]}.u8"
                return self.plain(node, [self.small[node.input[0]]], f"{node.output[0]}.u8")
            result, clipping = self.result_of(node) if node.op_type == "Add" else (node.output[0], None)
            self.plain(node, [self.wide(n) for n in node.input], result)
            return clipping
        x = node.input[0]
        inputs = [self.quantized(x), *self.scale_of(x)]
        if self.has_weight(node):
            inputs += self.weight8(node.input[1], self.channel_axis(node))
        else:
            inputs += [self.quantized(node.input[1]), *self.scale_of(node.input[1])]
        result, clipping = self.result_of(node)
        inputs += self.scale_of(result)
        if node.op_type == "Conv" and len(node.input) > 2:
            inputs.append(self.bias32(node.input[2], x, node.input[1])[0])
        self.small[result] = f"{result}.u8"
        self.node(f"QLinear{node.op_type}", inputs, f"{result}.u8", **attributes_of(node))
        if result in self.outputs:
            self.wide(result)
        return clipping

    def wide(self, name):
        """Returns the floats of a tensor, which may exist as u8 only."""
        made = any(name in n.output for n in self.nodes) or name in self.given or name in self.weights
        if name in self.small and not made:
            self.node("DequantizeLinear", [self.small[name], *self.scale_of(name)], name)
        return name

    def dynamic(self, node):
        if not self.has_weight(node) or node.op_type == "Gemm":
            return self.plain(node, node.input)
        x, y = node.input[0], node.output[0]
        if x not in self.small:
            self.small[x] = f"{x}.u8"
            outputs = [f"{x}.u8", f"{x}.u8_scale", f"{x}.u8_zero"]
            self.nodes.append(helper.make_node("DynamicQuantizeLinear", [x], outputs, name=f"{x}.u8"))
        w, scale, zero = self.weight8(node.input[1], self.channel_axis(node))
        kind = {"Conv": "ConvInteger", "MatMul": "MatMulInteger"}[node.op_type]
        self.node(kind, [f"{x}.u8", w, f"{x}.u8_zero", zero], f"{y}.i32", **attributes_of(node))
        self.node("Cast", [f"{y}.i32"], f"{y}.cast", to=onnx.TensorProto.FLOAT)
        if node.op_type == "Conv":
            self.constant(f"{y}.channels", self.weights[scale].reshape(1, -1, 1, 1))
            scale = f"{y}.channels"
        self.node("Mul", [f"{x}.u8_scale", scale], f"{y}.scales")
        has_bias = len(node.input) > 2
        self.node("Mul", [f"{y}.cast", f"{y}.scales"], f"{y}.product" if has_bias else y)
        if has_bias:
            self.constant(f"{y}.bias", self.weights[node.input[2]].reshape(1, -1, 1, 1))
            self.node("Add", [f"{y}.product", f"{y}.bias"], y)
        return None


def quantized(model, given, form):
    """Returns the 8-bit form of a model. `given`: sample inputs, from which the ranges of activations come."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    fold_batch_norm(model)
    q = Quantizer(model, reference.run(model, given), form)
    q.run()
    del model.graph.node[:]
    model.graph.node.extend(q.nodes)
    keep(model, q.weights)
    model.graph.name += f"_{form}"
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="with a folder test_data_set_0 beside it")
    parser.add_argument("out", type=Path)
    parser.add_argument("forms", nargs="*", metavar="form", help="default: all", choices=[*FORMS, []])
    arguments = parser.parse_args()
    model = onnx.load(arguments.model)
    data = arguments.model.parent / "test_data_set_0"
    names = reference.graph_inputs(model)
    given = {n: reference.read_pb(data / f"input_{i}.pb") for i, n in enumerate(names)}
    for form in arguments.forms or FORMS:
        make(model, given, form, arguments.out / f"{arguments.model.parent.name}_{form}")


def make(model, given, form, folder):
    result = quantized(model, given, form)
    values = reference.run(result, given)
    outputs = {o.name: values[o.name] for o in result.graph.output}
    write(result, folder, given, outputs)
    flat = np.concatenate([v.ravel() for v in outputs.values()])
    print(f"{folder}: {len(result.graph.node)} nodes, output in [{flat.min():.3g}, {flat.max():.3g}]")


if __name__ == "__main__":
    main()
