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
# # 07 · The same softmax on CPU and on Ascend
#
# A kernel of this language does not say where it runs. This tutorial takes the softmax of tutorial 02, unchanged, to an
# Ascend chip: it becomes Ascend C, which the toolkit's compiler makes a kernel of. Where there is no chip, a simulated
# one takes its place, through the very same path; it needs a C++ compiler (`g++` or `clang++`) and nothing else.

# %%
from __future__ import annotations

import shutil

import numpy as np

import pypto as pto


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


# %% [markdown]
# ## On the CPU, then on a device
#
# `pto.device(name)` is a place to run. As a `with` block it takes numpy arrays to the device, launches there, and
# brings back what was written. `ascend:0` is the first chip of this machine, `ascend-sim` the simulated one.
#
# ```text
#   numpy arrays ──▶ device memory ──▶ softmax on 48 vector cores ──▶ device memory ──▶ numpy arrays
# ```

# %%
rng = np.random.default_rng(0)
x = rng.normal(size=(37, 300)).astype(np.float32)
on_cpu, on_ascend = np.empty_like(x), np.empty_like(x)
softmax[(37,)](x, on_cpu)

HAS_COMPILER = any(shutil.which(name) for name in ("g++", "clang++"))
if __name__ == "__main__" and HAS_COMPILER:
    with pto.device("ascend-sim"):
        softmax[(37,)](x, on_ascend)
    difference = np.abs(on_ascend - on_cpu).max()
    assert difference <= 1e-6, difference
    print(f"largest difference between CPU and Ascend: {difference:.1e}, allowed 1e-06")
elif __name__ == "__main__":
    print("the simulated device needs a C++ compiler: install g++ or clang++")

# %% [markdown]
# The chip's `exp` is its own, and its sums have another order, so the last bit may differ; more may not.
#
# ## What it became
#
# `inspect` shows the levels on the way down. In a `with` block of a device these are the device's: the last one is
# Ascend C, with the line of this file behind each statement. Look for the copies (`DataCopyPad`), for the two events
# that a copy needs (its buffer is free; its data are there), and for `PipeBarrier<PIPE_V>` between vector instructions
# of which one needs the other's result. A row of 300 elements is little for such a core, so it does a `group` of
# programs at once: as many as make a copy worth while, and not so many that other cores have nothing to do.

# %%
if __name__ == "__main__" and HAS_COMPILER:
    with pto.device("ascend-sim"):
        text = softmax.inspect(x, on_ascend)["ascendc"]
    assert "BlockReduceMax" in text
    start = text.index("for (int64_t program")
    print(text[start:][:3000])

# %% [markdown]
# ## Arrays that stay there
#
# Bringing arrays there and back costs more than most kernels. An array of the device stays: a launch on such arrays
# runs where they are, and returns at once; `numpy()` waits and brings the values.

# %%
if __name__ == "__main__" and HAS_COMPILER:
    there, out = pto.to_device(x, "ascend-sim"), pto.to_device(np.zeros_like(x), "ascend-sim")
    softmax[(37,)](there, out)
    softmax[(37,)](out, there)
    once = np.exp(on_cpu - on_cpu.max(axis=1, keepdims=True))
    np.testing.assert_allclose(there.numpy(), once / once.sum(axis=1, keepdims=True), atol=1e-6)
    print("two launches on arrays of the device: right")

# %% [markdown]
# ## How long would it take?
#
# The simulated device is slow: it checks every byte that an instruction touches. What a chip would take is predicted by
# a model of it, which needs no device at all.

# %%
if __name__ == "__main__":
    large = np.empty((4096, 4096), np.float32)
    prediction = pto.simulate(softmax, target="ascend910b2")[(4096,)](large, large.copy())
    assert prediction.bytes["GM written"] >= large.nbytes
    print(prediction)

# %% [markdown]
# ## Exercises
#
# 1. Give the kernel float16 arrays. Where does the text now cast, and in which type is the sum?
# 2. Rows of 10,000 elements fill a core's memory. What becomes of the `group`, and what does the prediction say?
# 3. Make a mistake that the hardware would not forgive: is there any way to write one in this language?
