"""Attention of examples/reference.py, in numpy with float64 arithmetic."""

import numpy as np


def heads_of(x, heads):
    """[B, S, heads * D] as [B, heads, S, D]; of rank 4 already as it is."""
    return x if x.ndim == 4 else x.reshape(x.shape[0], x.shape[1], heads, -1).transpose(0, 2, 1, 3)


def visible(attributes, lengths, past, batch, queries, keys):
    """Bools [batch, 1, queries, keys]: the keys that a query may see by its position."""
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
