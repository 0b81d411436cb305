"""The suite `rows`: one program per row, beside elementwise work and the movement of elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks import elementwise
from benchmarks.data import EPS, bind, memory_limit, random
from benchmarks.kernels import rows as kernels
from benchmarks.peers import jax_function, numba_function, torch_function, torch_peers
from benchmarks.runner import Bar, Case, Impl, Row, Suite


def softmax_case(m: int, n: int, kernel: Callable[..., Any] = kernels.softmax) -> Case:
    x, out = random(m, n, spread=16), np.empty((m, n), np.float32)

    def numpy() -> Any:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        np.exp(out, out=out)
        return np.divide(out, out.sum(1, keepdims=True), out=out)

    def into(torch: Any) -> Mapping[str, Impl]:
        tx, to = map(torch.from_numpy, (x, out))
        softmax = torch.ops.aten._softmax.out
        return {"torch out=": lambda: softmax(tx, -1, False, out=to)}

    def reference() -> Any:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    peers = {
        "numpy": numpy,
        **torch_function(lambda torch, a: torch.softmax(a, -1), x),
        **torch_peers(into),
        **numba_function("softmax", x, out),
        **jax_function(lambda jax, a: jax.nn.softmax(a, axis=1), x),
    }
    return Case(bind(out, kernel, x, out), peers, reference, [out])


def persistent_softmax_case(m: int, n: int) -> Case:
    """By a kernel in Triton's style, whose programs take row after row."""
    return softmax_case(m, n, kernels.persistent_softmax)


def gated_case(m: int, n: int) -> Case:
    x, gate, out = random(m, n), random(m, n, spread=4), np.empty((m, n), np.float32)
    peers = {
        "numpy": lambda: np.divide(x * gate, 1 + np.exp(-gate), out=out),
        **torch_function(lambda torch, a, g: a * torch.nn.functional.silu(g), x, gate),
        **jax_function(lambda jax, a, g: a * jax.nn.silu(g), x, gate),
    }

    def reference() -> Any:
        g = gate.astype(np.float64)
        return x * g / (1 + np.exp(-g))

    return Case(bind(out, kernels.gated, x, gate, out), peers, reference, [out])


def layer_norm_case(m: int, n: int) -> Case:
    x, weight, bias, out = random(m, n), random(n), random(n, spread=2), np.empty((m, n), np.float32)

    def numpy() -> Any:
        np.subtract(x, x.mean(1, keepdims=True), out=out)
        variance = np.einsum("ij,ij->i", out, out)[:, None] / n
        np.multiply(out, 1 / np.sqrt(variance + EPS), out=out)
        np.multiply(out, weight, out=out)
        return np.add(out, bias, out=out)

    def into(torch: Any) -> Mapping[str, Impl]:
        tx, tw, tb, to = map(torch.from_numpy, (x, weight, bias, out))
        mean, rstd = torch.empty(m, 1), torch.empty(m, 1)
        norm = partial(torch.ops.aten.native_layer_norm.out, out0=to, out1=mean, out2=rstd)
        return {"torch out=": lambda: norm(tx, (n,), tw, tb, EPS)[0]}

    def reference() -> Any:
        d = x.astype(np.float64)
        d -= d.mean(1, keepdims=True)
        return d / np.sqrt((d * d).mean(1, keepdims=True) + EPS) * weight + bias

    def by_jax(jax: Any, a: Any, w: Any, b: Any) -> Any:
        d = a - a.mean(1, keepdims=True)
        return d * jax.lax.rsqrt((d * d).mean(1, keepdims=True) + EPS) * w + b

    peers = {
        "numpy": numpy,
        **torch_function(lambda t, a, w, b: t.nn.functional.layer_norm(a, (n,), w, b, EPS), x, weight, bias),
        **torch_peers(into),
        **numba_function("layer_norm", x, weight, bias, np.float32(EPS), out),
        **jax_function(by_jax, x, weight, bias),
    }
    return Case(bind(out, kernels.layer_norm, x, weight, bias, out, EPS), peers, reference, [out])


