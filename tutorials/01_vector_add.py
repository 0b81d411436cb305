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
# # 01 · Vector addition
#
# The smallest useful kernel: `out = x + y` for three arrays of `n` floats. It shows what a kernel, a program, a grid
# and a tile are, how a kernel is launched and checked, and how to look inside one.
#
# A **kernel** is a Python function under `@pto.jit`. Launching it runs it many times, once per **program**; the
# programs make up the **grid**, and they run in any order and at the same time. Each program finds out who it is from
# `pto.program_id(0)` and does its own part of the work, here `BLOCK` elements:
#
# ```text
#   BLOCK = 4, n = 10
#
#             program 0        program 1        program 2
#   x    │ x0  x1  x2  x3 │ x4  x5  x6  x7 │ x8  x9  ·   · │
#        +                +                +
#   y    │ y0  y1  y2  y3 │ y4  y5  y6  y7 │ y8  y9  ·   · │
#        =                =                =                     · lies beyond the end: read as 0, never written
#   out  │ o0  o1  o2  o3 │ o4  o5  o6  o7 │ o8  o9  ·   · │
# ```

# %%
from __future__ import annotations

import numpy as np
from clock import compare

import pypto as pto

BLOCK = 4096

# %% [markdown]
# ## The kernel
#
# `x[i : i + BLOCK]` is a **tile**: a small array inside the kernel, here with shape `(4096,)`. Arithmetic works on
# whole tiles, as in numpy, and assigning to a slice of an argument writes a tile back. The size of a tile has to be
# known when the kernel is compiled, so `BLOCK` is marked `pto.constexpr`: every value of it gives a kernel of its own.
# It need not be a power of two.


# %%
@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


# %% [markdown]
# The launch says how many programs there are, then the arguments. `pto.cdiv(n, BLOCK)` is `n / BLOCK` rounded up, so
# the last program may stick out over the end. Native slices take care of that: what does not exist is read as 0 and
# not written. The first launch compiles the kernel; later ones find it compiled, in the next process from disk.


# %%
def vector_add(x, y, out):
    """out = x + y, for float arrays of shape (n,)."""
    add[(pto.cdiv(x.shape[0], BLOCK),)](x, y, out, BLOCK=BLOCK)


# %%
if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 1_000_003), np.float32)  # no multiple of 4096
    out = np.empty_like(x)
    vector_add(x, y, out)
    assert np.array_equal(out, x + y)  # one rounding per element, in both: equal to the last bit
    print(f"largest difference from numpy: {np.abs(out - (x + y)).max()}")

# %% [markdown]
# ## Looking inside
#
# `pto.interpret(add)` is the same kernel run by an interpreter, one program after the other, where `print` and
# `breakpoint()` work and every access is checked. Here are the three programs of the picture; the last one shows the
# zeros beyond the end.


# %%
@pto.jit
def add_and_tell(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    total = x[i : i + BLOCK] + y[i : i + BLOCK]
    print(total)
    out[i : i + BLOCK] = total


if __name__ == "__main__":
    few = np.arange(1, 11, dtype=np.float32)
    pto.interpret(add_and_tell)[(3,)](few, few, np.empty_like(few), BLOCK=4)

# %% [markdown]
# ## The same with pointers
#
# Kernels written for Triton work with pointers: an array plus integers is a tile of addresses, and `pto.load` and
# `pto.store` go through them. Nothing is known about the array's end here, so the kernel is told `n` and builds a
# **mask**; where it is false no memory is touched.
#
# ```text
#   program 2:   offs  =    8     9    10    11
#                mask  =  true  true  false false      (offs < n)
# ```
#
# The compiler sees that these addresses are one run of elements, and makes the same machine code as for slices.


# %%
@pto.jit
def add_with_pointers(x, y, out, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    mask = offs < n
    total = pto.load(x + offs, mask=mask) + pto.load(y + offs, mask=mask)
    pto.store(out + offs, total, mask=mask)


if __name__ == "__main__":
    out.fill(np.nan)
    add_with_pointers[(pto.cdiv(x.size, BLOCK),)](x, y, out, x.size, BLOCK=BLOCK)
    assert np.array_equal(out, x + y)
    print("pointers: equal to numpy")

# %% [markdown]
# ## How fast?
#
# An addition moves 12 bytes (two reads, one write) for one sum, so memory is the limit and not arithmetic. A million
# floats fit in the last cache; sixteen million do not. For arrays of that size the compiled kernel writes past the
# caches, which saves reading the lines that are about to be overwritten.

# %%
if __name__ == "__main__":
    for n in (1 << 20, 1 << 24):
        x, y = rng.random((2, n), np.float32)
        out = np.empty_like(x)
        functions = {"pypto": lambda: vector_add(x, y, out), "numpy": lambda: np.add(x, y, out=out)}  # noqa: B023
        compare(f"{n:,} floats", functions, 12 * n, "B", rounds=15)

# %% [markdown]
# ## Exercises
#
# 1. Write `axpy`: `out = a * x + y` with a number `a` as an argument. Numbers are passed as they are. How much longer
#    does it take than `add`, and why?
# 2. Try blocks of 64 and of `1 << 20` elements on a million floats. One of them is slower: how many programs are there
#    for the cores to share? Ask `add.specializations[-1].timings` how long compiling took.
# 3. Take `mask=mask` out of the store in `add_with_pointers` and run it on ten elements with
#    `pto.interpret(add_with_pointers)`. Read the message.
