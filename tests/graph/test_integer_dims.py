"""Integers that are sizes: the bounds of slices differ from call to call, and one plan serves them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library
from pypto.arrays import Dim
from pypto.errors.graph import WrongDims

ROWS, LENGTH = Dim("rows", 1, 32), Dim("length", 1, 64)
CALLS = ((3, 3), (4, 7), (1, 8), (32, 40), (24, 64), (5, 9))  # rows that are new, and rows in the cache with them
rng = np.random.default_rng(0)


def compiled(fused: Any) -> int:
    """The kernels that the plans of a function compiled."""
    plans = {version.plan for version in fused.versions}
    return sum(len(kernel.kernel.specializations) for plan in plans for kernel in plan.kernels)


def appended(x: Any, cache: Any, length: int) -> Any:
    """Writes rows into a cache, and reads all that it has then."""
    cache[length - x.shape[0] : length] = 2 * x
    return cache[:length].sum(axis=0) / length, cache[length - 1] + length


def test_slices_of_a_cache_end_where_a_number_says() -> None:
    fused = pto.fuse(appended, dims={"x": (ROWS, None), "length": LENGTH})
    found, wanted = np.zeros((2, 64, 8), np.float32)
    made = []
    for rows, length in CALLS:
        x = rng.standard_normal((rows, 8), np.float32)
        for a, b in zip(fused(x, found, length), appended(x, wanted, length), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found, wanted)
        made.append(compiled(fused))
    assert len(fused.versions) == 1
    assert set(made) == {made[0]}


def test_a_row_of_the_library_takes_a_part_of_a_cache() -> None:
    def attend(q: Any, keys: Any, length: Any) -> Any:
        return library.attention(q, keys[:, :, :length], keys[:, :, :length], causal=1) + 1

    fused = pto.fuse(attend, dims={"q": (1, 2, ROWS, 16), "length": LENGTH})
    keys = rng.standard_normal((1, 2, 64, 16), np.float32)
    for rows, length in CALLS:
        q = rng.standard_normal((1, 2, rows, 16), np.float32)
        np.testing.assert_array_equal(fused(q, keys, length), attend(q, keys, length))
    assert len(fused.versions) == 1


def test_a_number_by_name_is_a_number_of_any_kind_and_lies_anywhere() -> None:
    fused = pto.fuse(lambda x, at: x[: at["end"]] * at["end"], dims={"at.end": LENGTH})
    x = np.arange(64, dtype=np.float32)
    for end in (1, 7, 64):
        np.testing.assert_array_equal(fused(x, {"end": end}), x[:end] * end)
    assert len(fused.versions) == 1
    np.testing.assert_array_equal(fused(x, {"end": np.int64(9)}), x[:9] * 9)
    flat = pto.fuse(lambda x, end: x[:end] + 1, dims={"end": LENGTH})
    for end in (3, 9, 3, 64):  # the second call of a size is replayed
        np.testing.assert_array_equal(flat(x, end), x[:end] + 1)
    assert len(flat.versions) == 1


@pytest.mark.parametrize(
    ("end", "problem"),
    [(65, "`length` is from 1 to 64, not 65"), (0, "not 0"), (2.0, "there is 2.0"), (True, "is True"), (None, "None")],
)
def test_what_is_no_size_is_refused(end: Any, problem: str) -> None:
    flat = pto.fuse(lambda x, end: x[:end] + 1, dims={"end": LENGTH})
    x = np.arange(64, dtype=np.float32)
    for _ in range(2):
        with pytest.raises(WrongDims, match=problem):
            flat(x, end)
        flat(x, 2)


def test_a_number_and_an_array_have_a_size_in_common() -> None:
    fused = pto.fuse(lambda x, n: x * n, dims={"x": (LENGTH,), "n": LENGTH})
    np.testing.assert_array_equal(fused(np.ones(3, np.float32), 3), 3)
    with pytest.raises(WrongDims, match="`length` is 3 in one array and 4 in another"):
        fused(np.ones(3, np.float32), 4)
