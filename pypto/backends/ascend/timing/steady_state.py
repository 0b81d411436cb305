"""Steady-state extrapolation: in a loop that all cores of a block run, rounds are skipped once they repeat.

The cores of a mixed kernel wait for each other in every round. After some rounds the schedule is periodic. Simulating
one period then gives all others, which keeps a prediction of a long loop fast.

Legality: the last periods took the same time in every unit, all cores have the same period, and the end of the loop is
simulated round by round, since it may have less work.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pypto.backends.ascend.timing.core import CoreTime, Flags, Rounds, length, repeats

PERIODS: Final = (1, 2, 3, 4, 6)
TAIL: Final = 8  # rounds at the end of a loop, which may have less to do
NEAR: Final = 0.1  # cycles between two periods that are taken for the same: clocks are rounded


def skip_together(cores: list[CoreTime], flags: Flags) -> None:
    """Extrapolate the loop that all cores are in, if it has reached its steady state on each of them."""
    rounds = [core.rounds for core in cores if core.rounds is not None]
    if len(rounds) < len(cores):
        return
    for period in PERIODS:
        times = min(x.left - max(TAIL, 2 * period) for x in rounds) // period
        if times > 0 and all(repeats(x.history, period) for x in rounds) and same_pace(rounds, period):
            leave_out(cores, flags, period, times)
            return


def same_pace(rounds: list[Rounds], period: int) -> bool:
    """Whether a period takes all cores the same time."""
    spans = [length(x.history[-period:]) for x in rounds]
    return max(spans) - min(spans) < NEAR


def leave_out(cores: list[CoreTime], flags: Flags, period: int, times: int) -> None:
    """Advance all clocks, numbers and flags by some periods."""
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
