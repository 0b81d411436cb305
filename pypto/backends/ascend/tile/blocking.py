"""How large a step of a product is: what the memories of a cube core hold twice, and what costs least."""

from __future__ import annotations

from typing import Final

from pypto.backends.ascend.target import AscendTarget
from pypto.backends.ascend.tile.fractals import STAGES, Blocking, Side, lanes, square

MIN_STEPS: Final = 4  # of L0 in a panel of L1: copies from GM are long enough then


def round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def blocking_of(
    left: Side, right: Side, m: int, n: int, k: int, share: int, target: AscendTarget, taken: int = 0
) -> Blocking | None:
    """Steps of a product of m by n by k, in one of `share` parts of L1 and L0; None where the result is too large.

    Of L1, some bytes are `taken` by others.
    """
    size = left.dtype.itemsize
    unit = max(square(left.dtype) if s.k_down else lanes(left.dtype) for s in (left, right))
    m_full, n_full = round_up(m, left.unit), round_up(n, right.unit)
    if m_full * n_full * 4 > target.memories["L0C"].bytes:
        return None
    room = min(target.memories["L0A"].bytes // m_full, target.memories["L0B"].bytes // n_full) // (
        STAGES * size * share
    )
    step = min(room // unit * unit, round_up(k, unit))
    # Whole steps are alike where K is a multiple of them; powers of two are what arrays are sized by.
    step = (
        next((s for s in (256, 128, 64, 32, 16) if s <= step and s % unit == 0), step)
        if step < round_up(k, unit)
        else step
    )
    left_over = target.memories["L1"].bytes - taken
    fit = left_over // (share * STAGES * size * (round_up(m_full, 32) + round_up(n_full, 32)) * max(1, step))
    if step < unit or fit < 1:
        return None
    steps = next(
        s for s in (MIN_STEPS, 2, 1) if s <= fit
    )  # an even number, so that each step has a stage of L0 of its own
    return Blocking(m, n, step, min(steps * step, round_up(k, step)))
