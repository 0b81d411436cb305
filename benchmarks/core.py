"""The suite `core`: elementwise, row kernels, matrix product, a whole network, and what a call costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.encoder import BATCH, LONG, REAL_TOKENS, encoder_case, encoder_flops, long_batch, real_batch
from benchmarks.ours import ours
from benchmarks.peers import torch_peers
from benchmarks.probes import PROBES
from benchmarks.runner import Bar, Case, Impl, Missing, Row, Suite

EPS: Final = 1e-5
TORCH_1: Final = (Bar("torch", 1.0),)


def random(*shape: int, spread: float = 4.0) -> Any:
    """Reproducible float32 numbers around zero."""
    return (np.random.default_rng(sum(shape)).random(shape, np.float32) - 0.5) * np.float32(spread)


def bind(helper: Callable[..., Any] | Missing, out: Any, *args: Any) -> Impl | Missing:
    """The tutorial's helper on its arguments, giving its output."""
    if isinstance(helper, Missing):
        return helper

    def run() -> Any:
        helper(*args)
        return out

    return run


def add_case(n: int) -> Case:
    x, y, out = random(n), random(n, spread=2), np.empty(n, np.float32)

    def peers(torch: Any) -> Mapping[str, Impl]:
        tx, ty, to = map(torch.from_numpy, (x, y, out))
        return {"torch": lambda: tx + ty, "torch out=": lambda: torch.add(tx, ty, out=to)}

    numpy = {"numpy": lambda: np.add(x, y, out=out)}
    mine = bind(ours("01_vector_add", "vector_add"), out, x, y, out)
    return Case(mine, {**numpy, **torch_peers(peers)}, lambda: x.astype(np.float64) + y, [out])


def softmax_case(m: int, n: int) -> Case:
    x, out = random(m, n, spread=16), np.empty((m, n), np.float32)

    def numpy() -> Any:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(1, keepdims=True), out=out)

    def peers(torch: Any) -> Mapping[str, Impl]:
        tx, to = map(torch.from_numpy, (x, out))
        into = torch.ops.aten._softmax.out
        return {"torch": lambda: torch.softmax(tx, -1), "torch out=": lambda: into(tx, -1, False, out=to)}

    def reference() -> Any:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    mine = bind(ours("02_fused_softmax", "softmax_rows"), out, x, out)
    return Case(mine, {"numpy": numpy, **torch_peers(peers)}, reference, [out])


def layer_norm_case(m: int, n: int) -> Case:
    x, weight, bias, out = random(m, n), random(n), random(n, spread=2), np.empty((m, n), np.float32)

    def numpy() -> Any:
        np.subtract(x, x.mean(1, keepdims=True), out=out)
        variance = np.einsum("ij,ij->i", out, out)[:, None] / n
        np.multiply(out, 1 / np.sqrt(variance + EPS), out=out)
        np.multiply(out, weight, out=out)
        return np.add(out, bias, out=out)

    def peers(torch: Any) -> Mapping[str, Impl]:
        tx, tw, tb, to = map(torch.from_numpy, (x, weight, bias, out))
        mean, rstd = torch.empty(m, 1), torch.empty(m, 1)
        into = partial(torch.ops.aten.native_layer_norm.out, out0=to, out1=mean, out2=rstd)
        return {
            "torch": lambda: torch.nn.functional.layer_norm(tx, (n,), tw, tb, EPS),
            "torch out=": lambda: into(tx, (n,), tw, tb, EPS)[0],
        }

    def reference() -> Any:
        d = x.astype(np.float64)
        d -= d.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + EPS) * weight + bias

    mine = bind(ours("04_layer_norm", "layer_norm"), out, x, weight, bias, out, EPS)
    return Case(mine, {"numpy": numpy, **torch_peers(peers)}, reference, [out])


def matmul_case(m: int, n: int, k: int) -> Case:
    a, b, out = random(m, k), random(k, n, spread=2), np.empty((m, n), np.float32)

    def peers(torch: Any) -> Mapping[str, Impl]:
        ta, tb, to = map(torch.from_numpy, (a, b, out))
        return {"torch out=": lambda: torch.mm(ta, tb, out=to)}

    numpy = {"numpy": lambda: np.matmul(a, b, out=out)}
    mine = bind(ours("03_matrix_multiplication", "matmul"), out, a, b, out)
    return Case(mine, {**numpy, **torch_peers(peers)}, lambda: a.astype(np.float64) @ b, [out])


def _encoder_row(shape: str, tokens: int, make_batch: Callable[[], Any]) -> Row:
    bars = (Bar("numpy", 3.0), Bar("torch", 1.0))
    build = partial(encoder_case, make_batch)
    return Row("sentence encoder", shape, encoder_flops(tokens), "flop", "fma", 1e-5, build, bars)


def _add_row(n: int, level: str) -> Row:
    return Row("vector add", f"{n >> 20}M", 12 * n, "B", f"add {level}", 3e-7, partial(add_case, n), TORCH_1)


ROWS: Final = (
    _add_row(1 << 20, "L3"),
    _add_row(1 << 24, "DRAM"),
    Row("softmax", "4096²", 8 * 4096**2, "B", "copy DRAM", 1e-6, partial(softmax_case, 4096, 4096), TORCH_1),
    Row("layer norm", "4096²", 8 * 4096**2, "B", "copy DRAM", 1e-5, partial(layer_norm_case, 4096, 4096), TORCH_1),
    Row("matmul", "1024³", 2 * 1024**3, "flop", "fma", 2e-4, partial(matmul_case, 1024, 1024, 1024),
        (Bar("limit", 0.6),), (1, 0)),
    _encoder_row("32 sentences", REAL_TOKENS, real_batch),
    _encoder_row("32 x 128 tokens", BATCH * LONG, long_batch),
)  # fmt: skip
CORE: Final = Suite("core", ROWS, PROBES)
