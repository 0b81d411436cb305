"""Gradients of the projection of multi-head latent attention and of the indexer's selection."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.residual import normed
from pypto.library.gradients.rope import neighbours
from pypto.library.gradients.rule import Tensors, described


def last_rotated(torch: Any, x: Any, v: Any) -> Any:
    """Applies rotary embedding to the last columns of rows (t, n, d)."""
    first = x.shape[2] - v.cos.shape[1]
    t = x[..., first:]
    rotated = t * v.cos[:, None] + neighbours(torch, t) * v.sin[:, None]
    return torch.cat([x[..., :first], rotated], 2)


def mla_prolog_v4(torch: Any, v: Any) -> Tensors:
    """Computes `mla_prolog_v4` in torch."""
    heads = (normed(v.x @ v.w_dq, v.eps) * v.g_q @ v.w_uq).unflatten(1, (v.n, v.w_kv.shape[1]))
    kv = normed(v.x @ v.w_kv, v.eps) * v.g_kv
    return {"q": last_rotated(torch, normed(heads, v.eps), v), "kv": last_rotated(torch, kv[:, None], v)[:, 0]}


@described("to the places of the selected scores")
def topk(torch: Any, v: Any) -> Tensors:
    """Scatters the gradients of the selected scores to their places."""
    d = torch.where(v.indices >= 0, v.d_values, 0)
    return {"scores": torch.zeros_like(v.scores).scatter_add(1, v.indices.clamp(min=0).long(), d)}
