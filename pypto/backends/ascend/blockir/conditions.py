"""Conditions of Block IR with constant folding: comparisons of two numbers, and several conditions at once."""

from __future__ import annotations

from pypto.backends.ascend.blockir.ir import Expr, Scalar, fold


def compared(op: str, a: Scalar, b: Scalar) -> Scalar:
    """Compare two numbers.

    Examples
    --------
    >>> compared("<", 3, 8), compared("==", "n", 8)
    (True, Expr(op='==', args=('n', 8)))
    """
    if isinstance(a, int) and isinstance(b, int):
        return bool(fold(op, a, b))
    return Expr(op, (a, b))


def conjunction(*conditions: Scalar) -> Scalar:
    """Whether all hold."""
    open_ones = [c for c in dict.fromkeys(conditions) if c is not True]
    if False in [c for c in open_ones if isinstance(c, bool)]:
        return False
    made: Scalar = open_ones.pop(0) if open_ones else True
    for c in open_ones:
        made = Expr("&&", (made, c))
    return made
