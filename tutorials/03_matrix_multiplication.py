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
# # 03 · Matrix multiplication
#
# `C = A B` with `A` of shape `(M, K)` and `B` of shape `(K, N)`. Each element of `C` is a sum of `K` products, and
# each number read from memory is needed many times: `a[i, k]` for every column, `b[k, j]` for every row. The art is
# to use a number as often as possible while it is near. This tutorial does it with blocks.

# %%
from __future__ import annotations

import numpy as np
from clock import compare

import pypto as pto

BM, BN, BK = 128, 256, 128

# %% [markdown]
# ## Blocks
#
# One program makes one block of `C`, of shape `(BM, BN)`. It goes along `k` in steps of `BK`, and adds the product of
# two small blocks to a tile of sums, the **accumulator**:
#
# ```text
#                              N
#                    ┌──────┬──────┬──────┐
#                    │      │▒▒▒▒▒▒│      │  BK   k = 0
#                    ├──────┼──────┼──────┤
#            B   K   │      │▒▒▒▒▒▒│      │       k = BK      ↓ k
#                    ├──────┼──────┼──────┤
#                    │      │▒▒▒▒▒▒│      │
#                    └──────┴──────┴──────┘
#            K                 BN
#    ┌─────┬─────┬─────┐     ┌──────┬──────┬──────┐
#    │     │     │     │     │      │      │      │
#    ├─────┼─────┼─────┤     ├──────┼──────┼──────┤
#    │▒▒▒▒▒│▒▒▒▒▒│▒▒▒▒▒│ BM  │      │██████│      │    ██ = Σ over k of  ▒▒ · ▒▒
#    ├─────┼─────┼─────┤     ├──────┼──────┼──────┤
#    │     │     │     │     │      │      │      │    one program, (i, j)
#    └─────┴─────┴─────┘     └──────┴──────┴──────┘
#       A    → k                        C
# ```
#
# A step reads `(BM + BN) · BK` numbers and does `BM · BN · BK` multiplications with them, so every number is used
# `BM · BN / (BM + BN)` times: 85 times for blocks of 128 by 256. On the other hand the blocks have to fit in the cache:
# with `BK = 128` a step touches 128 KB of `B` and 64 KB of `A`, and the accumulator has 128 KB.
#
# ## The kernel
#
# `pto.dot(x, y, acc)` is `acc + x @ y` for tiles. The grid has two dimensions here. Blocks that stick out over an edge
# are padded with zeros when they are read, which adds nothing to the sums, and clipped when they are written; no size
# needs to be a multiple of anything. `a.shape[1]` is a number of the loop like any other.


