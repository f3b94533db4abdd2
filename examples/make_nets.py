"""Makes networks of known architectures with random weights from a seed, since trained weights cannot be downloaded.

    python3 examples/make_nets.py OUT [resnet18 resnet50 mobilenet_v2 efficientnet_b0 mobilenet_v3 bert2 llama ...]

The script writes OUT/<name>/model.onnx (operator set 13, with the operators that exporters emit) and
OUT/<name>/test_data_set_0, whose output comes from float64 arithmetic (reference.py). Weights are He-normal; batch-norm
statistics come from a forward pass, so that activations are normalised as in a trained network. Classifiers end in
logits, since a softmax would hide errors.

bert2 is two encoder layers of BERT-base on 128 embedded tokens: `hidden` [1,128,768] and an additive attention mask
[1,1,1,128]. It writes layer normalization and GELU as primitive operators. transformer_nets.py has smaller networks of
current kinds: llama, gpt2, whisper_encoder, whisper_decoder, vit, swin, unet, detr, yolo, maxvit, lstm2, gru2.
NAME_qdq, NAME_qoperator and NAME_dynamic are the 8-bit forms of a network (quantize.py); without names, those of
resnet50, mobilenet_v2 and bert2 are made. Needs python3-numpy, python3-onnx.
"""

import argparse
import functools
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

import quantize
import reference
import transformer_nets
from make_model import Builder
from refill import write

OPSET = 13
CLASSES = 1000


