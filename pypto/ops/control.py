"""Structured control flow, and what a kernel says to its author."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pypto.ir.types import Type
from pypto.ops.row import STRUCTURAL, Effect, OpRow, Param


def nothing(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return ()


def loop_results(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """After lower bound, upper bound and step come the carried values; the loop gives their last state."""
    return tuple(types[3:])


def carried(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return tuple(types)


def structural(name: str, infer: Any, doc: str, effect: Effect = Effect.PURE, traits: tuple[str, ...] = ()) -> OpRow:
    return OpRow(name, (), infer, None, STRUCTURAL, STRUCTURAL, effect=effect, traits=frozenset(traits), public=False, doc=doc)


ROWS = (
    structural("if", nothing, "Runs its first region when the condition holds, else its second; yields what that one yields.",
               traits=("control",)),
    structural("for", loop_results, "Runs its region for each index from lower bound to upper bound by a step; the region's arguments are "
               "the index and the carried values, and it yields the next state of these. The bounds and the index have one integer type.",
               traits=("control",)),
    structural("while", carried, "Runs its second region as long as its first one yields true; both take the carried values, and the "
               "second yields their next state.", traits=("control",)),
    structural("yield", nothing, "Ends a region and gives its values.", traits=("terminator",)),
    OpRow("assert_", (Param("condition"), Param("message", "str", "")), nothing, None, STRUCTURAL, STRUCTURAL, effect=Effect.SYNC,
          public=False, doc="Reports the message where the condition is false, in checked mode and in the interpreter."),
    OpRow("print_", (Param("values"), Param("prefix", "str", "")), nothing, None, STRUCTURAL, STRUCTURAL, effect=Effect.SYNC, public=False,
          doc="Prints values, in the interpreter; compiled code prints nothing."),
)
