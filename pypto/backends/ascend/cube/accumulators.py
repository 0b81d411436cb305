"""Accumulators of products in L0C: where they begin, how much of them is valid, and how they reach GM.

Products that are added up along a loop share one accumulator, so that only the last sum leaves L0C. The first product
writes to it, all others add to it (`is_first`). Where a loop may run no product at all, a variable tells whether the
accumulator has been written (`fresh_flag`), and a rare path fills it with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from pypto.backends.ascend.blockir.ir import Scalar, View, Word, fold
from pypto.backends.ascend.cube.l1_resident import L1Residents
from pypto.backends.ascend.cube.layout import view_at
from pypto.backends.ascend.cube.moves import LOAD_PITCH, Pitch, store_result
from pypto.backends.ascend.cube.operands import (
    existing_count,
    is_incomplete,
)
from pypto.backends.ascend.cube.product import NAMES, Product, buffer_suffix
from pypto.backends.ascend.rules.scalars import compared, conjunction
from pypto.backends.ascend.tile.blocking import blocking_of
from pypto.backends.ascend.tile.cube_regions import (
    CubeRegions,
    Source,
)
from pypto.backends.ascend.tile.operand_facts import Span, side_of
from pypto.backends.ascend.vector.builder import Lowering
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import int32

_EMPTY_FUNCTION: Final = Function("", Region())


class NotCube(Exception):
    """The reason why a kernel has no form for cube cores."""

    @classmethod
    def at(cls, op: Op, reason: str) -> NotCube:
        """Build the error for a line of the user's."""
        return cls(f"line {op.loc.user.line}: {reason}")


class TooLarge(NotCube):
    """Accumulators or operands that the memories of a cube core do not hold as they are; smaller blocks may fit."""


@dataclass
class Accumulator:
    """The sums of one or several products in L0C."""

    product: Product  # its buffers and block sizes
    stage: Scalar  # its stage of the buffer
    valid: tuple[Scalar, Scalar]  # rows and columns that the operands have
    is_first: Scalar = True  # whether the next product starts the sum
    fresh_flag: str = ""  # variable that says so at run time, if it has a name

    @property
    def view(self) -> View:
        """The sums in L0C."""
        return View(self.product.sums, stage=self.stage)

    @property
    def computed(self) -> tuple[int, int]:
        """Rows and columns that are computed, rounded up to fractals."""
        m, n = self.product.rounded(self.product.blocking.m, self.product.blocking.n)
        assert isinstance(m, int) and isinstance(n, int)
        return m, n


@dataclass
class CubeLowering(Lowering):
    """The lowering of a cube core's part of a kernel."""

    regions: CubeRegions = field(default_factory=lambda: CubeRegions(_EMPTY_FUNCTION))  # products and their operands
    cube_ops: set[Op] = field(default_factory=set)  # ops that products and stores take care of
    accumulators: dict[Value, Accumulator] = field(default_factory=dict)  # by the value that they hold
    is_swizzled: bool = False  # whether programs are renumbered for L2
    residents: L1Residents = field(default_factory=L1Residents)  # operands that stay in L1
    spans: list[Span] = field(default_factory=list)  # the loops around, innermost last
    # numbers of their iterations, which choose stages
    iterations: list[Scalar] = field(default_factory=lambda: [fold("//", "program", "blocks")])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.used_names.update(NAMES)


