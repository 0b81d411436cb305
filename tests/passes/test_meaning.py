"""Passes keep the meaning: random kernels give the same arrays in the interpreter before and after, bit by bit."""

import random

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pypto import interp
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.canonicalize import canonicalize
from pypto.passes.manager import Pass, observed, run
from pypto.passes.optimizing import OPTIMIZE
from pypto.passes.preparing import PREPARE
from pypto.passes.rules.fold_comparisons import fold_comparisons
from pypto.runtime.arrays import array_info
from tests.passes.kernels import OUTPUTS, Maker

RANGES = Pass("ranges", fold_comparisons, "comparisons that bounds of loops decide")
FOLD = Pass("canonicalize", canonicalize, "folds int32 index arithmetic before it is widened")


def result(function, seed):
    """The bits of both arrays after one program; a NaN is a NaN, whatever its bits."""
    pick = random.Random(seed).choice
    ints, floats = np.arange(OUTPUTS, dtype=np.int32) - 3, np.arange(OUTPUTS, dtype=np.float32) / 4
    n, f, b = (
        np.int32(pick([-5, 0, 3, 2**31 - 1])),
        np.float32(pick([-1.5, 0, np.nan, 3e38])),
        np.bool_(pick([False, True])),
    )
    arrays = [array_info(x, "kernel", "x") for x in (ints, floats)]
    interp.run(function, [*arrays, n, f, b], (1, 1, 1))
    floats[np.isnan(floats)] = np.nan
    return ints.tobytes() + floats.tobytes()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
@example(13591)  # a loop with several results, two of which are compared
def test_every_pass_keeps_the_result(seed):
    function = Maker(seed).function()
    expected = result(function, seed)

    def check(step, _, changed):
        verify(changed, TABLE)
        assert result(changed, seed) == expected, f"{step.name} changed the result"

    with observed(check):
        run(function, (FOLD, *PREPARE, *OPTIMIZE, RANGES))


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_round_trip_of_random_kernels(seed):
    text = print_function(Maker(seed).function())
    again = parse_function(text)
    assert print_function(again) == text
    assert result(again, seed) == result(Maker(seed).function(), seed)
