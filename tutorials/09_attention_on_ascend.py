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
# # 09 · Attention across cube and vector cores
#
# Tutorial 08 was for cube cores alone, tutorial 07 for vector cores alone. Attention, `softmax(Q Kᵀ / √d) V`, needs
# both in turns: a product, a softmax of what it gives, a product with that. On chips of the 910 family the two kinds of
# cores share no memory but the large one behind L2, so what one of them makes must go there and come back. This
# tutorial shows what the compiler makes of tutorial 05's flash attention: two programs that run side by side, and wait
# for each other where they must.
#
# All arrays are of shape `(n, d)`: `n` queries, keys and values of one head, each a vector of `d` numbers in float16.

# %%
from __future__ import annotations

import math
import shutil

import numpy as np

import pypto as pto

HAS_COMPILER = any(shutil.which(name) for name in ("g++", "clang++"))

# %% [markdown]
# ## The kernel
#
# A program takes `BM` queries, and goes over keys and values in blocks of `BN`. The softmax is that of tutorial 05: it
# knows the largest score *so far*, and scales down what was added up before whenever a larger one comes. `n` is taken
# to be a multiple of `BN` here; tutorial 05 says what to do where it is not.
#
# ```text
#   s      (BM, BN)   scores: queries times keys                 product
#   new    (BM,)      the largest score of each query so far     softmax
#   p      (BM, BN)   exp(s - new), as float16                   softmax
#   total  (BM,)      what the p add up to                       softmax
#   acc    (BM, d)    what the p times values add up to          product, and scaled down
# ```


# %%
@pto.jit
def attention(q, k, v, out, BM: pto.constexpr, BN: pto.constexpr):
    i = pto.program_id(0) * BM
    n, d = q.shape
    queries = q[i : i + BM, :]
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, n, BN):
        s = pto.dot(queries, k[j : j + BN, :].T) * (1 / math.sqrt(d))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = acc * scale[:, None] + pto.dot(p.to(pto.float16), v[j : j + BN, :])
        m = new
    out[i : i + BM, :] = acc / total[:, None]


# %% [markdown]
# ## The check
#
# `p` is rounded to float16 before it is multiplied, a relative error of up to 2⁻¹¹ for each weight, and the result is a
# mean of values with these weights. So the error is a small part of the largest value times 2⁻¹¹, about 2e-3 here.

# %%
rng = np.random.default_rng(0)
q, k, v = rng.normal(size=(3, 256, 64)).astype(np.float16)
out = np.zeros((256, 64), np.float32)


def attention_numpy(q, k, v):
    """The same in float64, with all scores at once."""
    s = q.astype(np.float64) @ k.T.astype(np.float64) / math.sqrt(q.shape[1])
    p = np.exp(s - s.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True) @ v.astype(np.float64)


if __name__ == "__main__" and HAS_COMPILER:
    with pto.device("ascend-sim"):
        attention[256 // 128](q, k, v, out, BM=128, BN=128)
    difference, allowed = np.abs(out - attention_numpy(q, k, v)).max(), float(np.abs(v).max()) * 2.0**-11
    assert difference <= allowed, difference
    print(f"largest difference from numpy in float64: {difference:.1e}, allowed {allowed:.1e}")
elif __name__ == "__main__":
    print("the simulated device needs a C++ compiler: install g++ or clang++")

# %% [markdown]
# ## Two programs in one
#
# A block of the chip is one cube core and two vector cores. The compiler parts the kernel between them: each statement
# goes to the side that can do it, and both sides go through the same loop over `j`. Where a tile has to change sides,
# the one stores it to a **workspace** in memory and sets a flag, and the other waits for the flag and loads it. Each
# vector core takes half of the rows.
#
# ```text
#            cube core (AIC)                            two vector cores (AIV), half of the rows each
#
#    queries ──┐
#    k block ──┴▶ s = q kᵀ ──▶ workspace ── flag ──▶  new, p, scale, total
#    v block ──┐                                       │
#    p ────────┴▶ p v ◀── flag ── workspace ◀──────────┘
#                  │
#                  └──▶ workspace ── flag ──────────▶  acc = acc · scale + p v
# ```
#
# In the text, `__mix__(1, 2)` says how many cores of each kind a block has, and `CrossCoreSetFlag` and
# `CrossCoreWaitFlag` are the flags.

# %%
n, d = 2048, 128
large = [np.empty((n, d), np.float16) for _ in range(3)] + [np.empty((n, d), np.float32)]

if __name__ == "__main__":
    made = attention.compile(*large, BM=128, BN=256, target="ascend910b2").program.artifact.code
    text = made.decode(errors="replace")
    cube, vector = text[text.index("ASCEND_IS_AIC") :].split("ASCEND_IS_AIV")
    assert "__mix__(1, 2)" in text
    assert "Mmad(" in cube
    assert "Exp(" in vector
    for side, code in (("cube", cube), ("vector", vector)):
        flags = code.count("CrossCoreSetFlag"), code.count("CrossCoreWaitFlag")
        print(f"{side:6} core: sets a flag in {flags[0]} places, waits for one in {flags[1]}")

# %% [markdown]
# ## Who waits for whom?
#
# If the cube core waited for the softmax of a block before it began with the next one, only one side would work at any
# time. So it works ahead: the scores of the next block do not depend on the softmax of this one. The model tells how
# much of the time each unit works: V is the vector unit, M the cube.


# %%
def predicted(bm: int, bn: int):
    """Attention over 2048 queries of 128 numbers, in blocks of `bm` queries and `bn` keys."""
    return attention.compile(target="ascend910b2").simulate(*large, BM=bm, BN=bn, grid=(n // bm,))


if __name__ == "__main__":
    print(f"{'queries':>8} {'keys':>6} {'time':>11} {'vector':>8} {'cube':>6} {'written':>11}")
    for bm, bn in ((64, 64), (128, 128), (128, 256)):
        p = predicted(bm, bn)
        written = p.bytes["GM written"] / 1e6
        used = f"{p.utilisation['V']:8.0%} {p.utilisation['M']:6.0%}"
        print(f"{bm:8} {bn:6} {1e6 * p.seconds:8.0f} µs {used} {written:8.1f} MB")
        assert p.utilisation["V"] > p.utilisation["M"]  # exponentials cost more than products here
    print()
    print(p)

# %% [markdown]
# The cube has little to do: 4096 multiplications in a cycle, while a vector core takes 64 numbers of float32 in one,
# and half of that for `exp`. So attention is a matter of its vector side. But V is not busy all of the time either:
# the rest are copies and waiting for flags. The busiest unit is FIX, which takes scores and products out of the cube
# core's L0C: as float32, and through memory, since the cores share no other. What is written is nearly all workspace
# (the result has 1 MB): the scores, `p`, and the product with the values. Of larger blocks of keys there are fewer,
# so fewer products with values change sides, and flags are fewer. The cycles of a line are those of all units
# together, its copies too.
#
# ## Exercises
#
# 1. Leave the softmax out (`p = s`). Does the cube become the limit?
# 2. Take the maximum of a block of rows, `pto.max(s)`, in place of one for each row. Which lines become cheaper? Is the
#    result still right, and when would it not be?
# 3. Let `attention` return `p` rounded to bfloat16. Where is the cast, and on which side?
