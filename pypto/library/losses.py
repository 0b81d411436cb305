"""Rows of losses."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.ir.types import DType
from pypto.library.gradients import losses as gradients
from pypto.library.gradients.rule import composed
from pypto.library.kernels import losses as kernels
from pypto.library.row import Implementation, Operator, f64

SIZES: Final = {"small": {"t": 4, "n": 300}, "model": {"t": 256, "n": 131072}}


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Reference implementation of `cross_entropy` in numpy."""
    t = f64(logits)
    most = t.max(axis=1)
    total = np.log(np.exp(t - most[:, None]).sum(axis=1)) + most
    return np.where(labels < 0, 0, total - t[np.arange(len(t)), np.maximum(labels, 0)])


def cross_entropy_backward(logits: Any, labels: Any, loss: Any, dloss: Any) -> Any:
    """Reference implementation of `cross_entropy_backward` in numpy."""
    t, at, rows = f64(logits), np.maximum(labels, 0), np.arange(len(logits))
    d = np.where(labels < 0, 0, f64(dloss))[:, None]
    result = np.exp(t - np.where(labels < 0, np.inf, f64(loss) + t[rows, at])[:, None]) * d
    result[rows, at] -= d[:, 0]
    return result


def kl_divergence(log_q: Any, p: Any) -> Any:
    """Reference implementation of `kl_divergence` in numpy."""
    u = f64(p)
    return np.where(u > 0, u * (np.log(np.where(u > 0, u, 1)) - f64(log_q)), 0).sum(axis=1)


def labels(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples a label for each row."""
    return {"labels": rng.integers(0, n.n, n.t).astype(np.int64)}


def losses(rng: np.random.Generator, n: Any, dtype: DType) -> dict[str, Any]:
    """Samples logits and labels with their losses."""
    logits = rng.standard_normal((n.t, n.n), np.float32).astype(dtype.numpy)
    return with_losses({"logits": logits, **labels(rng, n, dtype)}, rng)


def with_losses(given: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Adds the losses of logits and labels, and gradients of the losses."""
    loss = cross_entropy(**given).astype(np.float32)
    return {**given, "loss": loss, "dloss": rng.standard_normal(len(loss), np.float32)}


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


def backward_by_torch(torch: Any, v: Any) -> Any:
    """Peer implementation in torch."""
    logits, loss = v.logits.float().requires_grad_(), torch.nn.functional.cross_entropy
    with torch.enable_grad():
        (d,) = torch.autograd.grad(loss(logits, v.labels, reduction="none"), logits, v.dloss)
    return d.to(v.logits.dtype)


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
        "cross_entropy_backward", "Gradient of `cross_entropy`, from the losses",
        "logits[t..., n] bf16|f32, labels[t...] i64|i32, loss[t...] f32, dloss[t...] f32 -> dlogits[t..., n] "
        "where labels < n",
        "`dlogits = exp(logits - (loss + logits[label])) * dloss`, less dloss at the label, in float32 and one pass; 0 "
        "where the label is negative.", "Shannon", cross_entropy_backward,
        (Implementation("rows", kernels.cross_entropy_backward),), SIZES, losses,
        edges={"left out": lambda rng: with_losses(left_out(rng), rng)}, flops=lambda n: 4.0 * n.t * n.n,
        peer=backward_by_torch, items="t", notes="It is as exact as the losses, which float32 rounds to 3e-5 near 400.",
        gradient=composed(gradients.cross_entropy_backward),
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
