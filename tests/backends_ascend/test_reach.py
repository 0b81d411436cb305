"""Formulas that hold up to a size of their arguments: chunks with larger ones run the lane rule, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.rules.formulas.trig import REACH
from tests.sim.device import needs_compiler


@pto.jit
def waves(x, s, c):
    i = pto.program_id(0) * 512
    t = x[i : i + 512]
    s[i : i + 512] = pto.sin(t)
    c[i : i + 512] = pto.cos(t)


@needs_compiler
@pytest.mark.parametrize("place", [None, 0, 511, 700])
def test_one_large_argument_is_right_and_so_are_its_neighbours(place: Any) -> None:
    rng = np.random.default_rng(4)
    x = rng.uniform(-REACH, REACH, 1024).astype(np.float32)
    x[5:8] = np.nan, np.inf, -np.inf
    if place is not None:
        x[place] = 3.0e33
    s, c = np.zeros_like(x), np.zeros_like(x)
    with pto.device("ascend-sim"):
        waves[2](x, s, c)
    with np.errstate(invalid="ignore"):
        for found, meaning in ((s, np.sin), (c, np.cos)):
            wanted = meaning(x.astype(np.float64))
            finite = np.isfinite(x)
            error = np.abs(found - wanted)[finite] / np.spacing(np.abs(wanted[finite]).astype(np.float32))
            assert error.max() <= 4
            assert np.isnan(found[~finite]).all()
