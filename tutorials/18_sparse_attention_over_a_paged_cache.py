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
# # 18 · Sparse attention over a paged cache
#
# A decoder with a long context reads its whole cache for every token that it writes. DeepSeek-V3.2 first asks, with
# short keys in int8, which rows matter, and then attends to these alone. This tutorial writes the three kernels of
# that:
#
# ```text
#                 q8 · key8, for every row          the k largest            attention, on these rows only
#   ┌─────────┐   ┌──────────────────────┐   ┌────────────────────┐   ┌───────────────────────────────┐
#   │  token  │ ─►│ lightning indexer    │ ─►│ top-k              │ ─►│ sparse flash attention        │─► out
#   └─────────┘   └──────────────────────┘   └────────────────────┘   └───────────────────────────────┘
#                   ▲ int8, 36 bytes a row     4 bytes a row            ▲ bf16, 320 bytes a row, k rows
#                 ┌─┴───────────────────────────────────────────────────┴─┐
#                 │  paged cache: pages of 32 rows, anywhere in memory    │◄── table: page of each sequence
#                 └───────────────────────────────────────────────────────┘
# ```

# %%
from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from clock import best_seconds
from pictures import points, squares

import pypto as pto
from pypto import library as lib

BF16 = ml_dtypes.bfloat16
HEADS, C, R = 16, 128, 32  # heads of the queries; a row of the cache: C numbers without a place, R with one
INDEX_HEADS, D = 8, 32  # the indexer's heads, and its width
PAGE, PAGES, KEPT = 32, 192, 256
rng = np.random.default_rng(0)

# %% [markdown]
# ## A cache in pages
#
# Sequences grow and end at any time, so no sequence gets one stretch of memory. The cache is cut into pages of 32
# rows, and a table names the pages of each sequence in order: row i of sequence b lies in page `table[b, i // 32]`, at
# `i % 32`.

