"""The search: every candidate runs once, wrong ones leave, and the fast ones race until one is left or time is up."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from pypto.errors import CompilerBug, PyptoError
from pypto.tuning.config import Config

Array = np.ndarray[Any, Any]
_REPEAT_MS: Final = 10.0  # of the race's last round
_MOST_RUNS: Final = 20
_FINALISTS: Final = 2
# Results of two right configurations may differ by the order of their sums: relatively, for floats of so many bits.
_TOLERANCE: Final = {64: 1e-9, 32: 1e-3, 16: 3e-2, 8: 2e-1}


class Trial(Protocol):
    """One configuration, ready to run on memory of its own."""

    def prepare(self) -> None: ...
    def call(self) -> None: ...
    def results(self) -> list[Array]: ...


@dataclass(slots=True)
class Outcome:
    """What became of a candidate. `status` is ``ok``, ``failed``, ``wrong`` or ``untried``."""

    config: Config
    status: str = "untried"
    reason: str = ""
    times: list[float] = field(default_factory=list)
    error: BaseException | None = None

    @property
    def best(self) -> float:
        return min(self.times, default=math.inf)

    @property
    def quantiles(self) -> tuple[float, float, float]:
        """Median, 20 % and 80 % quantile in milliseconds."""
        if self.status != "ok" or not self.times:
            return (math.inf,) * 3
        ordered = sorted(self.times)
        last = len(ordered) - 1
        return ordered[last // 2], ordered[last // 5], ordered[last * 4 // 5]


@dataclass
class Search:
    """A search in progress.

    Parameters
    ----------
    outcomes : list of Outcome
        The candidates, in the order in which they are tried.
    trial : function
        Compiles a configuration and gives its `Trial`.
    budget : float
        Seconds.
    tell : function
        Called with every outcome that changed.
    """

    outcomes: list[Outcome]
    trial: Callable[[Config], Trial]
    budget: float
    tell: Callable[[Outcome], None]
    groups: list[tuple[list[Array], list[Outcome]]] = field(default_factory=list)
    trials: dict[int, Trial] = field(default_factory=dict)
    interrupted: bool = False
    start: float = field(default_factory=time.perf_counter)

    def run(self) -> Outcome | None:
        """The fastest of those that are right; None where none could run.

        Raises
        ------
        KeyboardInterrupt
            When the search is interrupted before anything is known.
        """
        try:
            for outcome in self.outcomes:
                if self.late() and any(o.status == "ok" for o in self.outcomes):
                    outcome.reason = "the time was over"
                    continue
                self.first_run(outcome)
            self.drop_wrong()
            self.race()
        except KeyboardInterrupt:
            self.interrupted = True
            self.drop_wrong()
            if not any(o.status == "ok" for o in self.outcomes):
                raise
        finally:
            self.groups.clear()
        right = [o for o in self.outcomes if o.status == "ok"]
        return min(right, key=lambda o: (o.quantiles[0], o.best), default=None)

    def late(self) -> bool:
        return time.perf_counter() - self.start > self.budget

    def first_run(self, outcome: Outcome) -> None:
        """Compile, run twice, and keep what it computed beside what the others did."""
        try:
            trial = self.trial(outcome.config)
            trial.prepare()
            trial.call()
            results = trial.results()
            outcome.times.append(timed(trial))
        except CompilerBug:
            raise
        except (PyptoError, MemoryError) as error:
            outcome.status, outcome.reason, outcome.error = "failed", first_line(error), error
        else:
            outcome.status = "ok"
            self.trials[id(outcome)] = trial
            self.join_group(results, outcome)
        self.tell(outcome)

    def join_group(self, results: list[Array], outcome: Outcome) -> None:
        for known, members in self.groups:
            if all(map(alike, known, results)):
                members.append(outcome)
                return
        self.groups.append(([x.copy() for x in results], [outcome]))

    def drop_wrong(self) -> None:
        """Where results differ, those of the most configurations are right; of two as large groups the first."""
        if len(self.groups) < 2:
            return
        right = max(self.groups, key=lambda group: len(group[1]))
        for known, members in self.groups:
            for outcome in members if known is not right[0] else ():
                outcome.status = "wrong"
                outcome.reason = difference(known, right[0], len(right[1]))
                self.tell(outcome)

    def race(self) -> None:
        """Rounds of more and more runs, in turns; after each the slower half leaves."""
        racing = sorted((o for o in self.outcomes if o.status == "ok"), key=lambda o: o.best)
        runs = 2
        while len(racing) > 1 and not self.late():
            is_last = len(racing) <= _FINALISTS
            for _ in range(_MOST_RUNS if is_last else runs):
                for outcome in racing:
                    outcome.times.append(timed(self.trials[id(outcome)]))
                if self.late() or (is_last and sum(racing[0].times) > _REPEAT_MS):
                    break
            for outcome in racing:
                self.tell(outcome)
            if is_last:
                return
            racing, runs = sorted(racing, key=lambda o: o.best)[: max(_FINALISTS, len(racing) // 2)], 2 * runs


def timed(trial: Trial) -> float:
    """Milliseconds of a run."""
    trial.prepare()
    start = time.perf_counter_ns()
    trial.call()
    return (time.perf_counter_ns() - start) / 1e6


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def alike(a: Array, b: Array) -> bool:
    """Whether two results are those of one computation, but for the rounding of sums.

    Most are so bit by bit, which is found out in a small part of the time.
    """
    if a.dtype.kind in "iub":
        return bool(np.array_equal(a, b))
    bits = f"u{a.dtype.itemsize}"
    if a.dtype == b.dtype and np.array_equal(a.view(bits), b.view(bits)):
        return True
    tolerance = _TOLERANCE[8 * a.dtype.itemsize]
    x, y = a.astype(np.float64), b.astype(np.float64)
    scale = np.max(np.abs(x), initial=0.0, where=np.isfinite(x))
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * scale, equal_nan=True))


def difference(wrong: Sequence[Array], right: Sequence[Array], count: int) -> str:
    """What distinguishes a wrong result, in a sentence."""
    pairs = [(a, b) for a, b in zip(wrong, right, strict=True) if not alike(a, b)]
    apart = (float(np.max(np.abs(a.astype(np.float64) - b.astype(np.float64)))) for a, b in pairs)
    worst = max(apart, default=math.nan)
    others = "another configuration" if count == 1 else f"{count} other configurations"
    return f"it computes something else than {others}: the results differ by up to {worst:.3g}"
