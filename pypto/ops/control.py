"""Structured control flow, and what a kernel says to its author."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pypto.ir.core import Op, Region, Value
from pypto.ir.types import Type, int1, int32, int64, scalar
from pypto.ops import dims
from pypto.ops.adjoint import BY_SWEEP
from pypto.ops.row import STRUCTURAL, Effect, OpRow, Param


def nothing(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return ()


def loop_results(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    """After lower bound, upper bound and step come the carried values; the loop gives their last state."""
    return tuple(types[3:])


def carried(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return tuple(types)


def need(holds: bool, sentence: str) -> None:
    if not holds:
        raise TypeError(sentence)


def types_of(values: Sequence[Value]) -> tuple[Type, ...]:
    return tuple(v.type for v in values)


def need_yield(region: Region, expected: tuple[Type, ...]) -> None:
    given = types_of(region.terminator.operands)
    need(
        given == expected,
        f"a region yields ({', '.join(map(str, given))}), but ({', '.join(map(str, expected))}) is needed",
    )


def need_args(region: Region, expected: tuple[Type, ...]) -> None:
    given = types_of(region.args)
    need(
        given == expected, f"a region takes ({', '.join(map(str, given))}), but gets ({', '.join(map(str, expected))})"
    )


def check_if(op: Op) -> None:
    need(types_of(op.operands) == (scalar(int1),), "takes one bool scalar, the condition")
    need(len(op.regions) == 2, f"has {len(op.regions)} regions, but needs one for each outcome")
    for region in op.regions:
        need_args(region, ())
        need_yield(region, types_of(op.results))


def check_for(op: Op) -> None:
    bounds = set(types_of(op.operands[:3]))
    need(
        len(op.operands) >= 3 and bounds in ({scalar(int32)}, {scalar(int64)}),
        "takes lower bound, upper bound and step, all i32 or all i64",
    )
    need(len(op.regions) == 1, f"has {len(op.regions)} regions, but needs one")
    need_args(op.regions[0], (*bounds, *types_of(op.results)))
    need_yield(op.regions[0], types_of(op.results))


def check_while(op: Op) -> None:
    need(len(op.regions) == 2, f"has {len(op.regions)} regions, but needs one for the condition and one for the body")
    for region, yielded in zip(op.regions, ((scalar(int1),), types_of(op.results)), strict=True):
        need_args(region, types_of(op.results))
        need_yield(region, yielded)


def structural(name: str, infer: Any, doc: str, check: Any = None, traits: tuple[str, ...] = ("control",)) -> OpRow:
    return OpRow(
        name,
        params=(),
        infer=infer,
        reference=None,
        lane_rule=STRUCTURAL,
        check=check,
        dims=dims.free,  # what regions carry and yield is no matter of one op
        traits=frozenset(("variadic", *traits)),
        public=False,
        adjoint=BY_SWEEP,
        doc=doc,
    )


ROWS = (
    structural(
        "if",
        nothing,
        "Runs its first region when the condition holds, else its second; yields what that one yields.",
        check_if,
        ("control", "declared"),
    ),
    structural(
        "for",
        loop_results,
        "Runs its region for each index from lower bound to upper bound by a step; the region's arguments are "
        "the index and the carried values, and it yields the next state of these. The bounds and the index have one integer type.",
        check_for,
    ),
    structural(
        "while",
        carried,
        "Runs its second region as long as its first one yields true; both take the carried values, and the "
        "second yields their next state.",
        check_while,
    ),
    structural("yield", nothing, "Ends a region and gives its values.", traits=("terminator",)),
    OpRow(
        "assert_",
        params=(
            Param("condition"),
            Param("message", "str", ""),
            Param("wraps", "str", "", "the dtype of an index that wraps around"),
        ),
        infer=nothing,
        reference=None,
        lane_rule=STRUCTURAL,
        effect=Effect.SYNC,
        public=False,
        doc="Reports the message where the condition is false, in checked mode and in the interpreter.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "print_",
        params=(Param("values"), Param("prefix", "str", ""), Param("hex", "bool", False)),
        infer=nothing,
        reference=None,
        lane_rule=STRUCTURAL,
        effect=Effect.SYNC,
        public=False,
        traits=frozenset({"variadic"}),
        doc="Prints values for every program: on the CPU when all are done, in the interpreter at once; on Ascend, nothing.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "breakpoint_",
        params=(),
        infer=nothing,
        reference=None,
        lane_rule=STRUCTURAL,
        effect=Effect.SYNC,
        public=False,
        doc="Stops in the debugger, in the interpreter; compiled code goes on.",
        adjoint=BY_SWEEP,
    ),
)
