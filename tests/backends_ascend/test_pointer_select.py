"""Pointers into one array or another, which branches and loops decide on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.sim.device import needs_compiler

pytestmark = needs_compiler


@pto.jit
def chosen(x, y, out, more, n):
    i = pto.program_id(0)
    p = x + i * 8
    if i % 2 == 1:
        p = y + i * 8
    where = pto.arange(0, 8)
    tile = pto.load(p + where, mask=where < n, other=-1)
    q = out if i < 2 else more
    pto.store(q + i * 8 + where, tile * 2)
    pto.store(q + 64 + i, pto.load(p) + 1)
    pto.atomic_add(q + 80, 1.0)


@pto.jit
def in_turns(x, y, out, n):
    p = x
    for k in range(n):
        pto.store(out + k, pto.load(p + k))
        p = y
    while n > 0:
        p = x
        n -= 1
    pto.store(out + 31, pto.load(p + 5))


def on_both(kernel: Any, grid: int, *arguments: Any) -> list[tuple[Any, Any]]:
    here, there = ([x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2))
    kernel[grid](*here)
    with pto.device("ascend-sim"):
        kernel[grid](*there)
    return [(a, b) for a, b in zip(there, here, strict=True) if isinstance(a, np.ndarray)]


@pytest.mark.parametrize("n", [8, 5])
def test_branches_choose(n: int) -> None:
    x, y = np.arange(96, dtype=np.float32), -np.arange(96, dtype=np.float32)
    for found, wanted in on_both(chosen, 4, x, y, np.zeros(96, np.float32), np.zeros(96, np.float32), n):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("n", [0, 3])
def test_loops_choose(n: int) -> None:
    x, y = np.arange(32, dtype=np.int32), np.arange(100, 132, dtype=np.int32)
    for found, wanted in on_both(in_turns, 1, x, y, np.zeros(32, np.int32), n):
        np.testing.assert_array_equal(found, wanted)
