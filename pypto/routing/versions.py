"""The state of a version on a route: what runs, what the monitor counts of it, and whether it may still answer."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pypto.library.row import Implementation
from pypto.routing.shares import Shares

WINDOW: Final = 1024  # calls whose times give the quantiles
FAILURES: Final = ("raised", "time limit", "out of memory", "different", "slow")  # other fallbacks are no failures
AT_ONCE: Final = ("time limit", "different", "slow")  # one of these demotes a version
_NO_MEMORY: Final = ("can't allocate memory", "not enough memory", "out of memory")  # in a RuntimeError of torch


@dataclass(slots=True)
class Version:
    """A version with its counts, which `Route` changes under its lock.

    Attributes
    ----------
    implementation : Implementation
        What runs, and the backends and dtypes for which it does.
    share : float
        The part of the calls that the route gives it.
    calls, answers : int
        Calls that were given to it, and calls whose caller got its results.
    failures : Counter
        Calls that the reference had to answer, by reason: ``raised``, ``time limit``, ``out of memory``,
        ``different``, ``slow``, ``unsupported``, ``demoted``.
    compared : int
        Calls whose results were compared with those of the reference.
    difference : float
        The largest absolute difference that was found.
    bytes : int
        Bytes of arguments and results of the calls that it computed.
    seconds : float
        The time of the calls that it computed.
    demoted : str
        The reason why the reference answers in its place; empty while it answers.
    """

    implementation: Implementation
    share: float = 0.0
    calls: int = 0
    answers: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    difference: float = 0.0
    bytes: int = 0
    seconds: float = 0.0
    computed: int = 0
    demoted: str = ""
    times: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=9))
    sample: Shares = field(default_factory=lambda: shadows(0.0))
    known: set[Any] = field(default_factory=set)

    @property
    def name(self) -> str:
        """Returns the name of the version."""
        return self.implementation.version

    @property
    def run(self) -> Callable[..., Any]:
        """Returns the function that computes the results."""
        return self.implementation.run

    def give(self, share: float, shadow: float) -> None:
        """Sets its share of the calls, and the part of these that is compared."""
        self.share, self.sample = share, shadows(shadow)

    def called(self, fits: bool, right: bool, kind: Any) -> tuple[bool, bool]:
        """Counts a call of the version; says whether the version computes it, and whether it is compared."""
        self.calls += 1
        absent = "demoted" if self.demoted else "" if fits else "unsupported"
        self.failures.update([absent] if absent else [])
        return not absent, not absent and not right and self.is_compared(kind)

    def answered(self) -> None:
        """Counts a call whose caller got its results."""
        self.answers += 1

    def compare(self, kind: Any, difference: float, ratio: float, agrees: bool) -> None:
        """Counts a compared call: the largest difference, and its time divided by that of the reference."""
        self.compared += 1
        self.known.update([kind] if agrees else [])
        self.difference = max(self.difference, difference)
        self.ratios.append(ratio)

    def fail(self, reason: str, most: int) -> bool:
        """Counts a failure, and says whether the version is demoted by it."""
        self.failures[reason] += 1
        failed = sum(self.failures[each] for each in FAILURES)
        if self.demoted or (reason not in AT_ONCE and failed < most):
            return False
        self.demoted = reason
        return True

    def restore(self) -> None:
        """Lets the version answer once more; the first call of each kind is compared."""
        self.demoted = ""
        self.failures.clear()
        self.ratios.clear()
        self.known.clear()

    def record(self, seconds: float, moved: int) -> None:
        """Counts a call that the version computed, with its seconds and bytes."""
        self.computed += 1
        self.seconds += seconds
        self.bytes += moved
        self.times.append(seconds)

    def quantile(self, part: float) -> float:
        """Returns a quantile of the seconds of the last calls that it computed; 0 if there are none."""
        times = sorted(self.times)
        return times[min(len(times) - 1, int(part * len(times)))] if times else 0.0

    @property
    def ratio(self) -> float:
        """Returns the median time of compared calls, divided by that of the reference; 0 for fewer than nine calls."""
        ratios = sorted(self.ratios)
        return ratios[len(ratios) // 2] if len(ratios) == self.ratios.maxlen else 0.0

    def is_compared(self, kind: Any) -> bool:
        """Says whether the next call is compared: those of a kind until one has agreed, and then a fixed share."""
        return kind not in self.known or self.sample.next() == "compared"


def shadows(share: float) -> Shares:
    """Returns the sequence that chooses a share of calls for comparison."""
    return Shares({"compared": share, "plain": 1.0 - share})


def reason_of(error: BaseException) -> str:
    """Classifies an exception of a version."""
    text = str(error).lower()
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and any(x in text for x in _NO_MEMORY)):
        return "out of memory"
    return "time limit" if isinstance(error, TimeoutError) else "raised"
