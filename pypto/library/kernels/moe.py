# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Mixture of experts: selects experts, sorts tokens by expert, and multiplies ragged groups."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty
from pypto.library.kernels.products import matmul_by_rows

BM, BN, BK = 64, 256, 128
COUNTED = 512
TOKENS = 32  # at most so many tokens in a program that selects


@pto.jit
def select_kernel(
    logits, bias, ids, weights, scaling, K: pto.constexpr, GROUPS: pto.constexpr, KEPT: pto.constexpr,
    SIGMOID: pto.constexpr, RENORMALIZE: pto.constexpr,
):  # fmt: skip
    """Selects the experts of one token, one after the other: the largest score; ties go to the lowest number."""
    t, E = pto.program_id(0), logits.shape[1]
    x = logits[t, :].to(pto.float32)
    w = pto.sigmoid(x) if SIGMOID else pto.softmax(x)
    s = w + bias[:].to(pto.float32) if bias is not None else w
    if KEPT < GROUPS:
        size = E // GROUPS
        best = pto.max(pto.reshape(s, (GROUPS, size)), axis=1)
        open_groups = pto.zeros((GROUPS,), pto.float32)
        for _ in pto.static_range(KEPT):
            chosen = pto.arange(0, GROUPS) == pto.argmax(best, axis=0)
            open_groups = pto.where(chosen, 1.0, open_groups)
            best = pto.where(chosen, -math.inf, best)
        is_open = pto.broadcast_to(pto.expand_dims(open_groups, 1), (GROUPS, size))
        s = pto.where(pto.reshape(is_open, (E,)) > 0, s, -math.inf)
    numbers, experts = pto.arange(0, K), pto.arange(0, E)
    selected = pto.zeros((K,), pto.int32)
    probabilities = pto.zeros((K,), pto.float32)
    for i in pto.static_range(K):
        chosen = pto.argmax(s, axis=0)
        selected = pto.where(numbers == i, chosen, selected)
        probabilities = pto.where(numbers == i, pto.sum(pto.where(experts == chosen, w, 0.0)), probabilities)
        s = pto.where(experts == chosen, -math.inf, s)
    if RENORMALIZE:
        probabilities = probabilities / (pto.sum(probabilities) + 1e-20)
    ids[t, :] = selected
    weights[t, :] = probabilities * scaling


@pto.jit
def select_batch_kernel(
    logits, bias, ids, weights, scaling, T: pto.constexpr, K: pto.constexpr, GROUPS: pto.constexpr,
    KEPT: pto.constexpr, SIGMOID: pto.constexpr, RENORMALIZE: pto.constexpr,
):  # fmt: skip
    """Selects the experts of several tokens at once."""
    t, E = pto.program_id(0) * T, logits.shape[1]
    x = logits[t : t + T, :].to(pto.float32)
    w = pto.sigmoid(x) if SIGMOID else pto.softmax(x, 1)
    s = w + bias[:].to(pto.float32)[None, :] if bias is not None else w
    if KEPT < GROUPS:
        size, groups = E // GROUPS, pto.arange(0, GROUPS)[None, :]
        best = pto.max(pto.reshape(s, (T, GROUPS, size)), axis=2)
        open_groups = pto.zeros((T, GROUPS), pto.float32)
        for _ in pto.static_range(KEPT):
            chosen = groups == pto.argmax(best, axis=1)[:, None]
            open_groups = pto.where(chosen, 1.0, open_groups)
            best = pto.where(chosen, -math.inf, best)
        is_open = pto.broadcast_to(open_groups[:, :, None], (T, GROUPS, size))
        s = pto.where(pto.reshape(is_open, (T, E)) > 0, s, -math.inf)
    numbers, experts = pto.arange(0, K)[None, :], pto.arange(0, E)[None, :]
    selected = pto.zeros((T, K), pto.int32)
    probabilities = pto.zeros((T, K), pto.float32)
    for i in pto.static_range(K):
        best = pto.argmax(s, axis=1)[:, None]
        chosen = experts == best
        selected = pto.where(numbers == i, best, selected)
        probabilities = pto.where(numbers == i, pto.sum(pto.where(chosen, w, 0.0), axis=1)[:, None], probabilities)
        s = pto.where(chosen, -math.inf, s)
    if RENORMALIZE:
        probabilities = probabilities / (pto.sum(probabilities, axis=1)[:, None] + 1e-20)
    ids[t : t + T, :] = selected
    weights[t : t + T, :] = probabilities * scaling


@pto.jit
def count_kernel(ids: pto.dynamic, ends, E: pto.constexpr, BLOCK: pto.constexpr):
    """Counts the choices that go to the experts up to each one."""
    n = ids.shape[0]
    experts = pto.arange(0, E)
    counts = pto.zeros((E,), pto.int32)
    for j in range(0, n, BLOCK):
        chosen = pto.load(ids, j, BLOCK, pad=-1)
        inside = j + pto.arange(0, BLOCK) < n
        counts += pto.sum((inside[:, None] & (chosen[:, None] == experts[None, :])).to(pto.int32), axis=0)
    ends[:] = pto.cumsum(counts, axis=0)