def rms_scale(t: Any) -> Any:
    """1 / root mean square of the rows, by numpy."""
    return (1 / np.sqrt(np.einsum("ij,ij->i", t, t) / t.shape[1] + EPS))[:, None]


def rms_norm_case(m: int, n: int) -> Case:
    x, weight, out = random(m, n), random(n), np.empty((m, n), np.float32)

    def by_jax(jax: Any, a: Any, w: Any) -> Any:
        return a * jax.lax.rsqrt((a * a).mean(1, keepdims=True) + EPS) * w

    def reference() -> Any:
        d = x.astype(np.float64)
        return d * rms_scale(d) * weight

    peers = {
        "numpy": lambda: x * rms_scale(x).astype(np.float32) * weight,
        **torch_function(lambda t, a, w: t.nn.functional.rms_norm(a, (n,), w, EPS), x, weight),
        **numba_function("rms_norm", x, weight, np.float32(EPS), out),
        **jax_function(by_jax, x, weight),
    }
    return Case(bind(out, kernels.rms_norm, x, weight, out, EPS), peers, reference, [out])


def residual_case(m: int, n: int) -> Case:
    x, residual, weight = random(m, n), random(m, n, spread=2), random(n)
    out, total = np.empty((m, n), np.float32), np.empty((m, n), np.float32)

    def numpy() -> Any:
        t = x + residual
        return t * rms_scale(t).astype(np.float32) * weight, t

    def by_torch(torch: Any, a: Any, r: Any, w: Any) -> Any:
        t = a + r
        return torch.nn.functional.rms_norm(t, (n,), w, EPS), t

    def by_jax(jax: Any, a: Any, r: Any, w: Any) -> Any:
        t = a + r
        return t * jax.lax.rsqrt((t * t).mean(1, keepdims=True) + EPS) * w, t

    def reference() -> Any:
        t = x.astype(np.float64) + residual
        return t * rms_scale(t) * weight, t

    both = (out, total)
    peers = {
        "numpy": numpy,
        **torch_function(by_torch, x, residual, weight),
        **numba_function("residual_rms_norm", x, residual, weight, np.float32(EPS), out, total, result=both),
        **jax_function(by_jax, x, residual, weight),
    }
    ours = bind(both, kernels.residual_rms_norm, x, residual, weight, out, total, EPS)
    return Case(ours, peers, reference, both)


def cross_entropy_case(m: int, n: int) -> Case:
    x, loss = random(m, n, spread=16), np.empty(m, np.float32)
    labels = np.random.default_rng(m).integers(0, n, m)

    def by_numpy(logits: Any) -> Any:
        most = logits.max(1)
        return np.log(np.exp(logits - most[:, None]).sum(1)) + most - logits[np.arange(m), labels]

    def by_jax(jax: Any, a: Any, at: Any) -> Any:
        return jax.nn.logsumexp(a, 1) - jax.numpy.take_along_axis(a, at[:, None], 1)[:, 0]

    def by_torch(torch: Any, a: Any, at: Any) -> Any:
        return torch.nn.functional.cross_entropy(a, at, reduction="none")

    peers = {
        "numpy": lambda: by_numpy(x),
        **torch_function(by_torch, x, labels),
        **numba_function("cross_entropy", x, labels, loss),
        **jax_function(by_jax, x, labels.astype(np.int32)),
    }
    ours = bind(loss, kernels.cross_entropy, x, labels, loss)
    return Case(ours, peers, lambda: by_numpy(x.astype(np.float64)), [loss])


