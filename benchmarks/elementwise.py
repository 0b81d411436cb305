"""Elementwise work and the movement of elements: cases of the suites `rows`, `scaling` and `core`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from benchmarks.data import bind, count, memory_limit, random
from benchmarks.kernels import elementwise, movement
from benchmarks.peers import jax_function, numba_function, torch_function, torch_peers
from benchmarks.runner import Bar, Case, Impl, Row

GELU = np.float32(np.sqrt(2 / np.pi))


def add_case(n: int) -> Case:
    x, y, out = random(n), random(n, spread=2), np.empty(n, np.float32)

    def into(torch: Any) -> Mapping[str, Impl]:
        tx, ty, to = map(torch.from_numpy, (x, y, out))
        return {"torch out=": lambda: torch.add(tx, ty, out=to)}

    peers = {
        "numpy": lambda: np.add(x, y, out=out),
        **torch_function(lambda _, a, b: a + b, x, y),
        **torch_peers(into),
        **numba_function("add", x, y, out),
        **jax_function(lambda _, a, b: a + b, x, y),
    }
    return Case(bind(out, elementwise.add, x, y, out), peers, lambda: x.astype(np.float64) + y, [out])


def gelu_case(n: int) -> Case:
    x, out = random(n), np.empty(n, np.float32)

    def numpy() -> Any:
        t = np.tanh(GELU * (x + np.float32(0.044715) * x * x * x))
        t += 1
        t *= x
        t *= np.float32(0.5)
        return t

    def reference() -> Any:
        d = x.astype(np.float64)
        return 0.5 * d * (1 + np.tanh(np.sqrt(2 / np.pi) * (d + 0.044715 * d**3)))

    peers = {
        "numpy": numpy,
        **torch_function(lambda t, a: t.nn.functional.gelu(a, approximate="tanh"), x),
        **numba_function("gelu", x, out),
        **jax_function(lambda jax, a: jax.nn.gelu(a, approximate=True), x),
    }
    return Case(bind(out, elementwise.gelu, x, out), peers, reference, [out])


def swiglu_case(n: int) -> Case:
    gate, up, out = random(n, spread=8), random(n, spread=2), np.empty(n, np.float32)

    def reference() -> Any:
        wide = gate.astype(np.float64)
        return wide / (1 + np.exp(-wide)) * up

    peers = {
        "numpy": lambda: gate / (1 + np.exp(-gate)) * up,
        **torch_function(lambda t, g, u: t.nn.functional.silu(g) * u, gate, up),
        **numba_function("swiglu", gate, up, out),
        **jax_function(lambda jax, g, u: jax.nn.silu(g) * u, gate, up),
    }
    return Case(bind(out, elementwise.swiglu, gate, up, out), peers, reference, [out])


def chained(xp: Any, a: Any, b: Any, c: Any, scale: Any) -> Any:
    """What `kernels.elementwise.chain` computes, with the functions of numpy, torch or jax."""
    t = xp.clip(a * scale + b, 0, None) - xp.abs(c)
    t = xp.clip(t * t + a * c, -6, 6)
    return xp.exp(-t * t) + t / (1 + xp.abs(b))


def chain_case(n: int) -> Case:
    x, y, z = (random(n, spread=spread) for spread in (2.0, 3.0, 4.0))
    scale, out = np.float32(0.75), np.empty(n, np.float32)
    peers = {
        "numpy": lambda: chained(np, x, y, z, scale),
        **torch_function(lambda t, a, b, c: chained(t, a, b, c, 0.75), x, y, z),
        **numba_function("chain", x, y, z, scale, out),
        **jax_function(lambda jax, a, b, c: chained(jax.numpy, a, b, c, 0.75), x, y, z),
    }

    def reference() -> Any:
        a, b, c = (array.astype(np.float64) for array in (x, y, z))
        return chained(np, a, b, c, 0.75)

    ours = bind(out, elementwise.chain, x, y, z, out, 0.75)
    return Case(ours, peers, reference, [out])


def adamw_case(n: int) -> Case:
    """A step in place. Everybody has a state of his own; the first step is checked, and the next ones go on from it."""
    grad, start = random(n), (random(n, spread=2), random(n, spread=1), np.abs(random(n)))
    rate, decay, eps = 1e-3, 0.01, 1e-8

    def torch_step(torch: Any) -> Mapping[str, Impl]:
        from torch.optim.adamw import adamw

        p, m, v = (torch.from_numpy(array.copy()) for array in start)
        step, g = torch.tensor(1e6), torch.from_numpy(grad)  # so late that nothing is left of the bias correction
        given: dict[str, Any] = {"foreach": False, "fused": True, "amsgrad": False, "maximize": False}

        def run() -> Any:
            adamw([p], [g], [m], [v], [], [step], beta1=0.9, beta2=0.999, lr=rate, weight_decay=decay, eps=eps, **given)
            return p

        return {"torch fused": run}

    def reference() -> Any:
        p, m, v = (array.astype(np.float64) for array in start)
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad.astype(np.float64) ** 2
        return p * (1 - rate * decay) - rate * m / (np.sqrt(v) + eps)

    (p, m, v), (q, k, w) = ([array.copy() for array in start] for _ in range(2))
    numbers = (np.float32(rate), np.float32(rate))
    peers = {**torch_peers(torch_step), **numba_function("adamw", q, grad, k, w, *numbers, result=q)}
    return Case(bind(p, elementwise.adamw, p, grad, m, v, rate, rate), peers, reference)


def transpose_case(m: int, n: int) -> Case:
    x, out = random(m, n), np.empty((n, m), np.float32)

    def numpy() -> Any:
        np.copyto(out, x.T)
        return out

    peers = {
        "numpy": numpy,
        **torch_function(lambda _, a: a.t().contiguous(), x),
        **numba_function("transpose", x, out),
        **jax_function(lambda jax, a: jax.numpy.transpose(a) + 0, x),
    }
    return Case(bind(out, movement.transpose, x, out), peers, lambda: x.T.astype(np.float64), [out])


def head_split_case(batch: int, n: int, heads: int, d: int) -> Case:
    x, out = random(batch, n, heads, d), np.empty((batch, heads, n, d), np.float32)

    def numpy() -> Any:
        np.copyto(out, x.transpose(0, 2, 1, 3))
        return out

    peers = {
        "numpy": numpy,
        **torch_function(lambda _, a: a.transpose(1, 2).contiguous(), x),
        **jax_function(lambda jax, a: jax.numpy.transpose(a, (0, 2, 1, 3)) + 0, x),
    }
    return Case(bind(out, movement.head_split, x, out), peers, lambda: x.transpose(0, 2, 1, 3), [out])


def embedding_case(t: int, vocabulary: int, n: int) -> Case:
    words, out = random(vocabulary, n), np.empty((t, n), np.float32)
    ids = np.random.default_rng(t).integers(0, vocabulary, t)
    peers = {
        "numpy": lambda: np.take(words, ids, axis=0, out=out, mode="clip"),
        **torch_function(lambda torch, i, w: torch.nn.functional.embedding(i, w), ids, words),
        **numba_function("embedding", ids, words, out),
        **jax_function(lambda jax, i, w: jax.numpy.take(w, i, axis=0, mode="clip"), ids.astype(np.int32), words),
    }
    return Case(bind(out, movement.embedding, ids, words, out), peers, lambda: words[ids], [out])


def take_case(t: int, n: int) -> Case:
    x, out = random(n), np.empty(t, np.float32)
    index = np.random.default_rng(t).integers(0, n, t).astype(np.int32)
    peers = {
        "numpy": lambda: np.take(x, index, out=out, mode="clip"),
        **torch_function(lambda _, i, a: a[i], index, x),
        **numba_function("take", index, x, out),
        **jax_function(lambda jax, i, a: jax.numpy.take(a, i, mode="clip"), index, x),
    }
    return Case(bind(out, movement.take, index, x, out), peers, lambda: x[index], [out])


def add_row(n: int, least: float) -> Row:
    limit = memory_limit("add", 12 * n)
    made, bars = partial(add_case, n), (Bar("torch", least),)
    return Row("vector add", count(n), 12 * n, "B", limit, 3e-7, made, bars, (0,), "elementwise", 1 / 12)


def simple_row(name: str, n: int, arrays: int, flops: int, tolerance: float, build: Any, bars: tuple[Bar, ...]) -> Row:
    """A row of the family elementwise, with so many arrays and operations per element."""
    size, kind = 4 * arrays * n, "copy" if arrays == 2 else "add"
    limit, threads = memory_limit(kind, size), (0,)
    made = partial(build, n)
    return Row(name, count(n), size, "B", limit, tolerance, made, bars, threads, "elementwise", flops / (4 * arrays))


def moved_row(name: str, shape: str, size: float, build: Any) -> Row:
    return Row(name, shape, size, "B", memory_limit("copy", size), 0.0, build, (), (0,), "movement")


BEST = (Bar("", 0.95),)
GELU_BARS = (Bar("torch", 4.5), Bar("compiled", 1.4))
ROWS = (
    add_row(1 << 20, 1.0),
    add_row(1 << 24, 1.2),
    simple_row("gelu", 1 << 20, 2, 24, 1e-6, gelu_case, GELU_BARS),
    simple_row("gelu", 1 << 24, 2, 24, 1e-6, gelu_case, GELU_BARS),
    simple_row("swiglu", 1 << 22, 3, 20, 2e-6, swiglu_case, BEST),
    simple_row("chain of 15", 1 << 22, 4, 30, 2e-5, chain_case, (*BEST, Bar("memory", 1 / 0.6))),
    simple_row("adamw", 1 << 22, 7, 14, 1e-6, adamw_case, BEST),
    moved_row("transpose", "4096²", 8 * 4096**2, partial(transpose_case, 4096, 4096)),
    moved_row("transpose", "1000 x 777", 8 * 777e3, partial(transpose_case, 1000, 777)),
    moved_row("split heads", "8 x 512 x 12 x 64", 8 * 8 * 512 * 768, partial(head_split_case, 8, 512, 12, 64)),
    moved_row("embedding", "8192 of 32000 x 768", 8 * 8192 * 768, partial(embedding_case, 8192, 32000, 768)),
    moved_row("gather", "4M of 1M", 12 * 2**22, partial(take_case, 1 << 22, 1 << 20)),
)
