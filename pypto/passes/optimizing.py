"""The pass list for optimization: from prepared IR to what a backend lowers, with the reason for each place."""

from __future__ import annotations

from typing import Final

from pypto.passes.access import raise_accesses
from pypto.passes.canonicalize import canonicalize
from pypto.passes.cse import cse
from pypto.passes.dce import dce
from pypto.passes.induction import induction
from pypto.passes.licm import licm
from pypto.passes.manager import Pass

OPTIMIZE: Final = (
    Pass("induction", induction, "tiles that loops move become visible to access analysis", optional=True),
    Pass("access", raise_accesses, "before anything that asks what a load reads"),
    Pass("canonicalize", canonicalize, "index arithmetic that access analysis split off"),
    Pass("licm", licm, "after canonicalize, which makes more operands invariant", optional=True),
    Pass("cse", cse, "invariants of two loops meet before them"),
    Pass("dce", dce, "pointer arithmetic that structured accesses no longer need"),
)
