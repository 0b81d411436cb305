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
# # 17 · A quantised operator, step by step
#
# Models in int8 quantise their activations while they run: before a product with int8 weights, every token gets a scale
# of its own. This tutorial writes that operator, from the formula to a row of the library:
#
# ```text
#    x  bf16 [t, d]          q  int8 [t, d]        y  bf16 [t, n]
#   ┌───────────────┐  max|x| ┌───────────────┐  @ w8  ┌─────────┐
#   │ token 0       │ ──────► │ round(x/s0)   │ ─────► │ · s0    │
#   │ token 1       │ ──────► │ round(x/s1)   │  int32 │ · s1    │  · scale of each column
#   │ …             │         │ …             │        │ …       │
#   └───────────────┘         └───────────────┘        └─────────┘
#                             s = max|x| / 127
# ```

# %%
from __future__ import annotations

import time

import ml_dtypes
import numpy as np

import pypto as pto
from pypto import library as lib

rng = np.random.default_rng(0)
x = rng.standard_normal((300, 1536), np.float32).astype(ml_dtypes.bfloat16)
x[7] = 0  # a token of zeros, as padding gives it
tokens, width = x.shape

# %% [markdown]
# ## The formula, in float64
#
# The reference says what is right, and nothing about how. A token of zeros has no scale by the formula: `127 / 0` is
# infinite, and `0 * inf` is NaN. So the edge case is part of the definition: its numbers and its scale are 0.


# %%
def reference(x):
    t = x.astype(np.float64)
    most = np.abs(t).max(axis=1, keepdims=True)
    q = np.rint(np.divide(127 * t, most, out=np.zeros_like(t), where=most > 0))
    return q, most[:, 0] / 127


right_q, right_scale = reference(x)

# %% [markdown]
# ## The kernel
#
# One program takes one token. What an operator library composes of a cast, an absolute value, a maximum over the row, a
# division, a product and two casts is one pass over the row here. `pto.label` names the steps for the profile.


# %%
@pto.jit
def quantise(x, q, scale):
    token = pto.program_id(0)
    with pto.label("load"):
        t = x[token, :].to(pto.float32)
    with pto.label("scale"):
        most = pto.max(pto.abs(t))
        up = pto.where(most > 0, 127 / most, 0.0)
    with pto.label("round"):
        q[token, :] = pto.rint(t * up).to(pto.int8)
    scale[token] = most / 127


q, scale = np.empty(x.shape, np.int8), np.empty(tokens, np.float32)
quantise[tokens](x, q, scale)
assert np.abs(q - right_q).max() <= 1
np.testing.assert_allclose(scale, right_scale, rtol=2.5e-5)
assert not q[7].any() and scale[7] == 0
print("largest error of what comes back:", np.abs(q * scale[:, None] - x.astype(np.float32)).max())

# %% [markdown]
# A difference of 1 in q is allowed: 127 / max|x| is rounded to float32 here, so a number that lies half-way between two
# integers may go to either side. Rounding is to even at halves, by `pto.rint`, as in numpy.
#
# The interpreter runs the same kernel program by program. It is the referee between kernel and compiler:

# %%
q_interpreted, scale_interpreted = np.empty_like(q), np.empty_like(scale)
pto.interpret(quantise)[8](x, q_interpreted, scale_interpreted)
assert (q_interpreted[:8] == q[:8]).all() and (scale_interpreted[:8] == scale[:8]).all()

# %% [markdown]
# ## Any number of tokens
#
# The number of tokens changes with every request. The kernel never asks for `x.shape[0]`, so one version serves all:

# %%
for count in (1, 5, 128, 299):
    quantise[count](x[:count], q[:count], scale[:count])
print(quantise.specializations)
assert len(quantise.specializations) <= 2  # an array of a single row has a stride of its own

# %% [markdown]
# ## A loop over tokens, and unroll lists
#
# A program may also take several tokens in a loop with run-time bounds. `pto.range(…, unroll=[8, 4])` makes three
# loops: one that does eight iterations at once, one for four, one for what is left. That gives the compiler eight
# independent rows to schedule. It pays where a core would wait else; here every row fills the vector units by
# itself, so measure:


# %%
@pto.jit
def quantise_some(x, q, scale, n, EACH: pto.constexpr, UNROLL: pto.constexpr):
    first = pto.program_id(0) * EACH
    for token in pto.range(first, min(first + EACH, n), unroll=UNROLL):
        t = x[token, :].to(pto.float32)
        most = pto.max(pto.abs(t))
        q[token, :] = pto.rint(t * pto.where(most > 0, 127 / most, 0.0)).to(pto.int8)
        scale[token] = most / 127


def seconds(call):
    call()
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


for unroll in ((), (8, 4)):
    q[:], scale[:] = 1, 1
    launch = lambda: quantise_some[pto.cdiv(tokens, 32)](x, q, scale, tokens, EACH=32, UNROLL=unroll)  # noqa: B023, E731
    print("unroll", unroll, f"{1e6 * seconds(launch):.0f} µs")
    assert np.abs(q - right_q).max() <= 1

# %% [markdown]
# ## The product
#
# The product of int8 is summed in int32, exactly. Scales of rows and columns come after the sum, in the same kernel:
# the int32 matrix never goes to memory. This is the row `w8a8_matmul` of the library.

# %%
weights = (rng.standard_normal((width, 256), np.float32) / np.sqrt(width)).astype(ml_dtypes.bfloat16)
q, scale = lib.quantize_per_token(x)
w8, column_scale = lib.quantize_per_channel(weights)
y = lib.w8a8_matmul(q, w8, scale, column_scale)
exact = x.astype(np.float64) @ weights.astype(np.float64)
error = np.linalg.norm(y.astype(np.float64) - exact) / np.linalg.norm(exact)
print(f"int8 instead of bfloat16 costs {error:.2%} of the result's norm")
assert error < 0.02

# %% [markdown]
# ## On an Ascend chip
#
# The same kernel compiles for an NPU. `pto.simulate` predicts its time on a chip that need not be there, and says which
# unit limits it; `with pto.device("ascend-sim")` would run it on the simulated device.

# %%
print(pto.simulate(quantise)[tokens](x, q, scale))

# %% [markdown]
# ## A row of the library
#
# With a signature, the reference and the launch, the kernel becomes an operator: arguments are checked before anything
# is written, and `check` compares it with the reference.


# %%
def launch_rows(x, q, scale):
    quantise[x.shape[0]](x, q, scale)


mine = lib.Operator(
    name="my_quantise",
    doc="Symmetric int8 quantisation with one scale per token",
    text="x[t, d] bf16|f32 -> q[t, d] i8, scale[t] f32",
    formula="`scale = max|x| / 127`, `q = round(x / scale)`",
    source="this tutorial",
    reference=reference,
    implementations=(lib.Implementation("tokens", launch_rows),),
    sizes={"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 7168}},
    edges={"zeros": lambda rng: {"x": np.zeros((2, 64), np.float32)}},
)
for platform in ("interpreter", "cpu"):
    for checked in mine.check(platform):
        print(platform, checked.case, checked.dtype, checked.errors)

# %% [markdown]
# ## Exercises
#
# 1. Give the kernel an argument `smooth`, one factor for each column, that x is multiplied with first. Which rows of
#    the library take it, too?
# 2. Quantise groups of 128 columns, each with a scale of its own: `pto.reshape` a row to `(d // 128, 128)`, take the
#    maximum along axis 1.
# 3. `pto.profile()` shows the parts `load`, `scale` and `round`. Which of them takes longest for 7168 columns?
