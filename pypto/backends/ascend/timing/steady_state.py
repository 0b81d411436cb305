"""Cores of one block whose loops have come to repeat themselves, each at the other's pace: most rounds are left out."""

from __future__ import annotations

from collections import deque
from typing import Final

from pypto.backends.ascend.timing.core import CoreTime, Flags, Rounds, length, repeats

PERIODS: Final = (1, 2, 3, 4, 6)
TAIL: Final = 8  # rounds at the end of a loop, which may have less to do
NEAR: Final = 0.1  # cycles between two periods that are taken for the same: clocks are rounded


def skip_together(cores: list[CoreTime], flags: Flags) -> None:
    """Take the rest of a loop that all cores are at the end of a round of for more of the same, but for its end."""
    rounds = [core.rounds for core in cores if core.rounds is not None]
    if len(rounds) < len(cores):
        return
    for period in PERIODS:
        times = min(x.left - max(TAIL, 2 * period) for x in rounds) // period
        if times > 0 and all(repeats(x.history, period) for x in rounds) and same_pace(rounds, period):
            leave_out(cores, flags, period, times)
            return


def same_pace(rounds: list[Rounds], period: int) -> bool:
    spans = [length(x.history[-period:]) for x in rounds]
    return max(spans) - min(spans) < NEAR


def leave_out(cores: list[CoreTime], flags: Flags, period: int, times: int) -> None:
    """All clocks, numbers and flags as they are so many periods later."""
    ahead = 0.0
    for core in cores:
        here = core.rounds
        assert here is not None
        ahead = core.forward(here.history[-period:], times)
        before = here.numbers[-1 - period]
        for name, value in core.values.items():
            was = before.get(name)
            if isinstance(value, int) and isinstance(was, int):
                core.values[name] = value + times * (value - was)
        here.jump = times * period
        here.history.clear()
        here.numbers.clear()
    for key, set_at in flags.set_at.items():
        flags.set_at[key] = deque(t + ahead for t in set_at)
