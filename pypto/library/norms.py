"""Rows of normalisation."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.library.kernels import norms as kernels
from pypto.library.row import Implementation, Operator, f64


def rms_norm(x: Any, g: Any, eps: float) -> Any:
    """The reference."""
    t = f64(x)
    return t / np.sqrt((t * t).mean(axis=1, keepdims=True) + eps) * f64(g)


ROWS: Final = (
    Operator(
        name="rms_norm",
        doc="Root mean square normalisation of rows",
        text="x[t, d] bf16|f16|f32, g[d], eps=1e-6 -> y[t, d]",
        formula="`y = x / sqrt(mean(x²) + eps) * g`, in float32, rounded once at the end.",
        source="Zhang and Sennrich, Root Mean Square Layer Normalization, 2019",
        reference=rms_norm,
        implementations=(Implementation("rows", kernels.rms_norm),),
        sizes={"small": {"t": 5, "d": 96}, "model": {"t": 4096, "d": 4096}},
        edges={
            "zeros": lambda rng: {"x": np.zeros((3, 64), np.float32), "g": np.ones(64, np.float32)},
            "one row of one": lambda rng: {"x": np.full((1, 1), -3, np.float32), "g": np.full(1, 2, np.float32)},
        },
        flops=lambda n: 4.0 * n.t * n.d,
        peer=lambda torch, v: torch.nn.functional.rms_norm(v.x, (v.x.shape[1],), v.g, 1e-6),
    ),
)
