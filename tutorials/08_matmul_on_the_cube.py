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
# # 08 · Matrix products on the cube
#
# An Ascend core of the 910 family is two kinds of cores. The vector cores of tutorial 07 add, compare and take
# exponentials; the **cube cores** do one thing only, products of small matrices: 16 x 16 x 16 multiplications and
# additions of float16 in a cycle, 4096 of them, which is 354 TFLOPS over the 24 cube cores of a 910B2. Nearly all that
# there is to a matrix product is to bring operands there fast enough. This tutorial does it from plain Python, looks at
# the way that the operands take, and finds the size of block for which the cube has no need to wait.
#
# `C = A B` with `A` of shape `(M, K)`, `B` of shape `(K, N)` and `C` of shape `(M, N)`, in float16, with sums in
# float32.

# %%
from __future__ import annotations

import json
import shutil
import warnings
from itertools import pairwise

import numpy as np

import pypto as pto

HAS_COMPILER = any(shutil.which(name) for name in ("g++", "clang++"))

# %% [markdown]
# ## The kernel
#
# It is tutorial 03's, unchanged: a program makes a block of `BM` x `BN` of the result, and goes along `K` in steps of
# `BK`. Nothing in it names a core or a memory.
#
# ```text
#                          N
#                   ┌────┬────┬────┐                 one program, one step of k:
#               K   │    │ b  │    │  BK
#                   ├────┼────┼────┤                   a   (BM, BK)  float16
#                   │    │ ▼  │    │                   b   (BK, BN)  float16
#                   └────┴────┴────┘                   acc (BM, BN)  float32  += a b
#           K              BN
#      ┌────┬────┐  ┌────┬────┬────┐
#      │ a ▶│  ▶ │  │    │acc │    │  BM
#   M  ├────┼────┤  ├────┼────┼────┤
#      │    │    │  │    │    │    │
#      └────┴────┘  └────┴────┴────┘
# ```


# %%
@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc.to(pto.float16)


# %% [markdown]
# ## The check
#
# On the simulated chip, with sizes that are no multiples of anything: blocks stick out over the edges of all three
# matrices. The sums are float32, so what is left is one rounding to float16 at the end: less than a unit in the last
# place of the largest element, which is a few times the square root of `K` here.
#
# The simulated chip also warns where a copy is slower than it need be. Memory moves in lines of 512 bytes, and rows of
# 200 numbers of two bytes begin anywhere in them, so that each costs up to a line more than it fills. With real sizes
# one would let rows lie a multiple of 256 numbers apart; here the warning is caught and shown.

# %%
M, N, K = 300, 520, 200
rng = np.random.default_rng(0)
a = rng.normal(size=(M, K)).astype(np.float16)
b = rng.normal(size=(K, N)).astype(np.float16)
c = np.zeros((M, N), np.float16)

if __name__ == "__main__" and HAS_COMPILER:
    with pto.device("ascend-sim"), warnings.catch_warnings(record=True) as remarks:
        warnings.simplefilter("always")
        matmul[pto.cdiv(M, 128), pto.cdiv(N, 256)](a, b, c, BM=128, BN=256, BK=64)
    for remark in remarks:
        print(remark.message)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    difference, allowed = np.abs(c - exact).max(), np.spacing(np.float16(np.abs(exact).max()))
    assert difference <= allowed, difference
    print(f"largest difference from numpy in float64: {difference:.1e}, allowed {allowed:.1e}")
elif __name__ == "__main__":
    print("the simulated device needs a C++ compiler: install g++ or clang++")

# %% [markdown]
# ## The way of the operands
#
# The cube reads its operands from two memories of 64 KB each, L0A and L0B, and adds up in a third one of 128 KB, L0C.
# They are filled from L1, 512 KB, and that from memory. At each border the data change their form: L1 and L0 hold
# **fractals**, squares of 16 x 16 elements that lie one after the other, since that is what the cube takes in a cycle.
#
# ```text
#                        MTE2             MTE1                M
#   memory ── A, B ──▶    L1    ── a ──▶  L0A ──┐
#   rows              fractals  ── b ──▶  L0B ──┴──▶ Mmad ──▶ L0C ──▶ memory   (rows again, rounded to float16)
#                      Nd2Nz            LoadData                  FIX
#                                                                Fixpipe
# ```
#
# Four units work on the four arrows side by side; each waits for the one before it by events, as in tutorial 10. Here
# is where the four stand in the text of the kernel:

