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
# # 11 · Autotuning
#
# Some numbers in a kernel change nothing about its result and much about its speed: the sizes of its blocks above all.
# Which are best depends on the machine and on the shapes, and is easier measured than derived. This tutorial lets the
# kernel find them, sees how it decides, catches a configuration that is wrong, and keeps what was found.
#
# The kernel is the sum of every column of a matrix `x` of shape `(m, n)`. A program takes `BLOCK` columns:
#
# ```text
#              n                     in memory, a row lies in one piece:
#      ┌───┬───┬───┬───┐
#      │ ▒ │   │   │   │             row 0  │▒▒▒▒│····│····│····│
#   m  │ ▒ │   │   │   │             row 1  │▒▒▒▒│····│····│····│      ▒ = what program 0 reads
#      │ ▒ │   │   │   │               …
#      └───┴───┴───┴───┘
#        ↓   ↓   ↓   ↓               Memory comes in lines of 64 bytes, 16 floats. With BLOCK = 1, a program
#      ┌───┬───┬───┬───┐             uses one float of each line and 16 programs fetch the same line; with
#      └───┴───┴───┴───┘  out (n,)   BLOCK = n, there is one program and nothing to share between the cores.
#      BLOCK columns each
# ```

# %%
from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np

import pypto as pto

M, N = 2048, 1024
rng = np.random.default_rng(0)
x = rng.random((M, N), np.float32)
out = np.empty(N, np.float32)

# %% [markdown]
# ## What to try
#
# `pto.autotune` wraps the kernel. A `pto.Config` gives values to some of its constants; `key` names the arguments on
# which the answer depends: of an array, its shape. A launch leaves out what is tuned, and its grid is a function, since
# the number of programs depends on `BLOCK`.


# %%
@pto.autotune([pto.Config({"BLOCK": block}) for block in (1, 4, 16, 64, 256, 1024)], key=["x"])
@pto.jit
def column_sums(x, out, BLOCK: pto.constexpr):
    j = pto.program_id(0) * BLOCK
    out[j : j + BLOCK] = pto.sum(x[:, j : j + BLOCK], axis=0)


def grid(meta):
    return (pto.cdiv(N, meta["BLOCK"]),)


def check(found):
    difference = np.abs(found - x.sum(axis=0, dtype=np.float64)).max()
    assert difference <= 1e-5 * M, difference
    print(f"largest difference from numpy in float64: {difference:.1e}, allowed {1e-5 * M:.1e}")


if __name__ == "__main__":
    column_sums[grid](x, out)
    check(out)
    print(f"fastest: {column_sums.best_config!r}")

# %% [markdown]
# The first launch with a new key searches; then it launches with what won. Every later one, also in other processes,
# finds the winner and searches no more: winners are kept in the disk cache, by kernel, machine and key.
#
# ## How it decides
#
# ```text
#   compile and run each once ──▶ do all compute the same? ──▶ race: in turns, more and more runs,
#        on copies of the arrays      who does not, is out            the slower half leaves each time
# ```
#
# They run in turns so that a busy machine slows all of them alike, and on copies: a kernel that adds to its argument
# can be tuned without adding twenty times. `tune` searches anew, whatever is known, and gives its report.

# %%
if __name__ == "__main__":
    before = x.copy()
    report = column_sums.tune(x, out, grid=grid)
    assert np.array_equal(x, before)
    assert column_sums.best_config.kwargs["BLOCK"] >= 4
    print(report)

# %% [markdown]
# Read the table by its ratios: single columns lose by far, since they read each line of memory sixteen times. Among the
# larger blocks, long pieces of rows pull one way, and work for every core the other; little is left between them, and
# which of them wins may change from run to run.
#
# ## A configuration that is wrong
#
# Suppose that the grid were `n // BLOCK`. For blocks that divide `n` all is well; for others the last columns are never
# computed, and a kernel that does less is fast. The search compares the results of all configurations: one that differs
# from the others is left out, with a warning.


# %%
@pto.autotune([pto.Config({"BLOCK": block}) for block in (64, 96, 128)], key=["x"], cache_results=False)
@pto.jit
def careless_sums(x, out, BLOCK: pto.constexpr):
    j = pto.program_id(0) * BLOCK
    out[j : j + BLOCK] = pto.sum(x[:, j : j + BLOCK], axis=0)


if __name__ == "__main__":
    out.fill(0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        careless_sums[lambda meta: (N // meta["BLOCK"],)](x, out)
    assert len(caught) == 1
    assert len(caught) == 1
    assert "BLOCK=96" in str(caught[0].message)
    print(caught[0].message)
    check(out)

# %% [markdown]
# ## A space, and a budget
#
# With several constants, combinations are many. A `pto.Space` is all of them, less those that `where` refuses, and a
# search of it ends when its `budget` (in seconds) is over, with the best that it has. Ctrl-C ends it in the same way.


# %%
@pto.autotune(pto.Space(BM=[32, 64, 128], BN=[32, 64, 128], where=lambda BM, BN: BM <= BN), key=["a", "b"], budget=2.0)
@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, :], b[:, j : j + BN])


def blocks_of(meta):
    return (pto.cdiv(256, meta["BM"]), pto.cdiv(256, meta["BN"]))


if __name__ == "__main__":
    a, b = rng.random((2, 256, 256), np.float32)
    c = np.empty_like(a)
    matmul[blocks_of](a, b, c)
    assert np.abs(c - a @ b).max() <= 1e-3
    print(f"matmul: equal to numpy; {matmul.best_config!r} of {len(matmul.configs)}")

# %% [markdown]
# ## Winners in a file
#
# The disk cache is of one machine. A file can go into the repository beside the code, with the winners of many:
# `@pto.autotune(…, results="tuning.json")` reads it. A winner in it is a hint: it counts where it is one of the
# configurations and of this kind of machine, and can make a launch slower, but never wrong.

# %%
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tuning.json"
        assert column_sums.export_tuning(path) == 1
        print(path.read_text(encoding="utf-8"))

# %% [markdown]
# The same from a terminal, for a kernel in a file:
#
# ```text
#   pypto tune sums.py:column_sums x=f32[2048,1024] out=f32[1024] --grid 'cdiv(x.shape[1], BLOCK)' -o tuning.json
#   pypto tune sums.py:plain_kernel … --space BLOCK=16,64,256 --budget 10
# ```
#
# ## Exercises
#
# 1. Tune `column_sums` for `x.T` as well, whose columns lie in one piece. Which block wins there, and by how much less?
# 2. Take `key=["x"]` away. What happens for a matrix of another shape, and when does that matter?
# 3. Write a kernel that adds `x` to `out` in place, tune it, and show that `out` got `x` exactly once.
