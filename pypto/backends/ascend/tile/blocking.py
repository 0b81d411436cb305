"""Blocking of a matrix product on the cube core: the step through L0 and the panel in L1.

L0A and L0B hold two steps, L1 two panels of several steps, L0C one result. Longer panels make longer copies from GM;
steps are powers of two, since K often is a multiple of one. If products share the core, each gets an equal share.

| parameter | meaning | limit |
|---|---|---|
| m, n | rows and columns of the result | L0C |
| k | depth of one step | half of L0A, L0B |
| depth | depth of one panel, up to 4 steps | half of L1, less what residents take |
"""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.cube_regions import Source
from pypto.backends.ascend.tile.fractals import STAGES, Blocking, Side, lanes, room, square
from pypto.blocking import round_up

L1_SHARE: Final = 4  # operands that stay in L1 may take one part in so many of it
MIN_STEPS: Final = 4  # steps of L0 in a panel of L1, for long copies from GM


def blocking_of(
    left: Side, right: Side, m: int, n: int, k: int, share: int, target: AscendTarget, reserved: int = 0
) -> Blocking | None:
    """Return the blocking of a product of m by n by k, in one of `share` shares of L1 and L0.

    Of L1, some bytes are `reserved`. The result is None where the accumulator is too large for L0C.
    """
    size = left.dtype.itemsize
    unit = max(square(left.dtype) if s.k_down else lanes(left.dtype) for s in (left, right))
    m_full = round_up(m, left.unit)
    n_full = round_up(n, right.unit)
    if m_full * n_full * 4 > target.memories["L0C"].bytes:
        return None
    step_room = min(target.memories["L0A"].bytes // m_full, target.memories["L0B"].bytes // n_full) // (
        STAGES * size * share
    )
    step = min(step_room // unit * unit, round_up(k, unit))
    # All steps are equal if they divide K, which is most often a multiple of a power of two.
    step = (
        next((s for s in (256, 128, 64, 32, 16) if s <= step and s % unit == 0), step)
        if step < round_up(k, unit)
        else step
    )
    l1_bytes = target.memories["L1"].bytes - reserved
    steps_that_fit = l1_bytes // (share * STAGES * size * (round_up(m_full, 32) + round_up(n_full, 32)) * max(1, step))
    if step < unit or steps_that_fit < 1:
        return None
    # An even number of steps, so that each step of a panel always has the same stage of L0.
    steps = next(s for s in (MIN_STEPS, 2, 1) if s <= steps_that_fit)
    return Blocking(m, n, step, min(steps * step, round_up(k, step)))


def has_l1_room(size: int, target: AscendTarget) -> bool:
    """Whether residents of so many bytes leave enough of L1 to panels."""
    return size * L1_SHARE <= target.memories["L1"].bytes


def panel_extent(source: Source, is_left: bool) -> tuple[int, int]:
    """Return the elements of an operand along M or N, and along K."""
    sizes = [1 if d is None else source.access.shape[d] for d in source.dims]
    return (sizes[0], sizes[1]) if is_left else (sizes[1], sizes[0])


def l1_bytes(source: Source, side: Side) -> int:
    """Return the bytes of an operand in L1."""
    rows, cols = room(side, *panel_extent(source, side.is_left))
    return rows * cols * side.dtype.itemsize
