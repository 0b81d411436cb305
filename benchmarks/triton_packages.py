"""The suite `triton`: Triton kernels of packages on the CPU, beside torch's own code for the same work.

The sources are those of the packages, unedited, as the tests of compatibility bring them (`tests/compat/sources.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from benchmarks import triton_attention, triton_sampler
from benchmarks.peers import imported
from benchmarks.runner import Bar, Impl, Row, Suite
from benchmarks.triton_sources import case, in_double

BATCH, LENGTH, HEADS, SIZE, STATE, CHUNK = 1, 512, 8, 64, 64, 256


@functools.cache
def scan_inputs(torch: Any) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(0)
    draw = partial(torch.randn, generator=generator)
    x, b, c = draw(BATCH, LENGTH, HEADS, SIZE), draw(BATCH, LENGTH, 1, STATE), draw(BATCH, LENGTH, 1, STATE)
    return x, draw(BATCH, LENGTH, HEADS).abs() / 8, -draw(HEADS).abs(), b, c


def scan(torch: Any, dtype: Any) -> Any:
    """Mamba2's scan in chunks, as products of matrices: within a chunk, and of the state that a chunk begins with."""
    x, dt, a, b, c = (t.to(dtype) for t in scan_inputs(torch))
    n = LENGTH // CHUNK
    x, dt = x.reshape(n, CHUNK, HEADS, SIZE), dt.reshape(n, CHUNK, HEADS)
    b, c = b.reshape(n, CHUNK, STATE), c.reshape(n, CHUNK, STATE)
    sums = (dt * a).cumsum(1).permute(2, 0, 1)
    decay = (sums[..., :, None] - sums[..., None, :]).tril().exp().tril()
    scaled = (x * dt[..., None]).permute(2, 0, 1, 3)
    inner = ((c @ b.transpose(1, 2)) * decay) @ scaled
    ends = (scaled * (sums[..., -1:] - sums).exp()[..., None]).transpose(2, 3) @ b
    state, before = torch.zeros_like(ends[:, 0]), []
    for chunk in range(n):
        before.append(state)
        state = state * sums[:, chunk, -1].exp()[:, None, None] + ends[:, chunk]
    outer = (c @ torch.stack(before, 1).transpose(2, 3)) * sums.exp()[..., None]
    return (inner + outer).permute(1, 2, 0, 3).reshape(BATCH, LENGTH, HEADS, SIZE)


def mamba_scan(found: Any) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module, (x, dt, a, b, c) = found.load(found.mamba, "ops/triton/ssd_combined.py"), scan_inputs(torch)
    module.rearrange = lambda t, _, n=None: t.flatten(-2) if n is None else t.unflatten(-1, (-1, n))  # of einops

    def ours() -> Any:
        return module._mamba_chunk_scan_combined_fwd(x, dt, a, b, c, CHUNK)[0]

    return ours, {"torch": lambda: scan(torch, torch.float32)}


@functools.cache
def update_inputs(torch: Any) -> tuple[Any, ...]:
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(1))
    state, x, dt = draw(8, 1024, 16), draw(8, 1024), draw(8, 1024)
    return state, x, dt, -draw(1024, 16).abs(), draw(8, 16), draw(8, 16), draw(1024), draw(8, 1024), draw(1024)


def update(torch: Any, dtype: Any, place: Any = None) -> Any:
    """One step of Mamba's recurrence, whose state is updated in place."""
    state, x, dt, a, b, c, d, z, bias = (t.to(dtype) for t in update_inputs(torch))
    step = torch.nn.functional.softplus(dt + bias)
    new = state * (step[..., None] * a).exp() + step[..., None] * b[:, None] * x[..., None]
    if place is not None:
        place.copy_(new)
    return ((new * c[:, None]).sum(-1) + x * d) * torch.nn.functional.silu(z)


def mamba_update(found: Any) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module = found.load(found.mamba, "ops/triton/selective_state_update.py")
    state, x, dt, *others = update_inputs(torch)
    fresh, place = torch.empty_like(state), torch.empty_like(state)

    def ours() -> Any:
        return module.selective_state_update(fresh.copy_(state), x, dt, *others, dt_softplus=True)

    return ours, {"torch": lambda: update(torch, torch.float32, place)}


@functools.cache
def attention_inputs(torch: Any, length: int = 512) -> tuple[Any, Any, Any]:
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(3))
    q, k, v = (draw(1, length, HEADS, SIZE) for _ in range(3))
    return q, k, v


def attended(torch: Any, dtype: Any) -> Any:
    q, k, v = (t.to(dtype).transpose(1, 2) for t in attention_inputs(torch))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


def fla_attention(found: Any) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    module, (q, k, v) = found.load(found.fla, "ops/attn/parallel.py"), attention_inputs(torch)

    def ours() -> Any:
        return module.parallel_attn_fwd(q, k, v, None, None, SIZE**-0.5)[0]

    return ours, {"torch": lambda: attended(torch, torch.float32)}


def row(name: str, shape: str, work: float, make: Any, function: Any, bar: float) -> Row:
    build = partial(case, make, partial(in_double, function))
    return Row(name, shape, work, "element", "", 1e-3, build, (Bar("torch", bar),), (1,), needs="torch")


ROWS: Final = (
    row("Mamba2 scan (state-spaces)", "512 x 8 x 64", LENGTH * HEADS * SIZE, mamba_scan, scan, 1.0),
    row("state update (state-spaces)", "8 x 1024 x 16", 8 * 1024 * 16, mamba_update, update, 0.7),
    row("causal attention (fla)", "512 x 8 x 64", 512 * HEADS * SIZE, fla_attention, attended, 0.8),
)
TRITON: Final = Suite("triton", (*ROWS, *triton_attention.ROWS, *triton_sampler.ROWS))
