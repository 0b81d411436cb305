"""Rows of a suite: checked against float64 first, then timed interleaved in one process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

OURS: Final = "ours"
Impl = Callable[[], Any]
Threads = Callable[[int], AbstractContextManager[None]]


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for an implementation that is not there, and says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Case:
    """A row made ready to run.

    Parameters
    ----------
    ours : callable or Missing
        Our kernel on its arguments; returns its output.
    peers : mapping of str to callable or Missing
        The same work by others, each returning its output as an array or a torch tensor.
    reference : callable
        The output computed in float64.
    outputs : sequence of ndarray
        Arrays that implementations write to; filled with NaN before each check.
    """

    ours: Impl | Missing
    peers: Mapping[str, Impl | Missing]
    reference: Callable[[], Any]
    outputs: Sequence[Any] = ()


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row must reach: at least `least` times as fast as a peer (a prefix of names), or as a limit's fraction."""

    against: str
    least: float


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a suite.

    Parameters
    ----------
    name, shape : str
        What is computed, over what.
    work : float
        Bytes that have to be moved, or floating-point operations.
    unit : {'B', 'flop'}
    limit : str
        Name of the machine's limit in `limits.Limits` that bounds this work.
    tolerance : float
        Largest absolute difference from float64 that passes.
    build : callable
        Makes the arrays and the implementations.
    bars : tuple of Bar
    threads : tuple of int
        Numbers of threads to time with; 0 stands for all.
    """

    name: str
    shape: str
    work: float
    unit: str
    limit: str
    tolerance: float
    build: Callable[[], Case]
    bars: tuple[Bar, ...] = ()
    threads: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call."""

    minimum: float
    median: float

    @staticmethod
    def of(samples: Sequence[float]) -> Timing:
        return Timing(min(samples), float(np.median(samples)))


@dataclass(frozen=True, slots=True)
class Probe:
    """A time that has no peer, only a bar: `measure` gives the samples in seconds, or Missing."""

    name: str
    what: str
    most: float
    measure: Callable[[], Sequence[float] | Missing]


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe gave: a timing, or why there is none."""

    probe: Probe
    timing: Timing | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Rows and probes under a name."""

    name: str
    rows: tuple[Row, ...]
    probes: tuple[Probe, ...] = ()


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure: rounds over all implementations, and seconds for each of them in a round."""

    rounds: int = 9
    seconds: float = 0.06
    gap: float = 0.004


@dataclass(frozen=True, slots=True)
class Result:
    """What a row gave with one number of threads."""

    row: Row
    threads: int
    timings: Mapping[str, Timing]
    errors: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)

    @property
    def best_peer(self) -> str | None:
        """Name of the fastest peer."""
        peers = [name for name in self.timings if name != OURS]
        return min(peers, key=lambda name: self.timings[name].minimum, default=None)

    def ratio(self, against: str | None = None) -> float | None:
        """How many times as fast ours is as the fastest peer (of those whose names start with `against`)."""
        peers = [t.minimum for name, t in self.timings.items() if name != OURS and name.startswith(against or "")]
        if OURS not in self.timings or not peers:
            return None
        return min(peers) / self.timings[OURS].minimum

    def rate(self, name: str) -> float:
        """Work per second, at the least time."""
        return self.row.work / self.timings[name].minimum

    @property
    def sound(self) -> bool:
        """Whether ours ran and everything that ran was right."""
        return OURS in self.timings and not self.failed


def run_row(row: Row, threads: int, limit_threads: Threads, pace: Pace) -> Result:
    """Check and time one row with a number of threads."""
    case = row.build()
    candidates = {OURS: case.ours, **case.peers}
    missing = {name: impl.reason for name, impl in candidates.items() if isinstance(impl, Missing)}
    present = {name: impl for name, impl in candidates.items() if not isinstance(impl, Missing)}
    with limit_threads(threads):
        errors, failed = check(case, present, row.tolerance)
        timings = interleave({name: impl for name, impl in present.items() if name not in failed}, pace)
    return Result(row, threads, timings, errors, missing, failed)


def run_probe(probe: Probe) -> Probed:
    """Take one probe's samples."""
    try:
        samples = probe.measure()
    except Exception as problem:  # as in `check`: the other figures must survive
        return Probed(probe, None, f"{type(problem).__name__}: {problem}")
    if isinstance(samples, Missing):
        return Probed(probe, None, samples.reason)
    return Probed(probe, Timing.of(samples))


def check(case: Case, impls: Mapping[str, Impl], tolerance: float) -> tuple[dict[str, float], dict[str, str]]:
    """Largest difference of each implementation from float64, and what is wrong with those that fail."""
    expected = np.asarray(case.reference()) if impls else None
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, impl in impls.items():
        for output in case.outputs:
            output.fill(np.nan)
        try:
            actual = np.asarray(impl())
        except Exception as problem:  # one broken implementation must not take the other rows' figures with it
            failed[name] = f"{type(problem).__name__}: {problem}"
            continue
        errors[name] = largest_difference(actual, expected)
        if not errors[name] <= tolerance:
            failed[name] = f"differs from float64 by {errors[name]:.3g}, allowed is {tolerance:.3g}"
    return errors, failed


def largest_difference(actual: Any, expected: Any) -> float:
    """Largest absolute difference; infinite for another shape, NaN if either holds one.

    Examples
    --------
    >>> largest_difference(np.float32([1, 2]), np.array([1.0, 2.5]))
    0.5
    """
    if actual.shape != expected.shape:
        return float("inf")
    return float(np.max(np.abs(actual - expected), initial=0.0))


def interleave(impls: Mapping[str, Impl], pace: Pace) -> dict[str, Timing]:
    """Time implementations by turns, so that a noisy neighbour disturbs all of them alike."""
    counts = {name: _calls(impl, pace.seconds) for name, impl in impls.items()}
    samples: dict[str, list[float]] = {name: [] for name in impls}
    for _ in range(pace.rounds):
        for name, impl in impls.items():
            time.sleep(pace.gap)  # lets the threads of the one before stop spinning
            impl()
            samples[name] += _sample(impl, counts[name])
    return {name: Timing.of(times) for name, times in samples.items()}


def _calls(impl: Impl, seconds: float) -> int:
    """How many calls fill the time."""
    impl()
    start = time.perf_counter()
    impl()
    return max(1, min(100_000, int(seconds / max(time.perf_counter() - start, 1e-7))))


def _sample(impl: Impl, calls: int) -> list[float]:
    """Seconds per call: of each call, or of batches where one call is too short for the clock."""
    batch = max(1, calls // 20) if calls > 50 else 1
    samples = []
    for _ in range(calls // batch):
        start = time.perf_counter()
        for _ in range(batch):
            impl()
        samples.append((time.perf_counter() - start) / batch)
    return samples
