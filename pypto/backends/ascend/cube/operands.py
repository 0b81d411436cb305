"""Operands in GM: where they begin, how much of them exists, and which way round they lie."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.ascend.blockir.ir import Expr, Scalar, View, fold
from pypto.backends.ascend.cube.layout import Panel
from pypto.backends.ascend.cube.moves import PITCH, Pitch
from pypto.backends.ascend.tile.cube_regions import Source
from pypto.backends.ascend.tile.fractals import Side
from pypto.backends.ascend.tile.nonnegative import is_natural
from pypto.backends.ascend.tile.operand_facts import Span, reaches, side_of
from pypto.backends.ascend.tile.scev import ONE, affine_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.backends.ascend.vector.region import region_of
from pypto.backends.ascend.vector.values import Pointer
from pypto.ir.types import int32, int64
from pypto.ops.memory import Access


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a product in memory: `outer` by `depth` elements of it exist, along M or N and along K.

    With a `panel`, it has been loaded there.
    """

    side: Side
    start: View
    outer: Scalar
    depth: Scalar
    size: int  # along K
    along: Scalar  # elements from one index along K to the next
    pitch: Pitch
    panel: Panel | None = None

    def view(self, k: Scalar) -> View:
        """What lies from an index along K on."""
        return View(self.start.of, fold("+", self.start.offset, fold("*", k, self.along)))


def operand_of(low: Lowering, source: Source, is_left: bool, loop: Span | None) -> Operand:
    """An operand as it lies in memory, inside of a loop or of none."""
    access, side = source.access, side_of(source, is_left, low.target)
    area = region_of(low, access)
    assert isinstance(area.base, Pointer)
    start = low.let("at", int64, fold("+", area.base.offset, area.first))
    outer, depth = source.dims if is_left else source.dims[::-1]
    strides = [1 if d is None else low.number(access.strides[d]) for d in (outer, depth)]
    counts = [existing(low, access, d, loop if d == depth else None, name) for d, name in
              ((outer, "rows" if is_left else "cols"), (depth, "depth"))]  # fmt: skip
    if area.exists is not True:
        counts = [low.let("count", int32, Expr("?:", (area.exists, count, 0))) for count in counts]
    pitch = Pitch.of(strides[1 if side.k_down else 0], PITCH, low.let)
    return Operand(
        side,
        View(area.base.array, start),
        counts[0],
        counts[1],
        1 if depth is None else access.shape[depth],
        strides[1],
        pitch,
    )


def existing(low: Lowering, access: Access, d: int | None, loop: Span | None, name: str) -> Scalar:
    """How many indices of a dimension exist; `loop` is one that ends before there are none."""
    if d is None or access.shape[d] == 1:
        return 1
    rest = fold("-", low.number(access.extents[d]), low.number(access.offsets[d]))
    count = fold("min", rest, access.shape[d])
    if not reaches(access, d, loop):
        count = fold("max", count, 0)
    if not is_natural(access.offsets[d], low.natural):
        count = Expr("?:", (Expr(">=", (low.number(access.offsets[d]), 0)), count, 0))
    return low.let(name, int32, count if isinstance(count, int) else Expr("i32", (count,)))


def starts_inside(low: Lowering, source: Source) -> bool:
    """Whether an operand never begins before its array."""
    access = source.access
    return all(d is None or access.shape[d] == 1 or inside(low, access, d) for d in source.dims)


def inside(low: Lowering, access: Access, d: int) -> bool:
    """Whether a tile begins at 0 or later, or else ends before 0: then it is so many tiles away."""
    offset, size = access.offsets[d], access.shape[d]
    if is_natural(offset, low.natural):
        return True
    form = affine_of(offset)
    return form.number % size == 0 and all(factor % size == 0 for _, factor in form.terms)


def surely_there(low: Lowering, source: Source, d: int | None, loop: Span | None) -> bool:
    """Whether some of an operand exists along one of its dimensions, in every step of a loop."""
    access = source.access
    single = [i for i, n in enumerate(access.shape) if n == 1]
    if any(not (affine_of(access.extents[i]) - affine_of(access.offsets[i]) - ONE).is_natural for i in single):
        return False
    if d is None or access.shape[d] == 1:
        return True
    return is_natural(access.offsets[d], low.natural) and reaches(access, d, loop)


def missing(made: tuple[Scalar, Scalar], wanted: tuple[Scalar, Scalar]) -> Scalar:
    """Whether there is less than is wanted."""
    parts = [Expr("<", (a, b)) for a, b in zip(made, wanted, strict=True) if a != b]
    return False if not parts else parts[0] if len(parts) == 1 else Expr("||", (parts[0], parts[1]))
