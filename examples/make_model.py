"""Makes examples/resnet20.onnx: ResNet-20 for 32x32 images (He et al. 2015, section 4.2), with random weights.

The weights are He-normal, from a fixed seed. The batch-norm statistics come from a forward pass over random images, so
that activations are normalised as in a trained network. Also makes a test case, examples/resnet20/test_data_set_0,
whose output comes from float64 arithmetic. The files are checked in, so the build does not need this script. Needs
python3-numpy and python3-onnx.

    python3 examples/make_model.py
"""

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

import reference

HERE = Path(__file__).parent
CLASSES = 10


class Builder:
    """A graph under construction. It computes each appended node at once, on a batch of sample images."""

    def __init__(self, images, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.values = [], [], {"image": images.astype(np.float64)}

    def weight(self, name, array):
        array = array.astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, name))
        self.values[name] = array.astype(np.float64)
        return name

    def integers(self, name, numbers):
        if name not in self.values:
            self.values[name] = np.array(numbers, np.int64)
            self.weights.append(numpy_helper.from_array(self.values[name], name))
        return name

    def node(self, kind, inputs, output, others=(), **attributes):
        """Appends a node and returns `output`; `others` are the names of the node's further outputs."""
        node = helper.make_node(kind, inputs, [output, *others], name=output, **attributes)
        self.nodes.append(node)
        decoded = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        results = reference.OPS[kind](decoded, 13, *[self.values[i] if i else None for i in inputs])
        results = results if isinstance(results, tuple) else (results,)
        self.values.update(zip((output, *others), results))
        return output

    def conv_bn(self, x, name, channels, kernel, stride, gain=1.0):
        fan_in = self.values[x].shape[1] * kernel * kernel
        w = self.weight(f"{name}.weight", self.rng.normal(0, np.sqrt(2 / fan_in), (channels, fan_in // kernel**2, kernel, kernel)))
        pad = kernel // 2
        y = self.node("Conv", [x, w], f"{name}.conv", kernel_shape=[kernel] * 2, pads=[pad] * 4, strides=[stride] * 2)
        sample = self.values[y]
        statistics = [
            self.weight(f"{name}.scale", gain * self.rng.uniform(0.8, 1.2, channels)),
            self.weight(f"{name}.bias", self.rng.normal(0, 0.1, channels)),
            self.weight(f"{name}.mean", sample.mean(axis=(0, 2, 3))),
            self.weight(f"{name}.variance", sample.var(axis=(0, 2, 3))),
        ]
        return self.node("BatchNormalization", [y] + statistics, f"{name}.bn", epsilon=1e-5)

    def block(self, x, name, channels, stride):
        y = self.node("Relu", [self.conv_bn(x, f"{name}.a", channels, 3, stride)], f"{name}.a.relu")
        # A residual branch is smaller than its input, as in trained networks.
        y = self.conv_bn(y, f"{name}.b", channels, 3, 1, gain=0.5)
        if stride != 1:
            x = self.conv_bn(x, f"{name}.shortcut", channels, 1, stride)
        return self.node("Relu", [self.node("Add", [y, x], f"{name}.sum")], f"{name}.relu")


def main():
    images = np.random.default_rng(1).normal(0, 1, (16, 3, 32, 32))
    b = Builder(images, seed=20)
    x = b.node("Relu", [b.conv_bn("image", "stem", 16, 3, 1)], "stem.relu")
    for stage, channels in enumerate([16, 32, 64]):
        for i in range(3):
            x = b.block(x, f"stage{stage + 1}.block{i + 1}", channels, 2 if stage > 0 and i == 0 else 1)
    x = b.node("Flatten", [b.node("GlobalAveragePool", [x], "pool")], "features")
    weights = [
        b.weight("classifier.weight", b.rng.normal(0, np.sqrt(2 / 64), (CLASSES, 64))),
        b.weight("classifier.bias", b.rng.normal(0, 0.02, CLASSES)),
    ]
    b.node("Softmax", [b.node("Gemm", [x] + weights, "logits", transB=1)], "probabilities", axis=-1)

    value = lambda name, shape: helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
    graph = helper.make_graph(b.nodes, "resnet20", [value("image", [1, 3, 32, 32])], [value("probabilities", [1, CLASSES])], b.weights)
    model = helper.make_model(graph, producer_name="make_model", opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.checker.check_model(model)
    onnx.save(model, str(HERE / "resnet20.onnx"))

    image = np.random.default_rng(2).normal(0, 1, (1, 3, 32, 32)).astype(np.float32)
    values = reference.run(model, {"image": image})
    data = HERE / "resnet20" / "test_data_set_0"
    reference.write_pb(data / "input_0.pb", "image", image)
    reference.write_pb(data / "output_0.pb", "probabilities", values["probabilities"].astype(np.float32))
    print("resnet20.onnx:", (HERE / "resnet20.onnx").stat().st_size, "bytes, logits", np.round(values["logits"], 2))


if __name__ == "__main__":
    main()
