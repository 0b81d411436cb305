"""Gradients of the losses."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.rule import Tensors, described, widened


@described("by operations of torch; 0 where the label is negative")
def cross_entropy(torch: Any, v: Any) -> Tensors:
    """Computes softmax minus the indicator of the label, times the gradient of a row's loss."""
    d = v.d_loss.masked_fill(v.labels < 0, 0)[:, None]
    probabilities = torch.softmax(widened(torch, v.logits), 1) * d
    return {"logits": probabilities.scatter_add(1, v.labels.clamp(min=0).long()[:, None], -d.to(probabilities.dtype))}


@described("by operations of torch; 0 for both where p is 0")
def kl_divergence(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of both distributions; a p of 0 has none."""
    p, log_q, d = widened(torch, v.p), widened(torch, v.log_q), v.d_loss[:, None]
    seen = p > 0
    dp = torch.where(seen, torch.log(torch.where(seen, p, 1)) - log_q + 1, 0) * d
    return {"log_q": -torch.where(seen, p, 0) * d, "p": dp}
