"""Passes: functions from Tile IR to Tile IR with the same meaning, and the order in which they run."""

from __future__ import annotations

from typing import Final

from pypto.ir.core import Function
from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.manager import Pass, run
from pypto.passes.widen import widen

PREPARE: Final = (
    Pass("widen", widen, "first: the interpreter and every backend see addresses in 64 bits"),
    Pass("cse", cse, "the front end repeats constants; rules such as x - x see equal values only when they are one"),
    Pass("canonicalize", canonicalize, "the sizes of slices are constants only after (i + B) - i = B"),
    Pass("cse", cse, "simplified ops are equal more often"),
    Pass("dce", dce, "last, so that it takes away what the rules left behind"),
)


def prepare(function: Function) -> Function:
    """The passes from the front end's IR to the IR of the interpreter and of every backend."""
    result: Function = run(function, PREPARE)
    return result


def optimize(function: Function) -> Function:
    """The passes from prepared IR to what a backend lowers. A hit in the disk cache does not load their modules."""
    from pypto.passes.optimizing import OPTIMIZE

    result: Function = run(function, OPTIMIZE)
    return result
