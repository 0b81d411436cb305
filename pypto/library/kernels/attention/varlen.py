# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Variable-length flash attention: sequences lie one after the other without padding, each attends to itself."""

from __future__ import annotations

import math

import pypto as pto
from pypto.library.kernels.attention.attention import exponent_of, merge_block, no_keys, normalized, scale_of

SHORT = 64  # up to this longest sequence, blocks have 16 tokens


@pto.jit
def varlen_attention_kernel(
    q, k, v, starts, out, scale,
    DV: pto.constexpr, GROUP: pto.constexpr, CAUSAL: pto.constexpr, BLOCK: pto.constexpr, MASKED: pto.constexpr,
):  # fmt: skip
    """Processes one block of queries of one head; rows of a key block beyond the sequence count as 0."""
    h, s, i = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BLOCK
    first, unit = starts[s], exponent_of(scale)
    count = starts[s + 1] - first
    if i < count:
        rows = i + pto.arange(0, BLOCK)
        queries = q[first + i : first + i + BLOCK, h, :]
        m, total, acc = no_keys(BLOCK, DV)
        end = min(count, i + BLOCK) if CAUSAL else count
        for j in range(0, end, BLOCK):
            columns = j + pto.arange(0, BLOCK)
            inside = columns < count
            if MASKED:  # a matrix unit can load rows with a mask, but not the result of `where`
                at = (first + columns)[:, None] * v.strides[0] + h // GROUP * v.strides[1]
                values = pto.load(v + at + pto.arange(0, DV)[None, :], mask=inside[:, None], other=0)
            else:
                values = v[first + j : first + j + BLOCK, h // GROUP, :]
                values = pto.where(inside[:, None], values, pto.zeros_like(values))
            scores = pto.dot(queries, pto.trans(k[first + j : first + j + BLOCK, h // GROUP, :])) * unit
            seen = inside[None, :]
            if CAUSAL:
                seen = seen & (columns[None, :] <= rows[:, None])
            m, total, acc = merge_block(pto.where(seen, scores, -math.inf), values, m, total, acc)
        place = out + (first + rows)[:, None] * out.strides[0] + h * out.strides[1] + pto.arange(0, DV)[None, :]
        pto.store(place, normalized(acc, total).to(out.dtype), mask=(rows < count)[:, None])


def varlen_attention(q, k, v, starts, scale, causal, longest, out, masked=False):
    """Attention within each sequence; with `masked`, rows behind its end are masked where they are loaded."""
    longest = longest or q.shape[0]
    block = 16 if longest <= SHORT else 128
    where = (q.shape[1], starts.shape[0] - 1, pto.cdiv(longest, block))
    sizes = {"DV": v.shape[2], "GROUP": q.shape[1] // k.shape[1], "CAUSAL": bool(causal), "BLOCK": block}
    varlen_attention_kernel[where](q, k, v, starts, out, scale_of(scale, q.shape[2]), **sizes, MASKED=masked)
