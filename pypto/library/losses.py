"""Rows of losses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import losses as gradients
from pypto.library.kernels import losses as kernels
from pypto.library.row import Implementation, Operator, f64

SIZES: Final = {"small": {"t": 4, "n": 300}, "model": {"t": 256, "n": 131072}}


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Reference implementation of `cross_entropy` in numpy."""
    t = f64(logits)
    most = t.max(axis=1)
    total = np.log(np.exp(t - most[:, None]).sum(axis=1)) + most
    return np.where(labels < 0, 0, total - t[np.arange(len(t)), np.maximum(labels, 0)])


def kl_divergence(log_q: Any, p: Any) -> Any:
    """Reference implementation of `kl_divergence` in numpy."""
    u = f64(p)
    return np.where(u > 0, u * (np.log(np.where(u > 0, u, 1)) - f64(log_q)), 0).sum(axis=1)


def labels(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples a label for each row."""
    return {"labels": rng.integers(0, n.n, n.t).astype(np.int64)}


def left_out(rng: np.random.Generator) -> dict[str, Any]:
    """Edge case: ignored labels (-100), and logits that are far apart."""
    logits = (100 * rng.standard_normal((3, 5000))).astype(np.float32)
    return {"logits": logits, "labels": np.array([-100, 0, 4999], np.int64)}


def distributions(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples probabilities, zeros among them, and log-probabilities of another distribution."""
    p, q = rng.random((2, n.t, n.n)) + 1e-3
    p[:, ::7] = 0
    log_q = np.log(q / q.sum(axis=1, keepdims=True))
    return {"p": (p / p.sum(axis=1, keepdims=True)).astype(dtype.numpy), "log_q": log_q.astype(dtype.numpy)}


ROWS: Final = (
    Operator(
        "cross_entropy", "Cross-entropy of logits and labels, for each row",
        "logits[t..., n] bf16|f32, labels[t...] i64|i32 -> loss[t...] f32 where labels < n",
        "`loss = log(sum(exp(logits))) - logits[label]`, in float32 and one pass; 0 where the label is negative.",
        "Shannon", cross_entropy, (Implementation("rows", kernels.cross_entropy),), SIZES, labels,
        edges={"left out": left_out}, flops=lambda n: 4.0 * n.t * n.n,
        peer=lambda torch, v: torch.nn.functional.cross_entropy(v.logits.float(), v.labels, reduction="none"),
        items="t",
        gradient=gradients.cross_entropy,
    ),
    Operator(
        "kl_divergence", "Kullback-Leibler divergence of two distributions, for each row",
        "log_q[t..., n] f32|bf16, p[t..., n] -> loss[t...] f32",
        "`loss = sum(p * (log(p) - log_q))`; a p of 0 adds nothing.", "Kullback and Leibler, 1951", kl_divergence,
        (Implementation("rows", kernels.kl_divergence),), SIZES, distributions, flops=lambda n: 4.0 * n.t * n.n,
        peer=lambda torch, v: torch.nn.functional.kl_div(v.log_q, v.p, reduction="none").sum(1), items="t",
        gradient=gradients.kl_divergence,
    ),
)  # fmt: skip
