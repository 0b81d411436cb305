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
# is computed again.


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
# Two kernels make a network with one hidden layer: a dense layer with its activation, and the cross-entropy of rows.
# Their adjoints make its backward. The task: points on three arms of a spiral, and which arm each one is on.


# %%
@pto.jit
def dense(x, w, b, y, HIDDEN: pto.constexpr, BM: pto.constexpr):
    i = pto.program_id(0) * BM
    t = pto.dot(x[i : i + BM, :], w[:, :]) + b[:]
    y[i : i + BM, :] = pto.tanh(t) if HIDDEN else t


@pto.jit
def cross_entropy(logits, labels, losses):
    row = pto.program_id(0)
    t = logits[row, :]
    m = pto.max(t)
    chosen = pto.sum(pto.where(pto.arange(0, t.shape[0]) == labels[row], t, 0.0))
    losses[row] = pto.log(pto.sum(pto.exp(t - m))) + m - chosen


dense_back = pto.adjoint(dense, wrt=["x", "w", "b"])
cross_entropy_back = pto.adjoint(cross_entropy, wrt=["logits"])


def spirals(count):
    """Points on three arms of a spiral, and the number of the arm."""
    labels = rng.integers(0, 3, count).astype(np.int32)
    radius = rng.random(count)
    angle = 4 * radius + labels * (2 * np.pi / 3) + 0.1 * rng.standard_normal(count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).astype(np.float32), labels


class Network:
    """2 inputs, 64 hidden numbers, 3 outputs; trained by gradient descent with momentum."""

    def __init__(self, rows, hidden=64):
        sizes = ((2, hidden), (hidden, 3))
        self.weights = [a for m, n in sizes for a in (rng.standard_normal((m, n), np.float32), np.zeros(n, np.float32))]
        self.weights[2] *= 0.2
        self.momentum = [np.zeros_like(a) for a in self.weights]
        self.gradients = [np.empty_like(a) for a in self.weights]
        self.hidden, self.d_hidden = np.empty((2, rows, hidden), np.float32)
        self.logits, self.d_logits = np.empty((2, rows, 3), np.float32)
        self.losses = np.empty(rows, np.float32)
        self.grid = pto.cdiv(rows, 64)

    def forward(self, x, labels):
        w1, b1, w2, b2 = self.weights
        dense[self.grid](x, w1, b1, self.hidden, HIDDEN=True, BM=64)
        dense[self.grid](self.hidden, w2, b2, self.logits, HIDDEN=False, BM=64)
        cross_entropy[len(x)](self.logits, labels, self.losses)
        return self.losses.mean()

    def backward(self, x, labels):
        w1, b1, w2, b2 = self.weights
        d_w1, d_b1, d_w2, d_b2 = self.gradients
        each = np.full(len(x), 1 / len(x), np.float32)
        cross_entropy_back[len(x)](self.logits, labels, self.losses, d_losses=each, d_logits=self.d_logits)
        given = {"d_y": self.d_logits, "d_x": self.d_hidden, "d_w": d_w2, "d_b": d_b2}
        dense_back[self.grid](self.hidden, w2, b2, self.logits, HIDDEN=False, BM=64, **given)
        given = {"d_y": self.d_hidden, "d_x": np.empty_like(x), "d_w": d_w1, "d_b": d_b1}
        dense_back[self.grid](x, w1, b1, self.hidden, HIDDEN=True, BM=64, **given)

    def step(self, rate=0.5):
        for a, v, g in zip(self.weights, self.momentum, self.gradients, strict=True):
            v[...] = 0.9 * v - 0.1 * rate * g
            a[...] = a + v


if __name__ == "__main__":
    points, labels = spirals(512)
    network = Network(len(points))
    for number in range(601):
        loss = network.forward(points, labels)
        network.backward(points, labels)
        network.step()
        if number % 200 == 0:
            right = (network.logits.argmax(1) == labels).mean()
            print(f"step {number:3d}: loss {loss:.3f}, {right:.1%} right")
    assert right > 0.95, right

# %% [markdown]
# ## Exercises
#
# 1. What does the backward of `cross_entropy` compute? Find `softmax - one hot` in its source.
# 2. Write `dense` with a loop over columns of `x`. Which gradients are now added up "load by load", and why?
# 3. Give `attention` a causal mask. What does its backward do with the blocks that the forward skips?
