"""Steps for scripts/random_network.py that add attention operators, or operators with a state."""

import numpy as np


def attention(net):
    """Adds attention whose queries are a live tensor, and whose keys and values are weights or inputs."""
    q = net.choose(3, 4)
    if net.opset < 23 or not q:
        return None
    shape = net.shape(q)
    batch, queries = shape[0], shape[-2]
    if len(shape) == 4:
        heads, width = shape[1], shape[3]
    else:
        heads = divisor(net, shape[2])
        width = shape[2] // heads
    shared = divisor(net, heads)
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


def divisor(net, number):
    return net.rng.choice([d for d in range(1, number + 1) if number % d == 0])


def scattered(net):
    x = net.choose(3, 4)
    if net.opset < 24 or not x:
        return None
    shape, axis = net.shape(x), net.rng.randrange(1, len(net.shape(x)))
    rows = net.rng.randint(1, shape[axis])
    update = net.weight(shape[:axis] + [rows] + shape[axis + 1:], 1)
    circular = net.chance(50)
    inputs = [x, update]
    if net.chance(70):
        last = shape[axis] * 2 if circular else shape[axis] - rows
        inputs.append(net.places([net.rng.randint(0, last) for _ in range(shape[0])]))
    return net.emit("TensorScatter", inputs, {"axis": axis - (len(shape) if net.chance(50) else 0),
                                              "mode": "circular" if circular else net.pick(None, "linear")})


def causal_conv(net):
    x = net.choose(3)
    if net.opset < 27 or not x:
        return None
    batch, channels, _ = net.shape(x)
    k = net.rng.randint(2, 5)  # the state of one tap is empty
    inputs = [x, net.weight([channels, 1, k], k), "", ""]
    if net.chance(50):
        inputs[2] = net.uniform([channels], -1, 1)
    if net.chance(50):
        inputs[3] = net.weight([batch, channels, k - 1], 1)
    return net.emit("CausalConvWithState", inputs, {"activation": net.pick(None, "none", "silu", "swish")}, 2)


def linear_attention(net):
    q = net.choose(3)
    if net.opset < 27 or not q:
        return None
    batch, steps, columns = net.shape(q)
    if steps > 8:
        return None
    heads = divisor(net, columns)
    shared, width, value_width = divisor(net, heads), columns // heads, net.rng.randint(1, 6)
    rule = net.pick(None, "linear", "gated", "delta", "gated_delta")
    k = net.weight([batch, steps, shared * width], 2 * width)
    inputs = [q, k, net.weight([batch, steps, shared * value_width], 1), "", "", ""]
    if net.chance(50):
        inputs[3] = net.weight([batch, shared, width, value_width], 1)
    if rule in (None, "gated", "gated_delta"):
        inputs[4] = net.uniform([batch, steps, net.pick(shared, shared * width)], -1, 0)
    if rule in (None, "delta", "gated_delta"):
        inputs[5] = net.uniform([batch, steps, net.pick(shared, 1)], 0, 1)
    attributes = {"q_num_heads": heads, "kv_num_heads": shared, "update_rule": rule, "scale": net.pick(None, 0.5)}
    return net.emit("LinearAttention", inputs, attributes, 2)


ATTENTION = [attention] * 4 + [scattered] + [causal_conv] + [linear_attention]
