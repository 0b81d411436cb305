"""Rows of the lightning indexer, which selects the cache rows that sparse attention reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.mla import FEW_TOKENS
from pypto.library.attention_rows.rope import rope_half
from pypto.library.conditions import PAGED
from pypto.library.gradients import mla as gradients
from pypto.library.gradients.rule import CACHES, INTEGERS
from pypto.library.kernels import topk as topk_kernels
from pypto.library.kernels.attention import indexer as kernels
from pypto.library.kernels.sorted_topk import sorted_parts
from pypto.library.norms import layer_norm
from pypto.library.quantized_rows.quant import quantize, quantized_by_torch
from pypto.library.row import Implementation, Operator, bf, f64
from pypto.library.tolerance import EXACT, Close

BF16: Final = bfloat16.numpy
Choose = Callable[..., None]
SMALL: Final = {"t": 6, "L": 64, "n": 4, "h": 96, "d": 32, "r": 16, "m": 40}
MODEL: Final = {"t": 32, "L": 1536, "n": 64, "h": 7168, "d": 128, "r": 64, "m": 131072}


@dataclass(frozen=True, slots=True)
class SameSets:
    """Tolerance that compares index rows as sets; a fraction may differ, because nearly equal scores may swap."""

    exchanged: float = 0.0

    def problem(self, actual: Any, expected: Any) -> str:
        """Describes the difference; empty if there is none."""
        n = expected.shape[-1]
        for number, (a, b) in enumerate(zip(np.asarray(actual).reshape(-1, n), expected.reshape(-1, n), strict=True)):
            missing = np.setdiff1d(b, a)
            doubled = (a >= 0).sum() - len(np.unique(a[a >= 0]))
            if len(missing) > self.exchanged * n or doubled:
                return f"row {number} lacks {len(missing)} of {n} indices, and {doubled} are there twice"
        return ""

    def __str__(self) -> str:
        return f"the same sets, but for {self.exchanged:.1%}" if self.exchanged else "the same sets"


def topk(scores: Any, lengths: Any, k: int, s: int) -> tuple[Any, Any]:
    """Reference implementation of `topk` in numpy."""
    values, indices = np.full((len(scores), k), -np.inf), np.full((len(scores), k), -1)
    for row, given in enumerate(scores):
        count = len(given) if lengths is None else min(max(lengths[row // s] - (s - 1 - row % s), 0), len(given))
        order = np.argsort(-f64(given[:count]), kind="stable")[:k]
        values[row, : len(order)], indices[row, : len(order)] = f64(given)[order], order
    return values, indices


def lightning_indexer(  # arguments as in the operator
    q: Any, q_scale: Any, keys: Any, k_scale: Any, weights: Any, lengths: Any, table: Any, k: int
) -> Any:
    """Reference implementation of `lightning_indexer` in numpy."""
    b, s = q.shape[:2]
    scores = np.zeros((b, s, table.shape[1] * keys.shape[1]), np.float32)
    for i in range(b):
        rows, unit = (f64(x)[table[i]].reshape(-1, *x.shape[2:]) for x in (keys, k_scale))
        r = (np.maximum(f64(q[i]) @ rows.T, 0) / 2048).astype(np.float16)
        w = (f64(q_scale[i]) * f64(weights[i])).astype(np.float16)
        scores[i] = (f64(r) * f64(w)[:, :, None]).sum(axis=1) * unit
    return topk(scores.reshape(b * s, -1), lengths, k, s)[1].reshape(b, s, k)


def turned_and_quantized(x: Any, cos: Any, sin: Any, matrix: Any) -> tuple[Any, Any]:
    """Applies rotary embedding to the first columns of (t, n, d), then the transform, and quantises rows to int8."""
    r = cos.shape[1]
    rotated = np.concatenate([bf(rope_half(x[..., :r], cos, sin)), x[..., r:]], axis=2)
    return quantize(bf(rotated @ f64(matrix)), 2)


def indexer_prolog(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `indexer_prolog` in numpy."""
    t, d, n = len(v["x"]), v["w_k"].shape[1], v["w_proj"].shape[1]
    heads = bf(f64(v["qn"]) @ f64(v["w_qb"]) * f64(v["qn_scale"])[:, None] * f64(v["w_qb_scale"])).reshape(t, n, d)
    q, q_scale = turned_and_quantized(heads, v["cos"], v["sin"], v["hadamard_q"])
    key = bf(layer_norm(f64(v["x"]) @ f64(v["w_k"]), v["ln_g"], v["ln_b"], v["eps"]))
    k8, k_scale = turned_and_quantized(key[:, None], v["cos"], v["sin"], v["hadamard_k"])
    k_cache, k_scale_cache = f64(v["k_cache"]), f64(v["k_scale_cache"])
    for row, at in enumerate(v["index"]):
        k_cache[at], k_scale_cache[at] = k8[row, 0], k_scale[row, 0]
    weights = bf(f64(v["x"]) @ f64(v["w_proj"])) / np.sqrt(n * d)
    return q, q_scale, weights, k_cache, k_scale_cache


