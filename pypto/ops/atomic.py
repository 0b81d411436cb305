"""Atomic read-modify-write ops: they give the value that was in memory before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pypto.ir.core import Op, Value
from pypto.ir.types import Type, int1
from pypto.ops import dims
from pypto.ops.adjoint import BY_SWEEP
from pypto.ops.memory import check_mask, check_writable, pointee
from pypto.ops.row import STRUCTURAL, Effect, OpRow, Param
from pypto.ops.rules import BoundArguments, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

# What the words of Triton mean; all are at least as strong in the interpreter, where programs run one by one.
ORDERS: Final = MappingProxyType(
    {"relaxed": "monotonic", "acquire": "acquire", "release": "release", "acq_rel": "acq_rel"}
)
SCOPES: Final = ("gpu", "cta", "sys")
# The new value in memory, from the old one and the operand.
COMBINE: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "add": np.add,
        "max": np.fmax,
        "min": np.fmin,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
        "xchg": lambda old, new: new,
    }
)


def takes_turns(ops: Iterable[Op]) -> bool:
    """Whether programs wait for each other, as locks do: then two of them may rightly store to one element."""
    return any(op.name in ("atomic_cas", "atomic_xchg") for op in ops)


def infer_atomic(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    target = pointee(types[0])
    check_writable(types[0])
    if attrs["sem"] not in ORDERS or attrs["scope"] not in SCOPES:
        raise TypeError(f"sem is one of {', '.join(ORDERS)}, scope one of {', '.join(SCOPES)}")
    if types[1] != target:
        raise TypeError(f"the value must be {target}, not {types[1]}")
    if target.dtype.is_bool or (target.dtype.is_float and attrs["kind"] in ("and", "or", "xor")):
        raise TypeError(f"has no meaning for {target.dtype}")
    if len(types) > 2:
        check_mask(types[2], target.shape)
    return (target,)


def infer_cas(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    target = pointee(types[0])
    check_writable(types[0])
    if types[1] != target or types[2] != target:
        raise TypeError(f"the values must be {target}, not {types[1]} and {types[2]}")
    return (target,)


def bind_atomic(kind: str) -> Any:
    def bind(b: OpBuilder, pointer: Value, val: Any, mask: Any, sem: str | None, scope: str | None) -> BoundArguments:
        values = [b.element(val, pointee(pointer.type).dtype)]
        if mask is not None:
            values.append(b.cast(b.value(mask), int1))
        attrs = {"kind": kind, "sem": sem or "acq_rel", "scope": scope or "gpu"}
        return [pointer, *(b.broadcast(v, tile(pointer.type).shape) for v in values)], attrs

    return bind


def bind_cas(b: OpBuilder, pointer: Value, cmp: Any, val: Any, sem: str | None, scope: str | None) -> BoundArguments:
    dtype, shape = pointee(pointer.type).dtype, tile(pointer.type).shape
    values = [b.element(v, dtype) for v in (cmp, val)]
    attrs = {"kind": "cas", "sem": sem or "acq_rel", "scope": scope or "gpu"}
    return [pointer, *(b.broadcast(v, shape) for v in values)], attrs


_ORDER = (
    Param("sem", "str", None, "relaxed, acquire, release or acq_rel, the default"),
    Param("scope", "str", None, "accepted: gpu, cta or sys"),
)
_ATTRS = ("kind", "sem", "scope")


def atomic(kind: str, doc: str) -> OpRow:
    return OpRow(
        f"atomic_{kind}",
        params=(Param("pointer"), Param("val"), Param("mask", default=None), *_ORDER),
        infer=infer_atomic,
        reference=None,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_atomic(kind),
        effect=Effect.ATOMIC,
        dims=dims.elementwise,
        attrs=_ATTRS,
        adjoint=BY_SWEEP,
        dtypes="int" if kind in ("and", "or", "xor") else "number",
        doc=f"{doc} Gives the old values; 0 where the mask is false.",
        example=f"atomic_{kind}(x + offsets, value, mask=mask)",
    )


ROWS = (
    atomic("add", "Adds to memory."),
    atomic("max", "Keeps the greater in memory."),
    atomic("min", "Keeps the lesser in memory."),
    atomic("and", "Bitwise and with memory."),
    atomic("or", "Bitwise or with memory."),
    atomic("xor", "Bitwise exclusive or with memory."),
    atomic("xchg", "Puts the value into memory."),
    OpRow(
        "atomic_cas",
        params=(Param("pointer"), Param("cmp"), Param("val"), *_ORDER),
        infer=infer_cas,
        reference=None,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_cas,
        effect=Effect.ATOMIC,
        attrs=_ATTRS,
        dtypes="number",
        dims=dims.elementwise,
        doc="Where memory holds `cmp`, puts `val` there. Gives the old values.",
        example="atomic_cas(x, 0, 1)",
        adjoint=BY_SWEEP,
    ),
)
