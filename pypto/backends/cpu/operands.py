"""What the operands of a dot are: how many numbers of them are multiplied at once, and where they can be read."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.pull import is_tile, plain_reshape
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Op, Value
from pypto.ir.types import DType, bfloat16, float32, float64, int8, int32
from pypto.ops.memory import Access
from pypto.passes.pattern import constant_of


def dot_dtype(dtype: DType) -> DType:
    """What a dot's operands are multiplied in."""
    if dtype.is_float:
        return float64 if dtype == float64 else float32
    return int32


def words_of(op: Op, target: CpuTarget) -> int:
    """How many neighbours along K of a dot's operands go into a word of 32 bits; 0 where they are multiplied alone."""
    a, b = op.operands[:2]
    per, depth = 4 // joined_bytes(a, b, target), a.shape[-1]
    return per if per > 1 and depth >= 16 and depth % per == 0 else 0  # less is not worth the packing


def joined_bytes(a: Value, b: Value, target: CpuTarget) -> int:
    """Bytes that a number takes as it is multiplied, where the dot is large enough; 8 at most."""
    both = a.dtype == b.dtype and target.vector_bytes >= 64
    if both and a.dtype == bfloat16 and target.has_bf16_dot:
        return 2
    if both and a.dtype == int8 and target.has_int8_dot:
        return 1
    return 8 if a.dtype == float64 else 4


@dataclass(frozen=True, slots=True)
class Direct:
    """A matrix that a dot reads where the load would: rows along one dimension of its access, if any, side by side.

    `turned` says that its rows are the columns of the operand.
    """

    load: Op
    rows: int | None
    columns: int
    turned: bool


def direct_of(v: Value) -> tuple[Direct, tuple[Value, ...]] | None:
    """The matrix behind a dot's operand, with the values on the way to it; None where a dot cannot read it itself."""
    dims: list[int | None] = list(range(len(v.shape)))
    way = [v]
    while v.op is not None and v.op.name in ("reshape", "permute"):
        op, v = v.op, v.op.operands[0]
        way.append(v)
        if op.name == "permute":
            dims = [None if d is None else op.attrs["dims"][d] for d in dims]
        elif plain_reshape(op):
            dims = [matching(v.shape, op.results[0].shape, d) for d in dims]
        else:
            return None
    if v.op is None or v.op.name != "tile_load" or len(dims) != 2:
        return None
    access = Access.of(v.op)
    if access.mask is not None or access.other is not None or is_tile(access.base):
        return None
    down, along = dims
    for rows, columns, turned in ((down, along, False), (along, down, True)):
        if columns is not None and constant_of(access.strides[columns]) == 1:
            return Direct(v.op, rows, columns, turned), tuple(way)
    return None


def matching(shape: tuple[int, ...], other: tuple[int, ...], d: int | None) -> int | None:
    """The dimension of `shape` that is dimension `d` of `other`, where only dimensions of size 1 come or go."""
    if d is None or other[d] == 1:
        return None
    return [i for i, n in enumerate(shape) if n > 1][[i for i, n in enumerate(other) if n > 1].index(d)]