# %%
lengths = np.array([2817, 1500, 9], np.int32)
table = np.zeros((3, 96), np.int32)
free = rng.permutation(PAGES)
used = -(-lengths // PAGE)
for b, (start, count) in enumerate(zip(np.cumsum(used) - used, used, strict=True)):
    table[b, :count] = free[start : start + count]

owner = np.zeros(PAGES, int)
for b, count in enumerate(used):
    owner[table[b, :count]] = b + 1
squares(owner.reshape(4, -1), "the pages of the cache: grey ones are free, each colour is a sequence", side=18)

# %% [markdown]
# The rows are random here, but not without a shape: each is about one of 24 topics, and the query of a sequence asks
# for one of them. What the indexer holds of a row is a projection of it to 32 numbers, in int8 with a scale. A trained
# model learns this projection; a random one keeps angles well enough for us.

# %%
topics = rng.standard_normal((24, C))
about = rng.integers(0, 24, (PAGES, PAGE))
keys = (topics[about] + 0.6 * rng.standard_normal((PAGES, PAGE, C))).astype(BF16)
rope = (0.3 * rng.standard_normal((PAGES, PAGE, R))).astype(BF16)
q_nope = (0.8 * topics[[3, 7, 11], None] + 0.3 * rng.standard_normal((3, HEADS, C))).astype(BF16)
q_rope = (0.3 * rng.standard_normal((3, HEADS, R))).astype(BF16)

projection = rng.standard_normal((C, D)) / math.sqrt(C)
key8, key_scale = lib.quantize_per_token((keys.reshape(-1, C) @ projection).astype(np.float32))
key8, key_scale = key8.reshape(PAGES, PAGE, D), key_scale.reshape(PAGES, PAGE)
q8, q_scale = lib.quantize_per_token((q_nope[:, :INDEX_HEADS].reshape(-1, C) @ projection).astype(np.float32))
q8, q_scale = q8.reshape(3, INDEX_HEADS, D), q_scale.reshape(3, INDEX_HEADS)
weights = rng.random((3, INDEX_HEADS), np.float32) / INDEX_HEADS

# %% [markdown]
# ## The lightning indexer
#
# The score of a row is a sum over the indexer's heads: `sum of weight · relu(q · key)`. One program takes one page of
# one sequence. It reads the table to learn where the page lies, and then 32 rows in one stretch. The product of int8 is
# exact, in int32. Programs for pages behind the end of a sequence do nothing.


# %%
@pto.jit
def index_scores(q, q_scale, keys, key_scale, weights, lengths, table: pto.dynamic, scores):
    p, b = pto.program_id(0), pto.program_id(1)
    rows = keys.shape[1]
    if p * rows < lengths[b]:
        page = table[b, p]
        product = pto.dot(q[b, :, :], pto.trans(keys[page, :, :])).to(pto.float32)
        per_head = pto.maximum(product, 0.0) * (q_scale[b, :] * weights[b, :])[:, None]
        scores[b, p * rows : p * rows + rows] = pto.sum(per_head, axis=0) * key_scale[page, :]


scores = np.zeros((3, table.shape[1] * PAGE), np.float32)
index_scores[table.shape[1], 3](q8, q_scale, key8, key_scale, weights, lengths, table, scores)


def rows_of(cache, b):
    """The rows of a sequence in order, in float64."""
    return cache[table[b]].reshape(-1, *cache.shape[2:])[: lengths[b]].astype(np.float64)


for b, length in enumerate(lengths):
    right = np.maximum(q8[b].astype(np.float64) @ rows_of(key8, b).T, 0) * (q_scale[b] * weights[b])[:, None]
    np.testing.assert_allclose(scores[b, :length], right.sum(0) * rows_of(key_scale, b), rtol=1e-5)
print("scores: right")

# %% [markdown]
# ## The k largest
#
# Attention is a sum, so the order of the chosen rows is open: a set is enough, and no sort is needed. The set is known
# once the k-th largest score is. A float32 whose bits are read as an integer keeps its order where it is not negative,
# and these scores are not. So one program per sequence finds the bits of the k-th largest one by one, from the top: a
# bit is 1 if at least k scores are still as large.
#
# Then rows are listed in one pass. `cumsum` over a block says how many before each are chosen, and that is its place
# in the list. Of equal scores the first ones get the places that are left.


# %%
@pto.jit
def choose(scores, lengths, chosen, K: pto.constexpr, BLOCK: pto.constexpr):
    b = pto.program_id(0)
    n = lengths[b]
    need = min(n, K)
    least = 0
    for bit in range(30, -1, -1):
        tried = least | (1 << bit)
        count = 0
        for j in range(0, n, BLOCK):
            bits = pto.bitcast(scores[b, j : j + BLOCK], pto.int32)
            count += pto.sum(((bits >= tried) & (j + pto.arange(0, BLOCK) < n)).to(pto.int32))
        if count >= need:
            least = tried
    above = 0
    for j in range(0, n, BLOCK):
        bits = pto.bitcast(scores[b, j : j + BLOCK], pto.int32)
        above += pto.sum(((bits > least) & (j + pto.arange(0, BLOCK) < n)).to(pto.int32))
    listed, equal = 0, 0
    for j in range(0, n, BLOCK):
        rows = j + pto.arange(0, BLOCK)
        bits = pto.bitcast(scores[b, j : j + BLOCK], pto.int32)
        same = (bits == least) & (rows < n)
        rank = equal + pto.cumsum(same.to(pto.int32))
        takes = ((bits > least) & (rows < n)) | (same & (rank <= need - above))
        places = listed + pto.cumsum(takes.to(pto.int32)) - 1
        pto.store(chosen + b * K + places, rows.to(pto.int32), mask=takes)
        listed += pto.sum(takes.to(pto.int32))
        equal += pto.sum(same.to(pto.int32))


chosen = np.full((3, KEPT), -1, np.int32)
choose[3](scores, lengths, chosen, K=KEPT, BLOCK=256)
for b, length in enumerate(lengths):
    right = np.argsort(-scores[b, :length], kind="stable")[:KEPT]
    assert set(chosen[b, : len(right)]) == set(right)
    assert (chosen[b, len(right) :] == -1).all()  # a sequence of 9 rows has no 256
print("chosen rows: right")

# %% [markdown]
# In the picture, the red points are about the topic that the query asks for. The kernel chose what lies above the
# dashed line. It knew nothing of topics, only of 32 numbers in int8 for each row.

# %%
of_first = about[table[0]].reshape(-1)[: lengths[0]]
least = scores[0, chosen[0]].min()
points(scores[0, : lengths[0]], np.where(of_first == 3, 3, 1), least, "scores of the rows of sequence 0")

# %% [markdown]
# And this is where the chosen rows lie in the cache. Each column is a page, each square a row.

# %%
kinds = np.where(owner[:, None] > 0, 1, 0).repeat(PAGE, axis=1)
kinds[table[0, chosen[0] // PAGE], chosen[0] % PAGE] = 3
kinds[table[1, chosen[1] // PAGE], chosen[1] % PAGE] = 4
squares(kinds[:96].T, "half of the cache: red and yellow are the rows that the sequences 0 and 1 attend to", side=8)

# %% [markdown]
# ## Attention on chosen rows
#
# The last kernel is flash attention (tutorial 05) whose blocks of keys are gathered: an index for each row of the
# block, through the table, in place of a slice. The values are the first C columns of the keys, as in latent attention,
# so a row is read once. `pto.load` of a matrix of pointers is the gather. The mask is for a sequence with fewer rows
# than a block.


# %%
@pto.jit
def sparse_attention(
    q_nope, q_rope, keys: pto.dynamic, rope: pto.dynamic, chosen, table: pto.dynamic, lengths, out, unit,
    K: pto.constexpr, PAGE: pto.constexpr, BLOCK: pto.constexpr,
):  # fmt: skip
    b = pto.program_id(0)
    H, C, R = q_nope.shape[1], q_nope.shape[2], q_rope.shape[2]
    count = min(lengths[b], K)
    nope, turned = q_nope[b, :, :], q_rope[b, :, :]
    m = pto.full((H,), -math.inf, pto.float32)
    total = pto.zeros((H,), pto.float32)
    acc = pto.zeros((H, C), pto.float32)
    for j in range(0, count, BLOCK):
        with pto.label("gather"):
            numbers = j + pto.arange(0, BLOCK)
            seen = numbers < count
            row = pto.load(chosen + b * K + numbers, mask=seen, other=0)
            page = pto.load(table + b * table.strides[0] + row // PAGE, mask=seen, other=0).to(pto.int64)
            at = page * PAGE + row % PAGE
            v = pto.load(keys + at[:, None] * C + pto.arange(0, C)[None, :], mask=seen[:, None], other=0)
            k = pto.load(rope + at[:, None] * R + pto.arange(0, R)[None, :], mask=seen[:, None], other=0)
        with pto.label("scores"):
            s = pto.dot(turned, pto.trans(k), pto.dot(nope, pto.trans(v))) * unit
        with pto.label("softmax"):
            s = pto.where(seen[None, :], s, -math.inf)
            new = pto.maximum(m, pto.max(s, axis=1))
            weight = pto.exp2(s - new[:, None])
            scale = pto.exp2(m - new)
            total = total * scale + pto.sum(weight, axis=1)
            m = new
        with pto.label("values"):
            acc = pto.dot(weight.to(v.dtype), v, acc * scale[:, None])
    out[b, :, :] = (acc / pto.where(total > 0, total, 1.0)[:, None]).to(out.dtype)


UNIT = math.log2(math.e) / math.sqrt(C + R)  # exp2 of scores in units of log 2 is the exp of softmax
out = np.empty((3, HEADS, C), BF16)
sizes = {"K": KEPT, "PAGE": PAGE, "BLOCK": 64}
sparse_attention[3](q_nope, q_rope, keys, rope, chosen, table, lengths, out, UNIT, **sizes)


def reference(b, rows):
    """Attention of sequence b on some of its rows, in float64."""
    values = rows_of(keys, b)[rows]
    s = (
        np.concatenate([q_nope[b], q_rope[b]], 1).astype(np.float64)
        @ np.concatenate([values, rows_of(rope, b)[rows]], 1).T
        / math.sqrt(C + R)
    )
    e = np.exp(s - s.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True) @ values


for b in range(3):
    rows = chosen[b][chosen[b] >= 0]
    np.testing.assert_allclose(out[b].astype(np.float64), reference(b, rows), rtol=2e-2, atol=2e-2)
print("attention: right")

# %% [markdown]
# A new sequence has no rows yet. Then the loop does not run and the sum is 0, and what is divided by is 1: the result
# is 0, not NaN.

# %%
no_rows = np.array([0, 1, 0], np.int32)
sparse_attention[3](q_nope, q_rope, keys, rope, chosen, table, no_rows, out, UNIT, **sizes)
assert not out[0].any() and not out[2].any() and out[1].any()

# %% [markdown]
# ## What is lost
#
# How far is the result from attention to all rows?


# %%
def error(b, k):
    """The part of the norm that is lost when sequence b attends to its k best rows."""
    best = np.argsort(-scores[b, : lengths[b]], kind="stable")[:k]
    full = reference(b, np.arange(lengths[b]))
    return np.linalg.norm(reference(b, best) - full) / np.linalg.norm(full)


for k in (32, 64, 128, 256, 512):
    print(f"{k:4} of {lengths[0]} rows ({k / lengths[0]:4.0%}): {error(0, k):6.1%} of the result's norm")
assert error(0, KEPT) < 0.05

# %% [markdown]
# ## What it costs
#
# `pto.profile` shows the labels of the kernel. Half of the time goes to the two products, and a sixth to the gather.

# %%
lengths_long = np.full(3, 2817, np.int32)
table_long = np.stack([rng.permutation(PAGES)[:96] for _ in range(3)]).astype(np.int32)
with pto.profile() as prof:
    for _ in range(20):
        sparse_attention[3](q_nope, q_rope, keys, rope, chosen, table_long, lengths_long, out, UNIT, **sizes)
print("labels:", ", ".join(row.label for row in prof.rows if row.level == "label"))
prof

# %% [markdown]
# The time depends on how many rows are kept, and not on how long the sequence is. That is the point of it:


# %%
def attend(k, length):
    """A launch that attends to k rows of sequences of a length."""
    among = np.stack([rng.permutation(length)[:k] for _ in range(3)]).astype(np.int32)
    long = np.full(3, length, np.int32)
    more = sizes | {"K": k}
    return lambda: sparse_attention[3](q_nope, q_rope, keys, rope, among, table_long, long, out, UNIT, **more)


calls = {(k, length): attend(k, length) for k, length in ((256, 1024), (256, 3072), (1024, 3072), (3072, 3072))}
for (k, length), took in best_seconds(calls).items():
    print(f"{k:5} of {length} rows: {1e6 * took:6.0f} µs")

# %% [markdown]
# ## One version for all lengths
#
# Lengths are read from an array, and no kernel asks how many pages there are. So a cache that grows compiles nothing.

# %%
before = len(index_scores.specializations)
grown = np.concatenate([key8, key8]), np.concatenate([key_scale, key_scale])
index_scores[table.shape[1], 3](q8, q_scale, *grown, weights, lengths, table, scores)
print(f"{len(index_scores.specializations) - before} new versions")
assert len(index_scores.specializations) == before

# %% [markdown]
# ## On an Ascend chip
#
# The same kernels compile for an NPU. `pto.simulate` predicts the time of a launch on a chip that need not be there,
# and says which unit limits it. `with pto.device("ascend-sim")` would run it on the simulated device.

# %%
print(pto.simulate(sparse_attention)[3](q_nope, q_rope, keys, rope, chosen, table, lengths, out, UNIT, **sizes))

# %% [markdown]
# ## The rows of the library
#
# `lib.lightning_indexer` is the first two kernels, with the numbers of DeepSeek-V3.2: float16 between the steps,
# several new tokens for each sequence, and a faster choice of 2048 from 128 k. `lib.sparse_attention` is the third one,
# and `lib.sparse_attention_quant` the same on a cache of int8.

# %%
indices = lib.lightning_indexer(
    q8[:, None], q_scale[:, None].astype(np.float16), key8, key_scale.astype(np.float16),
    weights[:, None].astype(np.float16), lengths, table, k=KEPT,
)  # fmt: skip
same = len(np.intersect1d(indices[0, 0], chosen[0]))
print(f"{same} of {KEPT} rows are those of the library")
assert same > 0.95 * KEPT
theirs = lib.sparse_attention(q_nope, q_rope, keys, rope, chosen, table, lengths)
sparse_attention[3](q_nope, q_rope, keys, rope, chosen, table, lengths, out, UNIT, **sizes)
np.testing.assert_allclose(out.astype(np.float32), theirs.astype(np.float32), rtol=2e-2, atol=2e-2)

# %% [markdown]
# ## Exercises
#
# 1. Let `sparse_attention` take two tokens of each sequence, the second of which sees one row more. `lengths` has the
#    length with both.
# 2. Sort the chosen rows by their places in the cache before they are read. Does the gather become faster? Why not?
# 3. With few sequences, few cores work. Split the chosen rows into four parts with a program each, and join the parts
#    in a second kernel, by their maxima and sums.
# 4. `choose` reads the scores 31 times. `pto.histogram` of the upper bits finds eleven of them at once: how many passes
#    are left?
