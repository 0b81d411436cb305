"""The suite `stencil`: elements from their neighbours, which are 0 outside of the array."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.data import bind, memory_limit, random
from benchmarks.kernels import stencil as kernels
from benchmarks.peers import jax_function, numba_function, torch_function
from benchmarks.runner import Bar, Case, Row, Suite


def around(xp: Any, x: Any) -> list[list[Any]]:
    """The matrix nine times, moved by -1 to 1 along both axes, with zeros where nothing is."""
    (m, n), padded = x.shape, xp.pad(x, 1)
    return [[padded[a : a + m, b : b + n] for b in range(3)] for a in range(3)]


def conducted(xp: Any, x: Any) -> Any:
    """What `kernels.stencil.five_point` computes."""
    t = around(xp, x)
    return (t[0][1] + t[2][1] + t[1][0] + t[1][2]) * xp.float32(0.125) + x * xp.float32(0.5)


def weighted(xp: Any, x: Any, w: Any) -> Any:
    """What `kernels.stencil.convolution` computes."""
    t = around(xp, x)
    return sum(t[a][b] * w[a, b] for a in range(3) for b in range(3))


def next_generation(xp: Any, x: Any) -> Any:
    """What `kernels.stencil.life` computes."""
    t = around(xp, x)
    n = sum(t[a][b] for a in range(3) for b in range(3) if (a, b) != (1, 1))
    return ((n == 3) | ((n == 2) & (x == 1))).astype(xp.uint8)


def shift_case(n: int, by: int) -> Case:
    x, out = random(n), np.empty(n, np.float32)

    def numpy() -> Any:
        out[:by] = 0
        out[by:] = x[:-by]
        return out

    peers = {
        "numpy": numpy,
        **torch_function(lambda t, a: t.nn.functional.pad(a[:-by], (by, 0)), x),
        **numba_function("shift", x, by, out),
        **jax_function(lambda jax, a: jax.numpy.pad(a[:-by], (by, 0)), x),
    }
    return Case(bind(out, kernels.shift, x, out, by), peers, lambda: np.pad(x[:-by], (by, 0)), [out])


def five_point_case(m: int, n: int) -> Case:
    x, out = random(m, n), np.empty((m, n), np.float32)

    def by_torch(torch: Any, a: Any) -> Any:
        p = torch.nn.functional.pad(a, (1, 1, 1, 1))
        return (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]) * 0.125 + a * 0.5

    peers = {
        "numpy": lambda: conducted(np, x),
        **torch_function(by_torch, x),
        **numba_function("five_point", x, out),
        **jax_function(lambda jax, a: conducted(jax.numpy, a), x),
    }
    return Case(bind(out, kernels.five_point, x, out), peers, lambda: conducted(np, x.astype(np.float64)), [out])


def convolution_case(m: int, n: int) -> Case:
    x, w, out = random(m, n), random(3, 3, spread=1), np.empty((m, n), np.float32)

    def by_torch(torch: Any, a: Any, b: Any) -> Any:
        return torch.nn.functional.conv2d(a[None, None], b[None, None], padding=1)[0, 0]

    peers = {
        "numpy": lambda: weighted(np, x, w),
        **torch_function(by_torch, x, w),
        **numba_function("convolution", x, w, out),
        **jax_function(lambda jax, a, b: weighted(jax.numpy, a, b), x, w),
    }
    ours = bind(out, kernels.convolution, x, w, out)
    return Case(ours, peers, lambda: weighted(np, x.astype(np.float64), w), [out])


def life_case(m: int, n: int) -> Case:
    x, out = (random(m, n) > 0.8).astype(np.uint8), np.empty((m, n), np.uint8)
    peers = {
        "numpy": lambda: next_generation(np, x),
        **numba_function("life", x, out),
        **jax_function(lambda jax, a: next_generation(jax.numpy, a), x),
    }
    return Case(bind(out, kernels.life, x, out), peers, lambda: next_generation(np, x), [out])


def row(name: str, shape: str, size: float, tolerance: float, build: Any) -> Row:
    """A row of the family; numpy's shift is one copy of memory."""
    bars = (Bar("", 0.9),) if name == "shift" else (Bar("numpy", 2.0), Bar("", 0.95))
    return Row(name, shape, size, "B", memory_limit("copy", size), tolerance, build, bars, (0,), "stencil")


STENCIL: Final = Suite("stencil", (
    *(row("shift", f"1M by {by}", 8.0 * 2**20, 0.0, partial(shift_case, 1 << 20, by)) for by in (1, 1000)),
    *(row("five point", f"{n}²", 8.0 * n**2, 1e-6, partial(five_point_case, n, n)) for n in (1000, 4096)),
    *(row("3x3 convolution", f"{n}²", 8.0 * n**2, 1e-6, partial(convolution_case, n, n)) for n in (1000, 4096)),
    *(row("game of life", f"{n}²", 2.0 * n**2, 0.0, partial(life_case, n, n)) for n in (1000, 4096)),
), (), 2.0, 0.95)  # fmt: skip
