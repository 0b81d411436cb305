"""Times of calls."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from pypto.markup import Shown, bar, card, table

_MODES: Final = ("min", "max", "mean", "median", "all")


def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
    *,
    cold: bool = False,
) -> Any:
    """The time of a call in milliseconds.

    Parameters
    ----------
    fn : function
        What is measured; it takes no arguments.
    warmup, rep : float
        Milliseconds to spend before and while measuring.
    grad_to_none : sequence of tensor, optional
        Tensors whose gradients are dropped before every call.
    quantiles : sequence of float, optional
        Quantiles of the times to give, in place of what `return_mode` says.
    return_mode : str
        "min", "max", "mean", "median", or "all" for a list.
    cold : bool
        Whether every call finds the caches full of other data, as after other work; else it finds its own.

    Returns
    -------
    float or list of float

    Examples
    --------
    >>> do_bench(lambda: sum(range(100)), warmup=1, rep=1) > 0
    True
    """
    if return_mode not in _MODES:
        raise ValueError(f"return_mode is one of {', '.join(_MODES)}, not {return_mode!r}")
    estimate = max(timed(fn), 1e-6)
    for _ in range(int(warmup / estimate)):
        fn()
    times = []
    evict = eviction() if cold else nothing
    for _ in range(max(1, int(rep / estimate))):
        for tensor in grad_to_none or ():
            tensor.grad = None
        evict()
        times.append(timed(fn))
    return summary(times, quantiles, return_mode)


def nothing() -> None:
    """What is done between calls that find their data in the caches."""


def eviction() -> Callable[[], None]:
    """A function that fills the caches with other data: it writes twice what the last of them holds."""
    from pypto.compile import session
    from pypto.options import KernelOptions

    other = np.zeros(2 * session().backend(KernelOptions()).target.caches[-1], np.uint8)
    return partial(np.add, other, np.uint8(1), out=other)


def timed(fn: Callable[[], Any]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter_ns()
    fn()
    return (time.perf_counter_ns() - start) / 1e6


def do_bench_cudagraph(
    fn: Callable[[], Any],
    rep: float = 20,
    grad_to_none: Iterable[Any] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> Any:
    """`do_bench`: there are no graphs of launches to be recorded on a CPU."""
    return do_bench(fn, rep, rep, grad_to_none, quantiles, return_mode)


def summary(times: list[float], quantiles: Sequence[float] | None, mode: str) -> Any:
    if quantiles is not None:
        values = [quantile(sorted(times), q) for q in quantiles]
        return values[0] if len(values) == 1 else values
    if mode == "all":
        return times
    functions: dict[str, Any] = {"min": min, "max": max, "mean": statistics.mean, "median": statistics.median}
    return functions[mode](times)


def quantile(ordered: list[float], q: float) -> float:
    """Linear between the two values that q lies between."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile lies between 0 and 1, and {q} does not")
    at = q * (len(ordered) - 1)
    low, part = math.floor(at), at - math.floor(at)
    return ordered[low] * (1 - part) + ordered[math.ceil(at)] * part


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one function of a comparison, in milliseconds, in the order in which they were taken."""

    name: str
    all: tuple[float, ...]

    @property
    def min(self) -> float:
        return min(self.all)

    @property
    def median(self) -> float:
        return statistics.median(self.all)


@dataclass(frozen=True, slots=True)
class Comparison(Shown):
    """Times of several functions that were taken in turns, the first of which the others are compared with."""

    times: tuple[Times, ...]

    def __getitem__(self, name: str) -> Times:
        return next(t for t in self.times if t.name == name)

    def ratio(self, name: str) -> float:
        """How many times as long as the first function this one takes, at their fastest."""
        return self[name].min / self.times[0].min

    @property
    def heads(self) -> tuple[str, ...]:
        """The headings of `rows`."""
        return "", "min", "median", "90 %", f"of {self.times[0].name}"

    def rows(self) -> list[tuple[str, ...]]:
        """Every function's name, times and ratio as texts."""
        return [(t.name, *(f"{x:.4g} ms" for x in (t.min, t.median, quantile(sorted(t.all), 0.9))),
                 f"{self.ratio(t.name):.2f}x") for t in self.times]  # fmt: skip

    def __str__(self) -> str:
        heads, rows = self.heads, self.rows()
        widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
        lines = ([c.rjust(w) if n else c.ljust(w) for n, (c, w) in enumerate(zip(r, widths, strict=True))]
                 for r in (heads, *rows))  # fmt: skip
        return "\n".join("  ".join(line).rstrip() for line in lines)

    def _repr_html_(self) -> str:
        rows = [(row[0], bar(t.min / max(t.min for t in self.times), row[1]), *row[2:])
                for t, row in zip(self.times, self.rows(), strict=True)]  # fmt: skip
        shown = table(self.heads, rows, (2, 3, 4))
        return card("comparison", shown, note=f"{len(self.times[0].all)} calls of each, in turns")


def compare(functions: Mapping[str, Callable[[], Any]], rep: float = 200, cold: bool = False) -> Comparison:
    """Time several functions in turns, so that all of them meet the same machine.

    Parameters
    ----------
    functions : mapping from name to function
        What is measured. They take no arguments; the others are compared with the first one.
    rep : float
        Milliseconds to measure each of them for.
    cold : bool
        As in `do_bench`.

    Examples
    --------
    >>> found = compare({"once": lambda: sum(range(2000)), "twice": lambda: sum(range(4000))}, rep=5)
    >>> found.ratio("once"), len(found["once"].all) == len(found["twice"].all)
    (1.0, True)
    """
    if not functions:
        raise ValueError("nothing to compare: give functions by name")
    estimate = sum(max(timed(fn), timed(fn), 1e-6) for fn in functions.values()) / len(functions)
    evict = eviction() if cold else nothing
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(max(3, int(rep / estimate))):
        for name, fn in functions.items():
            evict()
            times[name].append(timed(fn))
    return Comparison(tuple(Times(name, tuple(samples)) for name, samples in times.items()))