def numbers(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples scores with many ties."""
    return {"scores": np.round(rng.standard_normal((n.t, n.n)), 3).astype(np.float32), "k": n.k}


def short_rows(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: rows with 0, 3 or all scores visible, signed zeros, infinities, and tokens of one sequence."""
    scores = rng.standard_normal((4, 5000), np.float32)
    scores[2, ::7], scores[3, 5], scores[3, 4] = 0.0, np.inf, -np.inf
    return {"scores": scores, "lengths": np.array([4, 5000], np.int32), "k": 64, "s": 2}


def equal_scores(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: all scores are equal, so the lowest indices are selected."""
    return {"scores": np.full((2, 9000), -1.5, np.float32), "k": 100}


def large_beside_each_other(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: the largest scores are adjacent, a row is ascending, and a row is mostly NaN."""
    scores = rng.standard_normal((3, 6000), np.float32)
    scores[0, 700:900] += 100
    scores[1].sort()
    scores[2, 40:] = np.nan
    return {"scores": scores, "k": 100, "lengths": np.array([6000, 6000, 90], np.int32)}


def cached(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples pages in random order, and scales of quantised rows."""

    def scale(*shape: int) -> Any:
        return (0.001 + 0.01 * rng.random(shape)).astype(np.float16)

    table = rng.permutation(n.pages)[: n.b * n.p].reshape(n.b, n.p).astype(np.int32)
    lengths = rng.integers(n.s, n.p * n.page + 1, n.b).astype(np.int32)
    lengths[-1] = n.p * n.page
    return {
        "q_scale": scale(n.b, n.s, n.h), "k_scale": scale(n.pages, n.page), "table": table, "lengths": lengths,
        "weights": rng.standard_normal((n.b, n.s, n.h)).astype(np.float16), "k": n.k,
    }  # fmt: skip


def projected(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples uniform numbers, as the model's own tests do."""

    def uniform(most: float, *shape: int) -> Any:
        return (most * (2 * rng.random(shape, np.float32) - 1)).astype(BF16)

    return {
        "x": uniform(1, n.t, n.h), "w_k": uniform(0.1, n.h, n.d), "w_proj": uniform(0.1, n.h, n.n),
        "qn_scale": rng.random(n.t, np.float32) / 127, "w_qb_scale": rng.random(n.n * n.d, np.float32) / 1270,
        "cos": uniform(1, n.t, n.r), "sin": uniform(1, n.t, n.r), "hadamard_q": uniform(0.2, n.d, n.d),
        "hadamard_k": uniform(0.2, n.d, n.d), "index": rng.permutation(n.m)[: n.t].astype(np.int64),
    }  # fmt: skip


def indexer_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    (b, s, h, d), page, results = v.q.shape, v.keys.shape[1], []
    w = (v.q_scale.float() * v.weights.float()).half().float()
    token, later = torch.arange(v.table.shape[1] * page), s - 1 - torch.arange(s)
    for i in range(b):
        rows, unit = (x[v.table[i].long()].flatten(0, 1) for x in (v.keys, v.k_scale))
        r = (torch._int_mm(v.q[i].view(-1, d), rows.T).clamp(min=0).float() / 2048).half().view(s, h, -1)
        scores = (r.float() * w[i][:, :, None]).sum(1) * unit.float()
        seen = token < (v.lengths[i] - later)[:, None]
        values, indices = scores.masked_fill(~seen, -torch.inf).topk(v.k, 1)
        results.append(indices.masked_fill(values == -torch.inf, -1).int())
    return torch.stack(results)


def quantized_rows(torch: Any, v: Any, x: Any, matrix: Any) -> tuple[Any, Any]:
    """Torch form of `turned_and_quantized`."""
    r = v.cos.shape[1]
    t = x[..., :r]
    a, b = t.chunk(2, -1)
    rotated = t * v.cos[:, None] + torch.cat([-b, a], -1) * v.sin[:, None]
    return quantized_by_torch(torch, torch.cat([rotated, x[..., r:]], -1) @ matrix)


def prolog_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    t, n, d = len(v.x), v.w_proj.shape[1], v.w_k.shape[1]
    heads = (torch._int_mm(v.qn, v.w_qb).float() * v.qn_scale[:, None] * v.w_qb_scale).bfloat16().view(t, n, d)
    q, q_scale = quantized_rows(torch, v, heads, v.hadamard_q)
    key = torch.nn.functional.layer_norm(v.x @ v.w_k, (d,), v.ln_g, v.ln_b, v.eps)
    k8, k_scale = quantized_rows(torch, v, key[:, None], v.hadamard_k)
    v.k_cache.index_copy_(0, v.index, k8[:, 0])
    v.k_scale_cache.index_copy_(0, v.index, k_scale[:, 0].half())
    return q, q_scale.half(), ((v.x @ v.w_proj).float() / (n * d) ** 0.5).half()


def versions(wrap: Callable[[Choose], Choose]) -> tuple[Implementation, ...]:
    """Lists versions of top-k: a scan with branches (CPU), sorts (Ascend), a scan without branches (any backend)."""
    return (
        Implementation("candidates", wrap(topk_kernels.candidates), platforms=("cpu",)),
        Implementation("sorts", wrap(sorted_parts), platforms=("ascend",)),
        Implementation("histograms", wrap(topk_kernels.histograms)),
    )


ROWS: Final = (
    Operator(
        name="topk",
        doc="The k largest of every row, descending, with their indices",
        text="scores[t..., n] f32, lengths[b]? i32, k=2048, s=1 -> values[t..., k] f32, indices[t..., k] i32 "
        "where 0 <= k, 1 <= s, t == b*s, 0 <= lengths <= n, contiguous_rows(scores)",
        formula="`indices` are the k largest of the first `count` scores, descending, ties to the lowest index."
        " `count` is n, or with `lengths`, of the token j of s tokens of sequence i, `lengths[i] - (s-1-j)`. Where it "
        "is less than k, the tail of `indices` is -1 and that of `values` minus infinity. NaN is chosen last. Three "
        "histograms of the bits of the scores find the least one that is chosen; those are listed and sorted. The "
        "version `candidates` first lists the scores that reach the k-th largest of the maxima of 4k groups. The "
        "version `sorts` sorts parts of a row on many cores, and merges lists pair by pair; to it, minus infinity "
        "and the least number are equal.",
        source="DeepSeek-V3.2's lightning indexer",
        reference=topk,
        implementations=versions(lambda choose: choose),
        sizes={"small": {"t": 3, "n": 9000, "k": 2048}, "model": {"t": 8, "n": 131072, "k": 2048}},
        sampler=numbers,
        edges={"short rows": short_rows, "equal scores": equal_scores, "stretches": large_beside_each_other},
        tolerance={"indices": EXACT, "values": EXACT},
        flops=lambda n: 4.0 * n.t * n.n,
        bytes=lambda n: 4.0 * n.t * n.n,
        peer=lambda torch, v: torch.topk(v.scores, v.k, 1),
        gradient=gradients.topk,
    ),
    Operator(
        name="lightning_indexer",
        doc="The rows of a paged int8 cache with the largest scores, for every token",
        text="q[b..., s, h, d] i8, q_scale[b..., s, h] f16, keys[pages, page, d] i8, k_scale[pages, page] f16, "
        "weights[b..., s, h] f16, lengths[b...] i32, table[b..., p] i32, k=2048 -> indices[b..., s, k] i32 where "
        f"0 <= k, 1 <= h, 1 <= d, 128*128*d < 2**31, {PAGED}, any(q, keys)",
        formula="`r[n, j] = f16(relu(q[n] @ key[j]) / 2048)`, `w[n] = f16(q_scale[n] * weights[n])`, `score[j] = "
        "k_scale[j] * sum over n of w[n] * r[n, j]`, summed in float32; then `topk` of the first `lengths - (s-1-j)` "
        "scores of token j.",
        source="DeepSeek-V3.2's lightning indexer",
        reference=lightning_indexer,
        implementations=versions(lambda choose: partial(kernels.lightning_indexer, choose)),
        sizes={
            "small": {"b": 2, "s": 2, "h": 8, "d": 32, "pages": 20, "page": 16, "p": 8, "k": 40},
            "model": {"b": 1, "s": 2, "h": 64, "d": 128, "pages": 1024, "page": 128, "p": 1024, "k": 2048},
        },
        sampler=cached,
        tolerance={"indices": SameSets(0.002)},
        flops=lambda n: 2.0 * n.b * n.s * n.h * n.d * n.p * n.page,
        bytes=lambda n: 1.0 * n.b * n.p * n.page * (n.d + 2),
        peer=indexer_by_torch,
        no_gradient=INTEGERS,
    ),
    Operator(
        name="indexer_prolog",
        doc="Queries, keys and weights of the lightning indexer; keys go to their int8 cache",
        text="qn[t..., L] i8, qn_scale[t...] f32, w_qb[L, n*d] i8, w_qb_scale[n*d] f32, x[t..., h] bf16, w_k[h, "
        "d] bf16, "
        "w_proj[h, n] bf16, ln_g[d] bf16, ln_b[d] bf16, cos[t..., r] bf16, sin[t..., r] bf16, hadamard_q[d, d] bf16, "
        "hadamard_k[d, d] bf16, index[t...] i64|i32, k_cache[m, d] i8, k_scale_cache[m] f16, eps=1e-6 "
        "-> q[t..., n, d] i8, q_scale[t..., n] f16, weights[t..., n] f16 where "
        "1 <= n, 1 <= r <= d, r % 2 == 0, 128*128*L < 2**31, 0 <= index < m, any(qn, w_qb, k_cache)",
        formula="`q = bf16((qn @ w_qb) * qn_scale * w_qb_scale)`; the first r columns of every head by `rope_half`; `q"
        " = bf16(q @ hadamard_q)`, in int8 by heads. `k = layer_norm(x @ w_k)`, turned, `bf16(k @ hadamard_k)`, in "
        "int8, into row `index` of the caches. `weights = bf16(x @ w_proj) / sqrt(n*d)`. The last token that names a "
        "row writes it.",
        source="DeepSeek-V3.2's lightning indexer",
        reference=indexer_prolog,
        implementations=(Implementation("steps", kernels.indexer_prolog),),
        sizes={"small": SMALL, "model": MODEL},
        sampler=projected,
        tolerance={"q_scale": Close(8e-3, 1e-4), "k_scale_cache": Close(8e-3, 1e-4), "weights": Close(8e-3, 1e-3),
                   "q": Close(0.0, 1.0)},
        flops=lambda n: 2.0 * n.t * (n.L * n.n * n.d + n.h * (n.d + n.n) + (n.n + 1) * n.d * n.d),
        bytes=lambda n: 1.0 * n.L * n.n * n.d + 2.0 * n.h * (n.d + n.n + n.t),
        effects=("k_cache", "k_scale_cache"),
        peer=prolog_by_torch,
        limited=FEW_TOKENS,
        no_gradient=CACHES,
    ),
)  # fmt: skip
