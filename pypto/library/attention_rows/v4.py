"""Rows of DeepSeek-V4's projections."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.mla import FEW_TOKENS
from pypto.library.attention_rows.rope import rope_interleaved
from pypto.library.gradients import mla as gradients
from pypto.library.gradients.rule import ROUNDED, composed
from pypto.library.kernels.attention import v4 as kernels
from pypto.library.norms import rms_norm
from pypto.library.quantized_rows.quant import quantize, quantized_by_torch
from pypto.library.row import Implementation, Operator, Values, bf, f64
from pypto.library.tolerance import SCALES, Close

BF16: Final = bfloat16.numpy
SMALL: Final = {"t": 5, "h": 96, "L": 64, "n": 4, "d": 64, "e": 16}
MODEL: Final = {"t": 16, "h": 4096, "L": 1024, "n": 64, "d": 512, "e": 64}
INDEXER: Final = {"t": 64, "h": 4096, "L": 1024, "n": 64, "d": 128, "e": 64}
QUERIES: Final = (
    "`qa = x @ w_dq`, `qn = rms_norm(qa, g_q)` in float32, {0}, n heads of d columns; `q = bf16(head / "
    "sqrt(mean(head²) + eps))`. `kv = bf16(rms_norm(x @ w_kv, g_kv))`. The last e columns of every head and of kv are "
    "turned: `rope_interleaved`."
)


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Applies rotary embedding to the last columns of rows (t, n, d)."""
    first = x.shape[2] - cos.shape[1]
    return np.concatenate([x[..., :first], rope_interleaved(x[..., first:], cos, sin)], axis=2)


def normed(x: Any, eps: float) -> Any:
    """Divides rows by their root mean square, in bfloat16."""
    return bf(x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps))


def queries_and_row(v: Any, qb: Any) -> tuple[Any, Any]:
    """Computes what both forms share: the queries and the shared row of keys and values."""
    t, d = len(v["x"]), v["w_kv"].shape[1]
    kv = bf(rms_norm(f64(v["x"]) @ f64(v["w_kv"]), v["g_kv"], v["eps"]))
    q = rotated(normed(qb.reshape(t, -1, d), v["eps"]), v["cos"], v["sin"])
    return q, rotated(kv[:, None], v["cos"], v["sin"])[:, 0]


