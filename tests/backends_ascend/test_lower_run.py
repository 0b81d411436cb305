"""Kernels on the simulated device leave what they leave on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from tests.backends_ascend import vector_kernels as kernels
from tests.conformance.running import quick_part
from tests.sim.device import needs_compiler

Array = np.ndarray[Any, Any]
Case = tuple[Any, Any, dict[str, Any], float]
RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float32) -> Array:
    return RNG.standard_normal(shape).astype(dtype)


def zeros(*shape: int, dtype: Any = np.float32) -> Array:
    return np.full(shape, 7, dtype)


def integers(low: int, high: int, *shape: int, dtype: Any = np.int32) -> Array:
    return RNG.integers(low, high, shape).astype(dtype)


CASES: dict[str, Callable[[], Case]] = {
    "larger than a core's memory": lambda: (
        kernels.add_large, 3, {"x": normal(150_001), "y": normal(150_001), "out": zeros(150_001), "BLOCK": 65536}, 0),
    "a stride, and one that is negative": lambda: (
        kernels.add_large, 4, {"x": normal(3 * 301)[::3], "y": normal(301)[::-1], "out": zeros(301), "BLOCK": 100}, 0),
    "rows and columns that are repeated": lambda: (
        kernels.rows_and_columns, 4, {"x": normal(100, 77), "w": normal(77), "out": zeros(100, 77), "BM": 32}, 1e-5),
    "scales of groups": lambda: (
        kernels.scaled_groups, 3, {"x": normal(40, 64), "scales": normal(40, 4), "out": zeros(40, 64), "BM": 16,
                                   "GROUPS": 4}, 0),
    "bfloat16": lambda: (
        kernels.rows_and_columns, 4, {"x": normal(50, 41, dtype=pto.bfloat16.numpy), "w": normal(41),
                                      "out": zeros(50, 41), "BM": 16}, 1e-5),
    "softmax of many rows": lambda: (
        kernels.softmax, 3, {"x": 10 * normal(300, 130), "out": zeros(300, 130), "BM": 128}, 1e-6),
    "softmax of long rows": lambda: (
        kernels.softmax, 5, {"x": normal(9, 5000), "out": zeros(9, 5000), "BM": 2}, 1e-6),
    "transposed": lambda: (
        kernels.turned, (3, 4), {"x": normal(45, 50), "out": zeros(50, 45), "BM": 16, "BN": 16}, 0),
    "transposed views": lambda: (
        kernels.turned, (3, 4), {"x": normal(50, 45).T, "out": zeros(45, 50).T, "BM": 16, "BN": 16}, 0),
    "rows at indices": lambda: (
        kernels.gathered, 4, {"table": normal(20, 33), "index": integers(0, 20, 30), "out": zeros(30, 33), "BLOCK": 8,
                              "COLS": 33}, 0),
    "before the first element": lambda: (kernels.window, 4, {"x": normal(101), "out": zeros(101), "BLOCK": 32}, 1e-6),
    "sort and histogram": lambda: (
        kernels.sorted_rows, 3, {"x": integers(0, 9, 3, 40), "out": zeros(3, 40, dtype=np.int32),
                                 "counts": zeros(3, 8, dtype=np.int32), "BLOCK": 8}, 0),
    "argmax and running sums": lambda: (
        kernels.best, 3, {"x": normal(20, 19), "place": zeros(20, dtype=np.int32), "running": zeros(20, 19), "BM": 8},
        1e-5),
    "rows of integers": lambda: (
        kernels.integer_rows, 3, {"x": integers(-999, 999, 20, 101), "BM": 8, **{
            name: zeros(20, dtype=np.int32) for name in ("sums", "most", "place")}}, 0),
    "numbers that were just written": lambda: (kernels.read_back, 5, {"x": normal(20), "out": zeros(20)}, 1e-6),
    "atomic rows": lambda: (
        kernels.summed_columns, 9, {"x": normal(72, 101), "total": np.zeros(101, np.float32),
                                    "most": np.zeros(101, np.float32), "BM": 8}, 1e-5),
    "atomic sums": lambda: (
        kernels.added_up, 9, {"x": normal(900), "total": np.zeros(1, np.float32), "BLOCK": 100}, 1e-4),
    "a loop while": lambda: (
        kernels.halving, 5, {"x": 100 * normal(160), "steps": zeros(5, dtype=np.int32), "BLOCK": 32}, 0),
    "carried tiles": lambda: (kernels.states, 3, {"x": normal(190), "out": zeros(190), "BLOCK": 64}, 1e-6),
    "a product": lambda: (
        kernels.product, (3, 2), {"a": normal(40, 30), "b": normal(30, 25), "c": normal(25), "out": zeros(40, 25),
                                  "BM": 16, "BN": 16}, 1e-4),
    "a product of bytes": lambda: (
        kernels.product, (3, 2), {"a": integers(-9, 9, 40, 30, dtype=np.int8), "c": normal(25), "out": zeros(40, 25),
                                  "b": integers(-9, 9, 30, 25, dtype=np.int8), "BM": 16, "BN": 16}, 1e-4),
    "integers of 64 bits": lambda: (
        kernels.wide_integers, 3, {"x": integers(-99, 99, 70, dtype=np.int64), "out": zeros(70, dtype=np.int64),
                                   "y": integers(-5, 5, 70, dtype=np.int64), "BLOCK": 32}, 0),
    "integers without a sign": lambda: (
        kernels.wide_integers, 3, {"x": integers(0, 1 << 31, 70, dtype=np.uint32), "out": zeros(70, dtype=np.uint32),
                                   "y": integers(0, 99, 70, dtype=np.uint32), "BLOCK": 32}, 0),
    "bools": lambda: (kernels.flags, 3, {"x": normal(40, 21), "out": zeros(40, 21, dtype=bool), "BM": 16}, 0),
}  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("name", quick_part(2, CASES))
def test_same_as_on_the_cpu(name: str) -> None:
    kernel, grid, arguments, tolerance = CASES[name]()
    there = {n: like(x) if isinstance(x, np.ndarray) else x for n, x in arguments.items()}
    kernel[grid](**arguments)
    with pto.device("ascend-sim"):
        kernel[grid](**there)
    for argument, x in arguments.items():
        if isinstance(x, np.ndarray):
            wide = [a.astype(np.float64) for a in (there[argument], x)]
            np.testing.assert_allclose(*wide, rtol=tolerance, atol=tolerance, err_msg=argument)


def like(x: Array) -> Array:
    """A copy with the same strides."""
    if x.flags.c_contiguous:
        return x.copy()
    base = x.base.copy()  # type: ignore[union-attr]  # a view has one
    return np.lib.stride_tricks.as_strided(base[x.shape[0] - 1 :] if min(x.strides) < 0 else base, x.shape, x.strides)


@pto.jit
def tickets(counter, total, bits, biggest, seen, old, locks):
    i = pto.program_id(0)
    ticket = pto.atomic_add(counter, 1)
    pto.store(seen + ticket, i)
    pto.store(old + i, pto.atomic_add(total, i * 0.5))
    where = pto.arange(0, 8)
    pto.atomic_xor(bits + where, 1 << (i + where), mask=where < 6)
    pto.atomic_or(bits + 8, 1 << i)
    pto.atomic_and(bits + 9, ~(1 << i))
    pto.store(old + 64 + i, pto.atomic_max(biggest, (i * 7 % 64).to(pto.float64)))
    while pto.atomic_cas(locks, 0, 1) == 1:
        pass
    pto.store(locks + 1, pto.load(locks + 1) + 1)
    pto.atomic_xchg(locks, 0)


def test_old_values_bits_and_exchanges() -> None:
    """What the copy engine has not: one core does it, program after program."""

    def arrays() -> list[Array]:
        return [np.zeros(1, np.int32), np.zeros(1, np.float32), np.full(10, -1, np.int64), np.zeros(1),
                np.zeros(64, np.int32), np.zeros(128), np.zeros(2, np.int32)]  # fmt: skip

    here, there = arrays(), arrays()
    tickets[(64,)](*here)
    with pto.device("ascend-sim"):
        tickets[(64,)](*there)
    np.testing.assert_array_equal(np.sort(there[4]), np.arange(64))
    before = np.arange(-1, 63) * 7 % 64 * (np.arange(64) > 0)
    np.testing.assert_array_equal(there[5][64:], np.maximum.accumulate(before))
    for name, a, b in zip(("counter", "total", "bits", "biggest", "", "", "locks"), here, there, strict=True):
        if name:
            np.testing.assert_array_equal(a, b, err_msg=name)


@pto.jit
def plus_one_of_them(x, out):
    i = pto.program_id(0)
    out[0:64] = x[0:64] + x[i + 3]
    out[64:128] = pto.maximum(x[0:64], x[i + 5]) * x[i + 7]


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.float16])
def test_numbers_of_narrow_types_beside_tiles(dtype: Any) -> None:
    """Tiles of small integers are computed with as int32, and the numbers beside them must be of that type, too."""
    x = np.random.default_rng(1).integers(0, 100, 64).astype(dtype)
    here, there = np.zeros(128, dtype), np.zeros(128, dtype)
    plus_one_of_them[1](x, here)
    with pto.device("ascend-sim"):
        plus_one_of_them[1](x, there)
    np.testing.assert_array_equal(there, here)


@pto.jit
def around(out, n, m):
    out[0] = 1 if n + 1 > n else 0
    out[1] = 1 if m * 2 // 2 == m else 0
    out[2] = n + 1


def test_numbers_of_the_scalar_unit_wrap() -> None:
    """C++ may take it that they never do: what is compiled says that they may."""
    out = np.full(3, 7, np.int64)
    with pto.device("ascend-sim"):
        around[1](out, np.int32(2**31 - 1), np.int32(1 << 30))
    np.testing.assert_array_equal(out, [0, 0, -(2**31)])


def test_a_change_of_a_type_without_one_is_refused_with_the_way_out() -> None:
    @pto.jit
    def swap(x, out):
        pto.store(out, pto.atomic_cas(x, 0.0, 1.0))

    x, place = np.zeros(1, np.float16), r"test_lower_run\.py"
    with pto.device("ascend-sim"), pytest.raises(Diagnostic, match=rf"(?s)atomic_cas.*{place}.*integer"):
        swap[(1,)](x, x.copy())
