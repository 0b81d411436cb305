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
# # 05 · Flash attention
#
# Attention is what a transformer does between its matrix products: every position asks (`q`), every position answers
# (`k`), and the answers weigh what is passed on (`v`). For one head, with `q`, `k` and `v` of shape `(n, d)`:
#
# ```text
#   S = q kᵀ / sqrt(d)        (n, n)     how well position j answers position i
#   P = softmax of S's rows   (n, n)
#   out = P v                 (n, d)
# ```
#
# `S` and `P` are the trouble. For `n` = 4096 each has 64 MB per head, written and read again, while all else together
# has 4 MB. Flash attention (Dao, Fu, Ermon, Rudra and Ré, 2022) never makes them as a whole.

# %%
from __future__ import annotations

import math

import numpy as np
from clock import compare

import pypto as pto

BM, BN = 128, 128

# %% [markdown]
# ## Softmax without knowing the whole row
#
# One program takes `BM` queries and goes over the keys in blocks of `BN`. Softmax needs the maximum and the sum of
# a row, of which it has seen only a part. So it works with the maximum **so far**, and when a block brings a larger
# one, it scales down what was added up under the old one, since `exp(s - new) = exp(s - old) · exp(old - new)`:
#
# ```text
#                       k, v                        carried from block to block, per query:
#             j = 0     j = BN    j = 2 BN            m      maximum so far           (BM,)
#           ┌─────────┬─────────┬─────────┐           total  Σ exp(s - m) so far      (BM,)
#           │         │         │         │           acc    Σ exp(s - m) v so far    (BM, d)
#           ├─────────┼─────────┼─────────┤
#   q   i   │ s ──────┼──▶ s ───┼──▶ s    │ BM      with a block of s (BM, BN):
#           ├─────────┼─────────┼─────────┤           new   = max(m, max of s)
#           │         │         │         │           p     = exp(s - new)
#           └─────────┴─────────┴─────────┘           scale = exp(m - new)
#                         BN                          total = total · scale + Σ p
#        only one block of s exists at a time         acc   = acc · scale + p v
#                                                     m     = new
# ```
#
# At the end `acc / total` is the result. The first block finds `m = -∞`, so `scale = exp(-∞) = 0`: nothing was added
# up yet, and nothing is kept.
#
# ## The kernel
#
# The arrays have shape `(heads, n, d)`; a number in an index drops its dimension, so that `q[h, i : i + BM, :]` is a
# `(BM, d)` tile. The last block of keys may stick out over the end: there `k` is padded with 0, which gives the score
# 0 and not -∞, so those columns are masked by hand.
#
# With `CAUSAL`, a position must not see what comes after it. Blocks to the right of the diagonal are not even visited,
# which saves half of the work; inside the block on the diagonal `pto.where` does it element by element. `CAUSAL` is a
# constexpr, so each `if` is decided while compiling.


# %%
@pto.jit
def attention(q, k, v, out, CAUSAL: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    h, i = pto.program_id(0), pto.program_id(1) * BM
    n, d = q.shape[1], q.shape[2]
    queries = q[h, i : i + BM, :] * (1 / math.sqrt(d))
    rows = i + pto.arange(0, BM)
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, min(n, i + BM) if CAUSAL else n, BN):
        s = pto.dot(queries, pto.trans(k[h, j : j + BN, :]))
        cols = j + pto.arange(0, BN)
        seen = cols[None, :] < n
        if CAUSAL:
            seen = seen & (cols[None, :] <= rows[:, None])
        s = pto.where(seen, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(p, v[h, j : j + BN, :], acc * scale[:, None])
        m = new
    out[h, i : i + BM, :] = acc / total[:, None]


def flash_attention(q, k, v, out, causal=False):
    """out = softmax(q kᵀ / sqrt(d)) v for every head; all arrays have shape (heads, n, d)."""
    heads, n, _ = q.shape
    attention[(heads, pto.cdiv(n, BM))](q, k, v, out, CAUSAL=causal, BM=BM, BN=BN)


# %% [markdown]
# ## The check
#
# The result is a mean of rows of `v` with weights that add up to 1, so its error is of the order of one rounding of
# the largest `v`, about 4 here: 1e-5 leaves room for the rounding in the scores. The length is odd on purpose.


# %%
def attention_numpy(q, k, v, causal=False):
    """The same, with the whole of S, in the dtype of q."""
    s = q @ k.transpose(0, 2, 1)
    s /= math.sqrt(q.shape[2])
    if causal:
        s[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    s -= s.max(axis=2, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=2, keepdims=True)
    return s @ v


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 777, 64), np.float32)
    out = np.empty_like(q)
    for causal in (False, True):
        flash_attention(q, k, v, out, causal)
        expected = attention_numpy(*(array.astype(np.float64) for array in (q, k, v)), causal)
        difference = np.abs(out - expected).max()
        assert difference <= 1e-5, difference
        print(f"causal={causal}: largest difference from numpy in float64: {difference:.1e}, allowed 1e-05")

# %% [markdown]
# ## How fast?
#
# The two products take `4 heads n² d` floating-point operations, half of that when causal. numpy has to do all of it
# in either case.

# %%
if __name__ == "__main__":
    heads, n, d = 8, 2048, 64
    q, k, v = rng.standard_normal((3, heads, n, d), np.float32)
    out = np.empty_like(q)
    for causal in (False, True):
        functions = {
            "pypto": lambda: flash_attention(q, k, v, out, causal),  # noqa: B023
            "numpy": lambda: attention_numpy(q, k, v, causal),  # noqa: B023
        }
        work = 4 * heads * n * n * d // (1 + causal)
        compare(f"{heads} heads, {n} positions, causal={causal}", functions, work, "flop", rounds=3)

# %% [markdown]
# ## Exercises
#
# 1. Sliding window: let a position see only itself and the 255 before it. Mask the scores, then let the loop start
#    later, too. How does the time grow with `n` now? (The first block may hold nothing that a row sees. What is `m`
#    then, and what is `-∞ - -∞`?)
# 2. Let `k` and `v` have fewer heads than `q`, each serving a group of queries' heads (grouped-query attention). One
#    line of the kernel changes.
# 3. `exp(x) = 2^(x · log2(e))`. Fold the factor `log2(e)` into the one that `queries` already has, and use `pto.exp2`.
#    Is it faster, and is it still right?
