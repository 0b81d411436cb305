"""Sign analysis: which scalars of Tile IR are surely 0 or more.

An offset that is surely not negative needs no lower bound check, and a division of it is a shift. The analysis follows
the definitions of a value; it knows nothing of ranges.
"""

from __future__ import annotations

from collections.abc import Container

from pypto.ir.core import Value

_SIGN_PRESERVING = ("add", "mul", "floordiv", "rem", "minimum", "shr", "and_")


def is_nonnegative(v: Value, known: Container[Value] = ()) -> bool:
    """Whether a number is surely 0 or more, given that those in `known` are."""
    op = v.op
    if op is None or v in known:
        return v in known
    if op.name == "constant":
        return bool(op.attrs["value"] >= 0)
    if op.name in ("program_id", "num_programs", "array_shape"):
        return True
    if op.name == "maximum":
        return any(is_nonnegative(operand, known) for operand in op.operands)
    return op.name in ("cast", *_SIGN_PRESERVING) and all(is_nonnegative(operand, known) for operand in op.operands)
