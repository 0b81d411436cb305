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
# # 04 · Layer norm, forward and backward
#
# Layer norm brings every row of a matrix to mean 0 and variance 1, then scales and shifts the columns by learnt
# weights. The forward pass is a row kernel like softmax. The backward pass needs sums along the rows **and** along the
# columns, which is a new problem: programs that run at the same time have to add to the same numbers.
#
# For a row `x` of `n` elements:
#
# ```text
#   forward    mean = Σ x / n
#              rstd = 1 / sqrt(Σ (x - mean)² / n + eps)
#              x̂    = (x - mean) · rstd
#              y    = x̂ · weight + bias
# ```

# %%
from __future__ import annotations

import numpy as np
from clock import compare

import pypto as pto

EPS = 1e-5

# %% [markdown]
# ## Forward
#
# The row is read once; mean and variance are taken from the tile. (The variance of the centred row, and not
# `Σ x² / n - mean²`, which loses all its digits when the mean is large.) `mean` and `rstd` of every row are kept for
# the backward pass: two arrays of shape `(m,)`, written one number per program. `weight[:]` is a tile of shape `(n,)`.


# %%
@pto.jit
def forward(x, weight, bias, y, mean, rstd, eps):
    row = pto.program_id(0)
    t = x[row, :]
    n = x.shape[1]
    average = pto.sum(t) / n
    centred = t - average
    scale = 1 / pto.sqrt(pto.sum(centred * centred) / n + eps)
    y[row, :] = centred * scale * weight[:] + bias[:]
    mean[row] = average
    rstd[row] = scale


def layer_norm(x, weight, bias, out, eps=EPS, mean=None, rstd=None):
    """out = layer norm of the rows of x, shape (m, n); gives the mean and rstd of each row, shape (m,)."""
    mean = np.empty(x.shape[0], np.float32) if mean is None else mean
    rstd = np.empty(x.shape[0], np.float32) if rstd is None else rstd
    forward[(x.shape[0],)](x, weight, bias, out, mean, rstd, eps)
    return mean, rstd


# %%
def forward_numpy(x, weight, bias, eps=EPS):
    """Layer norm of the rows of x, in the dtype of x."""
    centred = x - x.mean(axis=1, keepdims=True)
    variance = (centred * centred).mean(axis=1, keepdims=True)
    return centred / np.sqrt(variance + x.dtype.type(eps)) * weight + bias


def report(what, actual, expected, allowed):
    """Print the largest difference; AssertionError if it is more than allowed."""
    difference = np.abs(actual - expected).max()
    assert difference <= allowed, f"{what}: {difference}"
    print(f"{what}: largest difference from numpy in float64: {difference:.1e}, allowed {allowed:.0e}")


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    m, n = 1151, 1000
    x = rng.normal(2, 3, (m, n)).astype(np.float32)
    weight, bias = rng.standard_normal((2, n), np.float32)
    y = np.empty_like(x)
    mean, rstd = layer_norm(x, weight, bias, y)
    wide = [array.astype(np.float64) for array in (x, weight, bias)]
    report("forward", y, forward_numpy(*wide), 1e-5)

# %% [markdown]
# ## Backward
#
# Given `dy`, the gradient of some loss by `y`, wanted are the gradients by `x`, `weight` and `bias`. With
# `g = dy · weight`, the chain rule gives:
#
# ```text
#   dx      = (g - mean of g - x̂ · mean of (g · x̂)) · rstd        along a row: shape (m, n)
#   dweight = Σ over rows of dy · x̂                              down the columns: shape (n,)
#   dbias   = Σ over rows of dy                                  down the columns: shape (n,)
# ```
#
# `dx` is another row kernel. For the sums down the columns, every program takes `ROWS` rows in a loop, and carries two
# tiles of sums along; in the end it writes them to a row of its own. Nobody waits for anybody. A second, small kernel
# adds up the few rows of `partial`:
#
# ```text
#        dy, x (m, n)                      partial (2, p, n)                     dweight, dbias (n,)
#    ┌───────────────────┐
#    │ program 0, ROWS   │ ──▶ dx        ┌───────────────────┐
#    ├───────────────────┤               │ row of program 0  │     │ sum over
#    │ program 1, ROWS   │ ──▶ dx   ──▶  │ row of program 1  │     │ programs     ┌───────────────────┐
#    ├───────────────────┤               │ row of program 2  │     ▼         ──▶  │                   │
#    │ program 2, rest   │ ──▶ dx        └───────────────────┘                    └───────────────────┘
#    └───────────────────┘
# ```
#
# The loop's bounds are run-time values, and the tiles `dw` and `db` are changed in it like any Python variable.


