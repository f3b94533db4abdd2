"""Measures ONNX Runtime's times on the CPU, through its Python package."""

import statistics
import time

import numpy as np
import onnxruntime

SECONDS, WARM = 1.0, 3
KINDS = {"tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(int64)": np.int64, "tensor(int32)": np.int32}


def net_ms(model, threads):
    """Returns the median time of a run in milliseconds, on random inputs (integers are zeros)."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    inputs = {}
    for x in session.get_inputs():
        shape = [d if isinstance(d, int) else 1 for d in x.shape]
        kind = KINDS[x.type]
        inputs[x.name] = rng.standard_normal(shape).astype(kind) if np.issubdtype(kind, np.floating) else np.zeros(shape, kind)
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < SECONDS or len(times) < WARM:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append(1e3 * (time.perf_counter() - start))
    return statistics.median(times[WARM:] or times)
