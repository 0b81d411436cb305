"""The suite `attention`: forward by dtype and mask, with groups of heads, and backward."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import ml_dtypes
import numpy as np

from benchmarks.data import bind, random
from benchmarks.kernels import attention as kernels
from benchmarks.peers import compiled_torch, jax_function, tensor, torch_peers
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite


def weights(q: Any, k: Any, causal: bool) -> Any:
    """Softmax of the scores by numpy, in the dtype of q."""
    s = q @ k.transpose(0, 2, 1)
    s *= 1 / math.sqrt(q.shape[2])
    if causal:
        s[:, ~np.tri(q.shape[1], dtype=bool)] = -np.inf
    s -= s.max(axis=2, keepdims=True)
    np.exp(s, out=s)
    s /= s.sum(axis=2, keepdims=True)
    return s


def plain(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention by numpy, in the dtype of q; every head of k and v serves a group of those of q."""
    group = q.shape[0] // k.shape[0]
    return weights(q, np.repeat(k, group, axis=0), causal) @ np.repeat(v, group, axis=0)


def forward_case(
    heads: int, n: int, d: int, causal: bool = False, dtype: Any = np.float32, groups: int = 1,
    blocks: Any = (128, 128), precision: str = "ieee"
) -> Case:  # fmt: skip
    q = random(heads, n, d, dtype=dtype)
    k, v = (random(heads // groups, n, d, spread=spread, dtype=dtype) for spread in (4.0, 2.0))
    out, logs = np.empty((heads, n, d), dtype), np.empty((heads, n), np.float32)

    def by_torch(torch: Any) -> Mapping[str, Impl | Missing]:
        given = [tensor(torch, array)[None] for array in (q, k, v)]
        sdpa = torch.nn.functional.scaled_dot_product_attention
        fused = partial(sdpa, is_causal=causal, enable_gqa=groups > 1)

        def unfused(a: Any, b: Any, c: Any) -> Any:
            b, c = (t.repeat_interleave(groups, 1) if groups > 1 else t for t in (b, c))
            s = a @ b.transpose(-1, -2) * (1 / math.sqrt(d))
            s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), -math.inf) if causal else s
            return torch.softmax(s, -1) @ c

        return {"torch": lambda: fused(*given)[0], "torch.compile": first(compiled_torch(torch, unfused, given))}

    def by_jax(jax: Any, *args: Any) -> Any:
        first_positions = [x.transpose(1, 0, 2)[None] for x in args]
        return jax.nn.dot_product_attention(*first_positions, is_causal=causal)[0].transpose(1, 0, 2)

    numpy: dict[str, Impl] = {"numpy": lambda: plain(q, k, v, causal)} if dtype is np.float32 else {}
    peers = {**numpy, **torch_peers(by_torch), **jax_function(by_jax, q, k, v)}

    def reference() -> Any:
        wide = [x.astype(np.float64) for x in (q, k, v)]
        return plain(wide[0], wide[1], wide[2], causal)

    return Case(bind(out, kernels.attention, q, k, v, out, logs, causal, blocks, precision), peers, reference, [out])


def first(impl: Impl | Missing) -> Impl | Missing:
    """The only item of a batch."""
    return impl if isinstance(impl, Missing) else lambda: impl()[0]


def gradients(q: Any, k: Any, v: Any, dout: Any) -> tuple[Any, Any, Any]:
    """The gradients by q, k and v, by numpy."""
    p = weights(q, k, False)
    dp = dout @ v.transpose(0, 2, 1)
    ds = p * (dp - (dp * p).sum(axis=2, keepdims=True)) / math.sqrt(q.shape[2])
    return ds @ k, ds.transpose(0, 2, 1) @ q, p.transpose(0, 2, 1) @ dout


def backward_case(heads: int, n: int, d: int) -> Case:
    """The forward pass is done once, before; only the backward pass is checked and timed."""
    q, k, v, dout = (random(heads, n, d, spread=spread) for spread in (4.0, 3.0, 2.0, 1.0))
    out, (logs, product) = np.empty_like(q), np.empty((2, heads, n), np.float32)
    grads = tuple(np.empty_like(q) for _ in range(3))
    bind(None, kernels.attention, q, k, v, out, logs)()

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        with torch.inference_mode(False):
            leaves = [torch.from_numpy(array).clone()[None].requires_grad_() for array in (q, k, v)]
            above = torch.from_numpy(dout).clone()[None]
            result = torch.nn.functional.scaled_dot_product_attention(*leaves)

        def run() -> Any:
            with torch.inference_mode(False):
                return [g[0] for g in torch.autograd.grad(result, leaves, above, retain_graph=True)]

        return {"torch": run}

    def by_jax(jax: Any, *args: Any) -> Any:
        def attend(a: Any, b: Any, c: Any) -> Any:
            return jax.nn.softmax(a @ b.transpose(0, 2, 1) / math.sqrt(d), axis=-1) @ c

        return jax.vjp(attend, *args[:3])[1](args[3])

    peers = {"numpy": lambda: gradients(q, k, v, dout), **torch_peers(by_torch), **jax_function(by_jax, q, k, v, dout)}
    ours = bind(grads, kernels.attention_backward, q, k, v, out, logs, dout, product, grads)
    return Case(ours, peers, lambda: gradients(*(x.astype(np.float64) for x in (q, k, v, dout))), grads)


