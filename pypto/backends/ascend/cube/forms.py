"""Which cores a kernel is for: cube cores alone, blocks of both kinds, or vector cores alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from pypto.backends.ascend.blockir import BlockKernel
from pypto.backends.ascend.cube.lower import NotCube, TooLarge, lower_cube
from pypto.backends.ascend.cube.mixed import lower_mixed
from pypto.backends.ascend.lower.atomics import needs_one_core
from pypto.backends.ascend.lower.coalesce import coalesced
from pypto.backends.ascend.lower.dims import families
from pypto.backends.ascend.lower.fit import fitted
from pypto.backends.ascend.lower.groups import grouped
from pypto.backends.ascend.lower.inplace import in_place
from pypto.backends.ascend.lower.interleave import interleaved
from pypto.backends.ascend.lower.ranges import decided
from pypto.backends.ascend.lower.split import all_sizes, may_part, parted
from pypto.backends.ascend.lower.stages import in_turns
from pypto.backends.ascend.lower.streams import streaming
from pypto.backends.ascend.plan import plan
from pypto.backends.ascend.target import AscendTarget
from pypto.errors.ascend import NoForm, NoRoomOnAscend, NotOnAscend
from pypto.ir.core import Function
from pypto.passes.cse import cse
from pypto.passes.licm import licm
from pypto.passes.products import accumulated

MOST_SIZES: Final = 8  # halvings of blocks until sums fit in L0C
# Rows in so many parts, and which buffers take turns: what costs least comes first.
FORMS: Final = (*((n, turns) for n in (1, 2, 4) for turns in ("all", "loads")), *((n, "") for n in (1, 2, 4, 8, 16)))
Lower = Callable[[Function, AscendTarget], BlockKernel]


def placed(function: Function, target: AscendTarget) -> BlockKernel:
    """Block IR with addresses.

    It is for cube cores where a kernel is made of products alone, for both kinds of cores where it has products among
    other work, and else for vector cores.
    """
    kernel, _ = chosen(function, target)
    return kernel


def chosen(function: Function, target: AscendTarget) -> tuple[BlockKernel, tuple[str, ...]]:
    """The kernel, and for each better form why it is not that one."""
    reasons: list[str] = []
    function = decided(accumulated(function))
    has_dots = any(op.name == "dot" for op in function.walk()) and not needs_one_core(function)
    for form in (pure, shared) if has_dots else ():
        try:
            return form(function, target), tuple(reasons)
        except (NotCube, NoRoomOnAscend, NoForm) as error:
            reasons.append(str(error))
    return streaming(on_vectors(function, target), function, target), tuple(reasons)


def on_vectors(function: Function, target: AscendTarget) -> BlockKernel:
    """For vector cores alone, several programs at once where they are small."""
    group = grouped(function)
    try:
        return fitted(group if group is not None else function, target)
    except (NoForm, NoRoomOnAscend, NotOnAscend):
        if group is None:
            raise
    return fitted(function, target)


def pure(function: Function, target: AscendTarget) -> BlockKernel:
    return plan(of_size(function, target, lower_cube), target)


def shared(function: Function, target: AscendTarget) -> BlockKernel:
    """With blocks as large as the cores' memories allow, and rows of vector cores in as few parts."""
    first: NoRoomOnAscend | TooLarge | None = None
    for smaller in islice(all_sizes(one_by_one(function)), MOST_SIZES):
        try:
            return in_parts(smaller, target)
        except (NoRoomOnAscend, TooLarge) as error:
            first = first or error
    assert first is not None
    raise first


def in_parts(function: Function, target: AscendTarget) -> BlockKernel:
    """With two buffers in turns where there is room, at least for loads, if need be with rows in more parts."""
    first: NoRoomOnAscend | None = None
    plain: BlockKernel | None = None
    for parts, turns in FORMS:
        try:
            kernel = interleaved(in_place(coalesced(lower_mixed(function, target, parts))))
            kernel = plan(in_turns(kernel, turns == "loads") if turns else kernel, target)
        except NotCube:
            if first is None:
                raise
        except NoRoomOnAscend as error:
            first = first or error
        else:
            if not turns or any(b.stages > 1 for b in kernel.buffers if b.space == "UB"):
                return kernel
            plain = plain or kernel  # without stages after all
    if plain is not None:
        return plain
    assert first is not None
    raise first


def of_size(function: Function, target: AscendTarget, lower: Lower) -> BlockKernel:
    """The kernel with the largest blocks whose sums fit in L0C."""
    first: TooLarge | None = None
    for smaller in islice(all_sizes(one_by_one(function)), MOST_SIZES):
        try:
            return lower(smaller, target)
        except TooLarge as error:
            first = first or error
    assert first is not None
    raise first


def one_by_one(function: Function) -> Function:
    """The kernel with loops over its stacks of products."""
    found = families(function)
    stacks = [op.result for op in function.walk() if op.name == "dot" and len(op.result.shape) == 3]
    cuts = {found.root((v, 0)): 1 for v in stacks if v.shape[0] != 1}
    if not cuts or any(family in found.fixed or not may_part(function, found, family) for family in cuts):
        return function
    return cse(licm(parted(function, found, cuts)))