def begin_accumulator(low: CubeLowering, dot: Op) -> Accumulator:
    """Allocate an accumulator for a product and for those that are added to it."""
    operands = [low.regions.sources[v] for v in dot.operands[:2]]
    sides = [side_of(source, i == 0, low.target) for i, source in enumerate(operands)]
    (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
    blocking = blocking_of(sides[0], sides[1], m, n, k, len(low.regions.dots), low.target, low.residents.bytes)
    if blocking is None:
        raise TooLarge.at(dot, f"sums of {m} by {n} do not fit in L0C")
    # With two stages, one result is stored while the next one is computed.
    has_two_stages = 2 * m * n * 4 * len(low.regions.dots) <= low.target.memories["L0C"].bytes
    product = Product.of(
        sides[0], sides[1], blocking, buffer_suffix(low.buffers, low.used_names), 2 if has_two_stages else 1
    )
    low.buffers += product.buffers
    for i, source in enumerate(operands):
        check_pitch(low, source, i if not sides[i].k_down else 1 - i)
    return Accumulator(product, fold("%", low.iterations[-1], 2) if has_two_stages else 0, valid_extent(low, dot))


def valid_extent(low: CubeLowering, dot: Op) -> tuple[Scalar, Scalar]:
    """Return the rows and columns of a product that exist; no loop may change them."""
    counts: list[Scalar] = []
    for i, name in enumerate(("rows", "cols")):
        source = low.regions.sources[dot.operands[i]]
        d = source.dims[i]
        access = source.access
        if source.load in low.residents.panels:
            counts.append(low.residents.panels[source.load].outer)
            continue
        if d is not None and (access.offsets[d] not in low.env or access.extents[d] not in low.env):
            raise NotCube.at(source.load, "what exists of an operand changes from step to step")
        counts.append(existing_count(low, access, d, None, name))
    return counts[0], counts[1]


def check_pitch(low: CubeLowering, source: Source, row_dim: int) -> None:
    """Compute here, before any loop, whether an operand's row pitch fits a copy."""
    d = source.dims[row_dim]
    if d is not None and source.access.strides[d] in low.env:
        Pitch.of(low.number(source.access.strides[d]), LOAD_PITCH, low.let)


def first_dot(op: Op, sums: Value) -> Op:
    """Return the first product that is added to what a loop carries."""
    for inner in op.regions[0].ops:
        if inner.name == "dot" and sums in inner.operands[2:]:
            return inner
        if inner.name == "for" and sums in inner.operands[3:]:
            return first_dot(inner, inner.regions[0].args[1 + inner.operands[3:].index(sums)])
    raise NotCube.at(op, "a loop carries sums that it adds nothing to")


@contextmanager
def fenced_branch(low: CubeLowering, condition: Scalar) -> Iterator[None]:
    """Open a branch for a rare case: it begins and ends with a barrier, so that no other code needs events for it."""
    with low.when(condition):
        if condition is not True and condition is not False:
            low.instr("PipeBarrier", Word("PIPE_ALL"))
        yield
        if condition is not True and condition is not False:
            low.instr("PipeBarrier", Word("PIPE_ALL"))


def zero_accumulator(low: CubeLowering, sums: Accumulator) -> None:
    """Write zeros to an accumulator, by a product of zeros: nothing else can write to L0C."""
    low.items += sums.product.emit_zeros(sums.view, sums.computed, low.line)


def store_accumulator(
    low: CubeLowering, sums: Accumulator, to: View, size: tuple[Scalar, Scalar], pitch: Pitch
) -> None:
    """Store rows and columns of an accumulator to GM; those that no operand has are zeros."""
    capacity = sums.product.blocking.m, sums.product.blocking.n
    stored = [
        a if b in (a, n) else low.let(hint, int32, fold("min", a, b))
        for hint, a, b, n in zip(("rows", "cols"), size, sums.valid, capacity, strict=True)
    ]
    with low.when(conjunction(*(compared(">", hint, 0) for hint in stored))):
        low.items += store_result(sums.view, to, (stored[0], stored[1]), sums.computed[0], pitch, 0, low.line)
    zeros_until = [a if b == n else b for a, b, n in zip(size, sums.valid, capacity, strict=True)]
    with fenced_branch(low, is_incomplete((zeros_until[0], zeros_until[1]), size)):
        zero_accumulator(low, sums)
        missing_rows = fold("-", size[0], stored[0])
        missing_cols = fold("-", size[1], stored[1])
        for start, rows, cols in (
            (fold("*", stored[0], pitch.stride), missing_rows, size[1]),
            (stored[1], stored[0], missing_cols),
        ):
            with low.when(conjunction(compared(">", rows, 0), compared(">", cols, 0))):
                low.items += store_result(
                    sums.view, view_at(to, start), (rows, cols), sums.computed[0], pitch, 0, low.line
                )
