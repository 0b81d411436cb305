"""Atomic updates of memory: add, max and min by the copy engine, all else by a read-modify-write.

The copy engine updates memory on the way out, for some dtypes, and returns no old value. Old values, bit operations,
compare-and-swap and other dtypes need the scalar unit, which reads, computes and writes back. That is atomic only if a
single core runs all programs, so such a kernel runs on one (`needs_one_core`).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View
from pypto.backends.ascend.blockir.softfloat64 import zero
from pypto.backends.ascend.rules.scalars import NotScalar, Number, ScalarEmitter
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.dma import pointer_region, pointers
from pypto.backends.ascend.vector.handlers.shape import fill
from pypto.backends.ascend.vector.row_copies import for_valid_elements
from pypto.backends.ascend.vector.scalar_access import read_element, store_element
from pypto.ir.core import Function, Op
from pypto.ir.types import DType, float32, float64, int64, uint32
from pypto.passes.analysis.memory_effects import is_atomic

MODES: Final = ("add", "max", "min")
DTYPES: Final = ("f32", "f16", "bf16", "i32", "i16", "i8")


def needs_one_core(function: Function) -> bool:
    """Whether a kernel has atomic updates that only one core can do."""
    use_counts = Counter(v for op in function.walk() for v in op.operands)
    return any(is_scalar_atomic(op, use_counts[op.result]) for op in function.walk() if is_atomic(op))


def is_scalar_atomic(op: Op, uses: int) -> bool:
    """Whether an atomic update needs the scalar unit."""
    return uses > 0 or op.attrs["kind"] not in (*MODES, "xchg") or op.operands[1].dtype.mnemonic not in DTYPES


def atomic(low: Lowering, op: Op) -> None:
    """Lower an atomic update."""
    if is_scalar_atomic(op, low.use_counts[op.result]):
        try:
            lower_scalar_atomic(low, op)
        except NotScalar:
            way = "change an integer, or a float32, instead"
            raise low.refusal(f"`{op.name}` of {op.operands[1].dtype!r}", "has no form", way) from None
        return
    kind = op.attrs["kind"]
    value = op.operands[1]
    mask = low.tile_value(op.operands[2]) if len(op.operands) > 2 else None
    base = pointers(low, op.operands[0])
    value_tile = low.tile_value(value)
    region = pointer_region(low, base, value.shape)
    with low.atomic_mode(kind if kind in MODES else None, value.dtype), for_valid_elements(low, region, mask) as index:
        place = View(base.array, low.let("at", int64, low.offset(base, index)))
        store_element(low, place, low.element(value_tile, index))


def lower_scalar_atomic(low: Lowering, op: Op) -> None:
    """Read, update and write back element by element; masked-off elements return 0."""
    base = pointers(low, op.operands[0])
    result = op.result
    values = op.operands[1:-1] if has_mask(op) else op.operands[1:]
    old_values = (
        low.result(result) if result.shape else low.variable(result.hint or "old", result.dtype, zero(result.dtype))
    )
    if not isinstance(old_values, str):
        fill(low, old_values, zero(result.dtype))
    operands = [low.tile_value(v) for v in values]
    region = pointer_region(low, base, result.shape)
    with for_valid_elements(low, region, low.tile_value(op.operands[-1]) if has_mask(op) else None) as index:
        place = View(base.array, low.let("at", int64, low.offset(base, index)))
        old = low.let("was", result.dtype, read_element(low, place))
        store_element(low, place, combined_value(low, op, [old, *(low.element(x, index) for x in operands)]))
        low.assign(old_values, old) if isinstance(old_values, str) else low.set_element(old_values, index, old)
    low.env[result] = old_values


def has_mask(op: Op) -> bool:
    """Whether an atomic op has a mask."""
    return op.attrs["kind"] != "cas" and len(op.operands) > 2


def combined_value(low: Lowering, op: Op, values: list[Scalar]) -> Scalar:
    """Compute the new value from the old one and the operands; an extreme ignores NaN."""
    kind = op.attrs["kind"]
    dtype = op.result.dtype
    if kind == "xchg":
        return values[1]
    if kind == "cas" and dtype.is_float and dtype.bits < 32:
        raise NotScalar("bits of narrow floats")
    e = ScalarEmitter(low, doubles=dtype.is_float)
    wide = float32 if dtype.is_narrow else dtype
    old, *rest = (e.convert(Number(x, dtype), wide) for x in values)
    if kind == "cas":
        same = e.cmp("eq", *(e.bitcast(x, bits_dtype(dtype)) if dtype.is_float else x for x in (old, rest[0])))
        result = e.select(same, rest[1], old)
    elif kind in ("max", "min"):
        is_better = e.cmp("gt" if kind == "max" else "lt", rest[0], old)
        result = e.select(is_better, rest[0], old)
        result = e.select(e.isnan(old), rest[0], result) if dtype.is_float else result
    else:
        result = getattr(e, {"and": "and_", "or": "or_"}.get(kind, kind))(old, rest[0])
    return Expr(dtype.mnemonic, (result.value,)) if dtype.is_narrow else result.value


def bits_dtype(dtype: DType) -> DType:
    """Return the integer dtype that holds the bits of a float."""
    return int64 if dtype == float64 else uint32
