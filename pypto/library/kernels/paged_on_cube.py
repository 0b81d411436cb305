# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Attention over a paged cache for matrix units that load rows themselves: how many, a mask of rows says.

A mask on tiles that are loaded would send them through other cores first.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.library.kernels.attention import combine, merge_block, paged_parts, unit_of


@pto.jit
def rows_of_page(cache: pto.dynamic, page, g, count, PAGE: pto.constexpr, WIDTH: pto.constexpr):
    """The first rows of a page, for one head; zeros behind them."""
    rows = pto.arange(0, PAGE)
    at = page.to(pto.int64) * cache.strides[0] + g * cache.strides[2] + rows * cache.strides[1]
    return pto.load(cache + at[:, None] + pto.arange(0, WIDTH)[None, :], mask=(rows < count)[:, None], other=0)


@pto.jit
def paged_rows_kernel(
    q, keys: pto.dynamic, values: pto.dynamic, table: pto.dynamic, lengths, part, sums, unit,
    D: pto.constexpr, DV: pto.constexpr, GROUP: pto.constexpr, PAGE: pto.constexpr,
):  # fmt: skip
    """One part of the pages of a sequence, for the queries that share a head of keys."""
    split, g, b = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    length, splits = lengths[b], pto.num_programs(0)
    pages = pto.cdiv(length, PAGE)
    each = pto.cdiv(pages, splits)
    queries = q[b, g * GROUP : g * GROUP + GROUP, :]
    m = pto.full((GROUP,), -math.inf, pto.float32)
    total = pto.zeros((GROUP,), pto.float32)
    acc = pto.zeros((GROUP, DV), pto.float32)
    first = split * each
    for i in range(0, min(each, pages - first)):
        page, count = table[b, first + i], length - (first + i) * PAGE
        s = pto.dot(queries, pto.trans(rows_of_page(keys, page, g, count, PAGE, D))) * unit
        seen = pto.arange(0, PAGE) < count
        content = rows_of_page(values, page, g, count, PAGE, DV)
        m, total, acc = merge_block(pto.where(seen[None, :], s, -math.inf), content, m, total, acc, True)
    part[b, g, split, :, :] = acc
    sums[b, g, split, 0, :] = m
    sums[b, g, split, 1, :] = total


def paged_attention(q, keys, values, table, lengths, scale, splits, out):
    """One query for each sequence, over its pages; a program for each head of keys."""
    part, sums, sizes = paged_parts(q, keys, values, splits)
    batch, _, d = q.shape
    unit, where = unit_of(scale, d, natural=True), (splits, keys.shape[2], batch)
    paged_rows_kernel[where](q, keys, values, table, lengths, part, sums, unit, D=d, **sizes)
    combine(part, sums, out, natural=True)
