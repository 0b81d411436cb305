"""Products of int8 for all classes of sizes: each has blocks of its own, and few versions serve all numbers of rows."""

from __future__ import annotations

import numpy as np
import pytest

from pypto import library as lib
from pypto.library.kernels.quantized import weights as kernels


def test_few_blocks_serve_all_numbers_of_rows() -> None:
    found = {(kernels.int8_rows_for(t), kernels.int8_columns_for(t, 384)) for t in range(1, 600)}
    assert found == {(1, 192), (32, 192), (128, 128)}


@pytest.mark.parametrize("t", [1, 2, 3, 11, 33, 64, 65, 130])
@pytest.mark.parametrize("n", [5, 192, 2050])
def test_sums_are_exact_for_all_numbers_of_rows(t: int, n: int) -> None:
    rng = np.random.default_rng(t)
    a, b = rng.integers(-127, 128, (t, 70), np.int8), rng.integers(-127, 128, (70, n), np.int8)
    found = lib.w8a8_linear(a, b, np.ones(t, np.float32), np.ones(n, np.float32))
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize("t", [1, 3, 16, 33, 130])
def test_sums_of_groups_are_exact_for_all_numbers_of_rows(t: int) -> None:
    rng = np.random.default_rng(t)
    a, b = rng.integers(-9, 10, (t, 70), np.int8), rng.integers(-127, 128, (70, 192), np.int8)
    scale = rng.integers(1, 5, (t, 5)).astype(np.float32)
    found = lib.w8a8_group_linear(a, b, scale, np.ones(192, np.float32))
    np.testing.assert_array_equal(found, (a * np.repeat(scale, 14, axis=1)).astype(np.int64) @ b.astype(np.int64))
