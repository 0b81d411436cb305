# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Sorts tokens by expert with counts, for chips without a cheap scatter, and copies rows of x one at a time.

One launch counts the choices in all blocks. A choice then goes behind the choices of lower experts, and behind those of
its own expert in earlier blocks. Counts are summed in float32, which is exact below 2**24.
"""

from __future__ import annotations

import pypto as pto
from pypto.ir.types import float32
from pypto.library.binding import empty

MOST = 128  # choices in a program, at most
COMPARED = 12288  # pairs of a choice and an expert in a program


@pto.jit
def chosen_experts(ids: pto.dynamic, j, E: pto.constexpr, BLOCK: pto.constexpr):
    """Returns 1.0 where a choice of a block selects an expert, else 0.0."""
    chosen = pto.load(ids, j, BLOCK, pad=-1)
    inside = j + pto.arange(0, BLOCK) < ids.shape[0]
    mine = (chosen[:, None] == pto.arange(0, E)[None, :]) & inside[:, None]
    return pto.where(mine, 1.0, 0.0)


@pto.jit
def counts_kernel(ids: pto.dynamic, counts, E: pto.constexpr, BLOCK: pto.constexpr):
    """Counts the choices of a block for every expert."""
    block = pto.program_id(0)
    counts[block, :] = pto.sum(chosen_experts(ids, block * BLOCK, E, BLOCK), axis=0)


@pto.jit
def places_kernel(ids: pto.dynamic, counts, order, position, ends, E: pto.constexpr, BLOCK: pto.constexpr):
    """Computes the position of each choice of a block, and the choice at each position."""
    block = pto.program_id(0)
    j = block * BLOCK
    total, before = pto.zeros((E,), pto.float32), pto.zeros((E,), pto.float32)
    for other in range(counts.shape[0]):
        count = counts[other, :]
        total += count
        before += pto.where(other < block, count, pto.zeros_like(count))
    last = pto.cumsum(total, axis=0)
    mine = chosen_experts(ids, j, E, BLOCK)
    at = pto.cumsum(mine, axis=0) - 1 + (last - total + before)[None, :]
    places = pto.sum(mine * at, axis=1).to(pto.int32)
    numbers = j + pto.arange(0, BLOCK)
    position[j : j + BLOCK] = places
    pto.store(order + places, numbers.to(pto.int32), mask=numbers < ids.shape[0])
    if block == 0:
        ends[:] = last.to(pto.int32)


@pto.jit
def rows_kernel(x, position, y, K: pto.constexpr):
    """Copies a token's row to the positions of its choices."""
    t = pto.program_id(0)
    row = x[t, :]
    for i in pto.static_range(K):
        y[position[t * K + i], :] = row


def permute_tokens(x, ids, experts, y, order, position, ends):
    """Copies rows of x once for each choice, in the order of experts."""
    choices, k = ids.reshape(-1), ids.shape[1]
    block = max(16, min(MOST, COMPARED // experts // 16 * 16))
    blocks = pto.cdiv(choices.shape[0], block)
    counts = empty(x, (blocks, experts), float32)
    counts_kernel[(blocks,)](choices, counts, E=experts, BLOCK=block)
    places_kernel[(blocks,)](choices, counts, order, position, ends, E=experts, BLOCK=block)
    rows_kernel[(x.shape[0],)](x, position, y, K=k)
