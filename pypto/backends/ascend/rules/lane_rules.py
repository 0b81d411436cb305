"""Instruction selection for one elementwise op: an instruction, a formula, the lane rule, or a loop on the scalar unit.

The op's row says which (`rules={"ascend": …}`); what does not apply to the operands falls to the next one. A rule that
needs much memory is strip-mined: a loop runs it on parts of the chunk, which is legal since lanes are independent.

    exp(x: 8192 x f16)   ->   Cast(a, x), Exp(a, a), Cast(y, a)

A formula may hold up to a size of its arguments (`ViaFormula.reach`). The scalar unit asks once a chunk whether any is
beyond, and such a chunk runs the lane rule.

    sin(x: 2048 x f32)   ->   if beyond <= 0: the formula else: the lane rule
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial, reduce

from pypto.backends.ascend.blockir.ir import Buffer, Expr, If, Instr, Item, Loop, Scalar, View, Word, fold
from pypto.backends.ascend.rules import packed_bytes
from pypto.backends.ascend.rules.control import any_lane
from pypto.backends.ascend.rules.conversions import loaded, rounded, stored, widened
from pypto.backends.ascend.rules.emitter import VectorEmitter
from pypto.backends.ascend.rules.kinds import ViaFormula, ViaInstruction, ViaLaneRule, ViaScalarUnit
from pypto.backends.ascend.rules.operand import InstructionSink, Lanes, NoInstruction, lanes_of, part_of
from pypto.backends.ascend.rules.scalar_fallback import emit_scalar_loop
from pypto.backends.ascend.rules.table import rule_for
from pypto.backends.ascend.rules.temporaries import Places, Scratch, placed
from pypto.errors.ascend import NotOnAscend
from pypto.ir.core import Op
from pypto.ir.types import DType, float64, int32
from pypto.ops.math.term import Term
from pypto.ops.row import Unsupported
from pypto.ops.table import TABLE

Make = Callable[[Sequence[Lanes], Scratch], Lanes]
NO_INT64 = "the vector unit has no integers of 64 bits; use int32, for instance `.to(pto.int32)`"
NO_FLOAT64 = "the vector unit has no float64; use float32, for instance `.to(pto.float32)`"
_MEMORY = 72 * 1024  # bytes that an op may take at once: its temporaries and its result
__all__ = ["InstructionSink", "Lanes", "NoInstruction", "elementwise"]


def elementwise(op: Op, operands: Sequence[Lanes], sink: InstructionSink, exact: bool = False) -> list[Lanes]:
    """Emit what an elementwise op does to a chunk, and say where its results are; `exact`: by no formula of the unit's.

    Views among the results are memory from `sink.temporary`, or an operand's where nothing is to be done (a bitcast).
    No operand is written. Where all operands are numbers, so are the results if the scalar unit can compute them.

    Raises
    ------
    NotOnAscend
        When the op's Ascend cell is `Unsupported` for these dtypes.
    """
    cell = rule_for(TABLE[op.name])
    if isinstance(cell, Unsupported):
        raise refused(op, cell.reason)
    if isinstance(cell, ViaScalarUnit) or float64 in [v.dtype for v in (*op.operands, *op.results)]:
        raise refused(op, NO_FLOAT64)
    try:
        if isinstance(cell, ViaFormula) and not exact and is_limited(cell, op):
            return [emit_within_reach(cell, op, operands, sink)]
        return [emit_into(sink, operands, lambda lanes, scratch: emit_chunk(cell, op, lanes, scratch, exact))]
    except NoInstruction as lacking:
        try:
            return [emit_into(sink, operands, lambda lanes, scratch: emit_scalar_loop(op, lanes, scratch))]
        except NoInstruction:
            raise refused(op, str(lacking)) from None


def refused(op: Op, reason: str) -> NotOnAscend:
    """Build the error for an op that the chip lacks, from `reason; way out`."""
    problem, _, way = reason.partition("; ")
    way = way or "compute it on the host, or on the CPU"
    dtypes = " and ".join(dict.fromkeys(str(v.tile.elem) for v in op.operands))
    return NotOnAscend(op.loc, op=op.name, dtype=dtypes, reason=problem, way=way)


def is_limited(cell: ViaFormula, op: Op) -> bool:
    """Whether an operand may be larger than the formula takes; those for float16 take all."""
    return math.isfinite(cell.reach) and cell.for_dtype(op.operands[0].dtype) not in (None, cell.f16)


def emit_within_reach(cell: ViaFormula, op: Op, operands: Sequence[Lanes], sink: InstructionSink) -> Lanes:
    """Emit the formula and the lane rule as branches of the scalar unit, which write the same memory."""
    result = Lanes(op.result.dtype, sink.temporary(op.result.dtype))
    beyond = count_beyond(cell.reach, operands, sink)
    with sink.nested() as formula:
        emit_into(sink, operands, partial(emit_chunk, cell, op, exact=False), result)
    with sink.nested() as lane_rule:
        emit_into(sink, operands, partial(emit_chunk, cell, op, exact=True), result)
    sink.emit(If(Expr("<=", (beyond, 0.0)), tuple(formula), tuple(lane_rule), sink.line))
    return result


def count_beyond(reach: float, operands: Sequence[Lanes], sink: InstructionSink) -> Scalar:
    """Emit a number that is above 0 if an operand is larger than `reach` in any lane."""
    scratch = Scratch(sink)
    e = VectorEmitter(scratch)
    beyond = [is_beyond(e.term(widened(e, x)), reach) for x in operands]
    found = any_lane(e, lanes_of(reduce(operator.or_, beyond)))
    for item in placed(scratch.items, set(), Places(scratch, sink)):
        sink.emit(item)
    return found


def is_beyond(x: Term, reach: float) -> Term:
    """Whether |x| is larger; no tile is made for the size."""
    return (x > reach) | (x < -reach)


def emit_into(sink: InstructionSink, operands: Sequence[Lanes], make: Make, target: Lanes | None = None) -> Lanes:
    """Emit what `make` makes, into a target where there is one, strip-mined if that needs too much memory."""
    scratch = Scratch(sink)
    made = make(operands, scratch)
    if not isinstance(made.at, View):
        return made
    unit = 256 if any(x.dtype.is_bool for x in (*operands, made)) else 128  # parts begin at whole blocks
    count = part(sink.count, unit, scratch.bytes_needed(made.at))
    if count < sink.count:
        return emit_in_chunks(sink, operands, make, count, target)
    places = Places(scratch, sink)
    if target is not None:
        assert isinstance(made.at.of, Buffer) and isinstance(target.at, View)
        places.of[made.at.of] = target.at
    for item in scratch.made(made.at, places):
        sink.emit(item)
    return Lanes(made.dtype, places.view(made.at))


def part(count: int, unit: int, size: int) -> int:
    """Return the strip length: the most units that divide the chunk and fit the memory."""
    if count % unit:
        return count
    units = count // unit
    fitting = [n for n in range(1, units + 1) if units % n == 0 and size * n <= _MEMORY * units]
    return unit * max(fitting, default=1)


def emit_in_chunks(
    sink: InstructionSink, operands: Sequence[Lanes], make: Make, count: int, target: Lanes | None
) -> Lanes:
    """Emit a loop over strips of `count` elements."""
    name = sink.name("part")
    scratch = Scratch(Part(sink, count))
    made = make([shifted(x, name, count) for x in operands], scratch)
    result = target or Lanes(made.dtype, sink.temporary(made.dtype))
    inside = shifted(result, name, count).at
    assert isinstance(made.at, View) and isinstance(made.at.of, Buffer) and isinstance(inside, View)
    items = scratch.made(made.at, Places(scratch, scratch.sink, {made.at.of: inside}))
    sink.emit(Loop(name, 0, sink.count // count, 1, tuple(items), sink.line, int32))
    return result


def shifted(a: Lanes, name: str, count: int) -> Lanes:
    """Return the part of an operand that belongs to a strip."""
    if not isinstance(a.at, View):
        return a
    return Lanes(a.dtype, part_of(a.at, fold("*", name, count // 8 if a.dtype.is_bool else count)))


@dataclass
class Part:
    """A sink for one strip of another sink's chunk."""

    whole: InstructionSink
    count: int

    @property
    def line(self) -> int:
        return self.whole.line

    def emit(self, item: Item) -> None:
        self.whole.emit(item)

    def temporary(self, dtype: DType, count: int = 0) -> View:
        return self.whole.temporary(dtype, count or self.count)

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        return self.whole.filled(value, dtype, count or self.count)

    def name(self, hint: str) -> str:
        return self.whole.name(hint)

    def nested(self) -> AbstractContextManager[list[Item]]:
        return self.whole.nested()


