"""Kernels that count the launches that go through Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import pypto as pto

BIAS = 1


def add(x, out, n=2, scale=1.0, flag=True, K: pto.constexpr = 4, MODE: pto.constexpr = "plus"):
    i = pto.program_id(0) * K + pto.arange(0, K)
    v = pto.load(x + i, mask=i < n) * scale
    if MODE == "plus":
        v = v + BIAS
    pto.store(out + i, v, mask=(i < n) & flag)


def arrays(n: int = 8, kind: Any = np.float32) -> Any:
    return np.arange(n).astype(kind), np.zeros(n, kind)


class Counted:
    """A kernel of a function, and in `calls` how often Python made the launch."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.kernel, self.calls = pto.jit(function), 0
        self.original = self.kernel.through_python
        self.kernel.through_python = self.through_python  # type: ignore[method-assign]  # before a table is made

    def through_python(self, grid: Any, /, *args: Any, **given: Any) -> None:
        self.calls += 1
        self.original(grid, *args, **given)

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return self.kernel[grid]


def counted(function: Callable[..., Any]) -> Counted:
    return Counted(function)


@contextmanager
def uncollected() -> Iterator[None]:
    """A block in which no garbage of other tests goes, with what it holds."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