class Net(Builder):
    """A builder with the layers that several architectures share."""

    def __init__(self, inputs, seed):
        name, sample = next(iter(inputs.items()))
        super().__init__(sample, seed)
        wide = lambda value: value.astype(np.float64) if value.dtype.kind == "f" else value
        self.values = {name: wide(value) for name, value in inputs.items()}

    def scalar(self, value):
        name = f"scalar_{float(value):.9g}"
        return name if name in self.values else self.weight(name, np.array(value))

    def relu(self, x, name):
        return self.node("Relu", [x], f"{name}.relu")

    def relu6(self, x, name):
        return self.node("Clip", [x, self.scalar(0), self.scalar(6)], f"{name}.relu6")

    def silu(self, x, name):
        return self.node("Mul", [x, self.node("Sigmoid", [x], f"{name}.sigmoid")], f"{name}.silu")

    def hard_swish(self, x, name):  # in primitive operators, as exporters emit it before operator set 14
        return self.node("Mul", [x, self.hard_sigmoid(x, name)], f"{name}.hardswish")

    def hard_sigmoid(self, x, name):
        return self.node("HardSigmoid", [x], f"{name}.hardsigmoid", alpha=1 / 6, beta=0.5)

    def sigmoid(self, x, name):
        return self.node("Sigmoid", [x], f"{name}.gate")

    def conv(self, x, name, channels, kernel=1, stride=1, groups=1, bias=False):
        fan_in = self.values[x].shape[1] // groups * kernel * kernel
        shape = (channels, self.values[x].shape[1] // groups, kernel, kernel)
        inputs = [x, self.weight(f"{name}.weight", self.rng.normal(0, np.sqrt(2 / fan_in), shape))]
        if bias:
            inputs.append(self.weight(f"{name}.bias", self.rng.normal(0, 0.02, channels)))
        attributes = dict(kernel_shape=[kernel] * 2, pads=[kernel // 2] * 4, strides=[stride] * 2, dilations=[1, 1])
        return self.node("Conv", inputs, f"{name}.conv", group=groups, **attributes)

    def conv_bn(self, x, name, channels, kernel=1, stride=1, groups=1, activation=None, gain=1.0):
        y = self.conv(x, name, channels, kernel, stride, groups)
        sample = self.values[y]
        statistics = [
            self.weight(f"{name}.scale", gain * self.rng.uniform(0.8, 1.2, channels)),
            self.weight(f"{name}.shift", self.rng.normal(0, 0.1, channels)),
            self.weight(f"{name}.mean", sample.mean(axis=(0, 2, 3))),
            self.weight(f"{name}.variance", sample.var(axis=(0, 2, 3))),
        ]
        y = self.node("BatchNormalization", [y] + statistics, f"{name}.bn", epsilon=1e-5)
        return activation(y, name) if activation else y

    def squeeze_excite(self, x, name, squeezed, activation, gate):
        y = self.node("GlobalAveragePool", [x], f"{name}.pool")
        y = activation(self.conv(y, f"{name}.reduce", squeezed, bias=True), f"{name}.reduce")
        y = gate(self.conv(y, f"{name}.expand", self.values[x].shape[1], bias=True), f"{name}.expand")
        return self.node("Mul", [x, y], f"{name}.scaled")

    def linear(self, x, name, features, gain=2.0):
        fan_in = self.values[x].shape[-1]
        weight = self.weight(f"{name}.weight", self.rng.normal(0, np.sqrt(gain / fan_in), (features, fan_in)))
        bias = self.weight(f"{name}.bias", self.rng.normal(0, 0.02, features))
        return self.node("Gemm", [x, weight, bias], name, transB=1)

    def features(self, x):
        return self.node("Flatten", [self.node("GlobalAveragePool", [x], "pool")], "features", axis=1)

    # The block of mobile networks: widens, convolves each channel, narrows; adds a residual if the shape stays.
    def inverted_residual(self, x, name, hidden, channels, kernel, stride, activation, excite=None):
        y = x
        if hidden != self.values[x].shape[1]:
            y = self.conv_bn(y, f"{name}.widen", hidden, activation=activation)
        y = self.conv_bn(y, f"{name}.filter", hidden, kernel, stride, groups=hidden, activation=activation)
        if excite:
            y = excite(y, f"{name}.se")
        residual = stride == 1 and self.values[x].shape[1] == channels
        y = self.conv_bn(y, f"{name}.narrow", channels, gain=0.5 if residual else 1.0)
        return self.node("Add", [x, y], f"{name}.sum") if residual else y


def resnet18(b):
    x = b.conv_bn("image", "stem", 64, 7, 2, activation=b.relu)
    x = b.node("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, channels in enumerate([64, 128, 256, 512]):
        for i in range(2):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            y = b.conv_bn(x, f"{name}.a", channels, 3, stride, activation=b.relu)
            y = b.conv_bn(y, f"{name}.b", channels, 3, gain=0.5)
            if stride != 1:
                x = b.conv_bn(x, f"{name}.shortcut", channels, 1, stride)
            x = b.relu(b.node("Add", [y, x], f"{name}.sum"), name)
    return b.linear(b.features(x), "logits", CLASSES)


def resnet50(b):
    x = b.conv_bn("image", "stem", 64, 7, 2, activation=b.relu)
    x = b.node("MaxPool", [x], "stem.pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for stage, (channels, blocks) in enumerate([(64, 3), (128, 4), (256, 6), (512, 3)]):
        for i in range(blocks):
            name, stride = f"layer{stage + 1}.{i}", 2 if stage > 0 and i == 0 else 1
            y = b.conv_bn(x, f"{name}.a", channels, 1, activation=b.relu)
            y = b.conv_bn(y, f"{name}.b", channels, 3, stride, activation=b.relu)
            y = b.conv_bn(y, f"{name}.c", 4 * channels, gain=0.5)
            if i == 0:
                x = b.conv_bn(x, f"{name}.shortcut", 4 * channels, 1, stride)
            x = b.relu(b.node("Add", [y, x], f"{name}.sum"), name)
    return b.linear(b.features(x), "logits", CLASSES)


def mobilenet_v2(b):
    x = b.conv_bn("image", "stem", 32, 3, 2, activation=b.relu6)
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for stage, (expand, channels, repeats, stride) in enumerate(stages):
        for i in range(repeats):
            hidden = expand * b.values[x].shape[1]
            x = b.inverted_residual(x, f"block{stage + 1}.{i}", hidden, channels, 3, stride if i == 0 else 1, b.relu6)
    x = b.conv_bn(x, "head", 1280, activation=b.relu6)
    return b.linear(b.features(x), "logits", CLASSES)


def efficientnet_b0(b):
    x = b.conv_bn("image", "stem", 32, 3, 2, activation=b.silu)
    stages = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]
    for stage, (expand, channels, repeats, stride, kernel) in enumerate(stages):
        for i in range(repeats):
            inputs = b.values[x].shape[1]
            excite = lambda y, name: b.squeeze_excite(y, name, inputs // 4, b.silu, b.sigmoid)
            name = f"block{stage + 1}.{i}"
            x = b.inverted_residual(x, name, expand * inputs, channels, kernel, stride if i == 0 else 1, b.silu, excite)
    x = b.conv_bn(x, "head", 1280, activation=b.silu)
    return b.linear(b.features(x), "logits", CLASSES)


def mobilenet_v3(b):  # the large variant
    x = b.conv_bn("image", "stem", 16, 3, 2, activation=b.hard_swish)
    r, h = b.relu, b.hard_swish
    rows = [  # kernel, hidden, channels, squeeze-excite, activation, stride
        (3, 16, 16, False, r, 1), (3, 64, 24, False, r, 2), (3, 72, 24, False, r, 1), (5, 72, 40, True, r, 2),
        (5, 120, 40, True, r, 1), (5, 120, 40, True, r, 1), (3, 240, 80, False, h, 2), (3, 200, 80, False, h, 1),
        (3, 184, 80, False, h, 1), (3, 184, 80, False, h, 1), (3, 480, 112, True, h, 1), (3, 672, 112, True, h, 1),
        (5, 672, 160, True, h, 2), (5, 960, 160, True, h, 1), (5, 960, 160, True, h, 1),
    ]  # fmt: skip
    for i, (kernel, hidden, channels, squeeze, activation, stride) in enumerate(rows):
        narrow = (hidden // 4 + 4) // 8 * 8
        excite = (lambda y, name: b.squeeze_excite(y, name, narrow, b.relu, b.hard_sigmoid)) if squeeze else None
        x = b.inverted_residual(x, f"block{i + 1}", hidden, channels, kernel, stride, activation, excite)
    x = b.conv_bn(x, "head", 960, activation=b.hard_swish)
    x = b.hard_swish(b.linear(b.features(x), "hidden", 1280), "hidden")
    return b.linear(x, "logits", CLASSES)


TOKENS, WIDTH, HEADS, INNER = 128, 768, 12, 3072


def dense(b, x, name, features, gain):
    fan_in = b.values[x].shape[-1]
    weight = b.weight(f"{name}.weight", b.rng.normal(0, np.sqrt(gain / fan_in), (fan_in, features)))
    bias = b.weight(f"{name}.bias", b.rng.normal(0, 0.02, features))
    return b.node("Add", [bias, b.node("MatMul", [x, weight], f"{name}.matmul")], name)


def layer_norm(b, x, name):
    mean = b.node("ReduceMean", [x], f"{name}.mean", axes=[-1])
    centered = b.node("Sub", [x, mean], f"{name}.centered")
    square = b.node("Pow", [centered, b.scalar(2)], f"{name}.square")
    variance = b.node("ReduceMean", [square], f"{name}.variance", axes=[-1])
    deviation = b.node("Sqrt", [b.node("Add", [variance, b.scalar(1e-12)], f"{name}.safe")], f"{name}.deviation")
    unit = b.node("Div", [centered, deviation], f"{name}.unit")
    scale = b.weight(f"{name}.scale", b.rng.uniform(0.8, 1.2, WIDTH))
    shift = b.weight(f"{name}.shift", b.rng.normal(0, 0.1, WIDTH))
    return b.node("Add", [b.node("Mul", [unit, scale], f"{name}.scaled"), shift], name)


def gelu(b, x, name):
    erf = b.node("Erf", [b.node("Div", [x, b.scalar(np.sqrt(2))], f"{name}.div")], f"{name}.erf")
    return b.node("Mul", [b.node("Mul", [x, b.node("Add", [erf, b.scalar(1)], f"{name}.add")], f"{name}.mul"), b.scalar(0.5)], name)


def encoder_layer(b, x, name):
    heads_shape = b.integers("heads_shape", [1, TOKENS, HEADS, WIDTH // HEADS])

    def heads(role, perm):
        y = dense(b, x, f"{name}.{role}", WIDTH, 1.0)
        y = b.node("Reshape", [y, heads_shape], f"{name}.{role}.split")
        return b.node("Transpose", [y], f"{name}.{role}.heads", perm=perm)

    query, key, value = heads("query", [0, 2, 1, 3]), heads("key", [0, 2, 3, 1]), heads("value", [0, 2, 1, 3])
    scores = b.node("MatMul", [query, key], f"{name}.scores")
    scores = b.node("Div", [scores, b.scalar(np.sqrt(WIDTH // HEADS))], f"{name}.scaled")
    scores = b.node("Add", [scores, "mask"], f"{name}.masked")
    attention = b.node("Softmax", [scores], f"{name}.attention", axis=-1)
    y = b.node("Transpose", [b.node("MatMul", [attention, value], f"{name}.context")], f"{name}.joined", perm=[0, 2, 1, 3])
    y = b.node("Reshape", [y, b.integers("width_shape", [1, TOKENS, WIDTH])], f"{name}.flat")
    x = layer_norm(b, b.node("Add", [dense(b, y, f"{name}.output", WIDTH, 1.0), x], f"{name}.residual"), f"{name}.norm")
    y = gelu(b, dense(b, x, f"{name}.inner", INNER, 2.0), f"{name}.gelu")
    return layer_norm(b, b.node("Add", [dense(b, y, f"{name}.outer", WIDTH, 1.0), x], f"{name}.residual2"), f"{name}.norm2")


def bert2(b):
    x = "hidden"
    for i in range(2):
        x = encoder_layer(b, x, f"layer{i}")
    return x


def image(rng, batch):
    return {"image": rng.normal(0, 1, (batch, 3, 224, 224)).astype(np.float32)}


def tokens(rng, batch):
    mask = np.zeros((1, 1, 1, TOKENS), np.float32)
    mask[..., TOKENS - 7 :] = -10000.0  # masks the last tokens, which are padding
    return {"hidden": rng.normal(0, 1, (1, TOKENS, WIDTH)).astype(np.float32), "mask": mask}


# Maps a name to (architecture, inputs, batch of the sample for the statistics).
NETS = {
    "resnet18": (resnet18, image, 2),
    "resnet50": (resnet50, image, 1),
    "mobilenet_v2": (mobilenet_v2, image, 2),
    "efficientnet_b0": (efficientnet_b0, image, 2),
    "mobilenet_v3": (mobilenet_v3, image, 2),
    "bert2": (bert2, tokens, 1),
    **transformer_nets.NETS,
}


QUANTIZED = [f"{name}_{form}" for name in ("resnet50", "mobilenet_v2", "bert2") for form in quantize.FORMS]


# Splits a name into that of the network and that of its 8-bit form, which is empty for floats.
def split(name):
    plain, _, form = name.rpartition("_")
    return (plain, form) if form in quantize.FORMS else (name, "")


def make(name, folder):
    model, given, values = floats(split(name)[0])
    if form := split(name)[1]:
        return quantize.make(model, given, form, folder)
    write(model, folder, given, values)
    [result] = values.values()
    print(f"{folder}: {len(model.graph.node)} nodes, output in [{result.min():.3g}, {result.max():.3g}]")
    return None


# Returns the network, its inputs, and its outputs by name.
@functools.cache
def floats(name):
    architecture, inputs, batch = NETS[name]
    b = Net(inputs(np.random.default_rng(1), batch), seed=20)
    output = architecture(b)
    given = inputs(np.random.default_rng(2), 1)
    kinds = {"f": onnx.TensorProto.FLOAT, "i": onnx.TensorProto.INT64}
    value = lambda n, shape, kind="f": helper.make_tensor_value_info(n, kinds[kind], shape)
    operands = [value(n, v.shape, v.dtype.kind) for n, v in given.items()]
    graph = helper.make_graph(b.nodes, name, operands, [value(output, None)], b.weights)
    model = helper.make_model(graph, producer_name="make_nets", opset_imports=[helper.make_opsetid("", OPSET)])
    model.ir_version = 7
    result = reference.run(model, given)[output]
    model.graph.output[0].CopyFrom(value(output, result.shape))
    return model, given, {output: result}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("names", nargs="*", metavar="name", help="default: all")
    arguments = parser.parse_args()
    unknown = [n for n in arguments.names if split(n)[0] not in NETS]
    if unknown:
        parser.error(f"no network {unknown[0]}; there are {', '.join(NETS)}")
    for name in arguments.names or [*NETS, *QUANTIZED]:
        make(name, arguments.out / name)


if __name__ == "__main__":
    main()
