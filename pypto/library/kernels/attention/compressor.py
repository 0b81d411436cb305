# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Compression of keys and values: each window of tokens becomes one row, by a softmax per channel."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import bfloat16, float32
from pypto.library.binding import empty
from pypto.library.kernels.attention.v4 import turn_last
from pypto.library.kernels.products import matmul, matmul_by_rows

CHANNELS = 128


@pto.jit
def state_kernel(kv, score, ape, start, table: pto.dynamic, kv_state, score_state, s):
    """Stores a token's rows in the pages of its sequence; scores get the bias of their position in the window."""
    t = pto.program_id(0)
    page, ratio = kv_state.shape[1], ape.shape[0]
    position = start[t // s] + t % s
    at = table[t // s, position // page]
    kv_state[at, position % page, :] = kv[t, :]
    score_state[at, position % page, :] = score[t, :] + ape[position % ratio, :]


@pto.jit
def window_rows(state: pto.dynamic, table: pto.dynamic, b, first, channel, R: pto.constexpr, BD: pto.constexpr, other):
    """Loads channels of R consecutive rows of a sequence; rows before the sequence's begin are `other`."""
    page = state.shape[1]
    position = first + pto.arange(0, R)
    seen = position >= 0
    number = pto.load(table + b * table.strides[0] + position // page, mask=seen, other=0).to(pto.int64)
    at = number * state.strides[0] + position % page * state.strides[1]
    return pto.load(state + at[:, None] + (channel + pto.arange(0, BD))[None, :], mask=seen[:, None], other=other)


@pto.jit
def compress_kernel(
    start, table: pto.dynamic, kv_state: pto.dynamic, score_state: pto.dynamic, out, s,
    RATIO: pto.constexpr, OVERLAP: pto.constexpr, BD: pto.constexpr,
):  # fmt: skip
    """Pools the window that a token ends into one row; a token inside a window writes zeros."""
    t, j = pto.program_id(0), pto.program_id(1) * BD
    b, d = t // s, out.shape[1]
    end = start[b] + t % s + 1
    pooled = pto.zeros((BD,), pto.float32)
    if end % RATIO == 0:
        channel = j + d if OVERLAP else j
        score = window_rows(score_state, table, b, end - RATIO, channel, RATIO, BD, -math.inf)
        kv = window_rows(kv_state, table, b, end - RATIO, channel, RATIO, BD, 0.0)
        most = pto.max(score, axis=0)
        if OVERLAP:
            score_before = window_rows(score_state, table, b, end - 2 * RATIO, j, RATIO, BD, -math.inf)
            kv_before = window_rows(kv_state, table, b, end - 2 * RATIO, j, RATIO, BD, 0.0)
            most = pto.maximum(most, pto.max(score_before, axis=0))
        e = pto.exp(score - most[None, :])
        pooled = pto.sum(e * kv, axis=0)
        total = pto.sum(e, axis=0)
        if OVERLAP:
            e_before = pto.exp(score_before - most[None, :])
            pooled = pooled + pto.sum(e_before * kv_before, axis=0)
            total = total + pto.sum(e_before, axis=0)
        pooled = pooled / total
    out[t, j : j + BD] = pooled.to(out.dtype)


def compressor(
    x, w_kv, w_gate, ape, gain, cos, sin, start, table, kv_state, score_state, hadamard, eps, out
):  # fmt: skip
    """Stores the states, pools the windows that end, then normalises them and applies the rotary embedding."""
    (t, width), (ratio, d) = (x.shape[0], w_kv.shape[0]), (ape.shape[0], gain.shape[0])
    s = t // start.shape[0]
    kv, score = empty(x, (t, width), float32), empty(x, (t, width), float32)
    matmul_by_rows(x, w_kv, kv)
    matmul_by_rows(x, w_gate, score)
    state_kernel[(t,)](kv, score, ape, start, table, kv_state, score_state, s)
    pooled = empty(x, (t, 1, d), bfloat16)
    channels = min(CHANNELS, pto.next_power_of_2(d))
    sizes = {"RATIO": ratio, "OVERLAP": width == 2 * d, "BD": channels}
    where = (t, pto.cdiv(d, channels))
    compress_kernel[where](start, table, kv_state, score_state, pooled.reshape(t, d), s, **sizes)
    rotated = out if hadamard is None else empty(x, (t, d), bfloat16)
    turn_last(pooled, gain, cos, sin, rotated.reshape(t, 1, d), eps)
    if hadamard is not None:
        matmul(rotated, hadamard, out)
