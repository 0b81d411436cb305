"""Loops in which a program waits for another one are found; locks and loops that end by themselves are none."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import BusyWaiting


def flagged(flag, o):
    while pto.load(flag) == 0:
        pass
    o[pto.program_id(0)] = 1


def counted(flag, o):
    pto.atomic_add(flag, 1)
    while pto.atomic_add(flag, 0) < pto.num_programs(0):
        pass
    o[pto.program_id(0)] = 1


def carried(flag, o):
    seen = pto.load(flag)
    while seen == 0:
        seen = pto.load(flag)
    o[pto.program_id(0)] = 1


def kept(flag, o):
    while pto.atomic_cas(flag, 0, 1) == 1:
        pass
    o[pto.program_id(0)] = 1


def given_back(flag, o):
    while pto.atomic_cas(flag, 0, 1) == 1:
        pass
    o[0] = o[0] + 1
    pto.atomic_xchg(flag, 0)


def bounded(flag, o):
    i = 0
    while (pto.load(flag) == 0) & (i < 10):
        i += 1
    o[pto.program_id(0)] = i


def walked(flag, o):
    at = 0
    while pto.load(flag + at) == 0:
        at += 1
    o[pto.program_id(0)] = at


def halved(flag, o):
    left = pto.load(flag)
    while left > 0:
        left = left // 2
    o[pto.program_id(0)] = left


def noticed(flag, o):
    done = False
    while not done:
        if pto.load(flag) > 0:
            done = True
    o[pto.program_id(0)] = 1


def searched(flag, o):
    left = 0
    right = 4
    while left < right:
        middle = (left + right) // 2
        if pto.load(flag + middle) <= 7:
            left = middle + 1
        else:
            right = middle
    o[pto.program_id(0)] = left


def compiled(function: Any) -> None:
    pto.jit(function).compile(np.zeros(4, np.int32), np.zeros(4, np.int32))


@pytest.mark.parametrize("function", [flagged, counted, carried, kept, noticed])
def test_waiting_is_told(function: Any) -> None:
    with pytest.warns(BusyWaiting, match=f"{function.__name__}: this loop waits") as caught:
        compiled(function)
    (said,) = caught
    assert said.filename == __file__
    assert "while" in str(said.message)
    assert "never for one behind it" in str(said.message)


@pytest.mark.parametrize("function", [given_back, bounded, walked, halved, searched])
def test_what_is_no_waiting_is_not(function: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(function)


def test_programs_may_wait_for_those_before_them() -> None:
    """On any number of threads, whichever end of the grid they begin at."""

    def chained(flag, o):
        i = pto.program_id(0)
        while pto.atomic_add(flag + i, 0) == 0:
            pass
        o[i] = i
        pto.atomic_xchg(flag + i + 1, 1)

    for threads in (1, 2, 3):
        kernel = pto.jit(num_threads=threads)(chained)
        flag, o = np.zeros(4001, np.int32), np.zeros(4000, np.int32)
        flag[0] = 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BusyWaiting)
            kernel[4000](flag, o)
        np.testing.assert_array_equal(o, np.arange(4000))