def quantise_case(m: int, n: int) -> Case:
    """What is compared is q · scale with x: half a step is all that may be lost."""
    x, q, scales = random(m, n), np.empty((m, n), np.int8), np.empty(m, np.float32)

    def numpy() -> Any:
        scale = np.abs(x).max(1, keepdims=True) / np.float32(127)
        return np.rint(x / scale).astype(np.int8), scale

    def by_torch(torch: Any, a: Any) -> Any:
        scale = a.abs().amax(1, keepdim=True) / 127
        return torch.round(a / scale).to(torch.int8), scale

    def by_jax(jax: Any, a: Any) -> Any:
        scale = jax.numpy.abs(a).max(1, keepdims=True) / 127
        return jax.numpy.round(a / scale).astype(jax.numpy.int8), scale

    def restored(pair: Any) -> Any:
        return pair[0] * pair[1].astype(np.float64).reshape(m, 1)

    both = (q, scales)
    peers = {
        "numpy": numpy,
        **torch_function(by_torch, x),
        **numba_function("quantise", x, q, scales, result=both),
        **jax_function(by_jax, x),
    }
    return Case(bind(both, kernels.quantise, x, q, scales), peers, lambda: x.astype(np.float64), both, restored)


def cumsum_case(m: int, n: int) -> Case:
    x, out = random(m, n), np.empty((m, n), np.float32)
    peers = {
        "numpy": lambda: np.cumsum(x, axis=1, out=out),
        **torch_function(lambda torch, a: torch.cumsum(a, 1), x),
        **numba_function("cumsum", x, out),
        **jax_function(lambda jax, a: jax.numpy.cumsum(a, axis=1), x),
    }
    return Case(bind(out, kernels.cumsum, x, out), peers, lambda: np.cumsum(x.astype(np.float64), axis=1), [out])


def column_sum_case(m: int, n: int) -> Case:
    x, out = random(m, n), np.empty(n, np.float32)
    peers = {
        "numpy": lambda: np.sum(x, axis=0, out=out),
        **torch_function(lambda torch, a: torch.sum(a, 0), x),
        **numba_function("column_sum", x, out),
        **jax_function(lambda jax, a: a.sum(0), x),
    }
    return Case(bind(out, kernels.column_sum, x, out), peers, lambda: x.astype(np.float64).sum(0), [out])


def sort_case(m: int, n: int) -> Case:
    x, out = random(m, n), np.empty((m, n), np.float32)
    peers = {
        "numpy": lambda: np.sort(x, axis=1),
        **torch_function(lambda torch, a: torch.sort(a, 1)[0], x, compiled=False),
        **numba_function("sort", x, out),
        **jax_function(lambda jax, a: jax.numpy.sort(a, axis=1), x),
    }
    return Case(bind(out, kernels.sort, x, out), peers, lambda: np.sort(x.astype(np.float64), axis=1), [out])


def argsort_case(m: int, n: int) -> Case:
    """What is compared are the elements at the places: equal ones may be in any order."""
    x, out = random(m, n), np.empty((m, n), np.int32)
    peers = {
        "numpy": lambda: np.argsort(x, axis=1),
        **torch_function(lambda torch, a: torch.argsort(a, 1), x, compiled=False),
        **numba_function("argsort", x, out),
        **jax_function(lambda jax, a: jax.numpy.argsort(a, axis=1), x),
    }

    def picked(places: Any) -> Any:
        return np.take_along_axis(x, np.asarray(places, np.int64), 1)

    ours = bind(out, kernels.argsort, x, out)
    return Case(ours, peers, lambda: np.sort(x, axis=1), [out], picked)


def histogram_case(n: int, bins: int) -> Case:
    x, out = np.random.default_rng(n).integers(0, bins, n, np.int32), np.empty(bins, np.int32)
    peers = {
        "numpy": lambda: np.bincount(x, minlength=bins),
        **torch_function(lambda torch, a: torch.bincount(a, minlength=bins), x, compiled=False),
        **numba_function("histogram", x, out),
        **jax_function(lambda jax, a: jax.numpy.bincount(a, length=bins), x),
    }
    return Case(bind(out, kernels.histogram, x, out), peers, lambda: np.bincount(x, minlength=bins), [out])


def topk_case(m: int, n: int, k: int) -> Case:
    x, out = random(m, n), np.empty((m, k), np.float32)

    def numpy() -> Any:
        return -np.sort(np.partition(-x, k, axis=1)[:, :k], axis=1)

    peers = {
        "numpy": numpy,
        **torch_function(lambda torch, a: torch.topk(a, k, 1)[0], x, compiled=False),
        **jax_function(lambda jax, a: jax.lax.top_k(a, k)[0], x),
    }
    return Case(bind(out, kernels.topk, x, out), peers, lambda: np.sort(x, axis=1)[:, ::-1][:, :k], [out])


