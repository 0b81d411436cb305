"""Atomic changes of memory: what the copy engine adds, keeps the greater or the lesser of, on its way out.

What it has not (old values, bits, exchanges on a condition, other dtypes) the scalar unit reads, changes and writes
back. Nothing comes in between where one core does all programs, so such a kernel runs on one.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.rules.scalars import NotScalar, Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.dma import for_valid_elements, pointer_region, pointers
from pypto.backends.ascend.vector.scalar_access import read_element, store_element
from pypto.backends.ascend.vector.shape import fill
from pypto.ir.core import Function, Op
from pypto.ir.types import DType, float32, float64, int64, uint32
from pypto.passes.memory_effects import is_atomic

MODES: Final = ("add", "max", "min")
DTYPES: Final = ("f32", "f16", "bf16", "i32", "i16", "i8")


def needs_one_core(function: Function) -> bool:
    """Whether a kernel changes memory atomically in a way that the copy engine has not."""
    uses = Counter(v for op in function.walk() for v in op.operands)
    return any(is_by_numbers(op, uses[op.result]) for op in function.walk() if is_atomic(op))


def is_by_numbers(op: Op, uses: int) -> bool:
    return uses > 0 or op.attrs["kind"] not in (*MODES, "xchg") or op.operands[1].dtype.mnemonic not in DTYPES


def atomic(low: Lowering, op: Op) -> None:
    if is_by_numbers(op, low.uses[op.result]):
        try:
            by_numbers(low, op)
        except NotScalar:
            way = "change an integer, or a float32, instead"
            raise low.refused(f"`{op.name}` of {op.operands[1].dtype!r}", "has no form", way) from None
        return
    kind, value = op.attrs["kind"], op.operands[1]
    mask = low.held(op.operands[2]) if len(op.operands) > 2 else None
    base, held = pointers(low, op.operands[0]), low.held(value)
    area = pointer_region(low, base, value.shape)
    with low.adding(kind if kind in MODES else None, value.dtype), for_valid_elements(low, area, mask) as index:
        there = View(base.array, low.let("at", int64, low.offset(base, index)))
        store_element(low, there, low.element(held, index))


def by_numbers(low: Lowering, op: Op) -> None:
    """Element by element: old values are kept, 0 where the mask is false."""
    base, result = pointers(low, op.operands[0]), op.result
    values = op.operands[1:-1] if has_mask(op) else op.operands[1:]
    made = low.result(result) if result.shape else low.variable(result.hint or "old", result.dtype, zero(result.dtype))
    if not isinstance(made, str):
        fill(low, made, zero(result.dtype))
    operands = [low.held(v) for v in values]
    area = pointer_region(low, base, result.shape)
    with for_valid_elements(low, area, low.held(op.operands[-1]) if has_mask(op) else None) as index:
        there = View(base.array, low.let("at", int64, low.offset(base, index)))
        old = low.let("was", result.dtype, read_element(low, there))
        store_element(low, there, changed(low, op, [old, *(low.element(x, index) for x in operands)]))
        low.assign(made, old) if isinstance(made, str) else low.put(made, index, old)
    low.env[result] = made


def has_mask(op: Op) -> bool:
    return op.attrs["kind"] != "cas" and len(op.operands) > 2


def changed(low: Lowering, op: Op, values: list[Scalar]) -> Scalar:
    """The new value, of the old one and the operands; a NaN gives way to a number."""
    kind, dtype = op.attrs["kind"], op.result.dtype
    if kind == "xchg":
        return values[1]
    if kind == "cas" and dtype.is_float and dtype.bits < 32:
        raise NotScalar("bits of narrow floats")
    e = ScalarEmitter(low, doubles=dtype.is_float)
    wide = float32 if dtype.is_narrow else dtype
    old, *rest = (e.convert(Number(x, dtype), wide) for x in values)
    if kind == "cas":
        same = e.cmp("eq", *(e.bitcast(x, same_size(dtype)) if dtype.is_float else x for x in (old, rest[0])))
        made = e.select(same, rest[1], old)
    elif kind in ("max", "min"):
        wins = e.cmp("gt" if kind == "max" else "lt", rest[0], old)
        made = e.select(wins, rest[0], old)
        made = e.select(e.isnan(old), rest[0], made) if dtype.is_float else made
    else:
        made = getattr(e, {"and": "and_", "or": "or_"}.get(kind, kind))(old, rest[0])
    return Expr(dtype.mnemonic, (made.value,)) if dtype.is_narrow else made.value


def same_size(dtype: DType) -> DType:
    return int64 if dtype == float64 else uint32
