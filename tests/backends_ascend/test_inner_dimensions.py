"""Dimensions inside of others, short rows and floats in order: few instructions, no loop of the scalar unit."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

SHAPES = ((64, 8, 8), (16, 3, 40), (24, 2, 64), (9, 4, 8), (64, 8, 5))
MORE = ((64, 4, 8), (32, 8, 16), (300, 4, 8), (16, 4, 4))
ROWS = ((64, 32), (48, 16), (24, 32), (4096, 8), (40, 8), (17, 32))


@pto.jit
def inner(x, sums, y):
    t = x[:, :, :]
    total = pto.sum(t, axis=1)
    sums[:, :] = total
    y[:, :, :] = (t - total[:, None, :]) * pto.max(t, axis=1)[:, None, :] - pto.sum(t, axis=2)[:, :, None]


@pto.jit
def short_rows(x, most, least, total):
    t = x[:, :]
    most[:], least[:], total[:] = pto.max(t, axis=1), pto.min(t, axis=1), pto.sum(t, axis=1)


@pto.jit
def repeated(x, y, n: pto.constexpr):
    rows, columns = x.shape
    y[:, :, :] = pto.broadcast_to(x[:, :][:, None, :], (rows, n, columns))


@pto.jit
def scaled_groups(x, scale, y, group: pto.constexpr):
    """The scales of a row are followed by padding."""
    rows, columns = x.shape
    t = pto.reshape(x[:, :], (rows, columns // group, group))
    y[:, :] = pto.reshape(t * scale[:, :][:, :, None], (rows, columns))


@pto.jit
def ordered(x, falling, rising):
    t = x[:]
    t = pto.where(pto.isnan(t), -float("inf"), t)
    falling[:], rising[:] = pto.argsort(t, descending=True), pto.argsort(t)


@pto.jit
def known_numbers(x, y):
    t = x[:, :]
    y[:] = pto.max(pto.where(pto.isnan(t), 0.0, pto.abs(t)), axis=1)


def text_of(kernel: Any, *args: Any, chip: str = "ascend910b2") -> str:
    return lower_to_text(function_of(kernel, args), ascend_target(chip))[1]


def loops(text: str) -> list[str]:
    """Heads of loops but that over programs and those of copies."""
    return [head for head in re.findall(r"for \((.*?)\) \{", text) if "program" not in head and " r" not in head]


@needs_compiler
@pytest.mark.parametrize("shape", [*SHAPES, *(pytest.param(shape, marks=pytest.mark.slow) for shape in MORE)])
def test_sums_and_broadcasts_of_an_inner_dimension(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    sums, y = np.zeros((shape[0], shape[2]), np.float32), np.zeros_like(x)
    with pto.device("ascend-sim"):
        inner[1](x, sums, y)
    expected = (x - x.sum(1)[:, None]) * x.max(1)[:, None] - x.sum(2)[:, :, None]
    np.testing.assert_allclose(sums, x.sum(1), 1e-5, 1e-5)
    np.testing.assert_allclose(y, expected, 1e-4, 1e-4)


def test_inner_dimensions_need_no_loop() -> None:
    x = np.zeros((64, 8, 8), np.float32)
    text = text_of(inner, x, np.zeros((64, 8), np.float32), x)
    assert len(loops(text)) <= 2  # of the load and the store, matrix by matrix
    assert text.count("WholeReduce") == 0


@pytest.mark.covering(quick=1, slow=2)
@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("n", "width"), ROWS)
def test_extremes_and_sums_of_short_rows(n: int, width: int, dtype: Any) -> None:
    x = (np.random.default_rng(1).standard_normal((n, width)) * 9).astype(dtype)
    x[3], x[5, 2] = np.nan, np.nan
    found = [np.zeros(n, dtype) for _ in range(3)]
    with pto.device("ascend-sim"):
        short_rows[1](x, *found)
    with np.errstate(all="ignore"):
        rows = np.delete(x, 3, axis=0)
        np.testing.assert_array_equal(np.delete(found[0], 3), np.nanmax(rows, 1))
        np.testing.assert_array_equal(np.delete(found[1], 3), np.nanmin(rows, 1))
        np.testing.assert_allclose(found[2], x.astype(np.float32).sum(1), 1e-2 if dtype == np.float16 else 1e-5, 1e-2)
    assert np.isnan(found[0][3]) and np.isnan(found[1][3])


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32])
def test_runs_are_repeated_by_one_copy_for_each_time(dtype: Any) -> None:
    x = (np.random.default_rng(2).standard_normal((33, 40)) * 9).astype(dtype)
    y = np.zeros((33, 3, 40), dtype)
    with pto.device("ascend-sim"):
        repeated[1](x, y, n=3)
    np.testing.assert_array_equal(y, np.broadcast_to(x[:, None], y.shape))


@needs_compiler
@pytest.mark.parametrize(("rows", "groups", "size"), [(16, 4, 128), (8, 3, 64), (5, 7, 40), (4, 2, 520), (2, 12, 100)])
def test_scales_of_groups_multiply_without_a_copy(rows: int, groups: int, size: int) -> None:
    rng = np.random.default_rng(3)
    x, scale = (rng.standard_normal((rows, n)).astype(np.float32) for n in (groups * size, groups))
    y = np.zeros_like(x)
    with pto.device("ascend-sim"):
        scaled_groups[1](x, scale, y, group=size)
    np.testing.assert_array_equal(y, (x.reshape(rows, groups, size) * scale[:, :, None]).reshape(x.shape))
    assert " Copy(" not in text_of(scaled_groups, x, scale, y, size)


@needs_compiler
@pytest.mark.parametrize("n", [64, 96, 1024])
def test_floats_without_nan_are_sorted_in_one_pass(n: int) -> None:
    x = np.round(np.random.default_rng(4).standard_normal(n), 1).astype(np.float32)
    x[:6] = np.nan, -0.0, 0.0, -np.inf, np.inf, -0.0
    falling, rising = np.zeros(n, np.int32), np.zeros(n, np.int32)
    with pto.device("ascend-sim"):
        ordered[1](x, falling, rising)
    known = np.where(np.isnan(x), -np.inf, x)
    np.testing.assert_array_equal(falling, np.argsort(-known, kind="stable"))
    np.testing.assert_array_equal(rising, np.argsort(known, kind="stable"))
    assert text_of(ordered, x, falling, rising).count("Sort32(") == 2


def test_a_maximum_of_numbers_asks_for_no_nan() -> None:
    x = np.zeros((64, 256), np.float32)
    assert "isNumber" not in text_of(known_numbers, x, np.zeros(64, np.float32))