def emit_chunk(cell: object, op: Op, operands: Sequence[Lanes], sink: Scratch, exact: bool) -> Lanes:
    """Emit the row's instruction if it takes the operands, else its formula or the lane rule."""
    dtype = op.result.dtype
    if isinstance(cell, ViaInstruction) and has_instruction(cell, op, operands):
        target = sink.temporary(dtype)
        modes = [Word(cell.mode)] if cell.mode else []
        views = [x.at for x in operands if isinstance(x.at, View)]
        sink.emit(Instr(cell.name, (target, *views, *modes, sink.count), sink.line))
        return Lanes(dtype, target)
    if (of_bytes := emit_on_bytes(cell, op, operands, sink)) is not None:
        return of_bytes
    if isinstance(cell, ViaInstruction) and is_extremum_with_number(cell, op, operands):
        return extremum_with_number(VectorEmitter(sink), cell.name, operands)
    if 64 in [v.dtype.bits for v in (*op.operands, *op.results)] and op.name not in ("cast", "bitcast"):
        raise NoInstruction(NO_INT64)
    e, rule, narrow = VectorEmitter(sink), TABLE[op.name].lane_rule, ""
    if isinstance(cell, ViaFormula):
        formula = None if exact else cell.for_dtype(op.operands[0].dtype)
        rule, narrow = formula or rule, "f16" if formula and formula is cell.f16 else ""
    elif isinstance(cell, ViaInstruction | ViaLaneRule):
        narrow = cell.narrow
    assert callable(rule)
    made: Lanes = rule(e, op, *(to_compute_form(e, x, narrow) for x in operands))
    return stored(e, rounded(e, made, dtype) if dtype.is_float else Lanes(dtype, made.at))