def mla_prolog_v4(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `mla_prolog_v4` in numpy."""
    qn = rms_norm(f64(v["x"]) @ f64(v["w_dq"]), v["g_q"], v["eps"])
    return queries_and_row(v, bf(qn) @ f64(v["w_uq"]))


def mla_prolog_v4_quant(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `mla_prolog_v4_quant` in numpy."""
    qn, qs = quantize(rms_norm(f64(v["x"]) @ f64(v["w_dq"]), v["g_q"], v["eps"]), 1)
    qb = qn @ f64(v["w_uq"]) * qs[:, None] * f64(v["w_uq_scale"])
    return *queries_and_row(v, qb), qn, qs


def indexer_prolog_v4(**v: Any) -> tuple[Any, ...]:
    """Reference implementation of `indexer_prolog_v4` in numpy."""
    t, n, d = len(v["x"]), v["w_proj"].shape[1], v["hadamard"].shape[0]
    heads = bf(f64(v["qn"]) @ f64(v["w_qb"]) * f64(v["qn_scale"])[:, None] * f64(v["w_qb_scale"])).reshape(t, n, d)
    q, q_scale = quantize(bf(bf(rotated(heads, v["cos"], v["sin"])) @ f64(v["hadamard"])), 2)
    return q, q_scale, bf(f64(v["x"]) @ f64(v["w_proj"])) / np.sqrt(n * d)


def uniform(rng: np.random.Generator, most: float, *shape: int) -> Any:
    """Samples uniform numbers in bfloat16."""
    return (most * (2 * rng.random(shape, np.float32) - 1)).astype(BF16)


def projected(rng: np.random.Generator, n: Any, dtype: DType) -> Values:
    """Samples uniform numbers, with weights that keep activations in range."""
    return {
        "n": n.n, "x": uniform(rng, 1, n.t, n.h), "w_dq": uniform(rng, 1.7 / n.h**0.5, n.h, n.L),
        "w_uq": uniform(rng, 1.7 / n.L**0.5, n.L, n.n * n.d), "w_kv": uniform(rng, 1.7 / n.h**0.5, n.h, n.d),
        "g_q": uniform(rng, 1, n.L), "g_kv": uniform(rng, 1, n.d), "cos": uniform(rng, 1, n.t, n.e),
        "sin": uniform(rng, 1, n.t, n.e),
    }  # fmt: skip


def projected_quant(rng: np.random.Generator, n: Any, dtype: DType) -> Values:
    """Samples the arguments of the quantised form, with an int8 weight."""
    return projected(rng, n, dtype) | {
        "w_uq": rng.integers(-127, 128, (n.L, n.n * n.d)).astype(np.int8),
        "w_uq_scale": ((0.5 + rng.random(n.n * n.d)) / (73 * n.L**0.5)).astype(np.float32),
    }


def indexed(rng: np.random.Generator, n: Any, dtype: DType) -> Values:
    """Samples quantised queries, and a transform that preserves lengths."""
    return {
        "qn_scale": (0.001 + 0.01 * rng.random(n.t)).astype(np.float32),
        "w_qb_scale": ((0.5 + rng.random(n.n * n.d)) / (73 * n.L**0.5)).astype(np.float32),
        "x": uniform(rng, 1, n.t, n.h), "w_proj": uniform(rng, 1.7 / n.h**0.5, n.h, n.n),
        "cos": uniform(rng, 1, n.t, n.e), "sin": uniform(rng, 1, n.t, n.e),
        "hadamard": np.linalg.qr(rng.standard_normal((n.d, n.d)))[0].astype(BF16),
    }  # fmt: skip


def zero_tokens(rng: np.random.Generator) -> Values:
    """Edge case: a token of zeros, whose queries are zeros with scale 0."""
    from types import SimpleNamespace

    values = projected_quant(rng, SimpleNamespace(**{**SMALL, "t": 2}), bfloat16)
    values["x"][0] = 0
    return values


def flops(n: Any) -> float:
    """Counts the operations of the products."""
    return float(2 * n.t * (n.h * (n.L + n.d) + n.L * n.n * n.d))


def weight_bytes(n: Any, width: int) -> float:
    """Counts the bytes of the weights."""
    return float(2 * n.h * (n.L + n.d) + width * n.L * n.n * n.d)


def turned_by_torch(torch: Any, x: Any, v: Any) -> Any:
    """Applies rotary embedding to the last columns of rows (t, n, d)."""
    first = x.shape[-1] - v.cos.shape[1]
    t, c, s = x[..., first:].float(), v.cos[:, None].float(), v.sin[:, None].float()
    back = torch.stack([-t[..., 1::2], t[..., 0::2]], -1).flatten(-2)
    return torch.cat([x[..., :first], (t * c + back * s).to(x.dtype)], -1)


def queries_by_torch(torch: Any, v: Any, qb: Any) -> tuple[Any, Any]:
    """Torch form of `queries_and_row`."""
    norm, d = torch.nn.functional.rms_norm, v.w_kv.shape[1]
    q = norm(qb.view(len(v.x), v.n, d), (d,), None, v.eps).bfloat16()
    kv = norm(v.x @ v.w_kv, (d,), v.g_kv, v.eps)
    return turned_by_torch(torch, q, v), turned_by_torch(torch, kv[:, None], v)[:, 0]


def mla_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    qn = torch.nn.functional.rms_norm(v.x @ v.w_dq, v.g_q.shape, v.g_q, v.eps)
    return queries_by_torch(torch, v, qn @ v.w_uq)


def mla_quant_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    qn, qs = quantized_by_torch(torch, torch.nn.functional.rms_norm(v.x @ v.w_dq, v.g_q.shape, v.g_q, v.eps))
    qb = torch._int_mm(qn, v.w_uq).float() * qs[:, None] * v.w_uq_scale
    return *queries_by_torch(torch, v, qb), qn, qs


def indexer_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch, whose int8 product gives int32."""
    t, n, d = len(v.x), v.w_proj.shape[1], v.hadamard.shape[0]
    heads = (torch._int_mm(v.qn, v.w_qb).float() * v.qn_scale[:, None] * v.w_qb_scale).bfloat16().view(t, n, d)
    q, scale = quantized_by_torch(torch, turned_by_torch(torch, heads, v) @ v.hadamard)
    return q, scale.half(), ((v.x @ v.w_proj).float() / math.sqrt(n * d)).half()


ROWS: Final = (
    Operator(
        "mla_prolog_v4", "Queries and rows of keys and values, from activations",
        "x[t..., h] bf16, w_dq[h, L], w_uq[L, n*d], w_kv[h, d], g_q[L], g_kv[d], cos[t..., e], sin[t..., e], n=64, "
        "eps=1e-6 "
        "-> q[t..., n, d], kv[t..., d] where 0 <= n, 1 <= e <= d, e % 2 == 0",
        QUERIES.format("`qb = bf16(qn) @ w_uq`"), "DeepSeek-V4's MLA prolog", mla_prolog_v4,
        (Implementation("steps", kernels.mla_prolog_v4),), {"small": SMALL, "model": MODEL}, sampler=projected,
        flops=flops, bytes=lambda n: weight_bytes(n, 2), peer=mla_by_torch,
        limited=FEW_TOKENS,
        gradient=composed(gradients.mla_prolog_v4, "without the roundings"),
    ),
    Operator(
        "mla_prolog_v4_quant", "Queries and rows of keys and values, with an int8 projection",
        "x[t..., h] bf16, w_dq[h, L], w_uq[L, n*d] i8, w_uq_scale[n*d] f32, w_kv[h, d], g_q[L], g_kv[d], cos[t..., e], "
        "sin[t..., e], n=64, eps=1e-6 -> q[t..., n, d], kv[t..., d], qn[t..., L] i8, qs[t...] f32 "
        "where 0 <= n, 1 <= e <= d, e % 2 == 0, 128*128*L < 2**31, any(w_uq)",
        QUERIES.format("`(qn, qs) = quantize_per_token(qn)`, `qb = (qn @ w_uq) * qs * w_uq_scale` in float32"),
        "DeepSeek-V4's MLA prolog", mla_prolog_v4_quant, (Implementation("steps", kernels.mla_prolog_v4_quant),),
        {"small": SMALL, "model": MODEL}, sampler=projected_quant, edges={"zeros": zero_tokens},
        tolerance={"qs": SCALES}, flops=flops, bytes=lambda n: weight_bytes(n, 1), peer=mla_quant_by_torch,
        limited=FEW_TOKENS,
        no_gradient=ROUNDED,
    ),
    Operator(
        "indexer_prolog_v4", "Queries and weights of the lightning indexer of DeepSeek-V4",
        "qn[t..., L] i8, qn_scale[t...] f32, w_qb[L, n*d] i8, w_qb_scale[n*d] f32, x[t..., h] bf16, w_proj[h, n] bf16, "
        "cos[t..., e] bf16, sin[t..., e] bf16, hadamard[d, d] bf16 "
        "-> q[t..., n, d] i8, q_scale[t..., n] f16, weights[t..., n] f16 "
        "where 1 <= e <= d, e % 2 == 0, 128*128*L < 2**31, any(qn, w_qb)",
        "`heads = bf16((qn @ w_qb) * qn_scale * w_qb_scale)`, n of d columns, of which the last e are turned: "
        "`rope_interleaved`; `(q, q_scale) = quantize_per_token(bf16(heads @ hadamard))`, by rows of a token and head; "
        "`weights = bf16(x @ w_proj) / sqrt(n * d)`.", "DeepSeek-V4's indexer", indexer_prolog_v4,
        (Implementation("steps", kernels.indexer_prolog_v4),), {"small": SMALL, "model": INDEXER}, sampler=indexed,
        tolerance={"q_scale": Close(5e-3, 1e-5), "weights": Close(7.8e-3, 5e-3)},
        flops=lambda n: float(2 * n.t * (n.L * n.n * n.d + n.n * n.d * n.d + n.h * n.n)),
        bytes=lambda n: float(n.L * n.n * n.d + 2 * n.h * n.n), peer=indexer_by_torch,
        limited=FEW_TOKENS,
        no_gradient=ROUNDED,
    ),
)  # fmt: skip
