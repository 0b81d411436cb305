"""The suite `triton`: Triton kernels of packages on the CPU, beside torch's own code for the same work.

The sources are those of the packages, unedited, as the tests of compatibility bring them (`tests/compat/sources.py`).
"""

from __future__ import annotations

import atexit
import functools
import sys
import types
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.peers import imported, quiet
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite

BATCH, LENGTH, HEADS, SIZE, STATE, CHUNK = 1, 512, 8, 64, 64, 256
ROWS_OF_LOGITS, WORDS = 16, 32000


@functools.cache
def sources() -> Any | Missing:
    """The module of the tests that has the packages, and Triton in this process; both stay until it ends."""
    torch: Any = imported("torch")
    if isinstance(torch, Missing):
        return torch
    from tests.compat import sources as packages
    from tests.compat.world import FLA, MAMBA

    vllm = packages.Repository("vllm-project/vllm", "v0.32.0", "vllm", "vllm")
    opened = ExitStack()
    atexit.register(opened.close)
    opened.enter_context(packages.libraries((FLA, MAMBA, vllm)))
    return types.SimpleNamespace(
        load=packages.load, missing=packages.Unavailable, fla=FLA, mamba=MAMBA, vllm=vllm, opened=opened
    )


def case(make: Callable[[Any], tuple[Impl, Mapping[str, Impl]]], reference: Callable[[Any], Any]) -> Case:
    """A row: kernels of a package and torch's code; the reference is torch's in float64."""
    found = sources()
    if isinstance(found, Missing):
        return Case(found, {"torch": found}, lambda: None)
    torch: Any = imported("torch")
    torch.manual_seed(0)
    ours: Impl | Missing
    peers: Mapping[str, Impl | Missing]
    try:
        with quiet():
            ours, peers = make(found)
            ours()
    except (found.missing, AttributeError) as error:  # without a network, a package is a folder without files
        ours = Missing(f"the source cannot be had: {error}")
        peers = {"torch": ours}
    return Case(ours, peers, partial(reference, torch), view=finite)


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
def logits(torch: Any) -> tuple[Any, Any, Any]:
    values = torch.randn(ROWS_OF_LOGITS, WORDS, generator=torch.Generator().manual_seed(2)) * 3
    k, p = torch.full((ROWS_OF_LOGITS,), 50, dtype=torch.int32), torch.full((ROWS_OF_LOGITS,), 0.9)
    return values, k, p


def sampled(torch: Any, dtype: Any) -> Any:
    """Logits with all but the likeliest words masked, by the sort that vLLM's code without Triton does."""
    values, k, p = logits(torch)
    ordered, index = values.to(dtype).sort(-1)
    least = ordered.gather(1, (WORDS - k.long())[:, None])
    ordered = ordered.masked_fill(ordered < least, -torch.inf)
    masked = ordered.softmax(-1).cumsum(-1) <= 1 - p[:, None].to(dtype)
    masked[:, -1] = False
    return torch.empty_like(ordered).scatter_(-1, index, ordered.masked_fill(masked, -torch.inf))


def finite(result: Any) -> Any:
    """Logits with a number for those that are masked."""
    return np.nan_to_num(result, neginf=-1e3)


def vllm_sampler(found: Any) -> tuple[Impl, Mapping[str, Impl]]:
    torch: Any = imported("torch")
    triton, tl = imported("triton"), imported("triton.language")
    # The rest of the package decides at its import whether there is a GPU.
    utilities: Any = types.ModuleType("vllm.triton_utils")
    utilities.triton, utilities.tl = triton, tl
    sys.modules["vllm.triton_utils"] = utilities
    module = found.load(found.vllm, "v1/sample/ops/topk_topp_triton.py")
    values, k, p = logits(torch)
    buffer, fresh = torch.empty(2, WORDS), torch.empty_like(values)
    tables = torch.tensor(module._PERCENTILE_TO_STD_TABLE), torch.tensor(module._NORMAL_CDF_TO_SIGMA_TABLE)
    constants = {
        "VOCAB_SIZE": WORDS, "MASK_VALUE": float("-inf"), "BLOCK_SIZE": 256, "BLOCK_SIZE_TRUNC": 128,
        "TOPK_ENABLED": True, "TOPP_ENABLED": True, "SPLIT_COVERS_PONLY": False,
    }  # fmt: skip  # as vLLM chooses them for a CPU

    def ours() -> Any:
        fresh.copy_(values)
        module._topk_topp_kernel[(2,)](fresh, WORDS, buffer, *tables, k, p, ROWS_OF_LOGITS, **constants)
        return fresh

    return ours, {"torch": lambda: sampled(torch, torch.float32)}


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


def in_double(function: Callable[[Any, Any], Any], torch: Any) -> Any:
    return finite(function(torch, torch.float64).numpy())


def row(name: str, shape: str, work: float, make: Any, function: Any, bar: float) -> Row:
    build = partial(case, make, partial(in_double, function))
    return Row(name, shape, work, "element", "", 1e-3, build, (Bar("torch", bar),), (1,), needs="torch")


ROWS: Final = (
    row("Mamba2 scan (state-spaces)", "512 x 8 x 64", LENGTH * HEADS * SIZE, mamba_scan, scan, 1.0),
    row("state update (state-spaces)", "8 x 1024 x 16", 8 * 1024 * 16, mamba_update, update, 0.7),
    row("top-k and top-p (vLLM)", "16 x 32000", ROWS_OF_LOGITS * WORDS, vllm_sampler, sampled, 1.5),
    row("causal attention (fla)", "512 x 8 x 64", 512 * HEADS * SIZE, fla_attention, attended, 0.8),
)
TRITON: Final = Suite("triton", ROWS)
