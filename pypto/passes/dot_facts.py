"""Facts about the operands of a `dot`: how they are multiplied on a target, and whether they can be read in place.

`packing_factor`, `packed_bytes` and `split_terms` say in which form numbers are multiplied. `in_place_operand` finds
the load behind an operand, through permutes and unit reshapes, whose array the product can read itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import DType, bfloat16, float32, float64, int8, int32
from pypto.ops.memory import Access
from pypto.passes.dimensions import is_movement, is_unit_reshape, source_dim
from pypto.passes.pattern import constant_of
from pypto.passes.scalar_evolution import ScalarEvolution
from pypto.passes.target_facts import TargetFacts

_MAX_SKINNY_ROWS: Final = 16
MIN_COLUMN_ROWS: Final = 16  # rows that are not worth being read as columns
_MAX_AMX_WORDS, _MIN_AMX_WORDS = 16, 4  # along K of a tile that one instruction multiplies: fewer are not worth it
MAX_COLUMN_K: Final = (
    256  # rows of a side that is read column by column: more would push a block out of the first-level cache
)
Uses = Mapping[Value, Sequence[Op]]
_ARGUMENT_OPS: Final = frozenset({"array_ptr", "array_shape", "array_stride"})


def dot_dtype(dtype: DType) -> DType:
    """What a dot's operands are multiplied in."""
    if dtype.is_float:
        return float64 if dtype == float64 else float32
    return int32


