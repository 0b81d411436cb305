"""Assigns calls to choices by a fixed sequence, in every prefix of which each choice has nearly its share.

The sequence solves the chairman assignment problem (R. Tijdeman, Discrete Mathematics 32, 1980): among n calls, a
choice with share s is taken between n s - 1 and n s + 1 times. So where n s is an integer, the count is exactly n s.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import lcm
from typing import Final

DENOMINATOR: Final = 10_000  # the greatest of a share; 0.333333 is one third


class Shares:
    """An assignment of calls to choices, which depends on the shares alone.

    Parameters
    ----------
    shares : mapping of str to float
        The part of the calls that each choice gets. They add up to 1.

    Examples
    --------
    >>> shares = Shares({"1.2": 0.75, "2.0": 0.25})
    >>> [shares.next() for _ in range(8)]
    ['1.2', '1.2', '2.0', '1.2', '1.2', '1.2', '2.0', '1.2']
    """

    def __init__(self, shares: Mapping[str, float]) -> None:
        exact = {name: Fraction(share).limit_denominator(DENOMINATOR) for name, share in shares.items()}
        largest = max(exact, key=exact.__getitem__)
        exact[largest] += 1 - sum(exact.values())  # what rounding has lost
        self.period = lcm(*(share.denominator for share in exact.values()))
        self.weights = {name: int(share * self.period) for name, share in exact.items() if share}
        self.counts: dict[str, int] = {}
        self.sequence: list[str] = []  # of the first period
        self.calls = 0

    def next(self) -> str:
        """Returns the choice for the next call; the sequence is periodic."""
        position = self.calls % self.period
        self.calls += 1
        if position < len(self.sequence):
            return self.sequence[position]
        if position == 0:
            self.counts = dict.fromkeys(self.weights, 0)
        chosen = self.due(position + 1)
        self.counts[chosen] += 1
        if self.period <= DENOMINATOR:
            self.sequence.append(chosen)
        return chosen

    def due(self, n: int) -> str:
        """Returns, of the choices that are due at call n of a period, the one whose time ends first."""
        chosen, end, slack = next(iter(self.weights)), float("inf"), max(1, 2 * len(self.weights) - 2)
        for name, weight in self.weights.items():
            missing = weight * n - self.period * self.counts[name]
            time = (self.period * (slack - 1) - slack * missing) / weight
            if slack * missing >= self.period and time < end:
                chosen, end = name, time
        return chosen
