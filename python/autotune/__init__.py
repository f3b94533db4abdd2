"""autotune runs, compiles and tunes neural networks.

    import autotune
    autotune.tune("m.onnx", trials=400, output="m.tar", progress=True)
    session = autotune.InferenceSession("m.tar", threads=2)
    outputs = session.run(None, {"image": image})
"""

from . import rpc
from ._compiler import Database, FeatureMatrix, compile  # noqa: A004, the command's name
from ._library import LIB as _LIB
from ._library import Device, DType, Error, InvalidArgument, OutOfMemory
from ._module import (
    DeviceInfo,
    Function,
    GraphModule,
    Module,
    Object,
    cpu,
    cuda,
    device,
    devices,
    function,
    get_global_func,
    list_global_func_names,
    load_module,
    opencl,
    register_func,
    remove_global_func,
)
from ._session import InferenceSession, NodeArg, ThreadPool, load
from ._tensor import Tensor, empty, from_dlpack, tensor
from ._tune import TuneResult, tune

__version__: str = _LIB.autotune_version().decode()

__all__ = [
    "Device",
    "DeviceInfo",
    "DType",
    "Database",
    "Error",
    "FeatureMatrix",
    "Function",
    "GraphModule",
    "InferenceSession",
    "InvalidArgument",
    "Module",
    "NodeArg",
    "Object",
    "OutOfMemory",
    "Tensor",
    "ThreadPool",
    "TuneResult",
    "compile",
    "cpu",
    "cuda",
    "device",
    "devices",
    "empty",
    "from_dlpack",
    "function",
    "get_global_func",
    "list_global_func_names",
    "load",
    "load_module",
    "opencl",
    "register_func",
    "remove_global_func",
    "rpc",
    "tensor",
    "tune",
]
