"""Rows of the projections of multi-head latent attention (MLA)."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.rope import rope_interleaved_to_half
from pypto.library.gradients.rule import CACHES
from pypto.library.kernels.attention import mla as kernels
from pypto.library.kernels.attention import mla_split as split
from pypto.library.norms import rms_norm
from pypto.library.quantized_rows.quant import quantize, quantized_by_torch
from pypto.library.row import Implementation, Operator, bf, f64
from pypto.library.tolerance import BF16, SCALES, MostlyClose

SMALL: Final = {"t": 5, "h": 96, "L": 64, "n": 4, "p": 32, "r": 16, "c": 64, "m": 40, "groups": 2}
MODEL: Final = {"t": 32, "h": 7168, "L": 1536, "n": 128, "p": 128, "r": 64, "c": 512, "m": 131072, "groups": 4}
QUERIES: Final = MostlyClose(BF16.rtol, BF16.atol)  # of tokens with a number of qn that is rounded the other way
FEW_TOKENS: Final = "half of the time is packing of weights for the products of few tokens, in every call, as in torch."
LAST: Final = "The last token that names a row of a cache writes it."


def latent(v: Any, qb: Any) -> tuple[Any, Any, Any, Any]:
    """Computes what both forms share: queries, the latent row and the rotary key."""
    t, (n, p, c) = len(v["x"]), v["w_uk"].shape
    qb = qb.reshape(t, n, -1)
    q_nope = np.einsum("tnp,npc->tnc", qb[..., :p], f64(v["w_uk"]))
    q_rope = rope_interleaved_to_half(qb[..., p:], v["cos"], v["sin"])
    kv = bf(f64(v["x"]) @ f64(v["w_dkvkr"]))
    k_rope = rope_interleaved_to_half(kv[:, None, c:], v["cos"], v["sin"])[:, 0]
    return q_nope, q_rope, bf(rms_norm(kv[:, :c], v["g_ckv"], v["eps"])), k_rope


def written(cache: Any, index: Any, rows: Any) -> Any:
    """Returns a cache after the rows are written to their places, one token after the other."""
    written = f64(cache)
    for at, row in zip(index, rows, strict=True):
        written[at] = row
    return written


def mla_prolog(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `mla_prolog` in numpy."""
    qa = bf(f64(v["x"]) @ f64(v["w_dq"]))
    qb = bf(bf(rms_norm(qa, v["g_cq"], v["eps"])) @ f64(v["w_uq"]))
    q_nope, q_rope, row, k_rope = latent(v, qb)
    return q_nope, q_rope, written(v["kv_cache"], v["index"], row), written(v["kr_cache"], v["index"], k_rope)


