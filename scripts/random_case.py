"""Makes models of a few nodes, with their inputs and expected outputs. For scripts/fuzz_operators.py."""

import sys
from pathlib import Path

import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
import reference  # noqa: E402
from element_types import ONNX_TYPES  # noqa: E402


class Case:
    """A model of a few nodes with its inputs and expected outputs, by name."""

    def __init__(self, opset):
        self.opset, self.nodes, self.inputs, self.initializers, self.outputs = opset, [], [], [], []

    def operand(self, name, array, constant):
        (self.initializers if constant else self.inputs).append((name, array))
        return name

    def model(self):
        info = lambda name, a: helper.make_tensor_value_info(name, ONNX_TYPES[a.dtype], a.shape)
        graph = helper.make_graph(self.nodes, "fuzz", [info(*i) for i in self.inputs], [info(*o) for o in self.outputs],
                                  [numpy_helper.from_array(a, name) for name, a in self.initializers])
        domains = {"": self.opset, **{node.domain: 1 for node in self.nodes if node.domain}}
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(*domain) for domain in domains.items()])
        model.ir_version = 8
        return model

    def save_data(self, folder):
        for kind, arrays in (("input", self.inputs), ("output", self.outputs)):
            for i, (name, array) in enumerate(arrays):
                reference.write_pb(folder / "test_data_set_0" / f"{kind}_{i}.pb", name, array)

    def save(self, folder):
        folder.mkdir(parents=True)
        onnx.save(self.model(), folder / "model.onnx")
        self.save_data(folder)
