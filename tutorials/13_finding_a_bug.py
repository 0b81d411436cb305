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
# # 13 · Finding a bug
#
# Kernels go wrong in three ways: they do not compile, they touch memory that is not theirs, or their numbers are wrong.
# This tutorial writes one kernel with a mistake of each kind, and finds them with the tool that is made for it:
#
# ```text
#   does not compile      the message: line, caret, and what to write
#   touches other memory  pto.interpret   every access of every program is checked, slowly
#                         pto.checked     the same checks, compiled into the kernel
#   numbers are wrong     pto.testing.assert_close   against numpy: where, how far
#                         pto.verify                 against the interpreter: is it the kernel, or the compiler?
#                         breakpoint()               in the interpreter: look at the tiles
#                         kernel.inspect             the type of what every line makes
# ```
#
# The kernel standardises the rows of `x`, shape `(m, n)`: every row gets mean 0 and variance 1. It works with pointers,
# and with tiles of `BLOCK` elements, of which the last `BLOCK - n` lie behind the end of the row:
#
# ```text
#            0                              n = 100        BLOCK = 128
#   row i  │ x x x x x x x x x x x x x x x x x │ · · · · · · · · │
#                                                └ no part of the row: in memory, row i + 1 begins here
# ```

# %%
from __future__ import annotations

import sys

import numpy as np

import pypto as pto
from pypto.testing import assert_close

rng = np.random.default_rng(0)
x = rng.normal(3, 2, size=(4, 100)).astype(np.float32)
y = np.zeros_like(x)
m, n = x.shape


def expected():
    return (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)


def shown(kind, call):
    """The text of the error that a call must raise."""
    try:
        call()
    except kind as error:
        print(f"{type(error).__name__}: {error}")
        return str(error)
    raise AssertionError("no error was raised")


# %% [markdown]
# ## It does not compile
#
# The first try. Read the message from the top: what is wrong, where, and in the last line what to do.


