"""Measures PyTorch's times on a GPU, in milliseconds: the median over CUDA graphs of many launches. Uses full float32
unless another type is stated."""

import statistics

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper

LAUNCHES, REPEATS, WARM = 20, 11, 3


def has_gpu():
    return torch.cuda.is_available()


def _exact():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True


def _time(call):
    """Returns the time of one call. A CUDA graph launches it again and again, so that no time of the host counts."""
    with torch.no_grad():
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(WARM):
                call()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                call()
        times = []
        for _ in range(REPEATS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / LAUNCHES)
        return statistics.median(times)


def matmul_ms(n, kind="f32"):
    """`kind`: f32, tf32 (f32 operands that cuBLAS may round), f16 or bf16; the result has the operands' type."""
    _exact()
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16}.get(kind, torch.float32)
    a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
    out = torch.empty(n, n, device="cuda", dtype=dtype)
    torch.backends.cuda.matmul.allow_tf32 = kind == "tf32"
    # Accumulate in f32, as our kernels do.
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    try:
        return _time(lambda: torch.matmul(a, b, out=out))
    finally:
        _exact()


def conv_ms(batch, side, channels, kernel, filters, stride, pad):
    _exact()
    x = torch.randn(batch, channels, side, side, device="cuda").to(memory_format=torch.channels_last)
    w = torch.randn(filters, channels, kernel, kernel, device="cuda").to(memory_format=torch.channels_last)
    return _time(lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=pad))


def copy_ms(elements):
    x = torch.randn(elements, device="cuda")
    y = torch.empty_like(x)
    return _time(lambda: y.copy_(x))


def _tensor(array):
    return torch.from_numpy(np.ascontiguousarray(array)).cuda()


def _pads(attributes):
    pads = attributes.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        raise NotImplementedError("pads that differ at both ends")
    return pads[:2]


def _conv(a, x, w, b=None):
    return torch.nn.functional.conv2d(x, w, b, a.get("strides", 1), _pads(a), a.get("dilations", 1), a.get("group", 1))


def _gemm(a, x, w, b=0):
    x, w = x.T if a.get("transA") else x, w.T if a.get("transB") else w
    return a.get("alpha", 1.0) * (x @ w) + a.get("beta", 1.0) * b


def _mean(a, x):
    return x.mean(dim=a["axes"], keepdim=bool(a.get("keepdims", 1)))


def _clip(a, x, low=None, high=None):
    return torch.clamp(x, a.get("min", low), a.get("max", high))


OPS = {
    "Conv": _conv,
    "Gemm": _gemm,
    "MatMul": lambda a, x, y: x @ y,
    "Add": lambda a, x, y: x + y,
    "Sub": lambda a, x, y: x - y,
    "Mul": lambda a, x, y: x * y,
    "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x**y,
    "Sqrt": lambda a, x: x.sqrt(),
    "Erf": lambda a, x: x.erf(),
    "Tanh": lambda a, x: x.tanh(),
    "Relu": lambda a, x: x.relu(),
    "Sigmoid": lambda a, x: x.sigmoid(),
    "HardSigmoid": lambda a, x: torch.clamp(x * a.get("alpha", 0.2) + a.get("beta", 0.5), 0, 1),
    "Clip": _clip,
    "Softmax": lambda a, x: x.softmax(a.get("axis", -1)),
    "ReduceMean": _mean,
    "GlobalAveragePool": lambda a, x: x.mean(dim=(2, 3), keepdim=True),
    "MaxPool": lambda a, x: torch.nn.functional.max_pool2d(x, a["kernel_shape"], a.get("strides", 1), _pads(a)),
    "BatchNormalization": lambda a, x, s, b, m, v: torch.nn.functional.batch_norm(x, m, v, s, b, eps=a.get("epsilon", 1e-5)),
    "Flatten": lambda a, x: x.flatten(a.get("axis", 1)),
    "Reshape": lambda a, x, shape: x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape.tolist())]),
    "Transpose": lambda a, x: x.permute(a["perm"]),
}


class Net(torch.nn.Module):
    """Runs an ONNX graph of the operators above, node by node."""

    def __init__(self, model):
        super().__init__()
        graph = model.graph
        unknown = sorted({n.op_type for n in graph.node} - set(OPS))
        if unknown:
            raise NotImplementedError(f"torch_peer.py has no {', '.join(unknown)}")
        arrays = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.shapes = {k: torch.from_numpy(v.copy()) for k, v in arrays.items() if v.dtype == np.int64}
        self.weights = {k: _tensor(v) for k, v in arrays.items() if v.dtype != np.int64}
        for k, v in self.weights.items():
            if v.dim() == 4:
                self.weights[k] = v.to(memory_format=torch.channels_last)
        self.inputs = [i.name for i in graph.input if i.name not in arrays]
        self.nodes = [(OPS[n.op_type], {a.name: helper.get_attribute_value(a) for a in n.attribute}, list(n.input), n.output[0])
                      for n in graph.node]  # fmt: skip
        self.output = graph.output[0].name

    def forward(self, *inputs):
        values = self.weights | self.shapes | dict(zip(self.inputs, inputs))
        for op, attributes, names, output in self.nodes:
            values[output] = op(attributes, *(values[n] if n else None for n in names))
        return values[self.output]


def net_ms(path, data, compiled):
    """Returns the times of a whole network, replayed as a CUDA graph: eager, and torch.compile(mode="max-autotune")."""
    _exact()
    net = Net(onnx.load(path)).cuda().eval()
    inputs = []
    for i in range(len(net.inputs)):
        tensor = onnx.TensorProto()
        tensor.ParseFromString((data / f"input_{i}.pb").read_bytes())
        x = _tensor(numpy_helper.to_array(tensor))
        inputs.append(x.to(memory_format=torch.channels_last) if x.dim() == 4 else x)
    if compiled:
        call = torch.compile(net, mode="max-autotune-no-cudagraphs")
        return _time(lambda: call(*inputs))
    return _time(lambda: net(*inputs))
