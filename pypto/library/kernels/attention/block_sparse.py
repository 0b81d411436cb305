# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Block-sparse attention: blocks of queries attend to the blocks of keys that a mask selects."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty
from pypto.library.kernels.attention.attention import exponent_of, merge_block, no_keys, normalized, scale_of

LISTED = 256
SORTED = 4096  # elements that a program sorts


@pto.jit
def list_kernel(mask, numbers, counts, n, BLOCK: pto.constexpr):
    """Lists the numbers of the nonzero blocks in a row of the mask, and counts them."""
    row = pto.program_id(0)
    at = 0
    for j in range(0, n, BLOCK):
        columns = j + pto.arange(0, BLOCK)
        named = pto.load(mask + row * n + columns, mask=columns < n, other=0) != 0
        places = at + pto.cumsum(named.to(pto.int32), axis=0) - 1
        pto.store(numbers + row * n + places, columns.to(pto.int32), mask=named)
        at += pto.sum(named.to(pto.int32))
    counts[row] = at


@pto.jit
def sorted_list_kernel(mask: pto.dynamic, numbers, counts, n, ROWS: pto.constexpr, BLOCK: pto.constexpr):
    """Lists the nonzero blocks of several mask rows at once, by a sort that puts their numbers first."""
    i = pto.program_id(0) * ROWS
    columns = pto.broadcast_to(pto.arange(0, BLOCK)[None, :], (ROWS, BLOCK))
    named = pto.load(mask, (i, 0), (ROWS, BLOCK)) != 0
    keys = pto.where(named, columns.to(pto.int16).to(pto.int32), BLOCK)
    pto.store(numbers, (i, 0), pto.sort(keys))
    counts[i : i + ROWS] = pto.sum(named.to(pto.float32), axis=1).to(pto.int32)


@pto.jit
def block_sparse_kernel(
    q, k, v, numbers, counts, out, lse, rows, blocks, keys, scale,
    GROUP: pto.constexpr, DV: pto.constexpr, BX: pto.constexpr, BY: pto.constexpr,
):  # fmt: skip
    u, h, b = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    i, g, unit = u * BX, h // GROUP, exponent_of(scale)
    row = (b * pto.num_programs(1) + h) * rows + u
    queries = q[b, h, i : i + BX, :]
    m, total, acc = no_keys(BX, DV)
    for number in range(0, counts[row]):
        j = pto.load(numbers + row * blocks + number) * BY
        s = pto.dot(queries, pto.trans(k[b, g, j : j + BY, :])) * unit
        seen = (j + pto.arange(0, BY) < keys)[None, :]
        m, total, acc = merge_block(pto.where(seen, s, -math.inf), v[b, g, j : j + BY, :], m, total, acc)
    out[b, h, i : i + BX, :] = normalized(acc, total).to(out.dtype)
    log = m / exponent_of(1.0) + pto.log(pto.where(total == 0, 1.0, total))
    lse[b, h, i : i + BX] = pto.where(total == 0, -math.inf, log)


def block_sparse_attention(q, k, v, mask, bx, by, scale, out, lse, by_sort=False):
    """Lists the selected blocks first, so that the time is proportional to their number; `by_sort` for vector units."""
    batch, heads, n, d = q.shape
    rows, blocks = mask.shape[2:]
    count = batch * heads * rows
    numbers, counts = empty(q, (count, blocks), int32), empty(q, (count,), int32)
    block = max(32, pto.next_power_of_2(blocks))
    if by_sort and block <= SORTED:
        sizes = {"ROWS": min(8, SORTED // block), "BLOCK": block}
        rows_of = mask.reshape(count, blocks)
        sorted_list_kernel[(pto.cdiv(count, sizes["ROWS"]),)](rows_of, numbers, counts, blocks, **sizes)
    else:
        list_kernel[(count,)](mask, numbers, counts, blocks, BLOCK=LISTED)
    sizes = {"GROUP": heads // k.shape[1], "DV": v.shape[3], "BX": bx, "BY": by}
    where = (pto.cdiv(n, bx), heads, batch)
    block_sparse_kernel[where](
        q, k, v, numbers, counts, out, lse, rows, blocks, k.shape[2], scale_of(scale, d), **sizes
    )
