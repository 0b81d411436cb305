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
# # 15 · From numpy to fused kernels
#
# A function of numpy makes an array with every operation, and each goes through memory. `pto.fuse` takes the function
# as it is, finds out what it computes, and writes kernels that keep the arrays between in registers and caches.
#
# ```text
#   numpy function  ->  Tensor graph  ->  groups  ->  kernels, as text  ->  plan over one arena of memory
#       traced once        plan.graph                   plan.kernels          print(plan)
# ```
#
# The example is a layer of a transformer: a normalisation, attention with several heads, and a feed-forward part.

# %%
from __future__ import annotations

import math

import numpy as np

import pypto as pto
from pypto.errors.graph import NeedsValue

HEADS, WIDTH = 4, 64


def layer_norm(x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def attention(x, qkv):
    batch, length, width = x.shape
    q, k, v = (x @ qkv).reshape(batch, length, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // HEADS)
    scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
    scores /= scores.sum(axis=-1, keepdims=True)
    return (scores @ v).transpose(0, 2, 1, 3).reshape(batch, length, width)


def layer(x, weights):
    x = layer_norm(attention(x, weights["qkv"]) @ weights["out"] + x)
    hidden = np.maximum(x @ weights["up"], 0)
    return layer_norm(hidden @ weights["down"] + x)


# %% [markdown]
# ## One line
#
# The function stays as it is. The first call traces it and compiles kernels, or finds them in the cache on disk.

# %%
rng = np.random.default_rng(0)
shapes = {"qkv": (WIDTH, 3 * WIDTH), "out": (WIDTH, WIDTH), "up": (WIDTH, 4 * WIDTH), "down": (4 * WIDTH, WIDTH)}
weights = {name: rng.standard_normal(shape, np.float32) / np.float32(8) for name, shape in shapes.items()}
x = rng.standard_normal((2, 50, WIDTH), np.float32)

fused = pto.fuse(layer)
found = fused(x, weights)
print("largest difference from numpy:", f"{np.abs(found - layer(x, weights)).max():.0e}")
assert np.abs(found - layer(x, weights)).max() < 1e-4

# %% [markdown]
# ## What became of it
#
# Some thirty operations are a handful of kernels. `attention` is one of them: scores, softmax and the product with
# the values, without an array of scores. So is the feed-forward part, whose wide array never exists. A plan says which
# arrays are stored, and why they have to be.

# %%
plan = fused.plan(x, weights)
print(plan)
print("kernels:", ", ".join(kernel.form for kernel in plan.kernels))

# %% [markdown]
# ## The kernels can be read
#
# Each is text in the kernel language, with the line of the function behind every line. Pasted into a file, it is a
# kernel like any other: for the profiler, the interpreter, the tuner, and for changes of yours.

# %%
print(plan.kernels[1].source)

# %% [markdown]
# ## What a trace cannot know
#
# While a function is traced, the values of arrays are not known. `if` on a sum computes both ways and chooses. What
# cannot be chosen, such as an exception, is an error at its line, with what to write instead.


# %%
@pto.fuse
def guarded(x):
    if x.max() > 1:
        raise ValueError("the greatest element is too great")
    return x / x.max()


try:
    guarded(x)
except NeedsValue as error:
    print(error)

# %% [markdown]
# ## Exercises
#
# 1. Make `x` 700 tokens long. What is the form of the attention kernel now, and what does its loop carry along?
# 2. Write `guarded` with `np.where`. How many kernels is it, and why not one?
# 3. Look at `plan.graph`. Which of its nodes are no work at all?
