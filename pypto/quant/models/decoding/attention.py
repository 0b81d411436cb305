# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Kernels of a decoder's attention: for one token all of it, for the tokens of a prompt what comes before the softmax.

Both apply rotary embedding, whose pairs are the two halves of a head, and store keys and values in the cache.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.library.kernels.attention.attention import exponent_of, merge_block, normalized
from pypto.library.kernels.quantized.quant import largest, quantize_row


@pto.jit
def to_codes(t, scale):
    """Quantises keys to int8; those beyond the range are clipped."""
    return pto.clamp(pto.rint(t / scale), -127.0, 127.0).to(pto.int8)


@pto.jit
def store_key(keys, key_scale, g, p, first, second):
    """Stores a key at its position, as two halves."""
    D = keys.shape[2]
    H = D // 2
    if key_scale is not None:
        first, second = to_codes(first, key_scale[g, 0:H]), to_codes(second, key_scale[g, H:D])
    keys[g, p, 0:H] = first
    keys[g, p, H:D] = second


@pto.jit
def store_value(values, value_scale, g, p, value, key):
    """Stores a value; an int8 value has a NaN scale if its key is not finite, which codes cannot express."""
    if value_scale is not None:
        value, scale = quantize_row(value)
        value_scale[g, p] = scale + 0.0 * largest(key)
    values[g, p, :] = value


@pto.jit
def append_kernel(q, k, v, cos, sin, keys, values, key_scale, value_scale, position, rotated):
    """Stores a key head of one of the tokens that follow a position, and rotates the query heads that share it."""
    t, g, D = pto.program_id(0), pto.program_id(1), keys.shape[2]
    GROUP, H, p = q.shape[1] // keys.shape[0], D // 2, position[0] + t
    h = g * GROUP
    c, s = cos[p, :], sin[p, :]
    first, second = k[t, g, 0:H], k[t, g, H:D]
    store_key(keys, key_scale, g, p, first * c - second * s, second * c + first * s)
    store_value(values, value_scale, g, p, v[t, g, :], k[t, g, :])
    c, s = c[None, :], s[None, :]
    first, second = q[t, h : h + GROUP, 0:H], q[t, h : h + GROUP, H:D]
    rotated[h : h + GROUP, t, 0:H] = first * c - second * s
    rotated[h : h + GROUP, t, H:D] = second * c + first * s


@pto.jit
def attend_kernel(
    q, k, v, cos, sin, keys, values, key_scale, value_scale, position, out, SCALE: pto.constexpr, BN: pto.constexpr
):
    """Serves one key head and the query heads that share it.

    Scales of int8 keys are folded into the queries, and those of values are applied to their rows.
    """
    g, p, D = pto.program_id(0), position[0], keys.shape[2]
    GROUP, H = q.shape[1] // keys.shape[0], D // 2
    h = g * GROUP
    c, s = cos[p, :], sin[p, :]
    first, second = k[0, g, 0:H], k[0, g, H:D]
    store_key(keys, key_scale, g, p, first * c - second * s, second * c + first * s)
    store_value(values, value_scale, g, p, v[0, g, :], k[0, g, :])
    unit = exponent_of(SCALE)
    c, s = c[None, :] * unit, s[None, :] * unit
    first, second = q[0, h : h + GROUP, 0:H], q[0, h : h + GROUP, H:D]
    left, right = first * c - second * s, second * c + first * s
    if key_scale is not None:
        left, right = left * key_scale[g, 0:H], right * key_scale[g, H:D]
    m = pto.full((GROUP,), -math.inf, pto.float32)
    total = pto.zeros((GROUP,), pto.float32)
    acc = pto.zeros((GROUP, D), pto.float32)
    for j in range(0, p + 1, BN):
        scores = pto.dot(left, pto.trans(keys[g, j : j + BN, 0:H].to(pto.float32)))
        scores = pto.dot(right, pto.trans(keys[g, j : j + BN, H:D].to(pto.float32)), scores)
        content = values[g, j : j + BN, :].to(pto.float32)
        if value_scale is not None:
            content = content * value_scale[g, j : j + BN][:, None]
        seen = j + pto.arange(0, BN) <= p
        m, total, acc = merge_block(pto.where(seen[None, :], scores, -math.inf), content, m, total, acc)
    out[0, h : h + GROUP, :] = normalized(acc, total)