def mla_prolog_quant(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `mla_prolog_quant` in numpy."""
    qa = bf(f64(v["x"]) @ f64(v["w_dq"]))
    normed = bf(rms_norm(qa, v["g_cq"], v["eps"]))
    qn, qs = quantize(normed * (1.0 if v["smooth"] is None else f64(v["smooth"])), 1)
    qb = bf(qn @ f64(v["w_uq"]) * qs[:, None] * f64(v["w_uq_scale"]))
    q_nope, q_rope, row, k_rope = latent(v, qb)
    groups = v["kv_scale"].shape[1]
    q8, scales = quantize(row.reshape(len(row), groups, -1), 2)
    caches = (("kv_cache", q8.reshape(row.shape)), ("kr_cache", k_rope), ("kv_scale", scales))
    return q_nope, q_rope, qn, qs, *(written(v[name], v["index"], rows) for name, rows in caches)


def projected(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples uniform numbers, with weights that keep activations in range."""

    def uniform(most: float, *shape: int) -> Any:
        return (most * (2 * rng.random(shape, np.float32) - 1)).astype(bfloat16.numpy)

    return {
        "x": uniform(1, n.t, n.h), "w_dq": uniform(1.7 / n.h**0.5, n.h, n.L),
        "w_uq": uniform(1.7 / n.L**0.5, n.L, n.n * (n.p + n.r)), "w_uk": uniform(1.7 / n.p**0.5, n.n, n.p, n.c),
        "w_dkvkr": uniform(1.7 / n.h**0.5, n.h, n.c + n.r), "cos": uniform(1, n.t, n.r), "sin": uniform(1, n.t, n.r),
        "g_cq": uniform(1, n.L), "g_ckv": uniform(1, n.c), "index": rng.permutation(n.m)[: n.t].astype(np.int64),
    }  # fmt: skip


def projected_quant(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples the arguments of the quantised form, with int8 weights."""
    width = n.n * (n.p + n.r)
    return projected(rng, n, dtype) | {
        "w_uq": rng.integers(-127, 128, (n.L, width)).astype(np.int8),
        "w_uq_scale": ((0.5 + rng.random(width)) / (73 * n.L**0.5)).astype(np.float32),
    }


def flops(n: Any) -> float:
    """Counts the operations of the products."""
    return float(2 * n.t * (n.h * (n.L + n.c + n.r) + n.L * n.n * (n.p + n.r) + n.n * n.p * n.c))


def weights(n: Any, fan_in: int) -> float:
    """Counts the bytes of the weights."""
    return float(2 * (n.h * (n.L + n.c + n.r) + n.n * n.p * n.c) + fan_in * n.L * n.n * (n.p + n.r))


def turned_by_torch(torch: Any, x: Any, v: Any) -> Any:
    """Applies rotary embedding to pairs of neighbours, and stores them as halves."""
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a, b], -1) * v.cos[:, None] + torch.cat([-b, a], -1) * v.sin[:, None]


def latent_by_torch(torch: Any, v: Any, qb: Any) -> tuple[Any, Any, Any]:
    """Computes queries and the latent row; stores the rotary key in its cache."""
    t, (n, p, c) = len(v.x), v.w_uk.shape
    kv, qb = v.x @ v.w_dkvkr, qb.view(t, n, -1)
    v.kr_cache.index_copy_(0, v.index, turned_by_torch(torch, kv[:, None, c:], v)[:, 0])
    row = torch.nn.functional.rms_norm(kv[:, :c], (c,), v.g_ckv, v.eps)
    q_nope = torch.bmm(qb[..., :p].transpose(0, 1), v.w_uk).transpose(0, 1)
    return q_nope, turned_by_torch(torch, qb[..., p:], v), row


def by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    qn = torch.nn.functional.rms_norm(v.x @ v.w_dq, (v.w_dq.shape[1],), v.g_cq, v.eps)
    q_nope, q_rope, row = latent_by_torch(torch, v, qn @ v.w_uq)
    v.kv_cache.index_copy_(0, v.index, row)
    return q_nope, q_rope


def quant_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    normed = torch.nn.functional.rms_norm(v.x @ v.w_dq, (v.w_dq.shape[1],), v.g_cq, v.eps)
    qn, qs = quantized_by_torch(torch, normed * v.smooth if v.smooth is not None else normed)
    qb = (torch._int_mm(qn, v.w_uq).float() * qs[:, None] * v.w_uq_scale).bfloat16()
    q_nope, q_rope, row = latent_by_torch(torch, v, qb)
    q8, scales = quantized_by_torch(torch, row.view(len(row), v.kv_scale.shape[1], -1))
    v.kv_cache.index_copy_(0, v.index, q8.view(row.shape))
    v.kv_scale.index_copy_(0, v.index, scales)
    return q_nope, q_rope, qn, qs


ROWS: Final = (
    Operator(
        name="mla_prolog",
        doc="Queries and the rows of the latent caches, from activations",
        text="x[t..., h] bf16, w_dq[h, L], w_uq[L, n*(p+r)], w_uk[n, p, c], w_dkvkr[h, c+r], g_cq[L], g_ckv[c], "
        "cos[t..., r],"
        " sin[t..., r], index[t...] i64|i32, kv_cache[m, c], kr_cache[m, r], eps=1e-5 -> q_nope[t..., n, c], "
        "q_rope[t..., n, r] "
        "where 1 <= n, 1 <= r, 1 <= c, r % 2 == 0, 0 <= index < m",
        formula="`qa = bf16(x @ w_dq)`, `qb = bf16(rms_norm(qa, g_cq) @ w_uq)`, n heads of p and r columns; `q_nope = "
        "qb[:p] @ w_uk`, `q_rope = rope_interleaved_to_half(qb[p:])`. `kv = bf16(x @ w_dkvkr)`; `rms_norm(kv[:c], "
        f"g_ckv)` and `rope_interleaved_to_half(kv[c:])` go to row `index` of the caches. {LAST}",
        source="DeepSeek-V3.2's MLA prolog",
        reference=mla_prolog,
        implementations=(
            Implementation("split", split.mla_prolog, ("ascend",)),
            Implementation("steps", kernels.mla_prolog),
        ),  # fmt: skip,
        sizes={"small": SMALL, "model": MODEL},
        sampler=projected,
        flops=flops,
        bytes=lambda n: weights(n, 2),
        effects=("kv_cache", "kr_cache"),
        peer=by_torch,
        limited=FEW_TOKENS,
        no_gradient=CACHES,
    ),
    Operator(
        name="mla_prolog_quant",
        doc="Queries and the rows of the latent int8 caches, with an int8 projection",
        text="x[t..., h] bf16, w_dq[h, L], w_uq[L, n*(p+r)] i8, w_uq_scale[n*(p+r)] f32, w_uk[n, p, c], w_dkvkr[h, "
        "c+r], "
        "g_cq[L], g_ckv[c], cos[t..., r], sin[t..., r], index[t...] i64|i32, kv_cache[m, c] i8, kr_cache[m, r], "
        "kv_scale[m, groups] f32, smooth[L]? f32, eps=1e-5 "
        "-> q_nope[t..., n, c], q_rope[t..., n, r], qn[t..., L] i8, qs[t...] f32 where "
        "1 <= n, 1 <= r, 1 <= c, r % 2 == 0, c % groups == 0, 128*128*L < 2**31, 0 <= index < m, any(w_uq, kv_cache)",
        formula="As `mla_prolog`, with `(qn, qs) = quantize_per_token(bf16(rms_norm(qa, g_cq)), smooth)`, `qb = "
        "bf16((qn @ w_uq) * qs * w_uq_scale)`, and the latent row in int8 with a scale for each of `groups` parts of "
        f"its columns. {LAST}",
        source="DeepSeek-V3.2's MLA prolog",
        reference=mla_prolog_quant,
        implementations=(
            Implementation("split", split.mla_prolog_quant, ("ascend",)),
            Implementation("steps", kernels.mla_prolog_quant),
        ),
        sizes={"small": SMALL, "model": MODEL},
        sampler=projected_quant,
        tolerance={"qs": SCALES, "kv_scale": SCALES, "q_nope": QUERIES, "q_rope": QUERIES},
        flops=flops,
        bytes=lambda n: weights(n, 1),
        effects=("kv_cache", "kr_cache", "kv_scale"),
        peer=quant_by_torch,
        limited=FEW_TOKENS,
        no_gradient=CACHES,
    ),
)
