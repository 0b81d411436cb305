"""Products with few rows: the same numbers as with packing, at every edge, and nothing outside the arrays is read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.backends_cpu.lowering import fixed_target, lowered
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

WIDE = replace(fixed_target(), vector_bytes=64, registers=32)


SHAPES = [(1, 128, True), (4, 100, True), (5, 100, True), (5, 640, True), (16, 128, True), (17, 128, False)]


@pto.jit
def product(a, b, c, ACC: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), ACC)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def single(a, b, c, x):
    """One dot on whole arrays, whose left side is computed."""
    c[:, :] = pto.dot(a[:, :] * x, b[:, :])


def numbers(dtype: Any, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("rows", [1, 2, 3, 5, 8, 11, 16])
@pytest.mark.parametrize(("n", "k"), [(256, 300), (130, 70), (128, 16), (100, 1), (384, 600)])
def test_every_edge(n: int, k: int, rows: int, level: str) -> None:
    a, b = numbers(np.float32, rows, k), numbers(np.float32, k, n)
    with Fences() as fences:
        a, b = fences.around(a), fences.around(b)
        c = fences.around(np.zeros((rows, n), np.float32))
        pto.jit(level=level)(product.function)[1, -(-n // 128)](a, b, c, pto.float32, rows, 128, 64)
        np.testing.assert_array_equal(c, a @ b)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.float32])
@pytest.mark.parametrize("blocks", [(1, 64, 32), (4, 96, 128), (7, 112, 16), (16, 128, 50)])
def test_types_and_rows_of_programs(blocks: tuple[int, int, int], dtype: Any, level: str) -> None:
    """With several programs along the first axis, the panels stay; the results are the same."""
    a, b, c = numbers(dtype, 33, 200), numbers(dtype, 200, 224), np.zeros((33, 224), dtype)
    grid = -(-33 // blocks[0]), -(-224 // blocks[1])
    pto.jit(level=level)(product.function)[grid](a, b, c, getattr(pto, np.dtype(dtype).name), *blocks)
    np.testing.assert_array_equal(c, a @ b)


def test_computed_left_side(level: str) -> None:
    a, b, c = numbers(np.float32, 3, 40), numbers(np.float32, 40, 64), np.zeros((3, 64), np.float32)
    pto.jit(level=level)(single.function)[1](a, b, c, 2.0)
    np.testing.assert_array_equal(c, 2 * a @ b)


@pytest.mark.parametrize(("rows", "columns", "few"), SHAPES)
def test_when_the_right_side_is_read_as_it_is(rows: int, columns: int, few: bool) -> None:
    shapes = {"a": (rows, 64), "b": (64, 256), "c": (rows, 256)}
    arrays = {name: numbers(np.float32, *shape) for name, shape in shapes.items()}
    launch = Launch(product, (1, 2), {**arrays, "ACC": pto.float32, "BM": rows, "BN": columns, "BK": 64}, {})
    found = lowered(launch, WIDE)
    assert ("@stream_" in found.text) == few
