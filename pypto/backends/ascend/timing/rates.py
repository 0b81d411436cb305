"""Constants of the timing model, one record for each generation of chips. What each is fitted to, docs/timing.md says.

Bandwidths of a core are in bytes per cycle, those of a chip in bytes per second (`target`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class MemoryRates:
    """How cores and chip move data between global memory, L2 and the memories of a core.

    Attributes
    ----------
    from_hbm, from_l2 : float
        Bytes per cycle that a core reads where L2 misses, and where it hits.
    from_l0c : float
        Bytes of sums per cycle that leave L0C for GM.
    latency : float
        Cycles until the first bytes of a copy from or to GM are there.
    least : float
        Cycles that a unit is taken for a copy from or to GM, however small.
    row : float
        Cycles for each further row of a copy.
    sector : int
        Bytes that are fetched at a time for rows that do not begin at whole blocks of 32 bytes.
    jump : float
        Bytes that memory could have moved while a copy goes elsewhere than where the one before it ended.
    short_run : float
        The same for each row that passes L2 by and is shorter than a line of L2.
    same_place, same_place_vector : float
        Bytes per second if all cube cores, or all vector cores, read one place that passes L2 by; in p places, p times
        as many.
    same_in_l2 : float
        The same for places that L2 keeps.
    """

    from_hbm: float
    from_l2: float
    from_l0c: float
    latency: float
    least: float
    row: float
    sector: int
    jump: float
    short_run: float
    same_place: float
    same_place_vector: float
    same_in_l2: float


LINE: Final = 512  # bytes of a line of L2
WINDOW: Final = 65536  # bytes of a core's reads, within which other cores' reads of the same place are simultaneous
_2201: Final = MemoryRates(
    from_hbm=32.0, from_l2=110.0, from_l0c=46.0, latency=206.0, least=20.6, row=1.3, sector=512, jump=1100.0,
    short_run=56.0, same_place=0.636e12, same_place_vector=0.636e12, same_in_l2=1.73e12)  # fmt: skip
_3510: Final = replace(
    _2201, from_l0c=95.0, least=39.4, sector=32, short_run=0.0, same_place=0.733e12,
    same_place_vector=math.inf)  # fmt: skip
RATES_OF: Final = MappingProxyType({2201: _2201, 3510: _3510})
