"""Rows of residual streams."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.library.kernels import residual as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.softmax_attention import softmax


def block_attention(v: Any, w: Any, gain: Any, scale: float) -> Any:
    """The reference."""
    x = f64(v)
    key = x / np.sqrt((x * x).mean(axis=3, keepdims=True) + 1e-6) * (1.0 if gain is None else f64(gain))
    return np.einsum("btl,btld->btd", softmax(key @ f64(w) * scale), x)


def sinkhorn(x: Any, rounds: int) -> Any:
    """The reference."""
    c = softmax(f64(x)) + 1e-6
    c /= c.sum(axis=1, keepdims=True) + 1e-6
    for _ in range(rounds - 1):
        c /= c.sum(axis=2, keepdims=True) + 1e-6
        c /= c.sum(axis=1, keepdims=True) + 1e-6
    return c


def with_gain(rng: np.random.Generator) -> dict[str, Any]:
    """With gains of columns."""
    v, w = rng.standard_normal((1, 2, 3, 16), np.float32), rng.standard_normal(16, np.float32)
    return {"v": v, "w": w, "gain": rng.random(16, np.float32)}


ROWS: Final = (
    Operator(
        "block_attention", "Attention of a token over the outputs of earlier blocks of layers",
        "v[b, t, l, d] bf16|f32, w[d], gain[d]?, scale=1.0 -> h[b, t, d]",
        "`K = v / sqrt(mean(v²) + 1e-6) * gain`, `h = softmax over l of (K @ w * scale)` times v, in float32.",
        "Kimi's attention residuals", block_attention, (Implementation("tokens", kernels.block_attention),),
        {"small": {"b": 2, "t": 3, "l": 4, "d": 48}, "model": {"b": 1, "t": 4096, "l": 8, "d": 1024}},
        edges={"gain": with_gain}, flops=lambda n: 8.0 * n.b * n.t * n.l * n.d,
    ),
    Operator(
        "sinkhorn", "Matrices with rows and columns of sum 1, by Sinkhorn's iteration",
        "x[t, n, n] f32, rounds=20 -> y[t, n, n]",
        "`C = softmax of rows(x) + 1e-6`, over the sums of columns plus 1e-6; then `rounds - 1` times over the sums of "
        "rows and of columns, each plus 1e-6.", "DeepSeek-V4's hyper-connections", sinkhorn,
        (Implementation("matrices", kernels.sinkhorn),),
        {"small": {"t": 5, "n": 4}, "model": {"t": 4096, "n": 8}}, flops=lambda n: 80.0 * n.t * n.n * n.n,
    ),
)  # fmt: skip