def packing_factor(op: Op, target: TargetFacts) -> int:
    """How many neighbours along K of a dot's operands go into a word of 32 bits; 0 where they are multiplied alone."""
    per, depth = 4 // packed_bytes(op, target), op.operands[0].shape[-1]
    fits = per > 1 and depth >= 16 and depth % per == 0  # less is not worth the packing
    return per if fits and (not target.has_amx or amx_k_words(depth // per) >= _MIN_AMX_WORDS) else 0


def amx_k_words(words: int) -> int:
    """Words along K of a tile, where so many are multiplied: a divisor, so that all tiles are alike."""
    return next(n for n in range(min(words, _MAX_AMX_WORDS), 0, -1) if words % n == 0)


def split_terms(dot: Op, target: TargetFacts) -> int:
    """How many numbers of bfloat16 stand for each of float32 in a product; 1 where they are multiplied as they are."""
    pays = target.has_amx and target.has_bf16_round and dot.results[0].shape[-2] > _MAX_SKINNY_ROWS
    parts = dot.attrs.get("parts", 1) if pays else 1
    assert isinstance(parts, int)
    return parts


def may_be_skinny(dot: Op, target: TargetFacts) -> bool:
    """True when so few rows are multiplied, number by number, that B may be read row by row."""
    (a, b), (*stack, rows, _) = dot.operands[:2], dot.results[0].shape
    plain = a.dtype == b.dtype == dot_dtype(a.dtype) and not packing_factor(dot, target)
    return plain and not stack and rows <= _MAX_SKINNY_ROWS


def packed_bytes(dot: Op, target: TargetFacts) -> int:
    """Bytes that a number takes as it is multiplied, where the dot is large enough; 8 at most."""
    a, b = dot.operands[:2]
    both = a.dtype == b.dtype and target.vector_bytes >= 64
    if split_terms(dot, target) > 1 or (both and a.dtype == bfloat16 and (target.has_bf16_dot or target.has_amx)):
        return 2
    if both and a.dtype == int8 and (target.has_int8_dot or target.has_amx):
        return 1
    return 8 if a.dtype == float64 else 4


@dataclass(frozen=True, slots=True)
class InPlaceOperand:
    """A matrix that a dot reads where the load would: rows along one dimension of its access, if any, side by side.

    `transposed` says that its rows are the columns of the operand.
    """

    load: Op
    rows: int | None
    columns: int
    transposed: bool


def in_place_operand(v: Value) -> tuple[InPlaceOperand, tuple[Value, ...]] | None:
    """The matrix behind a dot's operand, with the values on the way to it; None where a dot cannot read it itself."""
    v, dims, way = through_permutes(v)
    if v.op is None or v.op.name != "tile_load" or len(dims) != 2:
        return None
    access = Access.of(v.op)
    if access.mask is not None or access.other is not None or access.base.shape:
        return None
    down, along = dims
    for rows, columns, turned in ((down, along, False), (along, down, True)):
        if columns is not None and constant_of(access.strides[columns]) == 1:
            return InPlaceOperand(v.op, rows, columns, turned), (*way, v)
    return None


def through_permutes(v: Value) -> tuple[Value, list[int | None], list[Value]]:
    """The value whose numbers another one has in other places; which of its dimensions are where; what lies between."""
    dims: list[int | None] = list(range(len(v.shape)))
    way: list[Value] = []
    while v.op is not None and v.op.name in ("permute", "reshape") and is_movement(v.op):
        way.append(v)
        dims = [None if d is None else source_dim(v, d) for d in dims]
        v = v.op.operands[0]
    return v, dims, way


def is_unpacked_narrow(dot: Op, target: TargetFacts) -> bool:
    """True when numbers are multiplied one by one, and a register holds as many as a block of C has rows."""
    dtype = dot.operands[0].dtype
    plain = dtype == dot.operands[1].dtype == dot_dtype(dtype) and not packing_factor(dot, target)
    return plain and target.registers // 2 <= target.vector_bytes // dtype.itemsize


def is_grid_invariant(function: Function, side: InPlaceOperand) -> bool:
    """True when all programs read the same matrix."""
    evolution = ScalarEvolution.of(function)
    return not any(evolution.depends_on_program(v) for v in side.load.operands)


def reads_left_by_columns(function: Function, dot: Op, target: TargetFacts) -> bool:
    """True when a dot reads its left side column by column, where it lies."""
    left, right = in_place_operand(dot.operands[0]), in_place_operand(dot.operands[1])
    if left is None or not left[0].transposed or not is_unpacked_narrow(dot, target):
        return False
    rows, depth = dot.operands[0].shape[-2:]
    return rows > MIN_COLUMN_ROWS and depth <= MAX_COLUMN_K and (right is None or is_grid_invariant(function, right[0]))


def values_read_by_dot(
    function: Function, uses: Uses, enclosing_loops: Mapping[Op, tuple[Op, ...]], dot: Op, target: TargetFacts
) -> Iterator[tuple[Value, ...]]:
    """What a dot may read of its operands itself.

    A load beside it that is for it alone, after what moves its numbers.
    """
    for side, v in enumerate(dot.operands[:2]):
        found = in_place_operand(v) if packing_factor(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if found is None or (side == 0 and found[0].transposed and not reads_left_by_columns(function, dot, target)):
            continue
        lone = all(len(uses[x]) == 1 for x in found[1])
        if lone and enclosing_loops[found[0].load] == enclosing_loops[dot]:
            yield found[1]


def packs_transposed(dot: Op, target: TargetFacts) -> bool:
    """True for a dot whose panels are packed from the tile that its right side is the transpose of.

    Registers and scratch then hold that tile as the dot multiplies it, or packing converts it into words.
    """
    b = dot.operands[1]
    rank = len(b.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if b.op is None or b.op.name != "permute" or b.op.attrs["dims"] != swapped:
        return False
    return packing_factor(dot, target) > 0 or b.dtype.is_narrow or b.dtype.itemsize == dot_dtype(b.dtype).itemsize


def reads_both_in_place(dot: Op, uses: Mapping[Value, int], target: TargetFacts) -> bool:
    """True for a dot that reads both sides where they lie, the left one row by row; by how often values are used."""
    for side, v in enumerate(dot.operands[:2]):
        found = in_place_operand(v) if packing_factor(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if found is None or (side == 0 and found[0].transposed) or any(uses[x] > 1 for x in found[1]):
            return False
    return True


def is_packed(uses: Uses, v: Value, target: TargetFacts) -> bool:
    """True for what a dot reads several numbers of at once: its left side, and what its right side is turned from.

    A reshape that regroups elements lies in the memory of what it reshapes, which is then joined too.
    """
    for user in uses[v]:
        if user.name == "reshape" and not is_unit_reshape(user) and is_packed(uses, user.results[0], target):
            return True
        if user.name == "dot" and v is user.operands[0] and packing_factor(user, target):
            return True
        right = user.results[0] if user.name == "permute" else None
        if right is not None and any(
            u.name == "dot" and right is u.operands[1] and packing_factor(u, target) for u in uses[right]
        ):
            return True
    return False
