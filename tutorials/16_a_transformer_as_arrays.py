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
# # 16 · A transformer as arrays
#
# A small GPT, written as one would write it in numpy, becomes a plan of a dozen kernels. This tutorial looks at that
# plan from all sides: its graphs, its memory, its time, and each of its arrays beside numpy's.
#
# ```text
#   ids (batch, length)
#      │  a row of the table for each, and for its place
#      ▼
#   x (batch, length, width) ───────────────┐
#      │  norm · qkv · causal attention · out
#      ▼                                    │   for each layer
#   x ◄─────────────────────────────────────┤
#      │  norm · up · gelu · down           │
#      ▼                                    │
#   x ◄─────────────────────────────────────┘
#      │  norm · table, transposed
#      ▼
#   logits (batch, length, words)
# ```

# %%
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import pypto as pto
import pypto.arrays as pt
from pypto.arrays import Dim

LAYERS, HEADS, WIDTH, WORDS, LONGEST = 4, 4, 128, 512, 256


@dataclass
class Layer:
    norm: Any
    qkv: Any
    out: Any
    feed_norm: Any
    up: Any
    down: Any


@dataclass
class Model:
    words: Any
    places: Any
    order: Any  # 0, 1, 2, …
    layers: list[Layer]
    norm: Any


# %% [markdown]
# ## The network
#
# Arguments are dataclasses of arrays. `pypto.arrays` has what numpy lacks; all else is numpy. The mask of causal
# attention is a comparison of places.


