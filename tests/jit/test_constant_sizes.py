"""Sizes that change from launch to launch, and have to be constants all the same."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic


@pto.jit
def sums(x, out):
    total = pto.zeros((x.shape[1],), pto.float32)
    for i in range(x.shape[0]):
        total += x[i, :]
    out[:] = total


@pto.jit
def kept_open(x: pto.dynamic, out):
    out[:] = pto.zeros((x.shape[0],), pto.float32)


def test_every_value_of_a_size_that_is_a_tiles_extent() -> None:
    for rows, columns in ((2, 3), (2, 4), (2, 5), (2, 6), (3, 6), (4, 6)):
        x, out = np.ones((rows, columns), np.float32), np.zeros(columns, np.float32)
        sums[1](x, out)
        np.testing.assert_array_equal(out, rows)


def test_a_size_that_is_promised_to_stay_open_is_no_constant() -> None:
    for n in (3, 4, 5):
        with pytest.raises(Diagnostic, match="x"):
            kept_open[1](np.ones(n, np.float32), np.zeros(n, np.float32))
