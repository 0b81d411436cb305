"""The pass list for preparation: from the front end's IR to what the interpreter and all backends take."""

from __future__ import annotations

from typing import Final

from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.manager import Pass
from pypto.passes.widen import widen

PREPARE: Final = (
    Pass("widen", widen, "first: the interpreter and every backend see addresses in 64 bits"),
    Pass("cse", cse, "the front end repeats constants; rules such as x - x see equal values only when they are one"),
    Pass("canonicalize", canonicalize, "the sizes of slices are constants only after (i + B) - i = B"),
    Pass("cse", cse, "simplified ops are equal more often"),
    Pass("dce", dce, "last, so that it takes away what the rules left behind"),
)