def emit_on_bytes(cell: object, op: Op, operands: Sequence[Lanes], sink: Scratch) -> Lanes | None:
    """Emit an op of integers of 8 bits that need not be widened to int32; None of any other op."""
    e = VectorEmitter(sink)
    if isinstance(cell, ViaInstruction) and len({v.dtype for v in (*op.operands, op.result)}) == 1:
        chunks = sorted(operands, key=lambda x: x.is_scalar) if "commutative" in TABLE[op.name].traits else operands
        if packed_bytes.is_constant(chunks):
            return packed_bytes.on_bytes(e, cell.name, chunks, op.result.dtype)
    if op.name != "cast":
        return None
    convert = packed_bytes.from_float if operands[0].dtype.is_float else packed_bytes.to_float
    return convert(e, operands[0], op.result.dtype)


def is_extremum_with_number(cell: ViaInstruction, op: Op, operands: Sequence[Lanes]) -> bool:
    """Whether an op is an extremum of floats and one number that gives NaN where either is NaN, as Max and Min do."""
    if cell.name not in ("Max", "Min") or len([x for x in operands if isinstance(x.at, View)]) != 1:
        return False
    known = all(x.dtype.is_float and x.dtype.mnemonic in cell.dtypes.split() for x in operands)
    return known and (cell.when is None or cell.when(op))


def extremum_with_number(e: VectorEmitter, name: str, operands: Sequence[Lanes]) -> Lanes:
    """Emit Maxs or Mins of a constant. Another number may be NaN, of which the documentation of Maxs and Mins says
    nothing: it fills a vector for Max or Min, which give NaN."""
    is_number = all(isinstance(x.at, View | int) or (isinstance(x.at, float) and x.at == x.at) for x in operands)
    return e.arithmetic(name, *(x if is_number else Lanes(x.dtype, e.view(x)) for x in operands))


def has_instruction(cell: ViaInstruction, op: Op, operands: Sequence[Lanes]) -> bool:
    """Whether the row's instruction applies to the operands."""
    known = all(x.dtype.mnemonic in cell.dtypes.split() and isinstance(x.at, View) for x in operands)
    return known and (cell.when is None or cell.when(op))


def to_compute_form(e: VectorEmitter, a: Lanes, narrow: str) -> Lanes:
    """Convert an operand to the computing form; narrow floats become float32 unless the rule takes them."""
    keeps = not a.dtype.is_narrow or narrow == "*" or a.dtype.mnemonic in narrow.split()
    return loaded(e, a, wide=False) if keeps else widened(e, a)
