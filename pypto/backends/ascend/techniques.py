"""Techniques that the lowering to Block IR decides about while it writes: rows of the pass list without IR."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from pypto.ir.core import Function
from pypto.passes.manager import Pass

TECHNIQUES: Final = (
    Pass("grid_invariants", None, "ops that are the same for all programs run once, before the loop over programs",
        optional=True),
    Pass("swizzle", None, "programs of a product go in bands of rows, so that cores share what L2 holds", "dot",
        optional=True),
    Pass("row_split", None, "each vector core of a block takes half of the rows, in parts where it has too little"
        " memory; without it, both compute all of them", "dot", optional=True),
    Pass("unit_functions", None, "functions of reals are formulas on the unit's Exp, Ln and Div; without it, each is"
        " computed by the rule that all targets share, which is right to about one unit in the last place",
        optional=True),
    Pass("stage_interleaving", None, "copies of a step stand beside the products of the one before", "dot",
        optional=True),
)  # fmt: skip
_BY_NAME: Final = MappingProxyType({row.name: row for row in TECHNIQUES})


def is_enabled(function: Function, name: str) -> bool:
    """True where a technique may be used in the code of a function."""
    return _BY_NAME[name].is_enabled(function.attrs)
