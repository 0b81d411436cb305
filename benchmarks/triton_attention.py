"""Rows of the suite `triton`: attention of vLLM, and linear attention of fla, beside torch's own code for the same."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from benchmarks.peers import imported
from benchmarks.runner import Bar, Case, Impl, Row
from benchmarks.triton_sampler import module_of
from benchmarks.triton_sources import case, in_double

HEADS, GROUPS, SIZE, BLOCK = 8, 2, 64, 16  # of queries, of keys and values; features; tokens in a block of the cache
PREFILL: Final = (1, 512, 512)  # requests, new tokens of each, tokens that these see
DECODE: Final = (8, 1, 1024)
SPLITS: Final = 4
LENGTH, STATE = 512, 64
OPS: Final = "v1/attention/ops"


@functools.cache
def paged(torch: Any, shape: tuple[int, int, int]) -> tuple[Any, Any, Any, Any]:
    """Queries, and a cache of keys and of values whose blocks lie in an order drawn at random, with their table."""
    requests, new, length = shape
    generator = torch.Generator().manual_seed(6)
    draw = partial(torch.randn, generator=generator)
    blocks = length // BLOCK
    table = torch.randperm(requests * blocks, generator=generator).int().view(requests, blocks)
    caches = (draw(requests * blocks, BLOCK, GROUPS, SIZE) for _ in range(2))
    return draw(requests, new, HEADS, SIZE), *caches, table


def attended(torch: Any, dtype: Any, shape: tuple[int, int, int]) -> Any:
    """Torch's attention on the blocks of the cache, in order; of several new tokens, each sees those up to itself."""
    q, k, v, table = paged(torch, shape)
    rows = (x[table.long()].flatten(1, 2) for x in (k, v))
    q, k, v = (x.to(dtype).transpose(1, 2) for x in (q, *rows))
    attention = torch.nn.functional.scaled_dot_product_attention
    return attention(q, k, v, is_causal=shape[1] > 1, enable_gqa=True).transpose(1, 2)


def unified(found: Any, shape: tuple[int, int, int]) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module, (q, k, v, table) = module_of(found, f"{OPS}/triton_unified_attention.py"), paged(torch, shape)
    requests, new, length = shape
    out, one = torch.empty_like(q), torch.ones(requests, GROUPS)
    starts, lengths = torch.arange(requests + 1).int() * new, torch.full((requests,), length).int()
    parts = torch.empty(requests, HEADS, 16, SIZE), *(torch.empty(requests, HEADS, 16) for _ in range(2))
    several = (requests, 16, *parts) if new == 1 else ()

    def ours() -> Any:
        module.unified_attention(
            q.view(-1, HEADS, SIZE), k, v, out.view(-1, HEADS, SIZE), starts, new, lengths, length, SIZE**-0.5, True,
            (-1, -1), table, 0.0, None, one, one, *several, kv_quant_mode=0,
        )  # fmt: skip
        return out

    return ours, {"torch": lambda: attended(torch, torch.float32, shape)}


def decoded(found: Any, shape: tuple[int, int, int]) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module, (q, k, v, table) = module_of(found, f"{OPS}/triton_decode_attention.py"), paged(torch, shape)
    requests, _, length = shape
    out, lse, lengths = torch.empty_like(q), torch.empty(requests, HEADS), torch.full((requests,), length).int()
    parts = torch.empty(requests, HEADS, SPLITS, SIZE + 1)

    def ours() -> Any:
        arguments = lse, table, lengths, parts, SPLITS, SIZE**-0.5, BLOCK
        module.decode_attention_fwd(q[:, 0], k, v, out[:, 0], *arguments)
        return out

    return ours, {"torch": lambda: attended(torch, torch.float32, shape)}


def prefilled(found: Any, shape: tuple[int, int, int]) -> tuple[Impl, Mapping[str, Impl]]:
    """Attention on keys and values that lie in order."""
    torch: Any = imported("torch")
    module, (q, k, v, table) = module_of(found, f"{OPS}/triton_prefill_attention.py"), paged(torch, shape)
    k, v = (x[table.long()].view(-1, GROUPS, SIZE) for x in (k, v))
    q, start, length = q.view(-1, HEADS, SIZE), torch.zeros(1).int(), torch.full((1,), shape[2]).int()
    out = torch.empty_like(q)

    def ours() -> Any:
        module.context_attention_fwd(q, k, v, out, start, length, shape[2])
        return out[None]

    return ours, {"torch": lambda: attended(torch, torch.float32, shape)}


@functools.cache
def linear_inputs(torch: Any, batch: int, length: int) -> tuple[Any, ...]:
    """Queries, keys, values, logarithms of gates by feature and by head, how much is learnt, and a state."""
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(7))
    q, k, v = (draw(batch, length, HEADS, n) * 0.3 for n in (STATE, STATE, SIZE))
    k = torch.nn.functional.normalize(k, dim=-1)
    gates, gate = (torch.nn.functional.logsigmoid(draw(batch, length, HEADS, *n)) / 8 for n in ((STATE,), ()))
    return q, k, v, gates, gate, draw(batch, length, HEADS).sigmoid(), draw(batch, HEADS, STATE, SIZE)


