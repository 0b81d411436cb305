"""Composes attention on full sequences; unlike the kernels, it keeps all weights of a head in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from pypto.library.gradients.rule import Tensors, composed, described, readable


def attended(torch: Any, q: Any, k: Any, v: Any, scale: float, seen: Any = None) -> tuple[Any, Any]:
    """Computes attention of queries (..., n, d) on keys and values; returns results and log-sum-exp of the scores.

    Parameters
    ----------
    torch : module
    q, k, v : tensor
    scale : float
        0 stands for 1/sqrt(d).
    seen : tensor, optional
        Flags of the keys that a query sees. A query without any gives zeros, and minus infinity.
    """
    s = q @ k.transpose(-1, -2) * (scale or int(q.shape[-1]) ** -0.5)  # a graph holds the head's size
    if seen is None:
        return torch.softmax(s, -1) @ v, torch.logsumexp(s, -1)
    some = seen.any(-1, keepdim=True)
    s = s.masked_fill(~seen & some, -torch.inf)  # a row of which all is minus infinity would have gradients of NaN
    weights = torch.softmax(s, -1).masked_fill(~seen, 0)
    return weights @ v, torch.logsumexp(s, -1).masked_fill(~some[..., 0], -torch.inf)


def in_groups(q: Any, k: Any, v: Any) -> tuple[Any, Any, Any]:
    """Returns heads (b, h, n, d) as groups that share a head of keys and values."""
    return q.unflatten(1, (k.shape[1], -1)), k[:, :, None], v[:, :, None]


def up_to_itself(torch: Any, n: int, m: int, device: Any) -> Any:
    """Returns flags of the causal mask: query i sees keys up to `i + m - n`."""
    return torch.ones(n, m, dtype=torch.bool, device=device).tril(m - n)


def materialized(torch: Any, v: Any) -> Tensors:
    """Computes `attention` in torch, with all weights in memory."""
    if v.bias is not None or v.sinks is not None or v.softcap or is_masked(v):
        return {"out": masked_attention(torch, v)}
    seen = up_to_itself(torch, v.q.shape[2], v.k.shape[2], v.q.device) if v.causal else None
    return {"out": attended(torch, *in_groups(v.q, v.k, v.v), v.scale, seen)[0].flatten(1, 2)}


def is_masked(v: Any) -> bool:
    """Says whether more than the causal mask hides keys."""
    return v.mask is not None or v.first is not None or bool(v.window)


def masked_attention(torch: Any, v: Any) -> Any:
    """Computes `attention` with masks, biases, caps and sinks, where each head has its own keys."""
    k, values = (x.repeat_interleave(v.q.shape[1] // x.shape[1], 1) for x in (v.k, v.v))
    s = v.q @ k.transpose(-1, -2) * (v.scale or v.q.shape[-1] ** -0.5)
    s = v.softcap * torch.tanh(s / v.softcap) if v.softcap else s
    s = s if v.bias is None else s + v.bias
    seen = seen_keys(torch, v).expand(s.shape) & (s > -torch.inf)
    some = seen.any(-1, keepdim=True)
    s = s.masked_fill(~seen & some, -torch.inf).masked_fill(~some, 0)
    if v.sinks is not None:
        s = torch.cat([s, v.sinks[:, None, None].expand(*s.shape[:3], 1)], 3)
    return torch.softmax(s, -1)[..., : seen.shape[3]].masked_fill(~seen, 0) @ values


def seen_keys(torch: Any, v: Any) -> Any:
    """Returns flags of the keys that each query sees by its position, and by the mask."""
    n, m, device = v.q.shape[2], v.k.shape[2], v.q.device
    keys = torch.arange(m, device=device)
    distance = torch.arange(n, device=device)[:, None] + (m - n) - keys
    seen = torch.ones(1, 1, n, m, dtype=torch.bool, device=device) if v.mask is None else v.mask != 0
    seen = seen & (distance >= 0) if v.causal else seen
    seen = seen & (distance < v.window) if v.window else seen
    return seen if v.first is None else seen & (keys >= v.first[:, None, None, None])


def by_torch(torch: Any, v: Any) -> Tensors:
    """Computes `attention` by torch's own operation, whose gradient cannot be differentiated again."""
    attend = torch.nn.functional.scaled_dot_product_attention
    return {"out": attend(v.q, v.k, v.v, is_causal=bool(v.causal), scale=v.scale or None, enable_gqa=True)}


@described(
    "by torch's own attention; for second derivatives, and masks other than a square causal one, torch differentiates "
    "a composition of its operations, which keeps all weights of a head"
)
def attention(torch: Any, v: Any) -> Tensors:
    """Computes the gradients of `attention`."""
    is_simple = v.bias is None and v.sinks is None and not v.softcap and not is_masked(v)
    is_square = not v.causal or v.q.shape[2] == v.k.shape[2]
    usual = is_simple and is_square and not torch.is_grad_enabled() and v.q.numel() > 0 and v.k.numel() > 0
    return composed(by_torch if usual else materialized).compute(torch, v)


def attention_int8_cache(torch: Any, v: Any) -> Tensors:
    """Computes `attention_int8_cache` in torch."""
    k, values = v.k * v.key_scale[:, None], v.v * v.value_scale[..., None]
    given = {"q": v.q, "k": k.to(v.q.dtype), "v": values.to(v.q.dtype), "scale": v.scale, "causal": v.causal}
    given |= {"bias": None, "mask": None, "first": None, "sinks": None, "window": 0, "softcap": 0.0}
    return materialized(torch, SimpleNamespace(**given))


def varlen_attention(torch: Any, v: Any) -> Tensors:
    """Computes `varlen_attention` in torch as one batch, in which all sequences are padded to the longest."""
    starts, t = v.starts.long(), len(v.q)
    longest = v.longest or (int(starts.diff().max()) if readable(v.starts) else t)
    token = starts[:-1, None] + torch.arange(longest, device=starts.device)
    inside = token < starts[1:, None]
    at = torch.where(inside, token, t)  # a further row of zeros pads the sequences
    q, k, values = (torch.cat([x, x.new_zeros(1, *x.shape[1:])])[at].transpose(1, 2) for x in (v.q, v.k, v.v))
    seen = inside[:, None, None, None, :].expand(-1, -1, -1, token.shape[1], -1)
    if v.causal:
        seen = seen & up_to_itself(torch, token.shape[1], token.shape[1], starts.device)
    rows = attended(torch, *in_groups(q, k, values), v.scale, seen)[0].flatten(1, 2).transpose(1, 2)
    flat = rows.new_zeros(t + 1, *rows.shape[2:]).index_put((at,), rows)
    return {"out": flat[:t]}


def block_sparse_attention(torch: Any, v: Any) -> Tensors:
    """Computes `block_sparse_attention` in torch with an elementwise mask."""
    n, m = v.q.shape[2], v.k.shape[2]
    seen = v.mask.repeat_interleave(v.bx, 2)[:, :, :n].repeat_interleave(v.by, 3)[..., :m] != 0
    seen = seen.unflatten(1, (v.k.shape[1], -1))
    out, lse = attended(torch, *in_groups(v.q, v.k, v.v), v.scale, seen)
    return {"out": out.flatten(1, 2), "lse": lse.flatten(1, 2)}
