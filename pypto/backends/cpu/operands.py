"""What the operands of a dot are: how many numbers of them are multiplied at once, and where they can be read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import item_bytes
from pypto.backends.cpu.pull import is_tile, plain_reshape
from pypto.backends.cpu.splitting import parts_of
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import DType, bfloat16, float32, float64, int8, int32
from pypto.ops.memory import Access
from pypto.ops.row import Effect
from pypto.ops.table import TABLE
from pypto.passes.pattern import constant_of

if TYPE_CHECKING:
    from pypto.backends.cpu.plan import Plan

_STREAMED_ROWS: Final = 16
FEW: Final = 16  # rows that are not worth being read as columns
_MOST_WORDS, _LEAST_WORDS = 16, 4  # along K of a tile that one instruction multiplies: fewer are not worth it
DEEP: Final = 256  # rows of a side that is read column by column: more would push a block out of the first-level cache
_ONCE: Final = frozenset({"array_ptr", "array_shape", "array_stride"})


def dot_dtype(dtype: DType) -> DType:
    """What a dot's operands are multiplied in."""
    if dtype.is_float:
        return float64 if dtype == float64 else float32
    return int32


def words_of(op: Op, target: CpuTarget) -> int:
    """How many neighbours along K of a dot's operands go into a word of 32 bits; 0 where they are multiplied alone."""
    per, depth = 4 // joined_bytes(op, target), op.operands[0].shape[-1]
    fits = per > 1 and depth >= 16 and depth % per == 0  # less is not worth the packing
    return per if fits and (not target.has_tiles or tile_words(depth // per) >= _LEAST_WORDS) else 0


def tile_words(words: int) -> int:
    """Words along K of a tile, where so many are multiplied: a divisor, so that all tiles are alike."""
    return next(n for n in range(min(words, _MOST_WORDS), 0, -1) if words % n == 0)


def panel_width(v: Value, target: CpuTarget, in_place: bool) -> int:
    """Columns of the panels of a dot's right side: one, two or four registers of them.

    Four registers by six rows load a number for every 2.4 multiply-adds, two by eight rows, which is what fits where
    rows of the left side stay in place, one for every 1.6. Alone on a core both wait for the multiply-adds; with
    another thread on it, they wait for the loads.
    """
    lanes = target.vector_bytes // dot_dtype(v.dtype).itemsize
    if in_place and target.vector_bytes >= 64 and v.shape[-1] % (4 * lanes) == 0:
        return 4 * lanes
    return lanes * (2 if v.shape[-1] > lanes else 1)


def may_stream(dot: Op, target: CpuTarget) -> bool:
    """True when so few rows are multiplied, number by number, that B may be read row by row."""
    (a, b), (*stack, rows, _) = dot.operands[:2], dot.results[0].shape
    plain = a.dtype == b.dtype == dot_dtype(a.dtype) and not words_of(dot, target)
    return plain and not stack and rows <= _STREAMED_ROWS


def joined_bytes(dot: Op, target: CpuTarget) -> int:
    """Bytes that a number takes as it is multiplied, where the dot is large enough; 8 at most."""
    a, b = dot.operands[:2]
    both = a.dtype == b.dtype and target.vector_bytes >= 64
    if parts_of(dot, target) > 1 or (both and a.dtype == bfloat16 and (target.has_bf16_dot or target.has_tiles)):
        return 2
    if both and a.dtype == int8 and (target.has_int8_dot or target.has_tiles):
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


@dataclass(frozen=True, slots=True)
class Span:
    """The part of a dimension that exists: from `start` to before `stop`."""

    start: Lanes
    stop: Lanes


@dataclass(frozen=True, slots=True)
class Matrix:
    """Numbers in memory, rows `pitch` bytes apart, the numbers of a row side by side; `dtype` as memory holds them."""

    address: Lanes
    pitch: Lanes
    rows: Span
    columns: Span
    dtype: DType


@dataclass(frozen=True, slots=True)
class Landing:
    """Where a result goes if it is `done` there, of a loop at its last step; with `rest`, where a nest puts it."""

    place: Matrix
    done: Lanes
    rest: bool = False


def direct_of(v: Value) -> tuple[Direct, tuple[Value, ...]] | None:
    """The matrix behind a dot's operand, with the values on the way to it; None where a dot cannot read it itself."""
    v, dims, way = origin(v)
    if v.op is None or v.op.name != "tile_load" or len(dims) != 2:
        return None
    access = Access.of(v.op)
    if access.mask is not None or access.other is not None or is_tile(access.base):
        return None
    down, along = dims
    for rows, columns, turned in ((down, along, False), (along, down, True)):
        if columns is not None and constant_of(access.strides[columns]) == 1:
            return Direct(v.op, rows, columns, turned), (*way, v)
    return None


def origin(v: Value) -> tuple[Value, list[int | None], list[Value]]:
    """The value whose numbers another one has in other places; which of its dimensions are where; what lies between."""
    dims: list[int | None] = list(range(len(v.shape)))
    way: list[Value] = []
    while v.op is not None and (v.op.name == "permute" or (v.op.name == "reshape" and plain_reshape(v.op))):
        way.append(v)
        op, v = v.op, v.op.operands[0]
        if op.name == "permute":
            dims = [None if d is None else op.attrs["dims"][d] for d in dims]
        else:
            dims = [matching(v.shape, op.results[0].shape, d) for d in dims]
    return v, dims, way


def matching(shape: tuple[int, ...], other: tuple[int, ...], d: int | None) -> int | None:
    """The dimension of `shape` that is dimension `d` of `other`, where only dimensions of size 1 come or go."""
    if d is None or other[d] == 1:
        return None
    return [i for i, n in enumerate(shape) if n > 1][[i for i, n in enumerate(other) if n > 1].index(d)]


def is_shared(function: Function, v: Value, index: Value | None, axes: tuple[int, ...] = (0,)) -> bool:
    """True when a scalar is the same in all programs along some axes, for each value of the loop's index."""
    if v.op is None:
        return v is index or v in function.args
    if v.op.name == "program_id":
        return v.op.attrs["axis"] not in axes
    known = v.op.name in _ONCE or TABLE[v.op.name].effect is Effect.PURE
    return known and not v.op.regions and all(is_shared(function, x, index, axes) for x in v.op.operands)


def is_narrow(dot: Op, target: CpuTarget) -> bool:
    """True when numbers are multiplied one by one, and a register holds as many as a block of C has rows."""
    dtype = dot.operands[0].dtype
    plain = dtype == dot.operands[1].dtype == dot_dtype(dtype) and not words_of(dot, target)
    return plain and target.registers // 2 <= target.vector_bytes // dtype.itemsize


def is_common(function: Function, side: Direct) -> bool:
    return all(is_shared(function, v, None, (0, 1, 2)) for v in side.load.operands)


def reads_columns(function: Function, dot: Op, target: CpuTarget) -> bool:
    """True when a dot reads its left side column by column, where it lies."""
    left, right = direct_of(dot.operands[0]), direct_of(dot.operands[1])
    if left is None or not left[0].turned or not is_narrow(dot, target):
        return False
    rows, depth = dot.operands[0].shape[-2:]
    return rows > FEW and depth <= DEEP and (right is None or is_common(function, right[0]))


def read_by_dot(plan: Plan, dot: Op, target: CpuTarget) -> Iterator[tuple[Value, ...]]:
    """What a dot may read of its operands itself.

    A load beside it that is for it alone, after what moves its numbers.
    """
    for side, v in enumerate(dot.operands[:2]):
        found = direct_of(v) if words_of(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if found is None or (side == 0 and found[0].turned and not reads_columns(plan.function, dot, target)):
            continue
        lone = all(len(plan.uses[x]) == 1 for x in found[1])
        if lone and plan.loops[found[0].load] == plan.loops[dot]:
            yield found[1]


def packs_transposed(dot: Op, target: CpuTarget) -> bool:
    """True for a dot whose panels are packed from the tile that its right side is the transpose of.

    Registers and scratch then hold that tile as the dot multiplies it, or packing converts it into words.
    """
    b = dot.operands[1]
    rank = len(b.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if b.op is None or b.op.name != "permute" or b.op.attrs["dims"] != swapped:
        return False
    return words_of(dot, target) > 0 or item_bytes(b.tile.elem) == dot_dtype(b.dtype).itemsize


def reads_itself(dot: Op, uses: Mapping[Value, int], target: CpuTarget) -> bool:
    """True for a dot that reads both sides where they lie, the left one row by row; by how often values are used."""
    for side, v in enumerate(dot.operands[:2]):
        found = direct_of(v) if words_of(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if found is None or (side == 0 and found[0].turned) or any(uses[x] > 1 for x in found[1]):
            return False
    return True


def is_joined(plan: Plan, v: Value, target: CpuTarget) -> bool:
    """True for what a dot reads several numbers of at once: its left side, and what its right side is turned from.

    A reshape that regroups elements lies in the memory of what it reshapes, which is then joined too.
    """
    for user in plan.uses[v]:
        if user.name == "reshape" and not plain_reshape(user) and is_joined(plan, user.results[0], target):
            return True
        if user.name == "dot" and v is user.operands[0] and words_of(user, target):
            return True
        right = user.results[0] if user.name == "permute" else None
        if right is not None and any(
            u.name == "dot" and right is u.operands[1] and words_of(u, target) for u in plan.uses[right]
        ):
            return True
    return False
