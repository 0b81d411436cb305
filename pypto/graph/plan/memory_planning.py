"""Memory planning: best-fit offsets in one arena, for arrays that live for some steps of a plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

ALIGNMENT: Final = 64


@dataclass(frozen=True, slots=True)
class Lifetime:
    """An array of the arena: its bytes, and the steps that write it first and read it last."""

    nbytes: int
    first: int
    last: int


def allocate(lifetimes: Iterable[Lifetime]) -> tuple[list[int], int]:
    """Offsets, and the size of the arena. Arrays that are alive at the same time do not overlap.

    Examples
    --------
    >>> allocate([Lifetime(100, 0, 1), Lifetime(64, 1, 2), Lifetime(128, 2, 3)])
    ([0, 128, 0], 192)
    """
    wanted = list(lifetimes)
    offsets = [0] * len(wanted)
    placed: list[int] = []
    for n in sorted(range(len(wanted)), key=lambda k: (-wanted[k].nbytes, wanted[k].first)):
        mine = wanted[n]
        others = [k for k in placed if wanted[k].first <= mine.last and mine.first <= wanted[k].last]
        spans = sorted((offsets[k], offsets[k] + rounded(wanted[k].nbytes)) for k in others)
        offsets[n] = best_gap(spans, rounded(mine.nbytes))
        placed.append(n)
    return offsets, max((at + rounded(x.nbytes) for at, x in zip(offsets, wanted, strict=True)), default=0)


def rounded(nbytes: int) -> int:
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def best_gap(spans: list[tuple[int, int]], size: int) -> int:
    """The smallest gap between taken spans that is large enough, or the end."""
    best, least, end = -1, 0, 0
    for start, stop in spans:
        gap = start - end
        if gap >= size and (best < 0 or gap < least):
            best, least = end, gap
        end = max(end, stop)
    return end if best < 0 else best
