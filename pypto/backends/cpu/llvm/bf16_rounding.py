"""Rounding to bfloat16 by one instruction, which takes subnormal numbers for zero: where there are any, bit by bit."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.types import int1, uint16

if TYPE_CHECKING:
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter

_LANES: Final = 16  # of a register
_SUBNORMAL: Final = "32"  # the class of numbers, as the instruction that tells them apart counts
_CLASS, _ROUND = "llvm.x86.avx512.fpclass.ps.512", "llvm.x86.avx512bf16.cvtneps2bf16.512"
_PAIR: Final = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"


def rounds(e: LaneEmitter, a: VectorValue) -> bool:
    return e.target.has_bf16_round and a.width % _LANES == 0


def rounded(e: LaneEmitter, a: VectorValue, formula: Callable[[Any], Any]) -> VectorValue:
    """The bits of whole registers of float32, rounded to bfloat16; `formula` gives them for all numbers."""
    parts = [e.part(a, i, _LANES) for i in range(0, a.width, _LANES)]
    classes = [e.call(_CLASS, int1, _LANES, x.hoist_depth, (x.type, x.text), ("i32", _SUBNORMAL)) for x in parts]
    mask = functools.reduce(e.or_, classes)
    some = e.call(f"llvm.vector.reduce.or.v{_LANES}i1", int1, 1, mask.hoist_depth, (mask.type, mask.text))

    def by_hand() -> list[VectorValue]:
        return [e.change("trunc", e.formula(formula, a), uint16)]

    def at_once() -> list[VectorValue]:
        return [e.joined([bits(e, *parts[i : i + 2]) for i in range(0, len(parts), 2)])]

    return e.w.branch(some.text, [by_hand, at_once])[0]


def bits(e: LaneEmitter, a: VectorValue, *after: VectorValue) -> VectorValue:
    """The bits of the numbers of one register, or two, none of which is subnormal."""
    count = _LANES * (1 + len(after))
    kind, name = f"<{count} x bfloat>", _PAIR if after else _ROUND
    found = e.w.call(kind, name, tuple((x.type, x.text) for x in (*after, a)), e.w.depth)
    return e.w.instr(f"bitcast {kind} {found} to <{count} x i16>", uint16, count, e.w.depth)
