"""Steps for scripts/random_network.py that are attention."""

import numpy as np


def attention(net):
    """A live tensor is the queries; keys and values are weights or inputs."""
    q = net.choose(3, 4)
    if net.opset < 23 or not q:
        return None
    shape = net.shape(q)
    batch, queries = shape[0], shape[-2]
    if len(shape) == 4:
        heads, width = shape[1], shape[3]
    else:
        heads = net.rng.choice([h for h in range(1, shape[2] + 1) if shape[2] % h == 0])
        width = shape[2] // heads
    shared = net.rng.choice([h for h in range(1, heads + 1) if heads % h == 0])
    keys, past, value_width = net.rng.randint(1, 9), net.pick(0, 0, net.rng.randint(1, 5)), net.rng.randint(1, 9)
    if batch * heads * queries * (past + keys) > 4096:
        return None

    def rows(length, columns):
        dims = [batch, shared, length, columns] if len(shape) == 4 else [batch, length, shared * columns]
        return net.weight(dims, 1) if net.chance(60) else net.input(dims)

    inputs = [q, rows(keys, width), rows(keys, value_width), mask(net, batch, heads, queries, past + keys), "", "", ""]
    if past:
        inputs[4] = net.weight([batch, shared, past, width], 1)
        inputs[5] = net.weight([batch, shared, past, value_width], 1)
    if net.opset >= 24 and net.chance(20):
        inputs[6] = net.places([net.rng.randint(0, past + keys) for _ in range(batch)])
    attributes = {"is_causal": net.pick(None, 1), "scale": net.pick(None, None, 0.25), "softcap": net.pick(None, None, 2.0)}
    if len(shape) == 3:
        attributes.update(q_num_heads=heads, kv_num_heads=shared)
    if net.opset >= 25:
        attributes.update(left_window_size=net.pick(None, None, -1, 0, 2), right_window_size=net.pick(None, None, 1))
    outputs = net.pick(1, 1, 3, 4)
    if outputs == 4:
        attributes["qk_matmul_output_mode"] = net.pick(0, 1, 2, 3)
    return net.emit("Attention", inputs, attributes, outputs)


def mask(net, batch, heads, queries, keys):
    if net.chance(40):
        return ""
    shape = [net.pick(batch, 1), net.pick(heads, 1), net.pick(queries, 1), keys][net.rng.randint(0, 3):]
    if net.opset >= 24 and net.chance(20):
        shape[-1] = net.rng.randint(1, keys)
    if net.chance(50):
        return net.constant(net.numbers.uniform(-1, 1, shape).astype(np.float32))
    flags = net.numbers.uniform(0, 1, shape) < 0.7
    return net.constant(flags) if net.chance(50) else net.fed(flags)


ATTENTION = [attention] * 4
