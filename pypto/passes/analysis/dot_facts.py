"""Operand analysis of `dot`: the dtype in which a target multiplies, and which operands are read in place.

Passes and the lowering of products ask here, so that they decide alike. `packing_factor`, `packed_bytes` and
`split_terms` give the form in which numbers are multiplied. `in_place_operand` finds the load behind an operand,
through permutes and unit reshapes; the product then needs no packed copy of it.

    %x = tile_load %p[0, %k], strides [%s, 1]      in place: rows are dimension 0, columns 1
    %t = permute %x [1, 0]                         in place, transposed
    %c = dot %x, %t
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pypto.ir.core import Function, Op, Value
from pypto.ir.types import DType, bfloat16, float32, float64, int8, int32
from pypto.ops.memory import Access
from pypto.passes.analysis.dimensions import is_movement, is_unit_reshape, source_dim
from pypto.passes.analysis.scalar_evolution import ScalarEvolution
from pypto.passes.pattern import constant_of
from pypto.passes.target_facts import AMX_TILE, TargetFacts

Uses = Mapping[Value, Sequence[Op]]


def dot_dtype(dtype: DType) -> DType:
    """The type in which a dot multiplies."""
    if dtype.is_float:
        return float64 if dtype == float64 else float32
    return int32


def packing_factor(op: Op, target: TargetFacts) -> int:
    """Neighbours along K that one 32-bit word packs for a dot-product instruction; 0 where there is none."""
    factor = 4 // packed_bytes(op, target)
    depth = op.operands[0].shape[-1]
    if factor <= 1 or depth < target.products.packed_k or depth % factor:
        return 0
    return factor if not target.has_amx or amx_k_words(depth // factor) >= target.products.amx_k_words else 0


def amx_k_words(words: int) -> int:
    """Words along K of an AMX tile: a divisor of all words, so that all tiles are alike."""
    return next(n for n in range(min(words, AMX_TILE.row_words), 0, -1) if words % n == 0)


def split_terms(dot: Op, target: TargetFacts) -> int:
    """Terms of bfloat16 that stand for a float32 in a product; 1 where it is not split."""
    pays = target.has_amx and target.has_bf16_round and dot.results[0].shape[-2] > target.products.skinny_rows
    parts = dot.attrs.get("parts", 1) if pays else 1
    assert isinstance(parts, int)
    return parts


def may_be_skinny(dot: Op, target: TargetFacts) -> bool:
    """Whether a product has so few rows that B may be read row by row."""
    a, b = dot.operands[:2]
    *stack, rows, _ = dot.results[0].shape
    is_unpacked = a.dtype == b.dtype == dot_dtype(a.dtype) and not packing_factor(dot, target)
    return is_unpacked and not stack and rows <= target.products.skinny_rows


def packed_bytes(dot: Op, target: TargetFacts) -> int:
    """Bytes of a number as it is multiplied."""
    a, b = dot.operands[:2]
    is_bf16 = a.dtype == b.dtype == bfloat16
    if split_terms(dot, target) > 1 or (is_bf16 and (target.has_bf16_dot or target.has_amx)):
        return 2
    if a.dtype == b.dtype == int8:
        return 1 if target.has_amx else target.int8_bytes
    return 8 if a.dtype == float64 else 4


@dataclass(frozen=True, slots=True)
class InPlaceOperand:
    """A matrix that a dot reads from the array of a load."""

    load: Op
    rows: int | None  # dimension of the access along which its rows lie, if any
    columns: int  # the contiguous dimension
    transposed: bool  # whether its rows are the columns of the operand


def in_place_operand(v: Value) -> tuple[InPlaceOperand, tuple[Value, ...]] | None:
    """The matrix behind a dot's operand, and the values from the operand to the load; None where it is not a matrix."""
    v, dims, path = through_permutes(v)
    if v.op is None or v.op.name != "tile_load" or len(dims) != 2:
        return None
    access = Access.of(v.op)
    if access.mask is not None or access.other is not None or access.base.shape:
        return None
    row_dim, column_dim = dims
    for rows, columns, transposed in ((row_dim, column_dim, False), (column_dim, row_dim, True)):
        if columns is not None and constant_of(access.strides[columns]) == 1:
            return InPlaceOperand(v.op, rows, columns, transposed), (*path, v)
    return None


