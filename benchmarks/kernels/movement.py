# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Moving elements: transposes and gathers."""

from __future__ import annotations

import pypto as pto


@pto.jit
def transpose_kernel(x, out, BLOCK: pto.constexpr):
    i, j = pto.program_id(0) * BLOCK, pto.program_id(1) * BLOCK
    out[j : j + BLOCK, i : i + BLOCK] = pto.trans(x[i : i + BLOCK, j : j + BLOCK])


def transpose(x, out, block=64):
    """out = x transposed; shapes (m, n) and (n, m)."""
    transpose_kernel[(pto.cdiv(x.shape[0], block), pto.cdiv(x.shape[1], block))](x, out, BLOCK=block)


@pto.jit
def head_split_kernel(x, out, BLOCK: pto.constexpr):
    b, h, i = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BLOCK
    out[b, h, i : i + BLOCK, :] = x[b, i : i + BLOCK, h, :]


def head_split(x, out, block=64):
    """out = x with heads before positions; shapes (batch, n, heads, d) and (batch, heads, n, d)."""
    head_split_kernel[(x.shape[0], x.shape[2], pto.cdiv(x.shape[1], block))](x, out, BLOCK=block)


@pto.jit
def embedding_kernel(ids, words, out):
    t = pto.program_id(0)
    out[t, :] = words[ids[t], :]


def embedding(ids, words, out):
    """out = rows of words; shapes (t,), (vocabulary, n) and (t, n)."""
    embedding_kernel[(ids.shape[0],)](ids, words, out)


@pto.jit
def take_kernel(index, x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    offs = i + pto.arange(0, BLOCK)
    inside = offs < index.shape[0]
    picked = pto.load(x + pto.load(index + offs, mask=inside), mask=inside)
    pto.store(out + offs, picked, mask=inside)


def take(index, x, out, block=1024):
    """out = single elements of x; index and out of shape (t,)."""
    take_kernel[(pto.cdiv(index.shape[0], block),)](index, x, out, BLOCK=block)