# %%
@pto.jit
def backward(x, weight, mean, rstd, dy, dx, partial, ROWS: pto.constexpr):
    program = pto.program_id(0)
    n = x.shape[1]
    w = weight[:]
    dw = pto.zeros((n,), pto.float32)
    db = pto.zeros((n,), pto.float32)
    for row in range(program * ROWS, min(program * ROWS + ROWS, x.shape[0])):
        grad = dy[row, :]
        scale = rstd[row]
        normal = (x[row, :] - mean[row]) * scale
        g = grad * w
        dx[row, :] = (g - pto.sum(g) / n - normal * (pto.sum(g * normal) / n)) * scale
        dw += grad * normal
        db += grad
    partial[0, program, :] = dw
    partial[1, program, :] = db


@pto.jit
def add_rows(partial, dweight, dbias, BLOCK: pto.constexpr):
    j = pto.program_id(0) * BLOCK
    dw = pto.zeros((BLOCK,), pto.float32)
    db = pto.zeros((BLOCK,), pto.float32)
    for row in range(partial.shape[1]):
        dw += partial[0, row, j : j + BLOCK]
        db += partial[1, row, j : j + BLOCK]
    dweight[j : j + BLOCK] = dw
    dbias[j : j + BLOCK] = db


def layer_norm_backward(x, weight, mean, rstd, dy, dx):
    """Writes dx, shape (m, n); gives dweight and dbias, shape (n,)."""
    m, n = x.shape
    rows = 64
    programs = pto.cdiv(m, rows)
    partial = np.empty((2, programs, n), np.float32)
    dweight, dbias = np.empty((2, n), np.float32)
    backward[(programs,)](x, weight, mean, rstd, dy, dx, partial, ROWS=rows)
    add_rows[(pto.cdiv(n, 256),)](partial, dweight, dbias, BLOCK=256)
    return dweight, dbias


# %%
def backward_numpy(x, weight, dy, eps=EPS):
    """dx, dweight and dbias, in the dtype of x."""
    centred = x - x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt((centred * centred).mean(axis=1, keepdims=True) + x.dtype.type(eps))
    normal = centred * rstd
    g = dy * weight
    dx = (g - g.mean(axis=1, keepdims=True) - normal * (g * normal).mean(axis=1, keepdims=True)) * rstd
    return dx, (dy * normal).sum(axis=0), dy.sum(axis=0)


# %% [markdown]
# ## The check
#
# Two of them. The kernels have to agree with numpy in float64; `dweight` is a sum of 1151 terms, so its error is
# larger than that of `dx`. And the formulas have to be right at all: going a small step `h` along some direction
# changes the loss `Σ y · dy` as the gradients say, which needs nothing but the forward pass.

# %%
if __name__ == "__main__":
    dy = rng.standard_normal((m, n), np.float32)
    dx = np.empty_like(x)
    dweight, dbias = layer_norm_backward(x, weight, mean, rstd, dy, dx)
    expected = backward_numpy(wide[0], wide[1], dy.astype(np.float64))
    for what, got, want, allowed in zip(
        ("dx", "dweight", "dbias"), (dx, dweight, dbias), expected, (1e-5, 1e-4, 1e-4), strict=True
    ):
        report(what, got, want, allowed)

    steps = [rng.standard_normal(array.shape) for array in wide]
    h = 1e-5
    ahead, behind = ([a + sign * h * s for a, s in zip(wide, steps, strict=True)] for sign in (1, -1))
    slope = ((forward_numpy(*ahead) - forward_numpy(*behind)) * dy).sum() / (2 * h)
    claimed = sum((g * s).sum() for g, s in zip((dx, dweight, dbias), steps, strict=True))
    assert abs(slope - claimed) <= 1e-4 * abs(slope), (slope, claimed)
    print(f"slope of the loss: {slope:.4f} by the forward pass, {claimed:.4f} by the gradients")

# %% [markdown]
# ## How fast?
#
# Forward moves 8 bytes per element, backward 12; the sums down the columns stay in the cache.

# %%
if __name__ == "__main__":
    x, dy = rng.standard_normal((2, 4096, 1024), np.float32)
    weight, bias = rng.standard_normal((2, 1024), np.float32)
    y, dx = np.empty_like(x), np.empty_like(x)
    mean, rstd = layer_norm(x, weight, bias, y)
    functions = {
        "pypto": lambda: layer_norm(x, weight, bias, y, EPS, mean, rstd),
        "numpy": lambda: forward_numpy(x, weight, bias),
    }
    compare("forward, 4096 rows of 1024", functions, 2 * x.nbytes, "B")
    functions = {
        "pypto": lambda: layer_norm_backward(x, weight, mean, rstd, dy, dx),
        "numpy": lambda: backward_numpy(x, weight, dy),
    }
    compare("backward, 4096 rows of 1024", functions, 3 * x.nbytes, "B")

# %% [markdown]
# ## Exercises
#
# 1. RMS norm leaves out the mean and the bias: `y = x / sqrt(Σ x² / n + eps) · weight`. Write it, forward and backward.
# 2. `backward` goes over `ROWS` = 64 rows. What speaks for more, what for fewer? Try 4 and 1024.
# 3. Write `forward` in Triton style, for any `n`: a masked tile of `pto.next_power_of_2(n)` elements. Where does the
#    mask have to come in a second time, and what goes wrong without it?
