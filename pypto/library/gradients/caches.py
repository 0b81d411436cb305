"""Composes attention over paged caches, from gathered copies of the rows that a token may see."""

from __future__ import annotations

from typing import Any

from pypto.library.gradients.attention import attended
from pypto.library.gradients.rule import Tensors


def paged_rows(torch: Any, cache: Any, table: Any, row: Any, seen: Any) -> Any:
    """Gathers rows of a paged cache by their numbers in a sequence; rows that are not seen are zeros.

    Parameters
    ----------
    torch : module
    cache : tensor (pages, page, ...)
    table : tensor (t, p)
    row, seen : tensor (t, m)
    """
    row = torch.where(seen, row, 0).long()
    page = torch.where(seen, table.long().gather(1, row // cache.shape[1]), 0)
    rows = cache[page, row % cache.shape[1]]
    return torch.where(seen.view(*seen.shape, *[1] * (rows.ndim - 2)), rows, 0)


def paged_attention(torch: Any, v: Any) -> Tensors:
    """Computes `paged_attention` in torch."""
    row = torch.arange(v.table.shape[1] * v.keys.shape[1], device=v.table.device).expand(len(v.q), -1)
    seen = row < v.lengths[:, None]
    k, values = (paged_rows(torch, x, v.table, row, seen).transpose(1, 2) for x in (v.keys, v.values))
    q = v.q.unflatten(1, (k.shape[1], -1))
    return {"out": attended(torch, q, k, values, v.scale, seen[:, None, None])[0].flatten(1, 2)}


def with_sink(torch: Any, v: Any, *parts: tuple[Any, Any]) -> Any:
    """Attends over groups of rows that serve as keys and as values, with a sink: a score without a value."""
    rows, seen = (torch.cat(one, 1) for one in zip(*parts, strict=True))
    s = v.q @ rows.transpose(1, 2) * (v.scale or v.q.shape[2] ** -0.5)
    s = torch.cat([s.masked_fill(~seen[:, None], -torch.inf), v.sink.expand(len(s), -1)[..., None]], 2)
    return unmasked(torch, s, torch.cat([seen, seen.new_ones(len(s), 1)], 1)[:, None])[..., :-1] @ rows


def unmasked(torch: Any, s: Any, seen: Any) -> Any:
    """Computes softmax, with zeros where every score is minus infinity."""
    none = (s.detach() == -torch.inf).all(-1, keepdim=True)
    return torch.softmax(s.masked_fill(none, 0), -1).masked_fill(none | ~seen, 0)


def recent(torch: Any, v: Any, b: Any, end: Any) -> tuple[Any, Any]:
    """Returns the window of rows of the sequences b up to `end`, and flags of the rows that exist."""
    row = end[:, None] - v.window + torch.arange(v.window, device=end.device)
    seen = row >= 0
    return paged_rows(torch, v.keys, v.table[b], row, seen), seen


def even(torch: Any, tokens: int, lengths: Any) -> tuple[Any, Any, Any]:
    """Returns for each token its sequence, the number of later tokens, and the number of rows that it sees."""
    s, t = tokens // len(lengths), torch.arange(tokens, device=lengths.device)
    b, later = t // s, s - 1 - t % s
    return b, later, lengths[b] - later


def window_attention(torch: Any, v: Any) -> Tensors:
    """Computes `window_attention` in torch."""
    t = torch.arange(len(v.q), device=v.starts.device)
    b = torch.searchsorted(v.starts[1:].long(), t, right=True)
    return {"out": with_sink(torch, v, recent(torch, v, b, v.lengths[b] - v.starts[b + 1] + t + 1))}


def compressed_attention(torch: Any, v: Any) -> Tensors:
    """Computes `compressed_attention` in torch."""
    b, _, end = even(torch, len(v.q), v.lengths)
    row = torch.arange(v.places.shape[1] * v.compressed.shape[1], device=end.device).expand(len(b), -1)
    seen = row < (end.clamp(min=0) // v.ratio)[:, None]
    older = paged_rows(torch, v.compressed, v.places[b], row, seen)
    return {"out": with_sink(torch, v, recent(torch, v, b, end), (older, seen))}


def sparse_compressed_attention(torch: Any, v: Any) -> Tensors:
    """Computes `sparse_compressed_attention` in torch."""
    b, later, end = even(torch, len(v.q), v.lengths)
    order = torch.arange(v.topk.shape[1], device=end.device)
    seen = order < (v.lengths[b] // v.ratio - later)[:, None]
    older = paged_rows(torch, v.compressed, v.places[b], v.topk, seen)
    return {"out": with_sink(torch, v, recent(torch, v, b, end), (older, seen))}


def sparse_attention(torch: Any, v: Any) -> Tensors:
    """Computes `sparse_attention` in torch, and `sparse_attention_quant` where there are scales."""
    b, _, end = even(torch, len(v.q_nope), v.lengths)
    seen = torch.arange(v.topk.shape[1], device=end.device) < end[:, None]
    values, rope = (paged_rows(torch, x, v.table[b], v.topk, seen) for x in (v.keys, v.rope))
    if hasattr(v, "scales"):
        scales = paged_rows(torch, v.scales, v.table[b], v.topk, seen)
        values = (values.unflatten(2, (scales.shape[2], -1)) * scales[..., None]).flatten(2)
    keys, q = torch.cat([values, rope], 2), torch.cat([v.q_nope, v.q_rope], 2)
    return {"out": attended(torch, q, keys, values, v.scale, seen[:, None])[0]}
