"""Functions of float32 on many or on all numbers, against their float64 rules, which `test_math_accuracy` judges.

Both results and the error are computed by one kernel, so that a billion numbers take seconds.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.ir.types import float32
from tests.ops.test_math_accuracy import BLOCK, FUNCTIONS, OLD, named

BOUNDS = {r.name: r.ulp["f32"] for r, d in FUNCTIONS if d is float32 and len(r.params) == 1 and r.dtypes == "float"}
COMMON = ("exp", "log2", "sin", "erf", "rsqrt")
CHUNK = 4096  # blocks
MINUTES = [pytest.param(name, marks=pytest.mark.exhaustive) for name in (*BOUNDS, "sqrt") if name not in COMMON]
ROUNDING = 1e-8  # what the result in float64 is off, in ulp of float32


def numbers(first, stride):
    """So many float32 as a program has, every `stride`-th bit pattern."""
    i = pto.program_id(0).to(pto.uint32) * BLOCK + pto.arange(0, BLOCK).to(pto.uint32)
    return pto.bitcast(first + i * stride, pto.float32)


@functools.cache
def results(name: str, level: str) -> Any:
    """A kernel that gives what a function makes of float32."""
    f = named(name)

    @pto.jit(level=level)
    def found_there(found, first, stride):
        at = pto.program_id(0) * BLOCK
        found[at : at + BLOCK] = f(numbers(first, stride))

    return found_there


@functools.cache
def errors(name: str, level: str) -> Any:
    """A kernel that gives the worst error of a block of float32 against float64: of `found`, or of what it finds."""
    f = named(name)

    @pto.jit(level=level)
    def worst_errors(worst, given, first, stride):
        at, x = pto.program_id(0) * BLOCK, numbers(first, stride)
        found, right = f(x) if given is None else given[at : at + BLOCK], f(x.to(pto.float64))
        power = pto.bitcast(pto.bitcast(abs(right).to(pto.float32), pto.int32) & 0x7F800000, pto.float32)
        unit = pto.maximum(pto.minimum(power, 2.0**127).to(pto.float64) * 2.0**-23, 2.0**-149)
        error = abs(found.to(pto.float64) - right) / unit
        exact = found == right.to(pto.float32)  # also where both are infinite
        error = pto.where(exact & ~(error <= 1.0) | pto.isnan(found) & pto.isnan(right), 0.0, error)
        worst[pto.program_id(0)] = pto.max(pto.where(exact | (error >= 0.0), error, float("inf")))

    return worst_errors


def assert_near(name: str, level: str, stride: int, bound: float, judge: str = "") -> None:
    """The error of every `stride`-th bit pattern lies within the bound; an odd stride reaches all digits.

    What is found on a feature level is judged on this machine's own, where float64 takes a fifth of the time.
    """
    worst, step = np.zeros(-(-(2**32) // (stride * BLOCK))), np.uint32(stride)
    given, size = (None, len(worst)) if judge == level else (np.empty(CHUNK * BLOCK, np.float32), CHUNK)
    for at in range(0, len(worst), size):
        part, first = worst[at : at + size], np.uint32(at * BLOCK * stride % 2**32)
        if given is not None:
            results(name, level)[len(part),](given, first, step)
        errors(name, judge)[len(part),](part, given, first, step)
    assert 0 < worst.max() <= bound, f"{name} is off by {worst.max():.3f} ulp in block {worst.argmax()}"


@pytest.mark.parametrize("name", BOUNDS)
def test_a_million_numbers(name: str) -> None:
    assert_near(name, "", 4097, BOUNDS[name])


@pytest.mark.slow
@pytest.mark.parametrize("level", dict.fromkeys(["", OLD]))
@pytest.mark.parametrize("name", BOUNDS)
def test_every_37th_number(name: str, level: str) -> None:
    assert_near(name, level, 37, BOUNDS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", BOUNDS)
def test_float64_of_old_machines_judges_alike(name: str) -> None:
    assert_near(name, OLD, 1369, BOUNDS[name], judge=OLD)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*COMMON, *MINUTES])
def test_all_numbers(name: str) -> None:
    assert_near(name, "", 1, BOUNDS.get(name, 0.5) + ROUNDING)
