"""Gradients of the losses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pypto.library.gradients.rule import Tensors, called, described, widened


def cross_entropy_backward(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `cross_entropy` with torch operations, as the row of that name."""
    logits, is_ignored = widened(torch, v.logits), v.labels[:, None] < 0
    d, at = widened(torch, v.dloss)[:, None].masked_fill(is_ignored, 0), v.labels.clamp(min=0).long()[:, None]
    total = widened(torch, v.loss)[:, None] + logits.gather(1, at)
    part = torch.exp(logits - total.masked_fill(is_ignored, torch.inf)) * d
    return {"dlogits": part.scatter_add(1, at, -d)}


@described("by the row `cross_entropy_backward`; 0 where the label is negative")
def cross_entropy(torch: Any, v: Any) -> Tensors:
    """Computes the gradient of `cross_entropy`."""
    given = {"logits": v.logits, "labels": v.labels, "loss": v.loss, "dloss": v.d_loss}
    results = called(torch, "cross_entropy_backward", **given) or cross_entropy_backward(
        torch, SimpleNamespace(**given)
    )
    return {"logits": results["dlogits"]}


@described("by operations of torch; 0 for both where p is 0")
def kl_divergence(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of both distributions of `kl_divergence`; where p is 0, they are 0."""
    p, log_q, d = widened(torch, v.p), widened(torch, v.log_q), v.d_loss[:, None]
    seen = p > 0
    dp = torch.where(seen, torch.log(torch.where(seen, p, 1)) - log_q + 1, 0) * d
    return {"log_q": -torch.where(seen, p, 0) * d, "p": dp}
