"""The suite `launch`: what a call costs beside its work, by what is passed, and through the threads."""

from __future__ import annotations

import timeit
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import numpy as np

from benchmarks.data import bind, random
from benchmarks.kernels import calls, elementwise, rows
from benchmarks.peers import imported, limited_threads, numba_function, torch_peers
from benchmarks.runner import Bar, Case, Impl, Missing, Probe, Row, Suite

SMALL: Final = 16
BUSY: Final = 4096
CALLS: Final = 500
Call = Callable[[], Any]


def written_to(out: Any) -> Callable[[Any], Any]:
    """The view of a result that everybody writes to the same array, so that nobody spends time on returning it."""
    return lambda _: out.copy()


def small() -> tuple[Any, Any, Any]:
    return random(SMALL), random(SMALL, spread=2), np.empty(SMALL, np.float32)


def peers(x: Any, y: Any, out: Any, numba: str = "add_serial") -> dict[str, Impl | Missing]:
    """Numpy, torch and numba adding into the same array, with as little around the call as there can be."""

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        tx, ty, to = map(torch.from_numpy, (x, y, out))
        return {"torch out=": partial(torch.add, tx, ty, out=to)}

    compiled = imported("numba")
    if not isinstance(compiled, Missing):
        from benchmarks import numba_kernels

        compiled = partial(getattr(numba_kernels, numba), x, y, out)
    return {"numpy": partial(np.add, x, y, out=out), **torch_peers(by_torch), "numba": compiled}


def as_written_case() -> Case:
    """``kernel[grid](…)`` as it stands in programs."""
    x, y, out = small()
    kernel = elementwise.add_kernel

    def ours() -> None:
        kernel[(1,)](x, y, out, BLOCK=SMALL)

    return Case(ours, peers(x, y, out), lambda: x.astype(np.float64) + y, [out], written_to(out))


def kept_case() -> Case:
    """``kernel[grid]`` is kept, and the arguments are in order."""
    x, y, out = small()
    ours = partial(elementwise.add_kernel[(1,)], x, y, out, SMALL)
    return Case(ours, peers(x, y, out), lambda: x.astype(np.float64) + y, [out], written_to(out))


def torch_case() -> Case:
    """The same on torch tensors, which numpy and numba take as the arrays that they share memory with."""
    import torch

    x, y, out = small()
    tensors = tuple(map(torch.from_numpy, (x, y, out)))
    ours = partial(elementwise.add_kernel[(1,)], *tensors, SMALL)
    others = peers(x, y, out)
    for name, call in others.items():
        if isinstance(call, partial) and not name.startswith("torch"):
            others[name] = partial(by_array, call.func, *tensors)
    return Case(ours, others, lambda: x.astype(np.float64) + y, [out], written_to(out))


def by_array(function: Callable[..., Any], x: Any, y: Any, out: Any) -> None:
    function(x.numpy(), y.numpy(), out.numpy())


def threaded_case(n: int) -> Case:
    """Work that is just worth two threads."""
    x, y, out = random(n), random(n, spread=2), np.empty(n, np.float32)
    ours = partial(elementwise.add_kernel[(8,)], x, y, out, n // 8)
    return Case(ours, peers(x, y, out, "add"), lambda: x.astype(np.float64) + y, [out], written_to(out))


def many_case() -> Case:
    """Eight arrays and four numbers."""
    arrays = [random(SMALL + k)[:SMALL] for k in range(7)]
    out, numbers = np.empty(SMALL, np.float32), (0.5, 2.0, 3, 4)

    def reference() -> Any:
        return sum(array.astype(np.float64) for array in arrays) + sum(numbers)

    ours = partial(calls.many_kernel[(1,)], *arrays, out, *numbers)
    numba = numba_function("many", *arrays, out, *numbers, result=out)
    return Case(ours, {"numpy": lambda: by_numpy(arrays, out, numbers), **numba}, reference, [out], written_to(out))


def by_numpy(arrays: Any, out: Any, numbers: Any) -> None:
    np.add(arrays[0], arrays[1], out=out)
    for array in arrays[2:]:
        np.add(out, array, out=out)
    np.add(out, sum(numbers), out=out)


def changing_case(count: int) -> Case:
    """Softmax of one row, of another length at each call: as many versions of the kernel are in turn."""
    pairs = [(random(1, 8 * k), np.empty((1, 8 * k), np.float32)) for k in range(1, count + 1)]
    last, out = pairs[-1]

    def softmax(x: Any, y: Any) -> None:
        np.subtract(x, x.max(), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(), out=y)

    def in_turn(function: Callable[[Any, Any], None]) -> Call:
        def run() -> None:
            for x, y in pairs:
                function(x, y)

        return run

    def reference() -> Any:
        e = np.exp(last.astype(np.float64))
        return e / e.sum()

    return Case(in_turn(rows.softmax_kernel[(1,)]), {"numpy": in_turn(softmax)}, reference, [out], written_to(out))


def row_case() -> Case:
    """A small row kernel as a function of a program, with everything that such a function does."""
    x, out = random(4, 64, spread=16), np.empty((4, 64), np.float32)

    def numpy() -> None:
        np.subtract(x, x.max(1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(1, keepdims=True), out=out)

    def by_torch(torch: Any) -> Mapping[str, Impl]:
        tx, to = map(torch.from_numpy, (x, out))
        return {"torch out=": partial(torch.ops.aten._softmax.out, tx, -1, False, out=to)}

    def reference() -> Any:
        e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    ours = bind(None, rows.softmax, x, out)
    return Case(ours, {"numpy": numpy, **torch_peers(by_torch)}, reference, [out], written_to(out))


def through_pool(rounds: int = 15) -> list[float]:
    """Seconds that two programs on two threads take beyond the half of what they take on one, one figure per round.

    A launch with less work than this stays on one thread, so that it cannot be timed alone.
    """
    x, out = random(2 * BUSY), np.empty(2 * BUSY, np.float32)
    call = partial(calls.busy_kernel[(2,)], x, out, BUSY)
    return [fastest(call, 2) - fastest(call, 1) / 2 for _ in range(rounds)]


def fastest(call: Call, threads: int) -> float:
    """Least seconds of many calls."""
    with limited_threads(threads):
        return min(timeit.repeat(call, number=1, repeat=CALLS))


INF: Final = float("inf")


def row(
    name: str, shape: str, build: Callable[[], Case], most: float, threads: int = 1, work: int = 1, needs: str = ""
) -> Row:
    """A row of calls that are held against a time, and against everybody."""
    bars, family = (Bar("", 0.95),), "launch"
    return Row(name, shape, work, "call", "call", 3e-6, build, bars, (threads,), family, 0.0, most, needs)


ROWS: Final = (
    row("launch", "as written, 16 floats", as_written_case, 0.15e-6),
    row("launch", "grid kept, 16 floats", kept_case, 0.15e-6),
    row("launch", "torch tensors, 16 floats", torch_case, 0.6e-6, needs="torch"),
    row("launch", "8 arrays and 4 numbers", many_case, INF),
    row("launch", "8 versions in turn", partial(changing_case, 8), INF, work=8),
    row("launch", "softmax of 4 x 64", row_case, INF),
    row("launch", "two threads, 128K floats", partial(threaded_case, 1 << 17), INF, threads=0),
)
THROUGH_POOL: Final = Probe("launch through the pool", "beyond half the work's time", 0.4e-6, through_pool, cores=2)
LAUNCH: Final = Suite("launch", ROWS, (THROUGH_POOL,))
