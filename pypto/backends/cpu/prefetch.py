"""What the next program will load, fetched into the second-level cache while this one computes.

The hardware follows a stream within a page; the rows of the next program mostly begin in another one.
"""

from __future__ import annotations

from typing import Final

from pypto.ir.core import Value
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of

LINE: Final = 64  # bytes of a cache line
Terms = list[tuple[Value | None, int]]  # a sum of scalars (None is 1), each times a number


def slope(v: Value) -> Terms | None:
    """How much an integer or a pointer (in elements) grows from program to program; None where that is not known."""
    known: dict[Value, Terms | None] = {}
    work = [v]
    while work:
        last = work.pop()
        operands = last.op.operands if last.op is not None else ()
        if waiting := [x for x in operands if x not in known]:
            work += [last, *waiting]
        elif last not in known:
            known[last] = grown(last, [known[x] for x in operands])
    return known[v]


def grown(v: Value, slopes: list[Terms | None]) -> Terms | None:
    """The slope of a value, given those of its operands."""
    op = v.op
    if op is None:
        return []
    if op.name == "program_id":
        return [(None, 1)] if op.attrs["axis"] == 0 else []
    if not any(slopes) and None not in slopes:
        return []
    first, *others = (s or [] for s in slopes)
    if None in slopes or op.name not in ("cast", "add", "addptr", "sub", "mul"):
        return None
    if op.name == "mul":
        factor, terms = (op.operands[1], first) if first else (op.operands[0], others[0])
        return times(terms, factor) if not (first and others[0]) else None
    sign = -1 if op.name == "sub" else 1
    return [*first, *((x, n * sign) for terms in others for x, n in terms)]


def times(terms: Terms, factor: Value) -> Terms | None:
    number = constant_of(factor)
    if number is not None:
        return [(x, n * int(number)) for x, n in terms]
    return [(factor, n) for _, n in terms] if all(x is None for x, _ in terms) else None


def moves(access: Access) -> Terms | None:
    """How many elements the address grows by; None where that is not known, or where a plain stream goes on."""
    if access.base.shape:
        return None
    total = slope(access.base)
    for offset, stride in zip(access.offsets, access.strides, strict=True):
        steps = slope(offset)
        moved = times(steps, stride) if steps is not None else None
        total = [*total, *moved] if total is not None and moved is not None else None
    return total if total and any(x is not None for x, _ in total) else None
