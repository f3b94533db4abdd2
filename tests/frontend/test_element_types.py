"""Tests that the scripts work with an onnx that lacks onnx.mapping, as onnx 1.19 and later do."""

import sys
import unittest
from pathlib import Path

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper  # noqa: F401, of onnx 1.12: they load onnx.mapping
except ImportError:
    print("skipped: needs python3-numpy and python3-onnx")
    sys.exit(0)

sys.modules["onnx.mapping"] = None  # the next import of it fails
if hasattr(onnx, "mapping"):
    del onnx.mapping

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "examples"), str(ROOT / "scripts")]


class ElementTypes(unittest.TestCase):
    def test_mapping_is_hidden(self):
        with self.assertRaises(ImportError):
            import onnx.mapping  # noqa: F401

    def test_table(self):
        from element_types import NUMPY_TYPES, ONNX_TYPES
        self.assertEqual(ONNX_TYPES[np.dtype(np.float32)], TensorProto.FLOAT)
        self.assertEqual(NUMPY_TYPES[TensorProto.UINT16], np.uint16)
        self.assertNotIn(TensorProto.UNDEFINED, NUMPY_TYPES)
        for array in (np.zeros(1, kind) for kind in ONNX_TYPES if kind.kind != "O"):
            self.assertEqual(numpy_helper.from_array(array).data_type, ONNX_TYPES[array.dtype])

    def test_scripts_run(self):
        import fuzz_operators
        import random
        import random_network
        import reference
        model, inputs, outputs = random_network.make(1)
        computed = reference.run(model, dict(inputs)) if not model.functions else {}
        self.assertTrue(outputs)
        self.assertTrue(fuzz_operators.eights(random.Random(1))[0].outputs)
        self.assertTrue(model.functions or set(dict(outputs)) <= set(computed))

    def test_recurrent_networks_declare_their_shape(self):
        import make_nets
        model, _, outputs = make_nets.floats("gru2")
        [value] = outputs.values()
        dims = [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim]
        self.assertEqual(dims, list(value.shape))


if __name__ == "__main__":
    unittest.main()