# %%
large = [np.empty((4096, 4096), np.float16) for _ in range(3)]
blocks = {"BM": 128, "BN": 256, "BK": 64}

if __name__ == "__main__":
    text = matmul.compile(*large, **blocks, target="ascend910b2").program.artifact.code.decode(errors="replace")
    assert "__cube__" in text
    places = {word: text.index(word) for word in ("Nd2NzParams", "LoadData(", "Mmad(", "Fixpipe<")}
    assert list(places) == sorted(places, key=places.__getitem__)
    print("in this order: " + ", ".join(word.strip("(<") for word in places))

# %% [markdown]
# ## How large a block?
#
# A block of the result needs `(BM + BN) K` elements to be brought in, for `BM BN K` multiplications. So a block of
# 16 x 16 brings in an element for every 8 multiplications, and one of 128 x 256 for every 85. The cube can do 4096 of
# them in a cycle, and a core gets some 110 bytes in a cycle out of L2: that is 55 elements, so there must be at least
# `4096 / 55 = 75` multiplications for each. The model says the same.

# %%
SIZES = ((16, 16), (32, 32), (64, 64), (128, 128), (128, 256))


def predicted(bm: int, bn: int):
    """The launch over two matrices of 4096 x 4096, in blocks of so many rows and columns."""
    grid = (4096 // bm, 4096 // bn)
    return matmul.compile(target="ascend910b2").simulate(*large, BM=bm, BN=bn, BK=64, grid=grid)


if __name__ == "__main__":
    found = [predicted(*size) for size in SIZES]
    print(f"{'block':>10} {'time':>12} {'TFLOPS':>8} {'cube':>6} {'from L2':>10}   limited by")
    for (bm, bn), p in zip(SIZES, found, strict=True):
        rate, read = 2 * 4096**3 / p.seconds / 1e12, p.levels["GM to L1"] / 1e9
        cube = f"{p.utilisation['M']:.0%}"
        print(f"{bm:4} x {bn:3} {1e6 * p.seconds:9.0f} µs {rate:8.0f} {cube:>6} {read:7.1f} GB   {p.limit}")
    assert all(slow.seconds > fast.seconds for slow, fast in pairwise(found))
    assert found[-1].utilisation["M"] > 0.7

# %% [markdown]
# Larger blocks do not fit: sums of 128 x 256 in float32 are the 128 KB of L0C. What the compiler adds to the kernel by
# itself: it brings in several steps of `k` at once, so that copies are large, whatever `BK` is; L1, L0A and L0B hold
# everything twice, so that one half is filled while the other is used; and the programs of a grid are handed out in
# bands, so that those which run at the same time share rows of `A` and columns of `B` in L2.
#
# ## The timeline
#
# A row for each unit. While the cube (M) works on one step, MTE1 fills the other halves of L0A and L0B, and MTE2 brings
# the next stretch into L1.

# %%
if __name__ == "__main__":
    rows = json.loads(found[-1].timeline())["traceEvents"]
    slices = [row for row in rows if row["ph"] == "X"]
    busy = {}
    for row in slices:
        name = row["args"]["instruction"]
        busy[name] = busy.get(name, 0.0) + row["dur"]
    assert {"Mmad", "LoadData", "DataCopy"} <= set(busy)
    print("µs of the first instructions on one core: " + ", ".join(f"{name} {t:.0f}" for name, t in busy.items()))

# %% [markdown]
# ## Exercises
#
# 1. Give `matmul` matrices of int8, with sums and a result of `pto.int32`. Which rows of the table change, and why?
# 2. Add a bias of shape `(N,)` to `acc` before it is stored. Is it still a kernel for cube cores alone? Look for
#    `__mix__` in the text, and compare the predictions.
# 3. Transpose `b` in the kernel (`b` of shape `(N, K)`, read as `b[j : j + BN, k : k + BK].T`). Which instruction turns
#    it, and does that cost time?
