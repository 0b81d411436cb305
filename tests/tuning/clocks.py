"""A clock that stands still but for what is under test, and trials that take their time by it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any


class FakeClock:
    """Nanoseconds, as `time.perf_counter_ns` gives them."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def pass_ms(self, milliseconds: float) -> None:
        self.now += int(milliseconds * 1e6)


class TickingClock(FakeClock):
    """A clock that moves by so many milliseconds with every look at it."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self.step = milliseconds

    def __call__(self) -> int:
        self.pass_ms(self.step)
        return self.now


class FakeTrial:
    """A trial that takes a time of its own, every second run `disturbed` times as much."""

    code = None

    def __init__(self, clock: FakeClock, milliseconds: float, disturbed: float = 1.0) -> None:
        self.clock, self.milliseconds = clock, milliseconds
        self.factors: Iterator[float] = cycle((1.0, disturbed))

    def prepare(self, fill: int | None = None) -> None: ...

    def call(self) -> None:
        self.clock.pass_ms(self.milliseconds * next(self.factors))

    def probe(self) -> bool:
        return False

    def arrays(self) -> list[Any]:
        return []