# %%
def attend(x, layer, order):
    batch, length, width = x.shape
    qkv = pt.rms_norm(x, layer.norm) @ layer.qkv
    q, k, v = qkv.reshape(batch, length, 3, HEADS, width // HEADS).transpose(2, 0, 3, 1, 4)
    mixed = pt.attention(q, k, v, mask=order[:, None] >= order)
    return mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ layer.out


def feed(x, layer):
    return pt.gelu(pt.rms_norm(x, layer.feed_norm) @ layer.up) @ layer.down


def gpt(model, ids):
    length = ids.shape[1]
    x = model.words[ids] + model.places[:length]
    for layer in model.layers:
        x = x + attend(x, layer, model.order[:length])
        x = x + feed(x, layer)
    return pt.rms_norm(x, model.norm) @ model.words.T


rng = np.random.default_rng(0)


def weights(*shape):
    return rng.standard_normal(shape, np.float32) * np.float32(shape[0] ** -0.5)


def new_layer():
    norm, feed_norm = np.ones((2, WIDTH), np.float32)
    return Layer(norm, weights(WIDTH, 3 * WIDTH), weights(WIDTH, WIDTH), feed_norm, weights(WIDTH, 4 * WIDTH),
                 weights(4 * WIDTH, WIDTH))  # fmt: skip


model = Model(weights(WORDS, WIDTH), weights(LONGEST, WIDTH), np.arange(LONGEST, dtype=np.int32),
              [new_layer() for _ in range(LAYERS)], np.ones(WIDTH, np.float32))  # fmt: skip
ids = rng.integers(0, WORDS, (2, 48)).astype(np.int32)

fused = pto.fuse(gpt)
logits = fused(model, ids)
print("largest difference from numpy:", f"{np.abs(logits - gpt(model, ids)).max():.0e}")
assert np.abs(logits - gpt(model, ids)).max() < 1e-3

# %% [markdown]
# ## From arrays to kernels
#
# The function is traced once. Its hundred arrays are parted into groups, and each group is a kernel. The four layers
# have the same groups, so they share their kernels: the text of each is compiled once.

# %%
plan = fused.plan(model, ids)
computed = [node for node in plan.graph if node.op not in ("input", "constant")]
print(f"{len(computed)} arrays, {len(plan.steps)} steps, {len(plan.kernels)} kernels")
for kernel in plan.kernels:
    print(f"  {kernel.form:9} in {sum(step.kernel == kernel for step in plan.steps)} steps")

# %% [markdown]
# ## The whole plan
#
# At the end of a cell, a plan shows itself. On one side stands the function. On the other are the steps with the
# reasons for which arrays are stored, the execution graph, the Tensor graph, the arena and the kernels. A line of the
# function under the mouse lights what came of it, on every side. `plan.save("gpt.html")` writes the same as a file that
# needs nothing else.

# %%
plan

# %% [markdown]
# ## Its graphs
#
# In the **execution graph** a box is a step, and an arrow is an array that one step writes and another reads. Two
# arrows go into the steps that add to `x`: that is the residual. The mask is computed once, and read by every layer.

# %%
plan.drawing("execution")

# %% [markdown]
# In the **Tensor graph** a box is an array. A frame holds what one kernel computes, and its colour is the form of the
# kernel; what has a strong colour is a product, a reduction or a gather; what is dashed moves nothing. Weights stand
# where they are read. Look into a frame of attention: both products are there, and between them the scale, the mask and
# the softmax. Only what leaves a frame is stored.
#
# A picture is written as SVG, or as DOT for Graphviz.

# %%
tensor = plan.drawing("tensor")
attention = next(cluster for cluster in tensor.clusters if cluster.hue == "chain")
inside = [box.title for box in tensor.boxes if box.cluster == attention.name and box.kind != "view"]
print("one kernel:", ", ".join(inside))

# %% [markdown]
# ## Its memory
#
# Arrays between steps share one arena. Time runs to the right by steps, and the address upwards. The line is how much
# is alive; where it touches the top, no plan with these steps could do with less.

# %%
everything = sum(node.type.nbytes for node in computed)
print(f"{everything:,} bytes of arrays, {plan.arena_bytes:,} bytes of arena")
plan.drawing("arena")

# %% [markdown]
# ## Its time
#
# `profile` runs a function step by step. `times.timeline("gpt.json")` writes that for
# [Perfetto](https://ui.perfetto.dev): steps with the lines that they come from, arrows for arrays, and the arena as a
# counter.

# %%
times = fused.profile(model, ids)
longest = max(times.steps, key=lambda step: step.wall_ns)
print(f"the longest step is {longest.number}, a {longest.form} of {longest.lines.partition(':')[0]}")
times

# %% [markdown]
# ## Each array beside numpy's
#
# Where a result is wrong, the question is which array is the first one that is. `pto.verify` runs the plan step by step
# and computes each stored array with numpy as well, from what the step really read. Nothing differs here. Otherwise it
# is an error that names the array, the index, both values, the line and the kernel.

# %%
report = pto.verify(fused, model, ids)
print(report.head())
assert max(row.ulp for row in report.arrays if row.ulp is not None) < 100
report

# %% [markdown]
# ## One plan for all lengths
#
# Text grows token by token. With dimensions by name, one plan serves every batch and every length, and no kernel is
# compiled anew. Greedy generation then calls the same function again and again.

# %%
grown = pto.fuse(gpt, dims={"ids": (Dim("batch", 1, 8), Dim("length", 1, LONGEST, hint=64))})
text = ids[:1, :4]
for _ in range(12):
    following = grown(model, text)[:, -1].argmax(axis=-1)
    text = np.concatenate([text, following[:, None].astype(np.int32)], axis=1)
print("tokens:", " ".join(map(str, text[0])))
plans = {grown.plan(model, ids[:rows, :length]) for rows, length in ((1, 1), (1, 16), (2, 48))}
print(
    f"{len(plans)} plan,",
    sum(len(kernel.kernel.specializations) for kernel in plans.pop().kernels),
    "compiled versions",
)

# Causal attention: what numpy computes for the whole text has the choice after every token in it.
choices = gpt(model, text[:, :-1]).argmax(axis=-1)
assert (choices[:, 3:] == text[:, 4:]).all()

# %% [markdown]
# ## Exercises
#
# 1. Which line of `gpt` makes the array that lives longest? Find it in the picture of the arena.
# 2. Return the hidden state `x` beside the logits. Which step changes, and what does the arena lose?
# 3. Write `np.einsum` in place of the product with `layer.out`. Does the Tensor graph change? Do the kernels?
# 4. Read the kernel of attention in `plan.kernels`. What does it do with the rows of the mask?
