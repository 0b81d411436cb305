# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""The gated delta rule (linear attention): a state per head decays and corrects itself with every token."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty

COLUMNS = 32  # columns of a state in a program
ROWS = 64  # rows that a program normalises
FACTORS = 1024  # decay factors in a program


@pto.jit
def normalized(x):
    """Returns a vector scaled to length 1."""
    return x * pto.rsqrt(pto.sum(x * x) + 1e-6)


@pto.jit
def gated_delta_kernel(
    q, k, v, gate, beta, state, out, n, unit, GROUP: pto.constexpr, D: pto.constexpr, BE: pto.constexpr
):
    """Runs all tokens on BE columns of a head's state; columns are independent of each other."""
    h, b, e = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BE
    g = h // GROUP
    s = pto.trans(pto.reshape(pto.load(state, (b, h, e, 0), (1, 1, BE, D)), (BE, D)))
    for t in range(0, n):
        key = normalized(k[b, g, t, :])
        query = normalized(q[b, g, t, :]) * unit
        s = s * pto.exp(gate[b, h, t])
        change = (v[b, h, t, e : e + BE] - pto.sum(key[:, None] * s, axis=0)) * beta[b, h, t]
        s = s + key[:, None] * change[None, :]
        out[b, h, t, e : e + BE] = pto.sum(query[:, None] * s, axis=0)
    state[b, h, e : e + BE, :] = pto.trans(s)


@pto.jit
def unit_vectors_kernel(x, y, unit, D: pto.constexpr, ROWS: pto.constexpr):
    """Scales rows to the length `unit`."""
    i = pto.program_id(0) * ROWS
    rows = x[i : i + ROWS, :]
    y[i : i + ROWS, :] = rows * (pto.rsqrt(pto.sum(rows * rows, axis=1) + 1e-6) * unit)[:, None]


@pto.jit
def factors_kernel(gate, decay, BLOCK: pto.constexpr):
    """Computes the decay factors, e ** gate."""
    i = pto.program_id(0) * BLOCK
    decay[i : i + BLOCK] = pto.exp(gate[i : i + BLOCK])


@pto.jit
def gated_rows_kernel(q, k, v, decay, beta, state, out, n, GROUP: pto.constexpr, D: pto.constexpr, BE: pto.constexpr):
    """Runs all tokens on a state in memory's layout, from normalised vectors and given decay factors, so that no number
    has to go from the vector unit to the scalar unit."""
    h, b, e = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BE
    g = h // GROUP
    s = pto.reshape(pto.load(state, (b, h, e, 0), (1, 1, BE, D)), (BE, D))
    for t in range(0, n):
        key, query, decayed = k[b, g, t, :][None, :], q[b, g, t, :][None, :], decay[b, h, t]
        change = (v[b, h, t, e : e + BE] - decayed * pto.sum(s * key, axis=1)) * beta[b, h, t]
        s = s * decayed + change[:, None] * key
        out[b, h, t, e : e + BE] = pto.sum(s * query, axis=1)
    state[b, h, e : e + BE, :] = s


