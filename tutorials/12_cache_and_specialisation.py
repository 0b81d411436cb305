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
# # 12 · Cache and specialisation
#
# A kernel is compiled when it is first launched, for exactly that kind of arguments, and what was compiled is kept: in
# the process for the next launch, on disk for the next process. This tutorial shows what counts as another kind, how to
# see why something was compiled again, and what the disk cache promises.
#
# ```text
#   arguments ──▶ a version that fits? ── yes ──▶ launch                               below a microsecond
#                          │ no
#                          ▼
#                 source to Tile IR ──▶ key ──▶ on disk? ── yes ──▶ load, launch       milliseconds
#                                                  │ no
#                                                  ▼
#                                       optimise, LLVM, machine code ──▶ store         tens of milliseconds
# ```

# %%
from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import pypto as pto

# %% [markdown]
# ## Versions
#
# The kernel scales the rows of `x`, shape `(m, n)`, by the numbers in `factor`, shape `(m,)`. A row is a tile, whose
# size must be known when it is compiled: so the kernel asks for `n`. Nobody asks for `m`.


# %%
@pto.jit
def scale_rows(x, factor, y):
    row = pto.program_id(0)
    y[row, :] = x[row, :] * factor[row]


def launch(m, n, dtype=np.float32):
    """Scale m rows of n; gives how many versions there are then."""
    x = np.arange(m * n, dtype=dtype).reshape(m, n)
    factor, y = np.arange(m, dtype=dtype), np.empty_like(x)
    scale_rows[(m,)](x, factor, y)
    assert np.array_equal(y, x * factor[:, None])
    return len(scale_rows.specializations)


if __name__ == "__main__":
    assert launch(4, 100) == 1
    assert launch(9, 100) == 1, "the number of rows is not asked for"
    assert launch(4, 200) == 2, "another size of the tile"
    assert launch(4, 100, np.float64) == 3, "another dtype"
    assert launch(7, 200) == 3
    for version in scale_rows.specializations:
        print(version)

# %% [markdown]
# Each line says for what a version was compiled: the types, then the facts that the kernel asked for, then why it was
# needed beside those before it. A version is used where its facts hold: this is **specialisation by use**. A kernel in
# blocks, as in tutorial 01, asks for no size at all, and one version does for every length:


# %%
@pto.jit
def double(x, y, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * 2


if __name__ == "__main__":
    for n in (10, 100, 1000, 12345):
        x = np.ones(n, np.float32)
        y = np.empty_like(x)
        double[(pto.cdiv(n, 256),)](x, y, BLOCK=256)
        assert (y == 2).all()
    assert len(double.specializations) == 1
    print(double.specializations[0])

# %% [markdown]
# ## Globals are part of it
#
# A number from outside of the kernel goes into it by value. When it changes, the old version fits no more: the kernel
# is compiled anew, and never computes with what was true yesterday.

# %%
OFFSET = 1.0


@pto.jit
def shift(x):
    x[:] += OFFSET


if __name__ == "__main__":
    x = np.zeros(5, np.float32)
    shift[1](x)
    OFFSET = 10.0
    shift[1](x)
    assert (x == 11).all()
    print(shift.specializations[-1].reason)

# %% [markdown]
# ## The next process
#
# What was compiled stays on disk. Here is a kernel in a file of its own, run twice, each time in a new process, with a
# cache in a folder of its own. `timings` are the seconds of each stage of a compilation.

# %%
KERNEL = """
import json
import numpy as np
import pypto as pto


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    e = pto.exp(x[row, :] - pto.max(x[row, :]))
    y[row, :] = e / pto.sum(e)


if __name__ == "__main__":
    x = np.random.default_rng(0).normal(size=(64, 500)).astype(np.float32)
    y = np.empty_like(x)
    softmax[(64,)](x, y)
    e = np.exp(x - x.max(axis=1, keepdims=True))
    assert np.abs(y - e / e.sum(axis=1, keepdims=True)).max() < 1e-6
    print(json.dumps(softmax.specializations[0].timings))
"""
folder = tempfile.TemporaryDirectory()
file = Path(folder.name) / "kernels.py"


def python(*arguments):
    """What a new process prints, which has its cache in our folder."""
    environment = {**os.environ, "PYPTO_CACHE_DIR": str(Path(folder.name) / "cache")}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, encoding="utf-8").stdout


if __name__ == "__main__":
    file.write_text(KERNEL, encoding="utf-8")
    first, second = (json.loads(python(file)) for _ in range(2))
    assert "llvm_emit" in first
    assert "llvm_emit" not in second, "it came from the cache"
    print(f"{'stage':14} {'first':>10} {'second':>10}")
    for stage in dict.fromkeys((*first, *second)):
        texts = (f"{1e3 * times[stage]:7.2f} ms" if stage in times else "" for times in (first, second))
        print(f"{stage:14} {next(texts):>10} {next(texts):>10}")
    assert sum(second.values()) < sum(first.values())

# %% [markdown]
# The second process makes Tile IR from the source, as the first did, since the IR's text is what the key is made of:
#
# ```text
#   key = hash of   Tile IR's text      what the kernel does; comments and names of files are not in it
#                   options             of @pto.jit, and of the environment
#                   target              the processor with all its features and caches
#                   versions            of pypto's own sources and of llvmlite
# ```
#
# So a cache need never be cleared because something changed: whatever changed, it is another key. What is read is
# checked against its checksum and its key; damaged entries are compiled anew, and nothing from the disk is ever run as
# Python. With `PYPTO_CACHE=ro` it is read and never written, with `off` neither.
#
# ## Why was it compiled again?
#
# `pypto cache why` tells which part of a key differs from the nearest entry. Below, first for the arguments of above,
# then for rows of 300.

# %%
if __name__ == "__main__":
    same = python("-m", "pypto", "cache", "why", f"{file}:softmax", "x=f32[64,500]", "y=f32[64,500]")
    assert "it is in the cache" in same
    other = python("-m", "pypto", "cache", "why", f"{file}:softmax", "x=f32[64,300]", "y=f32[64,300]")
    assert "differs in: ir" in other
    print(same, *other.splitlines()[:6], sep="\n")
    assert "0 damaged" in python("-m", "pypto", "cache", "verify")
    folder.cleanup()

# %% [markdown]
# `pypto cache stat`, `list`, `verify` and `clear` do what they say; `export` and `import` carry entries to machines of
# the same kind, for instance into an image.
#
# ## Exercises
#
# 1. Launch `scale_rows` with `x[:, ::2]`. How many versions are there then, and which fact differs?
# 2. Pass `factor=1` as a number to a kernel `y[:] = x[:] * factor`, then 2, then 3. How many versions, and why?
# 3. Write a comment into the file of the softmax kernel and run it again. Is it in the cache? What if you rename `row`?
