"""Attention, linear attention and related operators for examples/reference.py, in numpy with float64 arithmetic."""

import numpy as np


def heads_of(x, heads):
    """Transposes [B, S, heads * D] to [B, heads, S, D]. Returns a tensor of rank 4 as it is."""
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def visible(attributes, lengths, past, batch, queries, keys):
    """Returns bools [batch, 1, queries, keys]: whether a query may see a key by its position."""
    first = np.full((batch, 1, 1, 1), past)
    if lengths is not None and past == 0:
        first = lengths.reshape(batch, 1, 1, 1) - queries
    distance = np.arange(keys) - (np.arange(queries)[:, None] + first)
    seen = np.ones((batch, 1, queries, keys), bool)
    left, right = attributes.get("left_window_size", -1), attributes.get("right_window_size", -1)
    if attributes.get("is_causal", 0):
        seen &= distance <= 0
    if left >= 0:
        seen &= distance >= -left
    if right >= 0:
        seen &= distance <= right
    if lengths is not None:
        seen &= np.arange(keys) < lengths.reshape(batch, 1, 1, 1)
    return seen


def attention(attributes, _, q, k, v, mask=None, past_k=None, past_v=None, lengths=None):
    merged = q.ndim == 3
    q = heads_of(q, attributes.get("q_num_heads"))
    k, v = heads_of(k, attributes.get("kv_num_heads")), heads_of(v, attributes.get("kv_num_heads"))
    past = 0 if past_k is None else past_k.shape[2]
    if past_k is not None:
        k, v = np.concatenate([past_k, k], 2), np.concatenate([past_v, v], 2)
    shared = q.shape[1] // k.shape[1]
    scores = q @ np.repeat(k, shared, 1).swapaxes(2, 3) * attributes.get("scale", q.shape[3] ** -0.5)
    cap = attributes.get("softcap", 0.0)
    stages = [scores, scores if cap == 0 else cap * np.tanh(scores / cap)]
    seen = visible(attributes, lengths, past, q.shape[0], q.shape[2], k.shape[2])
    bias = 0.0
    if mask is not None:
        missing = [(0, 0)] * (mask.ndim - 1) + [(0, k.shape[2] - mask.shape[-1])]
        nothing = False if mask.dtype == bool else -np.inf
        mask = np.pad(mask, missing, constant_values=nothing)
        bias = np.where(mask, 0.0, -np.inf) if mask.dtype == bool else mask
    stages.append(np.where(seen, stages[1] + bias, -np.inf))
    peak = stages[2].max(axis=3, keepdims=True)
    e = np.exp(stages[2] - np.where(np.isfinite(peak), peak, 0))
    stages.append(e / np.maximum(e.sum(axis=3, keepdims=True), 1e-300))
    y = stages[3] @ np.repeat(v, shared, 1)
    if merged:
        y = y.transpose(0, 2, 1, 3).reshape(y.shape[0], y.shape[2], -1)
    return y, k, v, stages[attributes.get("qk_matmul_output_mode", 0)]


def tensor_scatter(attributes, _, cache, update, places=None):
    axis, y = attributes.get("axis", -2) % cache.ndim, cache.copy()
    for image in range(cache.shape[0]):
        rows = np.arange(update.shape[axis]) + (0 if places is None else int(places[image]))
        if attributes.get("mode", b"linear") == b"circular":
            rows %= cache.shape[axis]
        y[image][(slice(None),) * (axis - 1) + (rows,)] = update[image]
    return y


def causal_conv(attributes, _, x, w, bias=None, past=None):
    length, k = x.shape[2], w.shape[2]
    padded = np.concatenate([np.zeros(x.shape[:2] + (k - 1,)) if past is None else past, x], 2)
    y = sum(padded[:, :, i : i + length] * w[:, :, i].reshape(1, -1, 1) for i in range(k))
    y = y if bias is None else y + bias.reshape(1, -1, 1)
    if attributes.get("activation", b"none") != b"none":
        y = y / (1 + np.exp(-y))
    return y, padded[:, :, padded.shape[2] - (k - 1) :]


def linear_attention(attributes, _, q, k, v, past=None, decay=None, beta=None):
    heads, shared = attributes["q_num_heads"], attributes["kv_num_heads"]
    rule = attributes.get("update_rule", b"gated_delta").decode()
    q, k, v = heads_of(q, heads), heads_of(k, shared), heads_of(v, shared)
    scale = attributes.get("scale", 0.0) or k.shape[3] ** -0.5
    state = np.zeros(k.shape[:2] + (k.shape[3], v.shape[3])) if past is None else past
    results = []
    for t in range(q.shape[2]):
        key, value = k[:, :, t, :, None], v[:, :, t, None, :]
        if rule.startswith("gated"):
            state = state * np.exp(decay[:, t].reshape(q.shape[0], shared, -1, 1))
        if rule.endswith("delta"):
            found = (state * key).sum(axis=2, keepdims=True)
            value = (value - found) * beta[:, t].reshape(q.shape[0], -1, 1, 1)
        state = state + key * value
        y = np.repeat(state, heads // shared, 1).swapaxes(2, 3) @ q[:, :, t, :, None] * scale
        results.append(y.reshape(q.shape[0], 1, -1))
    return np.concatenate(results, 1), state
