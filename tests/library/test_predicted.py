"""Predicted times of operators: beside the limit of the chip, and with the numbers that earlier launches write."""

from __future__ import annotations

import numpy as np
import pytest

from pypto.library import rows
from pypto.library.timing import predict


def test_limit_of_products_is_the_cube_or_the_memory() -> None:
    row = rows["w8a8_matmul"]
    found = predict(row, "ascend910b2", "small")
    n = row.sizes["small"]
    operations = 2.0 * n["t"] * n["k"] * n["n"]
    assert found.cube == pytest.approx(operations / (24 * 16384 * 1.8e9))
    assert found.bound == "memory" and 0 < found.limit < found.seconds


def test_rows_without_products_are_bound_by_memory() -> None:
    found = predict(rows["silu"], "ascend950", "small")
    assert found.cube == 0 and found.bound == "memory"


def test_later_launches_see_what_earlier_ones_wrote() -> None:
    """The list of blocks decides how often the second launch's loop runs."""
    found = predict(rows["block_sparse_attention"], "ascend910b2", "small")
    assert [launch.kernel for launch in found.launches] == ["list_kernel", "block_sparse_kernel"]
    assert np.isfinite(found.seconds) and found.seconds < 1e-3