def through_permutes(v: Value) -> tuple[Value, list[int | None], list[Value]]:
    """The source of permutes and unit reshapes, its dimension by dimension of the value, and the values between."""
    dims: list[int | None] = list(range(len(v.shape)))
    path: list[Value] = []
    while v.op is not None and v.op.name in ("permute", "reshape") and is_movement(v.op):
        path.append(v)
        dims = [None if d is None else source_dim(v, d) for d in dims]
        v = v.op.operands[0]
    return v, dims, path


def is_unpacked_narrow(dot: Op, target: TargetFacts) -> bool:
    """Whether a dot multiplies without packing, and a register has as many lanes as a register tile has rows."""
    dtype = dot.operands[0].dtype
    is_unpacked = dtype == dot.operands[1].dtype == dot_dtype(dtype) and not packing_factor(dot, target)
    return is_unpacked and target.registers // 2 <= target.vector_bytes // dtype.itemsize


def is_grid_invariant(function: Function, side: InPlaceOperand) -> bool:
    """Whether all programs read the same matrix."""
    evolution = ScalarEvolution.of(function)
    return not any(evolution.depends_on_program(v) for v in side.load.operands)


def reads_left_by_columns(function: Function, dot: Op, target: TargetFacts) -> bool:
    """Whether a dot reads a column-major A in place."""
    left = in_place_operand(dot.operands[0])
    right = in_place_operand(dot.operands[1])
    if left is None or not left[0].transposed or not is_unpacked_narrow(dot, target):
        return False
    rows, depth = dot.operands[0].shape[-2:]
    limits = target.products
    fits = rows > limits.column_rows and depth <= limits.column_k
    return fits and (right is None or is_grid_invariant(function, right[0]))


def values_read_by_dot(
    function: Function, uses: Uses, enclosing_loops: Mapping[Op, tuple[Op, ...]], dot: Op, target: TargetFacts
) -> Iterator[tuple[Value, ...]]:
    """For each operand that a dot reads in place: the values from the operand to its load.

    These are for the dot alone, and the load is in the same loops.
    """
    for side, v in enumerate(dot.operands[:2]):
        source = in_place_operand(v) if packing_factor(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if source is None or (side == 0 and source[0].transposed and not reads_left_by_columns(function, dot, target)):
            continue
        operand, path = source
        has_one_reader = all(len(uses[x]) == 1 for x in path)
        if has_one_reader and enclosing_loops[operand.load] == enclosing_loops[dot]:
            yield path


def packs_transposed(dot: Op, target: TargetFacts) -> bool:
    """Whether the panels of a dot are packed from the tile that its right operand is the transpose of.

    That is so where the elements of the tile are of the type in which the dot multiplies, or packing converts them.
    """
    b = dot.operands[1]
    rank = len(b.shape)
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    if b.op is None or b.op.name != "permute" or b.op.attrs["dims"] != swapped:
        return False
    return packing_factor(dot, target) > 0 or b.dtype.is_narrow or b.dtype.itemsize == dot_dtype(b.dtype).itemsize


def reads_both_in_place(dot: Op, uses: Mapping[Value, int], target: TargetFacts) -> bool:
    """Whether a dot reads both operands in place, A row by row. `uses` are the numbers of readers."""
    for side, v in enumerate(dot.operands[:2]):
        source = in_place_operand(v) if packing_factor(dot, target) or v.dtype == dot_dtype(v.dtype) else None
        if source is None or (side == 0 and source[0].transposed) or any(uses[x] > 1 for x in source[1]):
            return False
    return True


def is_packed(uses: Uses, v: Value, target: TargetFacts) -> bool:
    """Whether a dot reads packed words of a value: of A, or of what B is the transpose of.

    A reshape that regroups elements shares the memory of its operand, which is then packed too.
    """
    for user in uses[v]:
        if user.name == "reshape" and not is_unit_reshape(user) and is_packed(uses, user.results[0], target):
            return True
        if user.name == "dot" and v is user.operands[0] and packing_factor(user, target):
            return True
        transposed = user.results[0] if user.name == "permute" else None
        readers = uses[transposed] if transposed is not None else ()
        if any(r.name == "dot" and r.operands[1] is transposed and packing_factor(r, target) for r in readers):
            return True
    return False
