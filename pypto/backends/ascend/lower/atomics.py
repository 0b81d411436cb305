"""Atomic changes of memory: what the copy engine adds, keeps the greater or the lesser of, on its way out."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.blockir import View
from pypto.backends.ascend.lower.accesses import each_existing, plain_area, pointers, put_in_array
from pypto.backends.ascend.lower.lowering import Lowering
from pypto.ir.core import Op
from pypto.ir.types import int64

MODES: Final = ("add", "max", "min")
DTYPES: Final = ("f32", "f16", "bf16", "i32", "i16", "i8")


def atomic(low: Lowering, op: Op) -> None:
    kind, value = op.attrs["kind"], op.operands[1]
    if low.uses[op.result]:
        raise low.refused(
            f"the old value of `{op.name}`",
            "is nothing that the copy engine gives back",
            "use a second kernel for what follows, or do not read the result",
        )
    if kind not in (*MODES, "xchg") or value.dtype.name not in DTYPES:
        raise low.refused(
            f"`{op.name}` of {value.dtype!r}",
            "is nothing that the copy engine does",
            "use atomic_add, atomic_max or atomic_min of float32 or int32",
        )
    mask = low.held(op.operands[2]) if len(op.operands) > 2 else None
    base, held = pointers(low, op.operands[0]), low.held(value)
    area = plain_area(low, base, value.shape)
    with low.adding(kind if kind in MODES else None, value.dtype), each_existing(low, area, mask) as index:
        there = View(base.array, low.let("at", int64, low.offset(base, index)))
        put_in_array(low, there, low.element(held, index))
