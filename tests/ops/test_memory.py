"""Loads, stores and atomics of every dtype: through pointers, with masks, by many programs at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import DTYPES, DType
from pypto.ops.row import Effect, OpRow
from pypto.ops.table import ROWS
from tests.conformance.fences import Fences
from tests.conformance.sources import define
from tests.ops.samples import Array, assert_same, random_values

SIZE = 203
NUMPY: dict[str, Any] = {
    "add": np.add, "max": np.maximum, "min": np.minimum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "xchg": lambda old, new: new,
}  # fmt: skip
ATOMICS = [row for row in ROWS if row.effect is Effect.ATOMIC and row.name != "atomic_cas"]
PAIRS = [(r, d) for r in ATOMICS for d in DTYPES if d.is_int or (d.is_float and r.dtypes == "number")]

COPY = """
def kernel(x, y, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + (n - 1 - offs), mask=(offs < n) & (offs % 3 != 1), other=1)
    pto.store(y + offs, t, mask=(offs < n) & (offs % 5 != 2))
"""
SCALARS = """
def kernel(x, y, n, BLOCK: pto.constexpr):
    for i in range(pto.program_id(0) * BLOCK, min(n, pto.program_id(0) * BLOCK + BLOCK)):
        if i % 5 != 2:
            pto.store(y + i, pto.load(x + (n - 1 - i), mask=i % 3 != 1, other=1))
"""
ATOMIC = """
def kernel(x, y, old, n, BLOCK: pto.constexpr):
    offs = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    before = pto.{name}(x + offs, pto.load(y + offs, mask=offs < n), mask=(offs < n) & (offs % 4 != 3))
    pto.store(old + offs, before, mask=offs < n)
"""
COUNTERS = """
def kernel(counts, pairs):
    i = pto.program_id(0)
    pto.atomic_add(counts + i % 3 + pto.arange(0, 2) * 3, 1)
    pto.atomic_max(counts + 6, i)
    pto.atomic_cas(counts + 7, 0, i + 1)
    pairs[i] = pto.atomic_add(counts + 8, 1)
"""


def values(dtype: DType, seed: int) -> Array:
    return random_values(np.random.default_rng(seed), dtype, SIZE, (-10.0, 10.0))


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("text", [COPY, SCALARS], ids=["tiles", "scalars"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masked_loads_and_stores(dtype: DType, text: str, level: str) -> None:
    x, i = values(dtype, 1), np.arange(SIZE)
    expected = np.where(i % 5 != 2, np.where(i % 3 != 1, x[::-1], dtype.numpy.type(1)), dtype.numpy.type(0))
    kernel = define(text, level)
    for run in (kernel, pto.interpret(kernel)):
        y = np.zeros(SIZE, dtype.numpy)
        run[4](x, y, SIZE, 64)
        assert_same(y, expected.astype(dtype.numpy), f"copy of {dtype}")


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=lambda x: x.name)
def test_atomics_give_the_old_value_and_leave_the_new_one(row: OpRow, dtype: DType) -> None:
    kernel, combine = define(ATOMIC.format(name=row.name)), NUMPY[row.name.removeprefix("atomic_")]
    x, y, i = values(dtype, 2), values(dtype, 3), np.arange(SIZE)
    with np.errstate(all="ignore"):
        new = np.where(i % 4 != 3, combine(x, y), x).astype(dtype.numpy)
    for run in (kernel, pto.interpret(kernel)):
        memory, old = x.copy(), np.ones(SIZE, dtype.numpy)
        run[4](memory, y, old, SIZE, 64)
        assert_same(memory, new, row.name)
        assert_same(old, np.where(i % 4 != 3, x, dtype.numpy.type(0)), row.name)


@pytest.mark.parametrize("dtype", [np.int32, np.uint32, np.int64, np.uint64])
def test_atomics_of_many_programs(dtype: Any) -> None:
    """Programs of several threads meet in the same counters."""
    kernel = define(COUNTERS)
    for run, programs in ((kernel, 30_000), (pto.interpret(kernel), 30)):
        counts, tickets = np.zeros(9, dtype), np.zeros(programs, dtype)
        run[programs](counts, tickets)
        assert counts[:7].tolist() == [programs // 3] * 6 + [programs - 1]
        assert 1 <= counts[7] <= programs
        assert counts[8] == programs and sorted(tickets) == list(range(programs))


KEPT = """
def kernel(x, y, n, first, size, BLOCK: pto.constexpr):
    at = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    i = at + first
    kept = {kept}
    row = pto.arange(0, 3)[:, None]
    t = pto.load(x + row * n + kept[None, :], mask=(at[None, :] < size) & (row != 1), other=-1)
    pto.store(y + row * size + at[None, :], t, mask=at[None, :] < size)
"""
INSIDE: dict[str, Any] = {
    "i % n": np.fmod,
    "pto.minimum(i, n - 1)": lambda i, n: np.minimum(i, n - 1),
    "pto.maximum(pto.minimum(i, n - 1), 0)": lambda i, n: np.clip(i, 0, n - 1),
    "pto.minimum(i // 48 * 48 + i % 48, n - 1)": lambda i, n: np.minimum(i, n - 1),
    "i % n // 3 * 3": lambda i, n: i % n // 3 * 3,
    "pto.where(i < n, i, 0)": lambda i, n: np.where(i < n, i, 0),
    "pto.where(i >= n, n - 1, pto.maximum(i, 0))": lambda i, n: np.clip(i, 0, n - 1),
    "(i + 2147483600) % 5 + 4": lambda i, n: np.fmod((i + 2147483600).astype(np.int32), 5) + 4,
}


@pytest.mark.parametrize("kept", INSIDE)
@pytest.mark.parametrize(
    ("n", "first", "size"), [(64, 0, 64), (100, 0, 70), (100, 3, 97), (100, 3, 98), (37, 20, 200), (9, 0, 40)]
)
def test_every_element_of_an_index_kept_inside(kept: str, n: int, first: int, size: int) -> None:
    below = "0)" in kept
    first = first - 5 if below and "maximum" in kept else first
    x = np.arange(3 * n, dtype=np.float32).reshape(3, n)
    at = INSIDE[kept](np.arange(size) + first, n)
    expected = x[:, at]
    expected[1] = -1
    kernel = define(KEPT.format(kept=kept))
    with Fences() as fences:
        inside, out = fences.around(x), fences.around(np.zeros((3, size), np.float32))
        kernel[(-(-size // 32),)](inside, out, n, first, size, BLOCK=32)
        assert_same(out, expected, kept)
