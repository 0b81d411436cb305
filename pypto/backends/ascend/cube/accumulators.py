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

from pypto.backends.ascend.blockir.conditions import compared, conjunction
from pypto.backends.ascend.blockir.ir import Scalar, View, Word, fold
from pypto.backends.ascend.cube.l1_resident import L1Residents
from pypto.backends.ascend.cube.layout import view_at
from pypto.backends.ascend.cube.moves import LOAD_PITCH, Pitch, store_result
from pypto.backends.ascend.cube.operands import existing_count, is_incomplete, starts_in_array
from pypto.backends.ascend.cube.product import NAMES, Product, buffer_suffix
from pypto.backends.ascend.tile.blocking import blocking_of
from pypto.backends.ascend.tile.cube_regions import CubeRegions, Source
from pypto.backends.ascend.tile.fractals import SIDE, Blocking, Side
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
    is_padded: tuple[bool, bool] = (False, False)  # operands that have zeros for rows or columns that do not exist
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
    products: list[tuple[Product, list[Op]]] = field(default_factory=list)  # buffers, with the products that use them
    is_swizzled: bool = False  # whether programs are renumbered for L2
    residents: L1Residents = field(default_factory=L1Residents)  # operands that stay in L1
    spans: list[Span] = field(default_factory=list)  # the loops around, innermost last
    # numbers of their iterations, which choose stages
    iterations: list[Scalar] = field(default_factory=lambda: [fold("//", "program", "blocks")])
    # how often they run in each iteration of the loop around, at most; None where that is not known
    trip_counts: list[int | None] = field(default_factory=lambda: [None])

    def __post_init__(self) -> None:
        super().__post_init__()
        self.used_names.update(NAMES)

    @contextmanager
    def iterating(self, span: Span, iteration: Scalar, count: int | None) -> Iterator[None]:
        """Open the body of a loop, with the number of its iteration and how often it runs at most."""
        self.spans.append(span)
        self.iterations.append(iteration)
        self.trip_counts.append(count)
        yield
        self.spans.pop()
        self.iterations.pop()
        self.trip_counts.pop()

    @property
    def panel_number(self) -> Scalar:
        """The number of an iteration, by which panels alternate between buffers: it goes on from one run of a loop to
        the next where a run has an odd number of iterations."""
        number: Scalar = 0
        times = 1
        for iteration, count in zip(reversed(self.iterations), reversed(self.trip_counts), strict=True):
            number = fold("+", fold("*", iteration, times), number)
            if count is None or count % 2 == 0:
                break
            times *= count
        return number


def begin_accumulator(low: CubeLowering, dot: Op) -> Accumulator:
    """Allocate an accumulator for a product and for those that are added to it."""
    operands = [low.regions.sources[v] for v in dot.operands[:2]]
    sides = [side_of(source, i == 0, low.target) for i, source in enumerate(operands)]
    (m, k), n = dot.operands[0].shape[-2:], dot.operands[1].shape[-1]
    blocking = blocking_of(sides[0], sides[1], m, n, k, low.regions.product_count, low.target, low.residents.bytes)
    if blocking is None:
        raise TooLarge.at(dot, f"sums of {m} by {n} do not fit in L0C")
    # With two stages, one result is stored while the next one is computed.
    has_two_stages = 2 * m * n * 4 * low.regions.product_count <= low.target.memories["L0C"].bytes
    product = exclusive_product(low, dot, (sides[0], sides[1]), blocking, 2 if has_two_stages else 1)
    for i, source in enumerate(operands):
        check_pitch(low, source, i if not sides[i].k_down else 1 - i)
    padded = needs_padding(low, dot, 0), needs_padding(low, dot, 1)
    stage = fold("%", low.iterations[-1], 2) if has_two_stages else 0
    return Accumulator(product, stage, valid_extent(low, dot, padded), padded)


def exclusive_product(low: CubeLowering, dot: Op, sides: tuple[Side, Side], blocking: Blocking, stages: int) -> Product:
    """Return buffers for a product: those of products in other branches where they are large enough, else new ones."""
    suffix = buffer_suffix(low.buffers, low.used_names)
    product = Product.of(*sides, blocking, suffix, stages)
    for other, users in low.products:
        if all(low.regions.are_exclusive(dot, user) for user in users):
            product = product.sharing(other)
            users.append(dot)
            break
    else:
        low.products.append((product, [dot]))
    low.buffers += [buffer for buffer in product.buffers if buffer not in low.buffers]
    return product


def needs_padding(low: CubeLowering, dot: Op, i: int) -> bool:
    """Whether rows (0) or columns (1) of a sum's products do not always begin at an operand's first element and end at
    the same one: then what does not exist is zeros in L1, and all rows or columns are computed."""
    sources = [low.regions.sources[x.operands[i]] for x in low.regions.products_of_sum(dot)]
    first = sources[0]
    for source in sources:
        d, access = source.dims[i], source.access
        if (d is None) != (first.dims[i] is None):
            return True
        if d is None or access.shape[d] == 1:
            continue
        same = first.access.offsets[first.dims[i] or 0], first.access.extents[first.dims[i] or 0]
        is_known = access.offsets[d] in low.env and access.extents[d] in low.env
        if not is_known or (access.offsets[d], access.extents[d]) != same or not starts_in_array(low, access, d):
            return True
    return False


def valid_extent(low: CubeLowering, dot: Op, padded: tuple[bool, bool]) -> tuple[Scalar, Scalar]:
    """Return the rows and columns of a product that are computed: those that exist, or all where there are zeros."""
    counts: list[Scalar] = []
    for i, name in enumerate(("rows", "cols")):
        source = low.regions.sources[dot.operands[i]]
        if source.load in low.residents.panels:
            counts.append(low.residents.panels[source.load].outer)
        elif padded[i]:
            counts.append(dot.result.shape[-2:][i])
        else:
            counts.append(existing_count(low, source.access, source.dims[i], None, name))
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
    low: CubeLowering, sums: Accumulator, to: View, size: tuple[Scalar, Scalar], pitch: Pitch, skipped: Scalar = 0
) -> None:
    """Store rows and columns of an accumulator to GM, but for the `skipped` first rows; what no operand has is zero."""
    capacity = sums.product.blocking.m, sums.product.blocking.n
    whole = tuple(b == n for b, n in zip(sums.valid, capacity, strict=True))
    valid = fold("-", sums.valid[0], skipped), sums.valid[1]
    stored = [
        a if a == b or is_whole else b if a == n else low.let(hint, int32, fold("min", a, b))
        for hint, a, b, n, is_whole in zip(("rows", "cols"), size, valid, capacity, whole, strict=True)
    ]
    source = view_at(sums.view, fold("*", skipped, SIDE))
    with low.when(conjunction(*(compared(">", hint, 0) for hint in stored))):
        low.items += store_result(source, to, (stored[0], stored[1]), sums.computed[0], pitch, 0, low.line)
    zeros_until = [a if is_whole else b for a, b, is_whole in zip(size, valid, whole, strict=True)]
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
