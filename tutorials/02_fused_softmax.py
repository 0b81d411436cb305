# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # 02 · Fused softmax
#
# Softmax turns each row of a matrix into weights that add up to 1: `y[i, j] = exp(x[i, j]) / Σ_k exp(x[i, k])`. It
# shows what a kernel language is for: numpy goes over the matrix in memory once per operation, a kernel once in all.

# %%
from __future__ import annotations

import numpy as np
from clock import compare

import pypto as pto

# %% [markdown]
# ## In numpy
#
# The largest element of the row is taken off first, or `exp` would overflow for elements above 88. For a matrix of
# shape `(m, n)`:


# %%
def softmax_numpy(x):
    """Softmax of the rows of x, shape (m, n)."""
    shifted = x - x.max(axis=1, keepdims=True)  # reads m n elements, then again m n, writes m n
    e = np.exp(shifted)  # reads m n, writes m n
    return e / e.sum(axis=1, keepdims=True)  # reads m n, then again m n, writes m n


# %% [markdown]
# Eight times `m n` elements pass between memory and processor. Two times would do: read `x`, write `y`. Nothing is
# slow about the arithmetic; the matrix just does not fit in the cache, and so every step fetches it anew.
#
# A single row does fit. One program takes one row, does all the steps on it, and writes the result:
#
# ```text
#             x (m, n)                                                  y (m, n)
#          ┌────────────┐                                            ┌────────────┐
#          ├────────────┤    max      x - max     exp      / sum     ├────────────┤
#   row i  │████████████│ ──────────────────────────────────────────▶│████████████│
#          ├────────────┤         in registers and in the cache      ├────────────┤
#          └────────────┘                                            └────────────┘
# ```
#
# ## The kernel
#
# `x[row, :]` is a whole row: a tile of shape `(n,)`. Its size comes from the array, so the kernel is compiled for that
# `n`, and for any other `n` once more; `m` is not asked for, and any number of rows runs with the same code. `pto.max`
# and `pto.sum` of a tile give a number.


# %%
@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


def softmax_rows(x, out):
    """out = softmax of the rows of x; both have shape (m, n)."""
    softmax[(x.shape[0],)](x, out)


# %% [markdown]
# ## The check
#
# The reference is numpy in float64. Every weight is at most 1, where float32 numbers are 6e-8 apart; `exp`, the sum
# and the division may each be off by about one such step, so 1e-6 is a generous bound. A few rows are made hard: large
# numbers, a row with one element that outweighs all, and a row with -∞ in it, which has to give exactly 0.


# %%
def check(x, out):
    """AssertionError if out is not the softmax of x to within 1e-6."""
    difference = np.abs(out - softmax_numpy(x.astype(np.float64))).max()
    assert difference <= 1e-6, difference
    print(f"largest difference from numpy in float64: {difference:.1e}, allowed 1e-06")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1823, 781)).astype(np.float32)
    x[0] *= 1000
    x[1, 5] = 300
    x[2, ::3] = -np.inf
    out = np.empty_like(x)
    softmax_rows(x, out)
    check(x, out)
    assert (out[2, ::3] == 0).all()

# %% [markdown]
# ## The same with pointers
#
# Triton's tiles have powers of two as sizes, so a row of 781 elements is read as 1024 with a mask. What the mask
# leaves out has to change neither the maximum nor the sum: `other=-inf` does that, since `exp(-∞) = 0`. The distance
# from one row to the next is passed as `stride`, in elements.
#
# ```text
#   offs      0    1   …   780   781   …   1023
#   t        x0   x1   …  x780    -∞   …     -∞
#   e         ·    ·   …     ·     0   …      0
# ```


# %%
@pto.jit
def softmax_with_pointers(x, y, stride, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    offs = pto.arange(0, BLOCK)
    mask = offs < n
    t = pto.load(x + row * stride + offs, mask=mask, other=-float("inf"))
    e = pto.exp(t - pto.max(t, axis=0))
    pto.store(y + row * stride + offs, e / pto.sum(e, axis=0), mask=mask)


if __name__ == "__main__":
    m, n = x.shape
    out.fill(np.nan)
    softmax_with_pointers[(m,)](x, out, n, n, BLOCK=pto.next_power_of_2(n))
    check(x, out)

# %% [markdown]
# ## How fast?
#
# Counted are the bytes that have to move, 8 per element. At 4096 by 4096 numpy moves four times as many, makes new
# arrays on the way, and runs on one core; the kernel's programs are shared between all cores.

# %%
if __name__ == "__main__":
    x = rng.normal(size=(4096, 4096)).astype(np.float32)
    out = np.empty_like(x)
    functions = {"pypto": lambda: softmax_rows(x, out), "numpy": lambda: softmax_numpy(x)}
    compare("softmax of 4096 rows of 4096", functions, 2 * x.nbytes, "B", rounds=5)

# %% [markdown]
# ## Exercises
#
# 1. Write `log_softmax`: `y = x - max - log(Σ exp(x - max))`. Does it need the exponentials after the sum?
# 2. Give the kernel a temperature: `softmax(x / T)`, with `T` as an argument.
# 3. Rows of 32,000 elements are as long as a language model's vocabulary. Is the kernel still as fast per element? How
#    large is such a row, and how large are the first two caches?