def decode_case(heads: int, groups: int, n: int, d: int, rows: int) -> Case:
    """The heads of a group read the same keys; the peer is the same kernel with its programs in the grid's order."""
    q = random(heads, d) / np.float32(math.sqrt(d))
    k, v = (random(groups, n, d, spread=spread, dtype=BF16) for spread in (4.0, 2.0))
    outs = [np.empty((heads, n // rows, d), np.float32) for _ in range(2)]
    launch = kernels.decode_kernel[n // rows, heads]
    sizes = {"GROUP": heads // groups, "ROWS": rows, "BLOCK": 64}

    def reference() -> Any:
        def parts(x: Any) -> Any:
            return np.repeat(x.astype(np.float64).reshape(groups, n // rows, rows, d), heads // groups, axis=0)

        s = np.einsum("hpkd,hd->hpk", parts(k), q.astype(np.float64))
        e = np.exp(s - s.max(axis=2, keepdims=True))
        return np.einsum("hpk,hpkd->hpd", e / e.sum(axis=2, keepdims=True), parts(v))

    ours, theirs = (
        bind(out, partial(launch, affinity=affinity, **sizes), q, k, v, out)
        for out, affinity in zip(outs, ("k", ""), strict=True)
    )
    return Case(ours, {"in the grid's order": theirs}, reference, outs[:1])


def row(name: str, heads: int, n: int, d: int, bars: tuple[Bar, ...], family: str, **options: Any) -> Row:
    """A row of the forward pass."""
    low = options.get("dtype", np.float32) is not np.float32
    work = 4.0 * heads * n * n * d / (2 if options.get("causal") else 1)
    size = (2 + 2 / options.get("groups", 1)) * heads * n * d * (2 if low else 4)
    shape, limit, tolerance = f"{heads} x {n} x {d}", "bf16" if low else "fma", 1.5e-2 if low else 1e-5
    if "precision" in options:
        limit, tolerance = options["precision"], 1e-4
    build = partial(forward_case, heads, n, d, **options)
    return Row(name, shape, work, "flop", limit, tolerance, build, bars, (0,), family, work / size)


BF16: Final = ml_dtypes.bfloat16
BEST: Final = (Bar("", 0.95),)
BARRED: Final = (
    row("attention", 16, 1024, 64, (Bar("torch", 1.2),), "attention"),
    row("causal attention", 16, 2048, 64, (Bar("torch", 1.4),), "attention", causal=True),
    row("attention bf16", 16, 1024, 64, (Bar("torch", 2.0),), "attention bf16", dtype=BF16, blocks=(64, 1024)),
)
MORE: Final = (
    row("causal attention bf16", 16, 2048, 64, BEST, "attention bf16", dtype=BF16, causal=True, blocks=(64, 512)),
    row("attention, 4 heads share", 16, 1024, 64, BEST, "attention", groups=4),
    row("attention", 12, 197, 64, BEST, "attention"),
    row("attention bf16x3", 16, 1024, 64, BEST, "attention bf16x3", blocks=(64, 1024), precision="bf16x3"),
    row("causal attention bf16x3", 16, 2048, 64, BEST, "attention bf16x3", causal=True, precision="bf16x3"),
    row("attention, blocks of 64", 16, 1024, 64, BEST, "attention", blocks=(64, 64)),
    Row("attention backward", "8 x 1024 x 64", 10.0 * 8 * 1024**2 * 64, "flop", "fma", 1e-5,
        partial(backward_case, 8, 1024, 64), BEST, (0,), "attention backward", 10 * 1024 / 4 / 8),
    Row("decode with affinity to the keys", "32 heads of 4 groups x 32k x 128", 2.0 * 2 * 4 * 2**15 * 128, "B",
        "read DRAM", 1e-4, partial(decode_case, 32, 4, 2**15, 128, 1024)),
)  # fmt: skip
ATTENTION: Final = Suite("attention", (*BARRED, *MORE), (), 0.0, 0.95)
