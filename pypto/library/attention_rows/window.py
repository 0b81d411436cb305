"""Rows of sliding-window attention over a paged cache, with and without compressed rows."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.softmax_attention import gathered, softmax
from pypto.library.conditions import PAGED, RAGGED
from pypto.library.gradients import caches as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels.attention import gathered as in_rows
from pypto.library.kernels.attention import window as kernels
from pypto.library.row import Implementation, Operator, Values, f64

BF16: Final = bfloat16.numpy
SMALL: Final = {"t": 6, "h": 8, "d": 64, "pages": 40, "page": 16, "b": 2, "p": 16, "cpages": 20, "cpage": 16, "cp": 4}
MODEL: Final = {"t": 32, "h": 64, "d": 512, "pages": 1088, "page": 128, "b": 16, "p": 64, "cpages": 20,
                "cpage": 64, "cp": 1}  # fmt: skip
SPARSE: Final = {"t": 32, "h": 64, "d": 512, "pages": 1088, "page": 128, "b": 16, "p": 64, "cpages": 272,
                 "cpage": 128, "cp": 16, "k": 512}  # fmt: skip
SOURCE: Final = "DeepSeek-V4's attention"
COMPRESSED: Final = (
    f"t % b == 0, 1 <= cpage, 1 <= ratio, 0 <= window, {PAGED}, lengths < (cp*cpage + 1)*ratio, "
    "0 <= places[:cdiv(lengths // ratio, cpage)] < cpages, contiguous_rows(keys, compressed, places)"
)
WINDOW: Final = (
    "Token j of s of a sequence i sees `e = lengths[i] - s + 1 + j` rows of its pages, by `table`, and of these the "
    "last `window`. "
)
SOFTMAX: Final = (
    " A row is key and value at once. `P = exp(S - m) / (sum exp(S - m) + exp(sink - m))`, `out = P @ rows`, with `S = "
    "q @ rows.T * scale`, and `scale = 1/sqrt(d)` where it is 0; in float32, weights are rounded to bfloat16 before "
    "they are divided. A token that sees no row gives 0."
)


def with_sink(q: Any, rows: Any, sink: Any, scale: float) -> Any:
    """Computes attention of one token (h, d) over rows that are keys and values, with a sink: a score without value."""
    s = f64(q) @ rows.T * (scale or 1 / math.sqrt(q.shape[1]))
    return softmax(np.concatenate([s, f64(sink)[:, None]], axis=1))[:, :-1] @ rows


def window_of(v: Any, b: int, end: int) -> Any:
    """Returns the last rows of a sequence up to `end`."""
    return gathered(v["keys"], v["table"][b], max(end, 0))[max(end - v["window"], 0) :]


def window_attention(**v: Any) -> Any:
    """Reference implementation of `window_attention` in numpy."""
    result = np.zeros(v["q"].shape)
    for b, length in enumerate(v["lengths"]):
        start, stop = v["starts"][b : b + 2]
        for t in range(start, stop):
            rows = window_of(v, b, int(length - stop + t + 1))
            result[t] = with_sink(v["q"][t], rows, v["sink"], v["scale"])
    return result


def compressed_attention(**v: Any) -> Any:
    """Reference implementation of `compressed_attention` in numpy."""
    result, s = np.zeros(v["q"].shape), len(v["q"]) // len(v["lengths"])
    for t in range(len(result)):
        b, end = t // s, int(v["lengths"][t // s]) - s + 1 + t % s
        compressed = gathered(v["compressed"], v["places"][b], max(end, 0) // v["ratio"])
        rows = np.concatenate([window_of(v, b, end), compressed])
        result[t] = with_sink(v["q"][t], rows, v["sink"], v["scale"])
    return result


def sparse_compressed_attention(**v: Any) -> Any:
    """Reference implementation of `sparse_compressed_attention` in numpy."""
    result, s = np.zeros(v["q"].shape), len(v["q"]) // len(v["lengths"])
    for t in range(len(result)):
        b, length, later = t // s, int(v["lengths"][t // s]), s - 1 - t % s
        chosen = v["topk"][t, : max(length // v["ratio"] - later, 0)]
        compressed = gathered(v["compressed"], v["places"][b], v["compressed"].size)[chosen]
        rows = np.concatenate([window_of(v, b, length - later), compressed])
        result[t] = with_sink(v["q"][t], rows, v["sink"], v["scale"])
    return result


def numbers(rng: np.random.Generator, *shape: int) -> Any:
    """Samples normal numbers in bfloat16."""
    return rng.standard_normal(shape, np.float32).astype(BF16)


def pages(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples pages in random order, lengths of all kinds, the last of them full, and sinks near the scores."""
    table = rng.permutation(n.pages)[: n.b * n.p].reshape(n.b, n.p).astype(np.int32)
    lengths = rng.integers(n.t // n.b, n.p * n.page + 1, n.b).astype(np.int32)
    lengths[-1] = n.p * n.page
    return {"table": table, "lengths": lengths, "sink": rng.standard_normal(n.h, np.float32)}


def ragged(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples sequences of different numbers of tokens."""
    given = pages(rng, n, dtype)
    cuts = np.sort(rng.integers(0, n.t + 1, n.b - 1))
    starts = np.concatenate([[0], cuts, [n.t]]).astype(np.int32)
    return {**given, "lengths": np.maximum(given["lengths"], np.diff(starts)), "starts": starts}


def two_caches(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples a compressed cache whose ratio makes it cover the whole paged cache."""
    places = rng.permutation(n.cpages)[: n.b * n.cp].reshape(n.b, n.cp).astype(np.int32)
    return {**pages(rng, n, dtype), "places": places, "ratio": n.p * n.page // (n.cp * n.cpage)}


def chosen(rng: np.random.Generator, n: SimpleNamespace, dtype: DType) -> Values:
    """Samples compressed rows that a token may see, in random order and padded with -1."""
    given, s = two_caches(rng, n, dtype), n.t // n.b
    topk = np.full((n.t, n.k), -1, np.int32)
    for t in range(n.t):
        seen = max(int(given["lengths"][t // s]) // given["ratio"] - (s - 1 - t % s), 0)
        rows = rng.permutation(seen)[: n.k]
        topk[t, : len(rows)] = rows
    return {**given, "topk": topk}


def short(rng: np.random.Generator) -> Values:
    """Edge case: sequences without tokens, without rows, with one row, and with more than a window; extreme sinks."""
    return {
        "q": numbers(rng, 5, 4, 32), "keys": numbers(rng, 4, 16, 32), "table": np.array([[2], [3], [0], [1]], np.int32),
        "lengths": np.array([9, 0, 1, 9], np.int32), "starts": np.array([0, 0, 1, 2, 5], np.int32), "window": 8,
        "sink": np.array([-np.inf, -80, 0, 80], np.float32),
    }  # fmt: skip


def nothing_compressed(rng: np.random.Generator) -> Values:
    """Edge case: a sequence without rows, and sequences too short for a compressed row."""
    return {
        "q": numbers(rng, 4, 4, 32), "keys": numbers(rng, 2, 16, 32), "compressed": numbers(rng, 2, 4, 32),
        "table": np.array([[1], [0]], np.int32), "places": np.array([[0], [1]], np.int32), "ratio": 4, "window": 8,
        "lengths": np.array([0, 5], np.int32), "sink": np.zeros(4, np.float32),
    }  # fmt: skip


def nothing_chosen(rng: np.random.Generator) -> Values:
    """Edge case: tokens that select no compressed row, and one that selects a single one."""
    topk = np.full((4, 3), -1, np.int32)
    topk[3, 0] = 0
    return {**nothing_compressed(rng), "topk": topk}


def moved(n: Any, compressed: float) -> float:
    """Counts the bytes of queries, results and rows."""
    return float(2 * n.t * n.d * (2 * n.h + min(128, n.p * n.page) + compressed))


def versions(name: str) -> tuple[Implementation, ...]:
    """Lists the versions: rows gathered first where matrix cores cannot gather, else one program per token."""
    attention = getattr(kernels, name)
    first = Implementation("gathered", partial(attention, attend=in_rows.recent), ("ascend",))
    return first, Implementation("tokens", attention)


def rows_by_torch(cache: Any, table: Any, token: Any) -> Any:
    """Returns rows of a paged cache for each token, by row number."""
    return cache[table.long().gather(1, token // cache.shape[1]), token % cache.shape[1]]


def attend_by_torch(torch: Any, v: Any, parts: list[tuple[Any, Any, Any, Any]]) -> Any:
    """Attends with a sink over several groups of rows, each with its cache, tables, row numbers and mask."""
    rows = torch.cat([rows_by_torch(cache, table, token.clamp(min=0)) for cache, table, token, _ in parts], 1)
    seen = torch.cat([seen for *_, seen in parts], 1)
    s = torch.bmm(v.q, rows.transpose(1, 2)).float() / math.sqrt(v.q.shape[2])
    s = s.masked_fill(~seen[:, None], -math.inf)
    weights = torch.softmax(torch.cat([s, v.sink.expand(len(s), -1)[..., None]], 2), 2)[..., :-1]
    return torch.bmm(weights.to(rows.dtype), rows)


def recent_by_torch(torch: Any, v: Any, b: Any, end: Any) -> tuple[Any, Any, Any, Any]:
    """Returns the sliding windows of tokens in the sequences b."""
    token = end[:, None] - v.window + torch.arange(v.window)
    return v.keys, v.table[b], token, token >= 0


def even_by_torch(torch: Any, v: Any) -> tuple[Any, Any, Any]:
    """Returns each token's sequence, the number of later tokens, and the number of rows that it sees."""
    s, t = len(v.q) // len(v.lengths), torch.arange(len(v.q))
    b, later = t // s, s - 1 - t % s
    return b, later, v.lengths[b] - later


def window_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    t = torch.arange(len(v.q))
    b = torch.searchsorted(v.starts[1:].long(), t, right=True)
    return attend_by_torch(torch, v, [recent_by_torch(torch, v, b, v.lengths[b] - v.starts[b + 1] + t + 1)])


def compressed_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    b, _, end = even_by_torch(torch, v)
    token = torch.arange(v.places.shape[1] * v.compressed.shape[1]).expand(len(b), -1)
    older = v.compressed, v.places[b], token, token < (end // v.ratio)[:, None]
    return attend_by_torch(torch, v, [recent_by_torch(torch, v, b, end), older])


def sparse_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    b, later, end = even_by_torch(torch, v)
    seen = torch.arange(v.topk.shape[1]) < (v.lengths[b] // v.ratio - later)[:, None]
    older = v.compressed, v.places[b], v.topk.long(), seen
    return attend_by_torch(torch, v, [recent_by_torch(torch, v, b, end), older])


ROWS: Final = (
    Operator(
        "window_attention", "Attention over the last rows of a paged cache, with sinks",
        "q[t, h, d] bf16, keys[pages, page, d], table[b, p] i32, lengths[b] i32, starts[b+1] i32, sink[h] f32, "
        f"window=128, scale=0.0 -> out[t, h, d] where 0 <= window, {RAGGED}, 0 <= steps(starts), {PAGED}, "
        "contiguous(starts), contiguous_rows(keys)",
        WINDOW + "Tokens of sequence i are those from `starts[i]` to `starts[i+1]`, so s may differ." + SOFTMAX,
        SOURCE, window_attention, versions("window_attention"),
        {"small": SMALL, "model": MODEL}, sampler=ragged, edges={"short": short},
        flops=lambda n: 4.0 * n.t * n.h * n.d * min(128, n.p * n.page), bytes=lambda n: moved(n, 0), items="h",
        peer=window_by_torch,
        limited="products of 64 heads and 64 rows, at 0.65 of the rate of larger ones; torch's are of all tokens in "
        "one call.",
        no_leading="`t` counts the tokens of all sequences, which are packed one behind the other",
        gradient=composed(gradients.window_attention, "on gathered rows"),
    ),
    Operator(
        "compressed_attention", "Attention over the last rows of a paged cache and all rows of a compressed one",
        "q[t..., h, d] bf16, keys[pages, page, d], compressed[cpages, cpage, d], table[b, p] i32, places[b, cp] i32, "
        "lengths[b] i32, sink[h] f32, ratio=128, window=128, scale=0.0 -> out[t..., h, d] "
        f"where {COMPRESSED}",
        WINDOW + "To these come the first `e // ratio` rows of its compressed pages, by `places`." + SOFTMAX,
        SOURCE, compressed_attention, versions("compressed_attention"),
        {"small": SMALL, "model": MODEL}, sampler=two_caches, edges={"short": nothing_compressed},
        flops=lambda n: 4.0 * n.t * n.h * n.d * (128 + n.cp * n.cpage),
        bytes=lambda n: moved(n, n.cp * n.cpage / 2), items="h", peer=compressed_by_torch,
        limited="products of 64 heads and 64 rows, at 0.65 of the rate of larger ones; torch's are of all tokens in "
        "one call.",
        gradient=composed(gradients.compressed_attention, "on gathered rows"),
    ),
    Operator(
        "sparse_compressed_attention", "Attention over the last rows of a paged cache and chosen compressed rows",
        "q[t..., h, d] bf16, keys[pages, page, d], compressed[cpages, cpage, d], table[b, p] i32, places[b, cp] i32, "
        "topk[t..., k] i32, lengths[b] i32, sink[h] f32, ratio=4, window=128, scale=0.0 -> out[t..., h, d] "
        f"where {COMPRESSED}, 0 <= topk[:seen(lengths // ratio)] < tokens(lengths // ratio), contiguous(topk)",
        WINDOW + "To these come the first `clamp(lengths[i] // ratio - s + 1 + j, 0, k)` rows of `topk`, of its "
        "compressed pages, by `places`." + SOFTMAX, SOURCE, sparse_compressed_attention,
        versions("sparse_compressed_attention"),
        {"small": {**SMALL, "k": 40}, "model": SPARSE}, sampler=chosen, edges={"short": nothing_chosen},
        flops=lambda n: 4.0 * n.t * n.h * n.d * (128 + n.k), bytes=lambda n: moved(n, n.k), items="h",
        peer=sparse_by_torch,
        gradient=composed(gradients.sparse_compressed_attention, "on gathered rows"),
    ),
)  # fmt: skip
