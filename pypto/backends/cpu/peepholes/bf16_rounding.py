"""Peephole: float32 is rounded to bfloat16 by `vcvtneps2bf16` in place of six integer instructions.

The instruction flushes subnormal numbers to zero, so a branch on their presence keeps the integer form. Legal for whole
registers of float32 on targets with AVX512-BF16.

round by integer arithmetic becomes if any lane is subnormal: round by integer arithmetic else: vcvtneps2bf16
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from pypto.backends.llvm.value import VectorValue
from pypto.ir.types import int1, uint16

if TYPE_CHECKING:
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter

_LANES: Final = 16  # of a register
_SUBNORMAL: Final = "32"  # bit of the class in `vfpclass`
_CLASS, _ROUND = "llvm.x86.avx512.fpclass.ps.512", "llvm.x86.avx512bf16.cvtneps2bf16.512"
_PAIR: Final = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"


def can_round_registers(e: CpuLaneEmitter, a: VectorValue) -> bool:
    """Whether the target has the instruction, and the value is whole registers."""
    return e.target.has_bf16_round and a.width % _LANES == 0


def round_registers(e: CpuLaneEmitter, a: VectorValue, formula: Callable[[Any], Any]) -> VectorValue:
    """The bits of float32 values, rounded to bfloat16; `formula` gives them by integer arithmetic."""
    parts = [e.part(a, i, _LANES) for i in range(0, a.width, _LANES)]
    classes = [e.call(_CLASS, int1, _LANES, x.hoist_depth, (x.type, x.text), ("i32", _SUBNORMAL)) for x in parts]
    mask = functools.reduce(e.or_, classes)
    has_subnormal = e.call(f"llvm.vector.reduce.or.v{_LANES}i1", int1, 1, mask.hoist_depth, (mask.type, mask.text))

    def by_formula() -> list[VectorValue]:
        return [e.change("trunc", e.formula(formula, a), uint16)]

    def by_instruction() -> list[VectorValue]:
        return [e.joined([bits(e, *parts[i : i + 2]) for i in range(0, len(parts), 2)])]

    return e.w.branch(has_subnormal.text, [by_formula, by_instruction])[0]


def bits(e: CpuLaneEmitter, a: VectorValue, *second: VectorValue) -> VectorValue:
    """The bits of one register, or two, without subnormal numbers."""
    count = _LANES * (1 + len(second))
    kind = f"<{count} x bfloat>"
    converted = e.w.call(kind, _PAIR if second else _ROUND, tuple((x.type, x.text) for x in (*second, a)), e.w.depth)
    return e.w.instr(f"bitcast {kind} {converted} to <{count} x i16>", uint16, count, e.w.depth)
