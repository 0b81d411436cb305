"""Rows of residual streams."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType, bfloat16
from pypto.library.attention_rows.softmax_attention import softmax
from pypto.library.gradients import residual as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels import residual as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close


def block_attention(v: Any, w: Any, gain: Any, scale: float) -> Any:
    """Reference implementation of `block_attention` in numpy."""
    x = f64(v)
    key = x / np.sqrt((x * x).mean(axis=3, keepdims=True) + 1e-6) * (1.0 if gain is None else f64(gain))
    return np.einsum("btl,btld->btd", softmax(key @ f64(w) * scale), x)


def sinkhorn(x: Any, rounds: int) -> Any:
    """Reference implementation of `sinkhorn` in numpy."""
    c = softmax(f64(x)) + 1e-6
    c /= c.sum(axis=1, keepdims=True) + 1e-6
    for _ in range(rounds - 1):
        c /= c.sum(axis=2, keepdims=True) + 1e-6
        c /= c.sum(axis=1, keepdims=True) + 1e-6
    return c


def hyper_connections(x: Any, w: Any, scale: Any, base: Any, rounds: int) -> tuple[Any, Any, Any]:
    """Reference implementation of `hyper_connections` in numpy."""
    t, n, _ = x.shape
    flat = f64(x).reshape(t, -1)
    m = flat @ f64(w).T / np.sqrt((flat * flat).mean(axis=1, keepdims=True) + 1e-6)
    first, second, third = (m[:, :n], m[:, n : 2 * n], m[:, 2 * n :])
    pre = sigmoid(first * scale[0] + base[:n]) + 1e-6
    post = 2 * sigmoid(second * scale[1] + base[n : 2 * n])
    comb = sinkhorn((third * scale[2] + base[2 * n :]).reshape(t, n, n), rounds)
    return np.einsum("tk,tkd->td", pre, f64(x)), post, comb


def sigmoid(x: Any) -> Any:
    """Computes the logistic function in float64."""
    return 1 / (1 + np.exp(-f64(x)))


def streams(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples weights that give logits near 1."""
    w = rng.standard_normal((n.n * (n.n + 2), n.n * n.d), np.float32) / np.float32(n.n * n.d) ** 0.5
    return {"w": w, "scale": rng.random(3, np.float32)}


def no_stream(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: a token of zeros, whose mean square is 0, beside another token."""
    x = rng.standard_normal((2, 4, 32)).astype(bfloat16.numpy)
    x[0] = 0
    w = rng.standard_normal((24, 128), np.float32) / 11
    return {"x": x, "w": w, "scale": np.ones(3, np.float32), "base": rng.standard_normal(24, np.float32)}


def with_gain(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: gains of the columns."""
    v, w = rng.standard_normal((1, 2, 3, 16), np.float32), rng.standard_normal(16, np.float32)
    return {"v": v, "w": w, "gain": rng.random(16, np.float32)}


def block_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    key = torch.nn.functional.rms_norm(v.v.float(), (v.v.shape[3],), None if v.gain is None else v.gain.float(), 1e-6)
    weights = torch.softmax(key @ v.w.float() * v.scale, 2)
    return (weights[..., None] * v.v).sum(2).to(v.v.dtype)


def streams_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    t, n, _ = v.x.shape
    flat = v.x.flatten(1).float()
    m = flat @ v.w.T * torch.rsqrt(flat.square().mean(1, keepdim=True) + 1e-6)
    pre = torch.sigmoid(m[:, :n] * v.scale[0] + v.base[:n]) + 1e-6
    post = 2 * torch.sigmoid(m[:, n : 2 * n] * v.scale[1] + v.base[n : 2 * n])
    comb = gradients.balanced(torch, (m[:, 2 * n :] * v.scale[2] + v.base[2 * n :]).view(t, n, n), v.rounds)
    return (pre[..., None] * v.x).sum(1).to(v.x.dtype), post, comb


ROWS: Final = (
    Operator(
        "block_attention", "Attention of a token over the outputs of earlier blocks of layers",
        "v[b..., t, l, d] bf16|f32, w[d], gain[d]?, scale=1.0 -> h[b..., t, d] where 1 <= l",
        "`K = v / sqrt(mean(v²) + 1e-6) * gain`, `h = softmax over l of (K @ w * scale)` times v, in float32.",
        "Kimi's attention residuals", block_attention, (Implementation("tokens", kernels.block_attention),),
        {"small": {"b": 2, "t": 3, "l": 4, "d": 48}, "model": {"b": 1, "t": 4096, "l": 8, "d": 1024}},
        edges={"gain": with_gain}, flops=lambda n: 8.0 * n.b * n.t * n.l * n.d, items="t", peer=block_by_torch,
        gradient=composed(gradients.block_attention),
    ),
    Operator(
        "sinkhorn", "Matrices with rows and columns of sum 1, by Sinkhorn's iteration",
        "x[t..., n, n] f32, rounds=20 -> y[t..., n, n] where 1 <= rounds",
        "`C = softmax of rows(x) + 1e-6`, over the sums of columns plus 1e-6; then `rounds - 1` times over the sums of "
        "rows and of columns, each plus 1e-6.", "DeepSeek-V4's hyper-connections", sinkhorn,
        (Implementation("batches", kernels.sinkhorn_in_batches, ("ascend",)),
         Implementation("matrices", kernels.sinkhorn)),
        {"small": {"t": 5, "n": 4}, "model": {"t": 4096, "n": 8}}, flops=lambda n: 80.0 * n.t * n.n * n.n,
        items="t", peer=lambda torch, v: gradients.balanced(torch, v.x, v.rounds),
        gradient=composed(gradients.sinkhorn),
    ),
    Operator(
        "hyper_connections", "The input of a layer from n residual streams, and the weights of what goes back to them",
        "x[t..., n, d] bf16|f32, w[n*(n+2), n*d] f32, scale[3] f32, base[n*(n+2)] f32, rounds=20 "
        "-> y[t..., d], post[t..., n] f32, comb[t..., n, n] f32 "
        "where 1 <= n, 1 <= d, 1 <= rounds",
        "With the streams of a token in one row, `m = row @ w.T / sqrt(mean(row²) + 1e-6)`; its first n give `pre = "
        "sigmoid(m * scale[0] + base) + 1e-6`, the next n `post = 2 * sigmoid(m * scale[1] + base)`, and the others "
        "`comb = sinkhorn(m * scale[2] + base, rounds)`, n rows of n. `y = sum over k of pre[k] * x[k]`. In float32.",
        "DeepSeek-V4's hyper-connections", hyper_connections,
        (Implementation("batches", kernels.hyper_connections_in_batches, ("ascend",)),
         Implementation("tokens", kernels.hyper_connections)),
        {"small": {"t": 5, "n": 4, "d": 96}, "model": {"t": 512, "n": 4, "d": 4096}}, sampler=streams,
        edges={"zeros": no_stream}, tolerance={"post": Close(1e-4, 1e-4), "comb": Close(1e-4, 1e-4)},
        flops=lambda n: 2.0 * n.t * n.n * n.d * (n.n * (n.n + 2) + 2), items="t", peer=streams_by_torch,
        gradient=composed(gradients.hyper_connections),
    ),
)  # fmt: skip
