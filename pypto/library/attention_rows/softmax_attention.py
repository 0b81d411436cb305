"""Rows of softmax attention over whole sequences and over paged caches."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16, float32
from pypto.library.conditions import PAGED
from pypto.library.gradients import attention as gradients
from pypto.library.gradients import caches
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import attention as kernels
from pypto.library.kernels.attention.masked import masked_attention
from pypto.library.row import Implementation, Operator, f64

SMALL: Final = {"b": 2, "h": 4, "g": 2, "n": 40, "m": 70, "d": 32, "e": 32}


def softmax(s: Any) -> Any:
    """Computes the softmax of the last axis; rows in which every score is minus infinity give zeros."""
    most = s.max(axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(s - np.where(np.isfinite(most), most, 0))
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1)


def attention(  # noqa: PLR0913, PLR0917
    q: Any, k: Any, v: Any, scale: float, causal: int, bias: Any = None, mask: Any = None, first: Any = None,
    sinks: Any = None, window: int = 0, softcap: float = 0.0,
) -> Any:  # fmt: skip
    """Reference implementation of `attention` in numpy."""
    b, h, n, d = q.shape
    g, m = k.shape[1:3]
    queries = f64(q).reshape(b, g, h // g, n, d)  # query heads that share a key head are adjacent
    s = (queries @ f64(k)[:, :, None].swapaxes(3, 4) * (scale or 1 / math.sqrt(d))).reshape(b, h, n, m)
    if softcap:
        s = softcap * np.tanh(s / softcap)
    s = s if bias is None else s + f64(bias)
    seen = np.ones((b, h, n, m), bool) if mask is None else np.broadcast_to(np.asarray(mask) != 0, (b, h, n, m))
    distance = np.arange(n)[:, None] + (m - n) - np.arange(m)
    seen = seen & (distance >= 0 if causal else True) & (distance < window if window else True)
    if first is not None:
        seen = seen & (np.arange(m) >= np.asarray(first)[:, None, None, None])
    s = np.where(seen, s, -np.inf)
    if sinks is not None:
        s = np.concatenate([s, np.broadcast_to(f64(sinks)[:, None, None], (b, h, n, 1))], axis=3)
    weights = softmax(s)[..., :m].reshape(b, g, h // g, n, m)
    return (weights @ f64(v)[:, :, None]).reshape(b, h, n, -1)


def gathered(cache: Any, table: Any, length: int) -> Any:
    """Returns the first rows of a sequence's pages, in order."""
    filled = table[: -(-length // cache.shape[1])]
    return f64(cache[filled]).reshape(-1, *cache.shape[2:])[:length]


def paged_attention(q: Any, keys: Any, values: Any, table: Any, lengths: Any, scale: float, splits: int) -> Any:
    """Reference implementation of `paged_attention` in numpy."""
    result = np.zeros((*q.shape[:2], values.shape[3]))
    for b, length in enumerate(lengths):
        k, v = (gathered(x, table[b], length)[None].swapaxes(1, 2) for x in (keys, values))
        result[b] = attention(q[b][None, :, None], k, v, scale, 0)[0, :, 0]
    return result


def pages(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples pages in random order, and lengths of all kinds; the last is full."""
    table = rng.permutation(n.pages)[: n.b * n.p].reshape(n.b, n.p).astype(np.int32)
    lengths = rng.integers(1, n.p * n.page + 1, n.b).astype(np.int32)
    lengths[-1] = n.p * n.page
    return {"table": table, "lengths": lengths}


def short(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a sequence without rows and one with a single row; all rows behind them are NaN."""
    keys, values = rng.standard_normal((2, 6, 16, 1, 32), np.float32)
    table = np.array([[3, 1], [0, 2], [4, 5]], np.int32)
    values[3] = values[0, 1:] = values[4, 2:] = np.nan
    values[1] = values[2] = values[5] = np.nan
    lengths = np.array([0, 1, 2], np.int32)
    q = rng.standard_normal((3, 2, 32), np.float32)
    arrays = {"q": q, "keys": keys, "values": values}
    return {k: x.astype(bfloat16.numpy) for k, x in arrays.items()} | {"table": table, "lengths": lengths}


def few_keys(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: causal attention with more queries than keys, so that the first queries see none."""
    n = SimpleNamespace(**SMALL)
    q = rng.standard_normal((1, 2, n.n, n.d), np.float32)
    k, v = rng.standard_normal((2, 1, 1, 13, n.d), np.float32)
    return {"q": q, "k": k, "v": v, "causal": 1}


def masked(rng: np.random.Generator, dtype: DType = float32, **more: Any) -> dict[str, Any]:
    """Samples arguments of odd sizes, with groups of heads and more keys than queries."""
    sizes = {"q": (2, 4, 9, 16), "k": (2, 2, 150, 16), "v": (2, 2, 150, 24)}
    arrays = {name: rng.standard_normal(size, np.float32).astype(dtype.numpy) for name, size in sizes.items()}
    return {**arrays, **more}


def biased(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a bias for each query and head, which hides some keys."""
    bias = rng.standard_normal((1, 4, 9, 150), np.float32)
    return masked(rng, bias=np.where(bias > 1, np.float32(-np.inf), bias))


def shared(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a mask of keys that all queries and heads share, and one query head that sees no key."""
    mask = rng.random((2, 1, 1, 150)) < 0.5
    mask[1] = False
    return masked(rng, mask=mask, bias=rng.standard_normal((2, 4, 1, 150), np.float32))


def padded(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: causal attention with padding on the left, of which one sequence has nothing else."""
    return masked(rng, causal=1, first=np.array([131, 150], np.int32))


def windowed(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a sliding window with sinks."""
    return masked(rng, causal=1, window=20, sinks=rng.standard_normal(4, np.float32))


def capped(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: capped scores, with a mask for each query and all else."""
    mask = rng.random((2, 4, 9, 150)) < 0.7
    more = {"window": 90, "first": np.array([0, 60], np.int32), "sinks": rng.standard_normal(4, np.float32)}
    return masked(rng, bfloat16, mask=mask, softcap=3.0, causal=1, **more)


def causal(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples arguments for the causal mask."""
    return {"causal": 1, "first": None, "sinks": None}


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch; its causal mode needs as many queries as keys, so others pass a mask."""
    n, m = v.q.shape[2], v.k.shape[2]
    mask = torch.ones(n, m, dtype=torch.bool).tril(m - n) if 1 < n != m else None
    return torch.nn.functional.scaled_dot_product_attention(
        v.q, v.k, v.v, attn_mask=mask, is_causal=1 < n == m, enable_gqa=True
    )


def paged_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, which has no paged attention: the pages are gathered first."""
    results = []
    for b, length in enumerate(v.lengths.tolist()):
        k, values = (x[v.table[b].long()].flatten(0, 1)[None, :length].transpose(1, 2) for x in (v.keys, v.values))
        one = torch.nn.functional.scaled_dot_product_attention(v.q[b][None, :, None], k, values, enable_gqa=True)
        results.append(one[0, :, 0])
    return torch.stack(results)


ROWS: Final = (
    Operator(
        name="attention",
        doc="Attention of queries on keys and values, with groups of heads and a causal mask",
        text="q[b..., h, n, d] bf16|f16|f32, k[b..., g, m, d], v[b..., g, m, e], scale=0.0, causal=0, "
        "bias[B, H, N, m]? bf16|f16|f32, mask[C, I, O, m]? i1|u8, first[b...]? i32, sinks[h]? bf16|f16|f32, window=0, "
        "softcap=0.0 -> out[b..., h, n, e] where h % g == 0, 1 <= d, 0 <= window, B == 1 or B == b, H == 1 or H == h, "
        "N == 1 or N == n, C == 1 or C == b, I == 1 or I == h, O == 1 or O == n, any(mask), 0 <= first <= m",
        formula="`out = softmax(q @ k.T * scale) @ v`, with `scale = 1/sqrt(d)` where it is 0. Each head of keys serves"
        " `h/g` heads of queries. With `causal`, query i sees keys up to `i + m - n`, with `window` the last `window` "
        "of those. Scores are capped to `softcap * tanh(s / softcap)`, then `bias` is added. Keys where `mask` is 0 "
        "are not seen, nor those that stand in front of `first[b]`, which are padding. `sinks[h]` is a score in the "
        "sum of weights that has no value. Softmax in float32 and one pass; weights are rounded to the dtype of the "
        "values before they are divided by their sum. A query that sees no key "
        "gives 0. Where q has several leading dimensions, `bias` and `mask` have one, as large as all together, or 1.",
        source="Dao and others, FlashAttention, 2022",
        reference=attention,
        implementations=(Implementation("flash", masked_attention),),
        sizes={"small": SMALL, "model": {"b": 1, "h": 16, "g": 4, "n": 2048, "m": 2048, "d": 128, "e": 128}},
        sampler=causal,
        edges={
            "more queries than keys": few_keys,
            "biased": biased,
            "shared mask": shared,
            "padded": padded,
            "windowed": windowed,
            "capped": capped,
        },
        flops=lambda n: 2.0 * n.b * n.h * n.n * n.m * (n.d + n.e),
        peer=by_torch,
        limited="torch has a flash attention of its own, which is nearly as fast.",
        gradient=gradients.attention,
    ),
    Operator(
        name="paged_attention",
        doc="Attention of one query per sequence on a paged cache, split along the cache",
        text="q[b..., h, d] bf16|f16|f32, keys[pages, page, g, d], values[pages, page, g, e], table[b..., p] i32, "
        f"lengths[b...] i32, scale=0.0, splits=8 -> out[b..., h, e] where "
        f"h % g == 0, 1 <= splits, 1 <= d, {PAGED}, contiguous_rows(keys, values)",
        formula="Row i of sequence b lies in page `table[b, i // page]`, at `i % page`. `out = softmax(q @ keys.T * "
        "scale) @ values` over the first `lengths[b]` rows, with `scale = 1/sqrt(d)` where it is 0. Each part of the "
        "pages has its maximum and sum, and a second kernel joins them. The version "
        "`pages` reads a page once for all heads. A sequence of length 0 gives 0.",
        source="Kwon and others, PagedAttention, 2023; Flash-Decoding",
        reference=paged_attention,
        implementations=(
            Implementation("pages", kernels.paged_attention_by_pages, platforms=("cpu",)),
            Implementation("split", kernels.paged_attention),
        ),
        sizes={
            "small": {"b": 3, "h": 4, "g": 2, "d": 32, "e": 32, "pages": 20, "page": 16, "p": 5},
            "model": {"b": 1, "h": 32, "g": 8, "d": 128, "e": 128, "pages": 512, "page": 128, "p": 512},
        },
        sampler=pages,
        edges={"short": short},
        flops=lambda n: 2.0 * n.b * n.h * n.p * n.page * (n.d + n.e),
        bytes=lambda n: 2.0 * n.b * n.g * n.p * n.page * (n.d + n.e),
        peer=paged_by_torch,
        limited="a quarter to a half of the rate at which the machine reads memory, by the machine. In caches, it "
        "takes 1.4 times as long as reading memory in order would; from memory, the reads of the "
        "micro-kernels' panels come on top: of a page's rows, 256 bytes of a head lie 2 KB apart, which "
        "no prefetcher of a core foresees.",
        gradient=composed(caches.paged_attention, "on gathered rows"),
    ),
)