# %%
@pto.jit
def first_try(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    offsets = pto.arange(0, BLOCK)
    t = pto.load(x + row * n + offsets, mask=offsets < n, other=0.0)
    centred = t - pto.sum(t) / n
    variance = pto.sum(centred * centred) / n
    pto.store(y + row * n + offset, centred / pto.sqrt(variance))


if __name__ == "__main__":
    text = shown(pto.errors.Diagnostic, lambda: first_try[(m,)](x, y, n, BLOCK=128))
    assert "`offset` is not defined" in text

# %% [markdown]
# Every message has a code, and `pypto explain E203` tells more about it. Nothing ran, and `y` is as it was.
#
# ## It touches memory that is not its own
#
# With `offsets` it compiles. But before a kernel with pointers is run for the first time, it is worth a run in the
# interpreter: slow, program by program, with every access held against the bounds of the array it belongs to, and with
# an eye on programs that write to the same element.


# %%
@pto.jit
def second_try(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    offsets = pto.arange(0, BLOCK)
    t = pto.load(x + row * n + offsets, mask=offsets < n, other=0.0)
    centred = t - pto.sum(t) / n
    variance = pto.sum(centred * centred) / n
    pto.store(y + row * n + offsets, centred / pto.sqrt(variance))


if __name__ == "__main__":
    text = shown(pto.errors.Diagnostic, lambda: pto.interpret(second_try)[(m,)](x, y, n, BLOCK=128))
    assert "two programs write one element: y[1, 0]" in text
    text = shown(pto.errors.Diagnostic, lambda: pto.interpret(second_try)[(1,)](x[3:], y[3:], n, BLOCK=128))
    assert "out of bounds" in text

# %% [markdown]
# The store has no mask: 28 elements of every program go into the next row, and those of the last one behind the array.
# The two reports are of one mistake. The compiled kernel would have written there without a word.
#
# ## The same at full size
#
# The interpreter is for small arrays. Under `with pto.checked():`, kernels are compiled with the checks inside (also by
# `@pto.jit(checked=True)`, and for a whole process by `PYPTO_CHECKED=1`): what happens only in the ten-thousandth
# program is found there, too. The launch ends with the same report, and before anything was touched that is not the
# array's.

# %%
if __name__ == "__main__":
    many = rng.normal(3, 2, size=(10_000, 100)).astype(np.float32)
    result = np.zeros_like(many)
    with pto.checked():
        text = shown(pto.errors.Diagnostic, lambda: second_try[(1,)](many[-1:], result[-1:], n, BLOCK=128))
        assert "out of bounds" in text
        text = shown(pto.errors.Diagnostic, lambda: second_try[(10_000,)](many, result, n, BLOCK=128))
        assert "two programs write one element" in text or "out of bounds" in text

# %% [markdown]
# ## The numbers are wrong
#
# The store gets its mask, the interpreter has nothing to say, and the result is still not numpy's:


# %%
@pto.jit
def third_try(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    offsets = pto.arange(0, BLOCK)
    inside = offsets < n
    t = pto.load(x + row * n + offsets, mask=inside, other=0.0)
    centred = t - pto.sum(t) / n
    if row == 2:
        breakpoint()
    variance = pto.sum(centred * centred) / n
    pto.store(y + row * n + offsets, centred / pto.sqrt(variance), mask=inside)


if __name__ == "__main__":
    third_try[(m,)](x, y, n, BLOCK=128)
    text = shown(AssertionError, lambda: assert_close(y, expected()))
    assert "of 400 elements differ" in text

# %% [markdown]
# As good as all of them, in every row: so it is neither an edge nor a single program. Whose mistake is it?
# `pto.verify` launches the kernel twice, compiled and interpreted, and compares. Where they agree, the compiler did
# what the kernel says, and the kernel says the wrong thing.


# %%
def look():
    """What a person would type at the prompt of the debugger: `tiles` are the kernel's variables by name."""
    kernel = sys._getframe(1).f_locals
    centred = kernel["tiles"]["centred"]
    print(f"program {kernel['program']}: begins with {centred[:3]}, behind the row {centred[n : n + 3]}")
    found.append(centred[n:])


if __name__ == "__main__":
    found = []
    sys.breakpointhook, before = look, sys.breakpointhook
    print(pto.verify(third_try)[(m,)](x, y, n, BLOCK=128))
    sys.breakpointhook = before
    (behind,) = found
    assert np.allclose(behind, -x[2].mean(), atol=1e-5)

# %% [markdown]
# `breakpoint()` in a kernel is for the interpreter alone; it stops in Python's debugger (here, a function stands in for
# the person at its prompt). The tile is right up to element 100. Behind that it holds the mean with a minus: the load
# put zeros there, the subtraction made `0 - mean` of them, and their squares went into the variance. What lies behind
# the end must be zero where it is summed:


# %%
@pto.jit
def standardise(x, y, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    offsets = pto.arange(0, BLOCK)
    inside = offsets < n
    t = pto.load(x + row * n + offsets, mask=inside, other=0.0)
    centred = pto.where(inside, t - pto.sum(t) / n, 0.0)
    variance = pto.sum(centred * centred) / n
    pto.store(y + row * n + offsets, centred / pto.sqrt(variance), mask=inside)


if __name__ == "__main__":
    standardise[(m,)](x, y, n, BLOCK=128)
    assert_close(y, expected())
    print(pto.verify(standardise)[(m,)](x, y, n, BLOCK=128))

# %% [markdown]
# ## Looking inside
#
# `inspect` shows the type of what every line makes. That is where to look when precision is lost or an index overflows:
# is the sum float32, although the array is float16? In a notebook, the levels down to machine code stand beside it, and
# pointing at a line marks what came of it; `save("page.html")` writes the same as a page.

# %%
if __name__ == "__main__":
    half = x.astype(np.float16)
    inside_it = standardise.inspect(half, half.copy(), n, BLOCK=128)
    print(inside_it)
    types = {text for line in inside_it.source for text in line.types}
    assert {"variance: f32", "centred: tile<128xf32>"} <= types

# %% [markdown]
# None of this would have been needed with slices: `x[row, :]` is the row and nothing else, it has no elements behind
# its end, and a store to `y[row, :]` cannot miss it.
#
# ## Exercises
#
# 1. Write the kernel with slices, as in tutorial 04. Which of the three mistakes can still be made?
# 2. Replace `sqrt(variance)` by `sqrt(variance + eps)` with `eps` an argument, and pass rows that are all equal.
# 3. Let every program add its variance to `total[0]` by `total[0] += variance`. What does the interpreter say, and what
#    do you write instead?
