"""Which cores a kernel is for: cube cores alone, blocks of both kinds, or vector cores alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from pypto.backends.ascend.blockir import BlockKernel
from pypto.backends.ascend.cube.lower import NotCube, TooLarge, lower_cube
from pypto.backends.ascend.cube.mixed import lower_mixed
from pypto.backends.ascend.lower.dims import families
from pypto.backends.ascend.lower.fit import fitted
from pypto.backends.ascend.lower.split import all_sizes, may_part, parted
from pypto.backends.ascend.lower.stages import in_turns
from pypto.backends.ascend.plan import plan
from pypto.backends.ascend.target import AscendTarget
from pypto.errors.ascend import NoForm, NoRoomOnAscend
from pypto.ir.core import Function
from pypto.passes.cse import cse
from pypto.passes.licm import licm
from pypto.passes.products import accumulated

MOST_SIZES: Final = 8  # halvings of blocks until sums fit in L0C
PARTS: Final = (1, 2, 4, 8, 16)
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
    function = accumulated(function)
    for form in (pure, shared) if any(op.name == "dot" for op in function.walk()) else ():
        try:
            return form(function, target), tuple(reasons)
        except (NotCube, NoRoomOnAscend, NoForm) as error:
            reasons.append(str(error))
    return fitted(function, target), tuple(reasons)


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
    """With two buffers in turns where there is room."""
    first: NoRoomOnAscend | None = None
    for parts in PARTS:
        try:
            kernel = lower_mixed(function, target, parts)
        except NotCube:
            if first is None:
                raise
            break
        for form in (in_turns(kernel), kernel):
            try:
                return plan(form, target)
            except NoRoomOnAscend as error:
                first = first or error
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
