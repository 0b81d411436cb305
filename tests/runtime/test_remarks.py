"""What a simulated device says of kernels that are right, and slower on a chip than they need be."""

from __future__ import annotations

import shutil
import warnings

import numpy as np
import pytest

import pypto as pto
from pypto.errors.device import UnalignedCopies

pytestmark = pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")


def test_rows_between_lines_of_memory_are_a_warning_at_their_line() -> None:
    @pto.jit
    def twice(x, y, COLS: pto.constexpr):
        i = 32 * pto.program_id(0)
        y[i : i + 32, :COLS] = 2 * x[i : i + 32, :COLS]

    for width, count in ((640, 0), (704, 1), (704, 0)):  # rows 5 and 5.5 lines apart; the same line is told of once
        x = np.ones((64, width), np.float32)
        y = np.zeros_like(x)
        with pto.device("ascend-sim"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            twice[(2,)](x, y, 512)
        np.testing.assert_array_equal(y[:, :512], 2)
        assert len(caught) == count
        for said in caught:
            assert isinstance(said.message, UnalignedCopies)
            assert (said.filename, said.lineno) == (__file__, twice.function.__code__.co_firstlineno + 3)
            assert "twice: this copy touches 288 lines of 512 bytes of device memory where 256" in str(said.message)
            assert "2 * x[i : i + 32, :COLS]" in str(said.message)
