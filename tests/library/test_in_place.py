"""Operators that write in place, in checked mode: the last token that names a row writes it, and no race is found."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library as lib
from pypto.errors.interp import WriteRace
from pypto.runtime.arrays import array_info

IN_PLACE = tuple(name for name, row in lib.rows.items() if row.effects)


@pto.jit
def scatter(cache, index, rows):
    t = pto.program_id(0)
    cache[index[t], :] = rows[t, :]


@pto.jit
def scatter_in_order(cache, index, rows):
    for t in range(rows.shape[0]):
        cache[index[t], :] = rows[t, :]


@pto.jit
def scatter_tile(out, index, values):
    t = pto.arange(0, index.shape[0])
    pto.store(out + pto.load(index + t), pto.load(values + t))


def repeated() -> tuple[Any, Any, Any, Any]:
    index = np.array([3, 1, 3, 0, 1, 3], np.int32)
    rows = np.arange(24, dtype=np.float32).reshape(6, 4)
    right = np.zeros((5, 4), np.float32)
    right[3], right[1], right[0] = rows[5], rows[4], rows[3]
    return np.zeros((5, 4), np.float32), index, rows, right


@pytest.mark.parametrize("name", IN_PLACE)
def test_rows_that_write_in_place_have_no_race(name: str) -> None:
    row = lib.rows[name]
    for case in row.cases:
        values = row.sample(np.random.default_rng(0), case)
        with pto.checked():
            found = row.results(values)
        for key, right in row.expected(values).items():
            info = array_info(found[key], name, key)
            assert info is not None
            assert row.tolerance_of(key, info.dtype).problem(found[key], right) == ""


@pytest.mark.parametrize("mode", [pto.checked, pto.interpreter])
def test_two_programs_that_update_one_row_are_an_error(mode: Any) -> None:
    cache, index, rows, _ = repeated()
    with mode(), pytest.raises(WriteRace, match="two programs write one element: cache"):
        scatter[6](cache, index, rows)


@pytest.mark.parametrize("mode", [None, pto.checked, pto.interpreter])
def test_within_a_program_the_last_write_counts(mode: Any) -> None:
    cache, index, rows, right = repeated()
    plain = pto.jit(scatter_in_order.function, checked=mode is pto.checked, interpret=mode is pto.interpreter)
    plain[1](cache, index, rows)
    assert (cache == right).all()
    out = np.zeros(5, np.float32)
    pto.jit(scatter_tile.function, checked=mode is pto.checked, interpret=mode is pto.interpreter)[1](
        out, index[:4], rows[:4, 0].copy()
    )
    assert out.tolist() == [12, 4, 0, 8, 0]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_last_token_that_names_a_row_writes_it(threads: int) -> None:
    cache, index, rows, right = repeated()
    before = pto.get_num_threads()
    pto.set_num_threads(threads)
    try:
        lib.scatter_update(cache, index, rows)
        assert (cache == right).all()
        with pto.checked():
            lib.scatter_update(cache, index, rows)
    finally:
        pto.set_num_threads(before)
    assert (cache == right).all()