def row(
    name: str, build: Callable[..., Case], shape: tuple[int, ...], size: float, flops: float, tolerance: float,
    family: str, bars: tuple[Bar, ...] = ()
) -> Row:  # fmt: skip
    """A row over an (m, n) matrix that moves `size` bytes and does `flops` operations per element of it."""
    total, text = size * shape[0] * shape[1], f"{shape[0]}²" if shape[0] == shape[1] else " x ".join(map(str, shape))
    limit = memory_limit("read" if size == 4 else "copy", total)
    return Row(name, text, total, "B", limit, tolerance, partial(build, *shape), bars, (0,), family, flops / size)


SOFTMAX: Final = (Bar("torch", 2.0), Bar("compiled", 2.1))
NORM: Final = (Bar("torch", 1.8), Bar("compiled", 1.4))
RESIDUAL: Final = (Bar("torch", 3.0), Bar("compiled", 1.4))
LOSS: Final = (Bar("torch", 3.5), Bar("compiled", 2.5))
QUANTISE: Final = (Bar("torch", 6.0), Bar("compiled", 1.4))
BEST: Final = (Bar("", 0.95),)
BARRED: Final = (
    row("softmax", softmax_case, (4096, 4096), 8, 14, 1e-6, "softmax", SOFTMAX),
    row("softmax", softmax_case, (64, 128), 8, 14, 1e-6, "softmax", SOFTMAX),
    row("layer norm", layer_norm_case, (4096, 4096), 8, 8, 1e-5, "norms", NORM),
    row("rms norm", rms_norm_case, (4096, 4096), 8, 4, 1e-5, "norms", NORM),
    row("residual + rms norm", residual_case, (4096, 4096), 16, 5, 1e-5, "norms", RESIDUAL),
    row("cross entropy", cross_entropy_case, (4096, 4096), 4, 13, 1e-5, "cross entropy", LOSS),
    row("cross entropy", cross_entropy_case, (1024, 32000), 4, 13, 1e-5, "cross entropy", LOSS),
    row("int8 row quantise", quantise_case, (4096, 4096), 5, 4, 0.5 * 2 / 127 * 1.001, "quantise", QUANTISE),
    row("row sort", sort_case, (4096, 2048), 8, 0, 0.0, "sort", (Bar("numpy", 5.0),)),
    row("topk", topk_case, (4096, 2048, 8), 4, 0, 0.0, "sort", (Bar("torch", 2.0),)),
)
MORE: Final = (
    row("softmax", softmax_case, (8192, 1000), 8, 14, 1e-6, "softmax", BEST),
    row("softmax", softmax_case, (256, 50257), 8, 14, 1e-6, "softmax", BEST),
    row("softmax triton style", persistent_softmax_case, (4096, 4096), 8, 14, 1e-6, "softmax triton style", BEST),
    row("softmax triton style", persistent_softmax_case, (1823, 781), 8, 14, 1e-6, "softmax triton style", BEST),
    row("gated unit triton style", gated_case, (1024, 11008), 12, 14, 1e-5, "gated unit", BEST),
    row("layer norm", layer_norm_case, (8192, 768), 8, 8, 1e-5, "norms", BEST),
    row("cumsum", cumsum_case, (4096, 4096), 8, 1, 1e-2, "scans", BEST),
    row("column sum", column_sum_case, (4096, 4096), 4, 1, 2e-3, "scans", BEST),
    row("argsort", argsort_case, (4096, 2048), 8, 0, 0.0, "sort", BEST),
    Row("histogram", "16M, 256 bins", 4.0 * 2**24, "B", "read DRAM", 0.0, partial(histogram_case, 1 << 24, 256), BEST,
        (0,), "histogram"),
)  # fmt: skip
ROWS: Final = Suite("rows", (*elementwise.ROWS, *BARRED, *MORE), (), 2.0, 0.95)
