"""Passes: functions from Tile IR to Tile IR with the same meaning, and the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Function
from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.widen import widen


@dataclass(frozen=True, slots=True)
class Pass:
    """A pass, and why it stands where it does."""

    name: str
    run: Callable[[Function], Function]
    reason: str


PREPARE: Final = (
    Pass("widen", widen, "first: the interpreter and every backend see addresses in 64 bits"),
    Pass("cse", cse, "the front end repeats constants; rules such as x - x see equal values only when they are one"),
    Pass("canonicalize", canonicalize, "the sizes of slices are constants only after (i + B) - i = B"),
    Pass("cse", cse, "simplified ops are equal more often"),
    Pass("dce", dce, "last, so that it takes away what the rules left behind"),
)


def run(
    function: Function, passes: Sequence[Pass], after_each: Callable[[Pass, Function], object] = lambda *_: None
) -> Function:
    """Run passes in order; `after_each` sees what each of them made (tests verify it)."""
    for step in passes:
        function = step.run(function)
        after_each(step, function)
    return function


def prepare(function: Function) -> Function:
    """From what a front end made to what the interpreter and every backend take."""
    return run(function, PREPARE)


def optimize(function: Function) -> Function:
    """From prepared IR to what a backend lowers. What the disk cache has needs no such passes, nor their modules."""
    from pypto.passes.optimizing import OPTIMIZE

    return run(function, OPTIMIZE)
