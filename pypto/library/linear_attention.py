"""Rows of linear attention."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.kernels import linear_attention as kernels
from pypto.library.row import Implementation, Operator, f64
from pypto.library.tolerance import Close


def unit(x: Any) -> Any:
    """Vectors of length 1."""
    return f64(x) / np.sqrt((f64(x) ** 2).sum(axis=-1, keepdims=True) + 1e-6)


def gated_delta_rule(q: Any, k: Any, v: Any, gate: Any, beta: Any, state: Any) -> tuple[Any, Any]:
    """The reference: one token after the other."""
    group, d = v.shape[1] // q.shape[1], q.shape[3]
    queries, keys = (np.repeat(unit(x), group, axis=1) for x in (q, k))
    s, out = f64(state).swapaxes(2, 3).copy(), np.zeros(v.shape)
    for t in range(v.shape[2]):
        s *= np.exp(f64(gate)[:, :, t, None, None])
        key = keys[:, :, t]
        change = (f64(v)[:, :, t] - np.einsum("bhd,bhde->bhe", key, s)) * f64(beta)[:, :, t, None]
        s += key[..., None] * change[:, :, None, :]
        out[:, :, t] = np.einsum("bhd,bhde->bhe", queries[:, :, t], s) / np.sqrt(d)
    return out, s.swapaxes(2, 3)


def gates(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Logarithms of factors below 1, and strengths between 0 and 1."""
    shape = (n.b, n.h, n.t)
    return {"gate": -rng.random(shape, np.float32) / 4, "beta": rng.random(shape, np.float32)}


ROWS: Final = (
    Operator(
        name="gated_delta_rule",
        doc="Linear attention by the gated delta rule, with its state in place",
        text="q[b, g, t, d] f32, k[b, g, t, d], v[b, h, t, e], gate[b, h, t], beta[b, h, t], state[b, h, e, d] "
        "-> out[b, h, t, e]",
        formula="q and k have length 1 and serve `h/g` heads; for each token, with S the state transposed: `S = "
        "exp(gate) S`, `S = S + k^T (beta (v - k @ S))`, `out = q @ S / sqrt(d)`. The version `chunks` computes 64 "
        "tokens at once: corrections within them by forward substitution, all else by products.",
        source="Yang and others, Gated Delta Networks, 2024",
        reference=gated_delta_rule,
        implementations=(
            Implementation("chunks", kernels.gated_delta_rule_chunked, platforms=("cpu",)),
            Implementation("tokens", kernels.gated_delta_rule),
        ),
        sizes={
            "small": {"b": 1, "g": 1, "t": 70, "d": 16, "h": 2, "e": 16},
            "model": {"b": 1, "g": 8, "t": 2048, "d": 128, "h": 8, "e": 128},
        },
        sampler=gates,
        tolerance={"out": Close(1e-3, 1e-4), "state": Close(1e-3, 1e-4)},
        flops=lambda n: 8.0 * n.b * n.h * n.t * n.d * n.e,
        effects=("state",),
        items="e",
    ),
)