@pto.jit
def order_kernel(ids: pto.dynamic, ends, order, position, BLOCK: pto.constexpr):
    """Lists the choices of one expert in their order; each expert has a program."""
    e, n = pto.program_id(0), ids.shape[0]
    at = 0
    if e > 0:
        at = ends[e - 1]
    for j in range(0, n, BLOCK):
        numbers = j + pto.arange(0, BLOCK)
        mine = (pto.load(ids, j, BLOCK, pad=-1) == e) & (numbers < n)
        places = at + pto.cumsum(mine.to(pto.int32), axis=0) - 1
        pto.store(order + places, numbers.to(pto.int32), mask=mine)
        pto.store(position + numbers, places, mask=mine)
        at += pto.sum(mine.to(pto.int32))


@pto.jit
def gather_kernel(x, order, y, K: pto.constexpr):
    row = pto.program_id(0)
    y[row, :] = x[order[row] // K, :]


@pto.jit
def combine_kernel(y, position, weights, out, K: pto.constexpr):
    t = pto.program_id(0)
    acc = pto.zeros((y.shape[1],), pto.float32)
    for i in pto.static_range(K):
        acc += y[position[t * K + i], :].to(pto.float32) * weights[t, i]
    out[t, :] = acc.to(out.dtype)


@pto.jit
def tiles_kernel(ends, tiles, E: pto.constexpr, BM: pto.constexpr):
    """Finds the expert and first row of each tile of a grid over all groups, by a prefix sum of tile counts."""
    tile = pto.program_id(0)
    experts = pto.arange(0, E)
    stop = ends[:]
    start = pto.where(experts > 0, pto.load(ends + pto.maximum(experts - 1, 0)), 0)
    count = pto.cdiv(stop - start, BM)
    after = pto.cumsum(count, axis=0)
    mine = (after > tile) & (after - count <= tile)
    expert = pto.sum(pto.where(mine, experts, 0))
    first = pto.sum(pto.where(mine, start + (tile - after + count) * BM, 0))
    tiles[tile, 0] = pto.where(pto.sum(mine.to(pto.int32)) > 0, expert, -1)
    tiles[tile, 1] = first
    tiles[tile, 2] = pto.sum(pto.where(mine, stop, 0))


@pto.jit
def grouped_kernel(x, w, tiles, y, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    tile, j = pto.program_id(0), pto.program_id(1) * BN
    e, i, stop = tiles[tile, 0], tiles[tile, 1], tiles[tile, 2]
    if e >= 0:
        acc = pto.zeros((BM, BN), pto.float32)
        for k in range(0, x.shape[1], BK):
            acc = pto.dot(x[i : i + BM, k : k + BK], w[e, k : k + BK, j : j + BN], acc)
        rows, columns = i + pto.arange(0, BM), j + pto.arange(0, BN)
        inside = (rows < stop)[:, None] & (columns < y.shape[1])[None, :]
        pto.store(y + rows[:, None] * y.strides[0] + columns[None, :], acc.to(y.dtype), mask=inside)


def moe_gate(x, w, logits):
    """Computes logits = x @ w.T."""
    matmul_by_rows(x, w, logits)


def select_experts(logits, bias, k, groups, kept, sigmoid, renormalize, scaling, ids, weights):
    """Selects the k experts of every token, and their weights."""
    flags = {"K": k, "GROUPS": groups, "KEPT": kept, "SIGMOID": bool(sigmoid), "RENORMALIZE": bool(renormalize)}
    select_kernel[(logits.shape[0],)](logits, bias, ids, weights, scaling, **flags)


def select_experts_in_batches(logits, bias, k, groups, kept, sigmoid, renormalize, scaling, ids, weights):
    """Selects experts with several tokens in a program."""
    flags = {"K": k, "GROUPS": groups, "KEPT": kept, "SIGMOID": bool(sigmoid), "RENORMALIZE": bool(renormalize)}
    tokens = logits.shape[0]
    each = min(TOKENS, pto.cdiv(pto.cdiv(tokens, pto.target.cores), 8) * 8)
    select_batch_kernel[(pto.cdiv(tokens, each),)](logits, bias, ids, weights, scaling, T=each, **flags)


def permute_tokens(x, ids, experts, y, order, position, ends):
    """Copies rows of x once for each choice, in the order of experts."""
    choices, k = ids.reshape(-1), ids.shape[1]
    count_kernel[(1,)](choices, ends, E=experts, BLOCK=COUNTED)
    order_kernel[(experts,)](choices, ends, order, position, BLOCK=COUNTED)
    gather_kernel[(order.shape[0],)](x, order, y, K=k)


def combine_experts(y, position, weights, out):
    """Computes the weighted sum of the rows of a token's experts."""
    combine_kernel[(weights.shape[0],)](y, position, weights, out, K=weights.shape[1])


def grouped_matmul(x, w, ends, y):
    """Grouped GEMM: rows up to ends[0] times w[0], rows up to ends[1] times w[1], and so on."""
    grouped_by_tiles(x, w, ends, y, BM)


def grouped_matmul_by_tall_tiles(x, w, ends, y):
    """Grouped GEMM with taller tiles, so that fewer tiles pack the weights of an expert."""
    grouped_by_tiles(x, w, ends, y, 2 * BM)


def grouped_by_tiles(x, w, ends, y, rows):
    """Launches both kernels with tiles of so many rows."""
    experts, _, n = w.shape
    count = pto.cdiv(x.shape[0], rows) + experts
    tiles = empty(x, (count, 3), int32)
    tiles_kernel[(count,)](ends, tiles, E=experts, BM=rows)
    grouped_kernel[(count, pto.cdiv(n, BN))](x, w, tiles, y, BM=rows, BN=BN, BK=BK)