# %%
@pto.jit
def matmul_blocks(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


def matmul(a, b, out):
    """out = a @ b, for float32 arrays of shapes (M, K), (K, N) and (M, N)."""
    grid = (pto.cdiv(a.shape[0], BM), pto.cdiv(b.shape[1], BN))
    matmul_blocks[grid](a, b, out, BM=BM, BN=BN, BK=BK)


# %% [markdown]
# ## The check
#
# Adding `K` products in float32 makes up to `K` roundings, each of 6e-8 of what has been added up so far. Sums in which
# large terms cancel have a large error for their size, so the error is held against the sum of the absolute values,
# `|A| |B|`. At most it is `K` times 6e-8 of that, or 5e-5 here; roundings up and down cancel, too, and 1e-6 holds with
# room to spare. The sizes are odd on purpose.


# %%
def check(a, b, out):
    """AssertionError if out is not a @ b to within 1e-6 of |a| @ |b|."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    difference = (np.abs(out - a @ b) / (np.abs(a) @ np.abs(b))).max()
    assert difference <= 1e-6, difference
    print(f"largest difference from numpy in float64: {difference:.1e} of |A| |B|, allowed 1e-06")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    a = rng.standard_normal((1001, 900), np.float32)
    b = rng.standard_normal((900, 777), np.float32)
    out = np.empty((1001, 777), np.float32)
    matmul(a, b, out)
    check(a, b, out)

# %% [markdown]
# ## The same with pointers
#
# In Triton style the kernel makes tiles of addresses, one per element of a block, and moves them along `k`. The shapes
# and the row strides are arguments, and every access has a mask. `rows[:, None]` has shape `(BM, 1)`, `ks[None, :]`
# has shape `(1, BK)`, and their sum is a `(BM, BK)` tile, as in numpy.
#
# ```text
#                  ks[None, :]            0        1        2   …
#    rows[:, None] * stride_a      ┌                               ┐
#              0 · stride_a        │     +0       +1       +2      │      a + rows · stride_a + ks
#              1 · stride_a        │     +0       +1       +2      │
#              2 · stride_a        │     +0       +1       +2      │      then  += BK  for the next step
#                   …              └                               ┘
# ```


# %%
@pto.jit
def matmul_with_pointers(  # noqa: PLR0913, PLR0917
    a, b, c, M, N, K, stride_a, stride_b, stride_c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr
):
    rows = pto.program_id(0) * BM + pto.arange(0, BM)
    cols = pto.program_id(1) * BN + pto.arange(0, BN)
    ks = pto.arange(0, BK)
    at_a = a + rows[:, None] * stride_a + ks[None, :]
    at_b = b + ks[:, None] * stride_b + cols[None, :]
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, K, BK):
        x = pto.load(at_a, mask=(rows[:, None] < M) & (ks[None, :] < K - k), other=0.0)
        y = pto.load(at_b, mask=(ks[:, None] < K - k) & (cols[None, :] < N), other=0.0)
        acc = pto.dot(x, y, acc)
        at_a += BK
        at_b += BK * stride_b
    at_c = c + rows[:, None] * stride_c + cols[None, :]
    pto.store(at_c, acc, mask=(rows[:, None] < M) & (cols[None, :] < N))


def matmul_by_pointers(a, b, out):
    """out = a @ b, for float32 arrays whose rows lie in one piece."""
    (m, k), n = a.shape, b.shape[1]
    strides = (array.strides[0] // array.itemsize for array in (a, b, out))  # numpy counts bytes, the kernel elements
    grid = (pto.cdiv(m, BM), pto.cdiv(n, BN))
    matmul_with_pointers[grid](a, b, out, m, n, k, *strides, BM=BM, BN=BN, BK=BK)


if __name__ == "__main__":
    out.fill(np.nan)
    matmul_by_pointers(a, b, out)
    check(a, b, out)

# %% [markdown]
# ## How fast?
#
# A product takes `2 M N K` floating-point operations. numpy calls OpenBLAS, a library in which the innermost loops are
# written in assembly for every kind of processor.

# %%
if __name__ == "__main__":
    for size in (512, 1024, 2048):
        a, b = rng.standard_normal((2, size, size), np.float32)
        out = np.empty_like(a)
        functions = {
            "pypto": lambda: matmul(a, b, out),  # noqa: B023
            "pointers": lambda: matmul_by_pointers(a, b, out),  # noqa: B023
            "numpy": lambda: np.matmul(a, b, out=out),  # noqa: B023
        }
        compare(f"{size} cubed", functions, 2 * size**3, "flop")

# %% [markdown]
# ## Exercises
#
# 1. Try other blocks at 1024 cubed: 32, 64, 128, 256 for each of the three. How many times is a number used, how much
#    cache does a step take, and which of the two explains what you measure?
# 2. Add a bias of shape `(N,)` and a ReLU, `pto.maximum(acc, 0)`, just before the block is written. The tile
#    `bias[j : j + BN]` has shape `(BN,)`; `[None, :]` makes it `(1, BN)`. What does numpy pay for the same?
# 3. Multiply by the transpose, `C = A Bᵀ` with `B` of shape `(N, K)`: slice it the other way round and give the tile to
#    `pto.trans`, or pass `b.T` and change nothing.
