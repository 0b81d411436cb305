"""Lowering of atomics, one element at a time: LLVM's atomic instructions, and a compare-and-swap loop for floats.

The mask is a branch, since a masked-off element must not be touched.
"""

from __future__ import annotations

from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter
from pypto.backends.llvm.conversions import from_memory, to_memory
from pypto.backends.llvm.value import VectorValue, signed
from pypto.ir.core import Op
from pypto.ir.types import float32
from pypto.ops.atomic import ORDERS


def atomic(e: CpuLaneEmitter, op: Op, operands: list[VectorValue]) -> VectorValue:
    """The atomic op on one element. Gives what was in memory, or 0 where the mask is false."""
    pointer, value, *optional = operands
    mask = None if op.attrs["kind"] == "cas" or not optional else optional[-1]
    if mask is None:
        return exchange(e, op, pointer, [value, *optional])
    zero = e.const(0, value.dtype)
    sides = [lambda: [exchange(e, op, pointer, [value])], lambda: [zero]]
    return e.w.branch(mask.text, sides)[0]


def exchange(e: CpuLaneEmitter, op: Op, address: VectorValue, values: list[VectorValue]) -> VectorValue:
    """The atomic op without a mask. Floats are exchanged by their bits."""
    kind = op.attrs["kind"]
    order = ORDERS[op.attrs["sem"]]
    dtype = values[0].dtype
    pointer = e.w.raw(f"inttoptr i64 {address.text} to ptr")
    stored = [to_memory(e, v) for v in values]
    bits = [e.bitcast(v, signed(v.dtype)) if v.dtype.is_float else v for v in stored]
    if kind == "cas":
        failed = "acquire" if order in ("acq_rel", "acquire") else "monotonic"
        pair = e.w.raw(f"cmpxchg ptr {pointer}, {bits[0].typed}, {bits[1].typed} {order} {failed}")
        old = VectorValue(e.w.raw(f"extractvalue {{ {bits[0].type}, i1 }} {pair}, 0"), bits[0].dtype, 1, e.w.depth)
    elif kind == "xchg" or not dtype.is_float:
        name = kind if kind not in ("max", "min") or dtype.kind == "int" else f"u{kind}"
        text = e.w.raw(f"atomicrmw {name} ptr {pointer}, {bits[0].typed} {order}")
        old = VectorValue(text, bits[0].dtype, 1, e.w.depth)
    else:
        old = float_exchange(e, kind, pointer, order, values[0])
    old = e.bitcast(old, stored[0].dtype) if stored[0].dtype.is_float else old
    return from_memory(e, old, dtype)


def float_exchange(e: CpuLaneEmitter, kind: str, pointer: str, order: str, value: VectorValue) -> VectorValue:
    """A compare-and-swap loop, for operations that LLVM has no instruction for; gives the old bits."""
    w = e.w
    memory = to_memory(e, value).dtype
    bits = signed(memory)
    first = w.raw(f"load i{bits.bits}, ptr {pointer}, align {bits.itemsize}")
    head, retry, done = (w.name(p) for p in ("try", "again", "done"))
    w.goto(retry)
    w.goto(head)
    seen = "%" + w.name("seen")
    w.line(f"{seen} = phi i{bits.bits} [ {first}, %{retry} ], [ {seen}.now, %{head} ]")
    old = VectorValue(seen, bits, 1, w.depth)
    number = from_memory(e, e.bitcast(old, memory) if memory.is_float else old, value.dtype)
    number = number.as_dtype(float32 if value.dtype.is_narrow else value.dtype)
    new = e.round_to(combined(e, kind, number, value), value.dtype).as_dtype(value.dtype)
    stored = to_memory(e, new)
    stored = e.bitcast(stored, bits) if memory.is_float else stored
    w.line(f"{seen}.pair = cmpxchg ptr {pointer}, i{bits.bits} {seen}, {stored.typed} {order} monotonic")
    w.line(f"{seen}.now = extractvalue {{ i{bits.bits}, i1 }} {seen}.pair, 0")
    w.line(f"{seen}.same = extractvalue {{ i{bits.bits}, i1 }} {seen}.pair, 1")
    w.line(f"br i1 {seen}.same, label %{done}, label %{head}")
    w.label(done)
    return old


def combined(e: CpuLaneEmitter, kind: str, old: VectorValue, value: VectorValue) -> VectorValue:
    """The new value in memory."""
    value = value.as_dtype(old.dtype)
    if kind == "add":
        return e.add(old, value)
    is_better = e.or_(e.cmp("gt" if kind == "max" else "lt", value, old), e.isnan(old))
    return e.select(is_better, value, old)
