"""The public ops, one name per row of the op table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.ops.public import Intrinsic, OpFunction, Refused
from pypto.ops.table import ROWS

if TYPE_CHECKING:

    def __getattr__(name: str) -> OpFunction: ...


_INTRINSICS = (
    ("range", "range(start, stop, step): a loop. Bounds and step may be run-time values of 32 or 64 bits."),
    ("static_range", "static_range(start, stop, step): a loop at compile time, one copy of the body per index."),
    ("full", "full(shape, value, dtype): a tile with one value in every element."),
    (
        "static_print",
        "static_print(*values, sep, end): prints constants, and the types of run-time values, when it compiles.",
    ),
    (
        "device_print",
        "device_print(prefix, *values, hex=False): prints for every program, when all are done; on Ascend, nothing.",
    ),
    ("multiple_of", "multiple_of(x, n): x; the promise that it is a multiple of n is accepted and not needed."),
    ("max_contiguous", "max_contiguous(x, n): x; the promise is accepted and not needed."),
    ("max_constancy", "max_constancy(x, n): x; the promise is accepted and not needed."),
    ("assume", "assume(condition): accepted and not needed."),
    ("label", "label(name): `with label(name):` names a part of a kernel, in the IR and in what is said about it."),
    ("debug_barrier", "debug_barrier(): nothing; the ops of a program run in order."),
)

_REFUSED = (("inline_asm_elementwise", "write the computation with ops: assembly is made for one kind of machine"),)

globals().update({row.name: OpFunction(row) for row in ROWS if row.public})
globals().update({name: Intrinsic(name, doc) for name, doc in _INTRINSICS})
globals().update({name: Refused(name, way) for name, way in _REFUSED})

__all__ = [*(row.name for row in ROWS if row.public), *(name for name, _ in (*_INTRINSICS, *_REFUSED))]  # noqa: PLE0604