@pto.jit
def chunk_kernel(q, k, v, gate, beta, state, out, n, unit, GROUP: pto.constexpr, CHUNK: pto.constexpr):
    """Processes tokens chunk by chunk: forward substitution within a chunk, matrix products for the rest."""
    h, b = pto.program_id(0), pto.program_id(1)
    g = h // GROUP
    s = pto.trans(state[b, h, :, :])
    rows = pto.arange(0, CHUNK)
    below = rows[:, None] > rows[None, :]
    for t in range(0, n, CHUNK):
        inside = t + rows < n
        key, query, value = k[b, g, t : t + CHUNK, :], q[b, g, t : t + CHUNK, :], v[b, h, t : t + CHUNK, :]
        key = key * pto.rsqrt(pto.sum(key * key, axis=1) + 1e-6)[:, None]
        query = query * (pto.rsqrt(pto.sum(query * query, axis=1) + 1e-6) * unit)[:, None]
        total = pto.cumsum(gate[b, h, t : t + CHUNK], axis=0)
        strength = beta[b, h, t : t + CHUNK]
        decay = pto.exp(pto.where(rows[:, None] >= rows[None, :], total[:, None] - total[None, :], -math.inf))
        a = pto.where(below, -pto.dot(key * strength[:, None], pto.trans(key)) * decay, 0.0)
        inverse = a
        for i in range(1, CHUNK):
            this = pto.sum(pto.where((rows == i)[:, None], inverse, 0.0), axis=0)
            more = this + pto.sum(this[:, None] * inverse, axis=0)
            inverse = pto.where((rows == i)[:, None], more[None, :], inverse)
        inverse = inverse + pto.where(rows[:, None] == rows[None, :], 1.0, 0.0)
        u = pto.dot(inverse, value * strength[:, None])
        w = pto.dot(inverse, key * (strength * pto.exp(total))[:, None])
        fresh = u - pto.dot(w, s)
        scores = pto.dot(query, pto.trans(key)) * decay
        out[b, h, t : t + CHUNK, :] = pto.dot(query * pto.exp(total)[:, None], s) + pto.dot(scores, fresh)
        last = pto.sum(gate[b, h, t : t + CHUNK])
        left = pto.where(inside, pto.exp(last - total), 0.0)
        s = s * pto.exp(last) + pto.dot(pto.trans(key * left[:, None]), fresh)
    state[b, h, :, :] = pto.trans(s)


@pto.jit
def copy_kernel(state, last):
    h, b = pto.program_id(0), pto.program_id(1)
    last[b, h, :, :] = state[b, h, :, :]


def gated_delta_rule(q, k, v, gate, beta, state, out):
    """Applies the gated delta rule token by token."""
    batch, groups, n, d = q.shape
    heads, width = v.shape[1], v.shape[3]
    be = min(COLUMNS, pto.next_power_of_2(width))
    sizes = {"GROUP": heads // groups, "D": d, "BE": be}
    gated_delta_kernel[(heads, batch, pto.cdiv(width, be))](
        q, k, v, gate, beta, state, out, n, 1 / math.sqrt(d), **sizes
    )


def gated_delta_rule_chunked(q, k, v, gate, beta, state, out):
    """Applies the gated delta rule chunk by chunk."""
    batch, groups, n, d = q.shape
    sizes = {"GROUP": v.shape[1] // groups, "CHUNK": 64}
    chunk_kernel[(v.shape[1], batch)](q, k, v, gate, beta, state, out, n, 1 / math.sqrt(d), **sizes)


def unit_vectors(x, unit):
    """Returns a copy of rows scaled to the length `unit`."""
    y = empty(x, tuple(x.shape), float32)
    d = x.shape[3]
    rows = x.reshape(-1, d)
    unit_vectors_kernel[(pto.cdiv(rows.shape[0], ROWS),)](rows, y.reshape(-1, d), unit, D=d, ROWS=ROWS)
    return y


def gated_delta_rule_by_rows(q, k, v, gate, beta, state, out):
    """Applies the rule token by token, after launches that normalise vectors and compute decay for all tokens."""
    batch, groups, n, d = q.shape
    heads, width = v.shape[1], v.shape[3]
    be = min(COLUMNS, pto.next_power_of_2(width))
    query, key = unit_vectors(q, 1 / math.sqrt(d)), unit_vectors(k, 1.0)
    decay = empty(gate, tuple(gate.shape), float32)
    factors_kernel[(pto.cdiv(batch * heads * n, FACTORS),)](gate.reshape(-1), decay.reshape(-1), BLOCK=FACTORS)
    gated_rows_kernel[heads, batch, pto.cdiv(width, be)](
        query, key, v, decay, beta, state, out, n, GROUP=heads // groups, D=d, BE=be
    )


def on_a_copy(rule, q, k, v, gate, beta, state, out, last):
    """Applies the rule, by a function that writes its state in place, to a copy of the state."""
    copy_kernel[(state.shape[1], state.shape[0])](state, last)
    rule(q, k, v, gate, beta, last, out)
