"""Operands of products as the lowering sees them: their address, their valid extent, and their row pitch."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel
from pypto.backends.ascend.cube.moves import LOAD_PITCH, Pitch
from pypto.backends.ascend.tile.cube_regions import Source
from pypto.backends.ascend.tile.fractals import Side
from pypto.backends.ascend.tile.operand_facts import Span, reaches_end, side_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.region import region_of
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access
from pypto.passes.analysis.ranges import is_nonnegative
from pypto.passes.analysis.scalar_evolution import ONE, affine_of


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a product in GM, or already in L1."""

    side: Side  # which way round it lies
    start: View  # its first element
    outer: Scalar  # valid elements along M or N
    depth: Scalar  # valid elements along K
    size: int  # elements along K of its tile
    depth_stride: Scalar  # elements between neighbours along K
    pitch: Pitch  # elements between rows
    panel: Panel | None = None  # its place in L1, if it has been loaded
    missing: Scalar = 0  # elements along M or N before the first valid one
    is_padded: bool = False  # whether elements along M or N that do not exist must be zeros in L1

    def view(self, k: Scalar) -> View:
        """Return the view that begins at an index along K."""
        return View(self.start.of, fold("+", self.start.offset, fold("*", k, self.depth_stride)))


def operand_of(low: Lowering, source: Source, is_left: bool, loop: Span | None, is_padded: bool = False) -> Operand:
    """Build an operand of a load, inside of a loop or of none."""
    access = source.access
    side = side_of(source, is_left, low.target)
    region = region_of(low, access)
    assert isinstance(region.base, Pointer)
    start = fold("+", region.base.offset, region.first)
    outer, depth = source.dims if is_left else source.dims[::-1]
    strides = [1 if d is None else low.number(access.strides[d]) for d in (outer, depth)]
    counts = [
        existing_count(low, access, d, loop if d == depth else None, name)
        for d, name in ((outer, "rows" if is_left else "cols"), (depth, "depth"))
    ]
    missing: Scalar = 0
    if outer is not None and access.shape[outer] != 1 and not starts_in_array(low, access, outer):
        missing = region.dims[outer].start
        counts[0] = low.let("rows", int32, Expr("i32", (region.dims[outer].count,)))
        start = fold("+", start, fold("*", missing, strides[0]))
    start = low.let("at", int64, start)
    if region.exists is not True:
        counts = [low.let("count", int32, Expr("?:", (region.exists, count, 0))) for count in counts]
    pitch = Pitch.of(strides[1 if side.k_down else 0], LOAD_PITCH, low.let)
    return Operand(
        side,
        View(region.base.array, start),
        counts[0],
        counts[1],
        1 if depth is None else access.shape[depth],
        strides[1],
        pitch,
        missing=missing,
        is_padded=is_padded,
    )


def existing_count(low: Lowering, access: Access, d: int | None, loop: Span | None, name: str) -> Scalar:
    """Return the number of valid indices of a dimension; a loop's span may show that there is at least one."""
    if d is None or access.shape[d] == 1:
        return 1
    remaining = fold("-", low.number(access.extents[d]), low.number(access.offsets[d]))
    count = fold("min", remaining, access.shape[d])
    if not reaches_end(access, d, loop):
        count = fold("max", count, 0)
    if not is_nonnegative(access.offsets[d], low.nonnegative):
        count = Expr("?:", (Expr(">=", (low.number(access.offsets[d]), 0)), count, 0))
    return low.let(name, int32, count if isinstance(count, int) else Expr("i32", (count,)))


def is_loadable(low: Lowering, source: Source, side: Side) -> bool:
    """Whether copies can bring what exists of an operand: only along M or N it may begin before its array, as rows."""
    access = source.access
    outer = source.dims[0 if side.is_left else 1]
    return all(
        d is None or access.shape[d] == 1 or starts_in_array(low, access, d) or (d == outer and not side.k_down)
        for d in source.dims
    )


def starts_in_array(low: Lowering, access: Access, d: int) -> bool:
    """Whether a tile begins at 0 or later, or else ends before 0, because its offset is a multiple of its size."""
    offset = access.offsets[d]
    size = access.shape[d]
    if is_nonnegative(offset, low.nonnegative):
        return True
    offset_form = affine_of(offset)
    return offset_form.number % size == 0 and all(factor % size == 0 for _, factor in offset_form.terms)


def surely_exists(low: Lowering, source: Source, d: int | None, loop: Span | None) -> bool:
    """Whether some of an operand exists along a dimension, in every iteration of a loop."""
    access = source.access
    single = [i for i, n in enumerate(access.shape) if n == 1]
    if any(not (affine_of(access.extents[i]) - affine_of(access.offsets[i]) - ONE).is_natural for i in single):
        return False
    if d is None or access.shape[d] == 1:
        return True
    return is_nonnegative(access.offsets[d], low.nonnegative) and reaches_end(access, d, loop)


def is_incomplete(valid: tuple[Scalar, Scalar], wanted: tuple[Scalar, Scalar]) -> Scalar:
    """Return the condition that fewer rows or columns are valid than are wanted."""
    conditions = [Expr("<", (a, b)) for a, b in zip(valid, wanted, strict=True) if a != b]
    return (
        False
        if not conditions
        else conditions[0]
        if len(conditions) == 1
        else Expr("||", (conditions[0], conditions[1]))
    )
