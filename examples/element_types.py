"""The element types of ONNX tensors and their types in numpy. A table of our own, since onnx.mapping is gone since onnx
1.19 and the functions that replace it are missing in onnx 1.12."""

import numpy as np
from onnx import TensorProto

_NAMES = {"FLOAT": np.float32, "DOUBLE": np.float64, "FLOAT16": np.float16, "BOOL": np.bool_, "STRING": np.object_,
          **{f"{sign.upper()}INT{bits}": np.dtype(f"{sign}int{bits}") for sign in ("", "u") for bits in (8, 16, 32, 64)}}
NUMPY_TYPES = {TensorProto.DataType.Value(name): np.dtype(kind) for name, kind in _NAMES.items()}
ONNX_TYPES = {kind: number for number, kind in NUMPY_TYPES.items()}
NUMPY_TYPES[TensorProto.BFLOAT16] = np.dtype(np.float32)  # numpy lacks the type
