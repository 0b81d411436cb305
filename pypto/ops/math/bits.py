"""Integers as bits, and the upper halves of their products."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from pypto.ir.core import Attr, Op
from pypto.ir.types import DTYPE_BY_NAME, Type, int32, uint64
from pypto.ops.adjoint import OF_INTEGERS
from pypto.ops.math.rows import Array, native
from pypto.ops.math.term import Term
from pypto.ops.row import OpRow, Param
from pypto.ops.rules import promoted, same_kind, tile


def popc(x: Term) -> Term:
    return x.new(x.e.popcount(x.lanes))


def brev(x: Term) -> Term:
    return x.new(x.e.reverse_bits(x.lanes))


def umulhi(x: Term, y: Term) -> Term:
    """Of the bits as unsigned numbers; 64 bits by halves, none of whose sums overflows."""
    unsigned = DTYPE_BY_NAME[f"u{x.dtype.bits}"]
    a, b = x.to(unsigned), y.to(unsigned)
    if x.dtype.bits < 64:
        return (a.to(uint64) * b.to(uint64) >> x.dtype.bits).to(x.dtype)
    half = (1 << 32) - 1
    a1, a0, b1, b0 = a >> 32, a & half, b >> 32, b & half
    middle = a1 * b0 + (a0 * b0 >> 32)
    other = a0 * b1 + (middle & half)
    return (a1 * b1 + (middle >> 32) + (other >> 32)).to(x.dtype)


def each(fn: Callable[..., int]) -> Callable[..., Array]:
    """What a function of bits means in numpy: ``fn(width, *numbers)``, these without sign."""

    def reference(op: Op, *arrays: Array) -> Array:
        bits = arrays[0].itemsize * 8
        objects = [a.view(f"u{a.itemsize}").astype(object) for a in arrays]
        values = np.frompyfunc(lambda *xs: fn(bits, *xs), len(arrays), 1)(*objects)
        return np.asarray(values, dtype=f"u{bits // 8}").view(arrays[0].dtype)

    return reference


def to_int32(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    return (tile(same_kind(("int", "uint"))(types, attrs)[0]).with_elem(int32),)


def row(
    name: str, rule: Callable[..., Term], reference: Callable[..., Any], doc: str, names: str = "x", **more: Any
) -> OpRow:
    usual: dict[str, Any] = {"infer": same_kind(("int", "uint")), "public": False}
    return OpRow(
        name,
        params=tuple(Param(n, doc="tile or scalar of integers") for n in names.split()),
        reference=reference,
        lane_rule=native(rule),
        bind_arguments=promoted(arithmetic=True),
        traits=frozenset({"elementwise"}),
        dtypes="int",
        adjoint=OF_INTEGERS,
        doc=doc,
        example=f"{name}({', '.join(names.split())})",
        **usual | more,
    )


ROWS = (
    row(
        "popc",
        lambda x: popc(x).to(int32),
        each(lambda bits, x: x.bit_count()),
        "Number of bits that are set.",
        infer=to_int32,
    ),
    row("brev", brev, each(lambda bits, x: int(f"{x:0{bits}b}"[::-1], 2)), "Bits in reverse order."),
    row(
        "umulhi",
        umulhi,
        each(lambda bits, x, y: x * y >> bits),
        "Upper half of the product of two integers, both taken as unsigned.",
        "x y",
        public=True,
    ),
)