def recurrence(torch: Any, dtype: Any, batch: int, length: int, delta: bool, carried: bool) -> Any:
    """Linear attention token by token: states decay and take up k v', or what they do not know yet of it."""
    q, k, v, gates, gate, beta, state = (x.to(dtype) for x in linear_inputs(torch, batch, length))
    state, outputs = state if carried else torch.zeros_like(state), []
    for t in range(length):
        state = state * (gate[:, t, :, None, None] if delta else gates[:, t, ..., None]).exp()
        new = v[:, t]
        if delta:
            new = (new - (k[:, t, :, None] @ state)[:, :, 0]) * beta[:, t, :, None]
        state = state + k[:, t, ..., None] * new[:, :, None]
        outputs.append((q[:, t, :, None] @ state)[:, :, 0] * STATE**-0.5)
    return torch.stack(outputs, 1)


def gla(found: Any, name: str, batch: int, length: int) -> tuple[Impl, Mapping[str, Impl]]:
    """Gated linear attention; the peer is fla's own code in torch."""
    torch: Any = imported("torch")
    module, naive = (
        found.load(found.fla, f"ops/gla/{file}.py") for file in (name.split("_gla", maxsplit=1)[0], "naive")
    )
    q, k, v, gates, _, _, state = linear_inputs(torch, batch, length)
    start = {"initial_state": state} if length == 1 else {}
    kernel = getattr(module, name)

    def theirs() -> Any:
        return naive.naive_recurrent_gla(q, k, v, gates, **start)[0]

    return lambda: kernel(q, k, v, gates, **start)[0], {"torch": theirs}


def gated_delta(found: Any, name: str, batch: int, length: int) -> tuple[Impl, Mapping[str, Impl]]:
    """The gated delta rule; the peer is fla's own code in torch, in chunks where the kernel works in chunks."""
    torch: Any = imported("torch")
    folder, file = "ops/gated_delta_rule", name.removesuffix("_gated_delta_rule")
    module, naive = (found.load(found.fla, f"{folder}/{part}.py") for part in (file, "naive"))
    q, k, v, _, gate, beta, state = linear_inputs(torch, batch, length)
    kernel, start = getattr(module, name), {"initial_state": state} if length == 1 else {}
    naive.rearrange = lambda x, _, c=None: x.unflatten(2, (-1, c)) if c else x.flatten(2, 3)  # of einops
    peer = naive.naive_recurrent_gated_delta_rule if length == 1 else naive.naive_chunk_gated_delta_rule
    arguments = {"g": gate, "beta": beta, **start}
    return lambda: kernel(q, k, v, **arguments)[0], {"torch": lambda: peer(q, k, v, **arguments)[0]}


def row(name: str, shape: str, work: float, build: Callable[[], Case], bar: float) -> Row:
    bars, threads = (Bar("torch", bar, threads=1),), (1, 2)
    return Row(name, shape, work, "element", "", 1e-3, build, bars, threads, needs="torch")


def vllm_row(name: str, make: Any, shape: tuple[int, int, int], bar: float) -> Row:
    requests, new, length = shape
    build = partial(case, partial(make, shape=shape), partial(in_double, partial(attended, shape=shape)))
    title = f"{requests} x {new} to {length}, {HEADS} x {SIZE}"
    return row(f"{name} (vLLM)", title, requests * new * HEADS * SIZE, build, bar)


def fla_row(name: str, make: Any, batch: int, length: int, bar: float) -> Row:
    is_delta, kind = make is gated_delta, {"batch": batch, "length": length}
    reference = partial(recurrence, **kind, delta=is_delta, carried=length == 1)
    build = partial(case, partial(make, name=name, **kind), partial(in_double, reference))
    return row(f"{name} (fla)", f"{batch} x {length} x {HEADS} x {SIZE}", batch * length * HEADS * SIZE, build, bar)


ROWS: Final = (
    vllm_row("unified_attention, prefill", unified, PREFILL, 0.8),
    vllm_row("unified_attention, decoding", unified, DECODE, 0.8),
    vllm_row("decode_attention_fwd", decoded, DECODE, 0.8),
    vllm_row("context_attention_fwd", prefilled, PREFILL, 0.8),
    fla_row("chunk_gla", gla, 1, LENGTH, 1.0),
    fla_row("fused_recurrent_gla", gla, 8, 1, 1.0),
    fla_row("chunk_gated_delta_rule", gated_delta, 1, LENGTH, 1.0),
    fla_row("fused_recurrent_gated_delta_rule", gated_delta, 8, 1, 1.0),
)
