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
# # 10 · Reading the timeline
#
# A core of an Ascend chip is several units that work side by side: one copies from memory (MTE2), one computes (V for
# vectors, M for products), one copies back (MTE3), and a scalar unit (S) hands out the work. A kernel is fast when the
# unit that has most to do never waits. This tutorial makes a kernel faster by looking at who waits. It needs no device:
# `pto.simulate` predicts a launch by a model of the chip.

# %%
from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np

import pypto as pto

PART = 1 << 16


@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    start = pto.program_id(0) * PART
    for i in range(start, start + PART, BLOCK):
        out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


# %% [markdown]
# ## Small blocks
#
# Three million elements, a part of 65,536 for each of the 48 vector cores, in blocks of 256: each copy is 1 KB. Each
# takes some 200 cycles until its first bytes are there, and each needs the scalar unit. (Programs that take so little
# in all are done several at once by the compiler; what a loop does step by step is done step by step.)

# %%
x, y, out = (np.empty(48 * PART, np.float32) for _ in range(3))


def predicted(block: int):
    """The launch of `add` over all of x, in blocks of so many elements."""
    return pto.simulate(add, target="ascend910b2")[(x.size // PART,)](x, y, out, BLOCK=block)


small = predicted(256)
if __name__ == "__main__":
    print(small, end="\n\n")

# %% [markdown]
# ## Larger ones
#
# The line `limited by` names who has most to do; the shares are of the whole time. With larger blocks the scalar unit
# has less to do and the copies reach the speed of memory. That is what all wait for then: nothing is left to gain but
# to move fewer bytes.

# %%
if __name__ == "__main__":
    print(f"{'block':>8} {'time':>12} {'limited by':>12}")
    for block in (256, 1024, 4096, 8192):
        found = predicted(block)
        print(f"{block:8} {1e6 * found.seconds:9.1f} µs {found.limit:>12}")
    large = predicted(8192)
    assert large.seconds < 0.6 * small.seconds
    assert large.limit == "memory"

# %% [markdown]
# ## The timeline
#
# `timeline` writes a trace for [Perfetto](https://ui.perfetto.dev): a row for each unit, a slice for each instruction,
# named by the line of the kernel. In the picture of a good kernel MTE2 has no gaps: while the vector unit adds one
# block, the next one is already on its way, since every buffer is there twice.
#
# ```text
#   MTE2  ██ x0 ██ y0 ██ x1 ██ y1 ██ x2 ██ y2 ██
#   V                 ▌+0▐       ▌+1▐       ▌+2▐
#   MTE3                 ██ out0 ██ out1 ██ out2
# ```

# %%
if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "add.json"
        predicted(8192).timeline(path)
        slices = [row for row in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if row["ph"] == "X"]
    assert any("out[i" in row["name"] for row in slices)
    for row in slices[:6]:
        print(f"{row['ts']:8.2f} µs  {row['dur']:6.2f} µs  {row['args']['instruction']:12} {row['name']}")

# %% [markdown]
# ## Exercises
#
# 1. Predict `add` for float16 arrays of the same length. Which part of the time do you save, and why?
# 2. On `ascend910b4`, memory is half as fast. Which block is large enough there?
# 3. Predict the softmax of tutorial 07 for rows of 100 and of 10,000 elements. Who waits for whom?
