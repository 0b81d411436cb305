"""What a suite is made of, and how a row is run: checked against float64 first, then timed, all in turns."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from benchmarks.growth import Growth

OURS: Final = "ours"
LONGER: Final = 3  # times as much of a row's time where memory sets the pace, which changes within seconds
FINER: Final = 3  # times as many rounds of it, each so much shorter: in a round everybody meets the same memory
COMPILED: Final = ("torch.compile", "numba", "jax")
Impl = Callable[[], Any]
Threads = Callable[[int], AbstractContextManager[None]]
Loops = Callable[["Row", int], Mapping[str, Impl]]


@dataclass(frozen=True, slots=True)
class Missing:
    """Stands for an implementation that is not there, and says why."""

    reason: str


def as_it_is(result: Any) -> Any:
    """A result unchanged."""
    return result


@dataclass(frozen=True, slots=True)
class Case:
    """A row made ready to run.

    Parameters
    ----------
    ours : callable or Missing
        Our kernel on its arguments; returns its output.
    peers : mapping of str to callable or Missing
        The same work by others, each returning its output as an array or a torch tensor, or a tuple of them.
    reference : callable
        The output computed in float64.
    outputs : sequence of ndarray
        Arrays that implementations write to; filled with NaN, or with zeros, before each check.
    view : callable
        What of an implementation's result is compared with the reference; gets arrays.
    """

    ours: Impl | Missing
    peers: Mapping[str, Impl | Missing]
    reference: Callable[[], Any]
    outputs: Sequence[Any] = ()
    view: Callable[[Any], Any] = as_it_is


def is_one_of(name: str, kind: str) -> bool:
    """Whether a peer is of a kind: a library's name, "compiled", or "blas"; "" is everybody.

    Examples
    --------
    >>> is_one_of("torch out=", "torch"), is_one_of("torch.compile", "torch"), is_one_of("torch.compile", "compiled")
    (True, False, True)
    """
    if kind == "compiled":
        return name.startswith(COMPILED)
    if kind == "blas":
        return is_one_of(name, "numpy") or is_one_of(name, "torch")
    return name.startswith(kind) and not (kind == "torch" and name.startswith(COMPILED))


@dataclass(frozen=True, slots=True)
class Bar:
    """What a row must reach: at least `least` times as fast as a kind of peers, or as the machine's limit.

    With ``against="memory"``, `least` is how many times ours has to fit into the memory of eager torch. A number of
    threads restricts the bar to it.
    """

    against: str
    least: float
    threads: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a suite.

    Parameters
    ----------
    name, shape : str
        What is computed, over what.
    work : float
        Bytes that have to be moved, or floating-point operations.
    unit : {'B', 'flop', 'call', 'element'}
    limit : str
        Name of the machine's limit in `limits.Limits` that bounds this work; "" where none does.
    tolerance : float
        Largest absolute difference from float64 that passes.
    build : callable
        Makes the arrays and the implementations, while the number of threads holds.
    bars : tuple of Bar
    threads : tuple of int
        Numbers of threads to time with; 0 stands for all.
    family : str
        Rows of a family count as one in the geometric mean; the name by default.
    intensity : float
        Floating-point operations per byte that has to be moved; 0 keeps the row out of the roofline.
    most : float
        Longest time in seconds that reaches the bar.
    needs : str
        A library that the row is about; without it there is no row.
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
    family: str = ""
    intensity: float = 0.0
    most: float = math.inf
    needs: str = ""

    @property
    def title(self) -> str:
        """Name and shape."""
        return f"{self.name} {self.shape}"

    @property
    def of_family(self) -> str:
        """The family, by default the name."""
        return self.family or self.name


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one call: the least and the median of all samples, and the least of each round."""

    minimum: float
    median: float
    rounds: tuple[float, ...]

    @staticmethod
    def of(rounds: Sequence[Sequence[float]]) -> Timing:
        every = [sample for samples in rounds for sample in samples]
        return Timing(min(every), float(np.median(every)), tuple(map(min, rounds)))

    def faster_than(self, other: Timing) -> float:
        """How many times as fast, in the median round that both were in.

        A machine that many share is at times twice as fast as a second before. The least times of a run may then come
        from different states of it; those of a round, which takes a moment, do not.

        Examples
        --------
        >>> ours, theirs = Timing.of([[2.0], [1.0], [2.0]]), Timing.of([[3.0], [3.0], [1.5]])
        >>> ours.faster_than(theirs)
        1.5
        """
        both = zip(self.rounds, other.rounds, strict=False)
        return float(np.median([theirs / ours for ours, theirs in both]))


@dataclass(frozen=True, slots=True)
class Probe:
    """A time that has no peer, only a bar: `measure` gives the samples in seconds, or Missing.

    It is left out without the library that it needs, and on fewer cores.
    """

    name: str
    what: str
    most: float
    measure: Callable[[], Sequence[float] | Missing]
    needs: str = ""
    cores: int = 1


@dataclass(frozen=True, slots=True)
class Probed:
    """What a probe gave: a timing, or why there is none."""

    probe: Probe
    timing: Timing | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """Rows and probes under a name, and bars for the whole: the families' geometric mean, and every single row.

    With `memory`, peaks of memory are measured unless the command says otherwise.
    """

    name: str
    rows: tuple[Row, ...]
    probes: tuple[Probe, ...] = ()
    mean: float = 0.0
    floor: float = 0.0
    growths: tuple[Growth, ...] = ()
    memory: bool = False


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to measure: rounds over all implementations, and seconds for each of them in a round.

    After a third of the rounds, one that has taken more than `most` seconds is measured no more.
    """

    rounds: int = 9
    seconds: float = 0.06
    gap: float = 0.01
    most: float = 3.0


@dataclass(frozen=True, slots=True)
class Result:
    """What a row gave with one number of threads.

    `loops` are plain loops that did the row's work and nothing else, timed in turns with it; the machine's limit.
    """

    row: Row
    threads: int
    timings: Mapping[str, Timing]
    errors: Mapping[str, float]
    missing: Mapping[str, str] = field(default_factory=dict)
    failed: Mapping[str, str] = field(default_factory=dict)
    peaks: Mapping[str, float] = field(default_factory=dict)
    loops: Mapping[str, Timing] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Row and threads, for a line of text."""
        return f"{self.row.title}, {self.threads} thread{'s' * (self.threads > 1)}"

    def peers(self, kind: str = "") -> dict[str, Timing]:
        """The peers of a kind that were timed."""
        return {name: t for name, t in self.timings.items() if name != OURS and is_one_of(name, kind)}

    @property
    def best_peer(self) -> str | None:
        """Name of the fastest peer: the one that comes nearest to ours, where ours is there."""
        ours, peers = self.timings.get(OURS), self.peers()
        return min(peers, key=lambda name: ours.faster_than(peers[name]) if ours else peers[name].minimum, default=None)

    def ratio(self, against: str = "") -> float | None:
        """How many times as fast ours is as the fastest peer of a kind."""
        ours, peers = self.timings.get(OURS), self.peers(against).values()
        return min(map(ours.faster_than, peers)) if ours and peers else None

    def times_as_fast(self, name: str) -> float | None:
        """How many times as fast ours is as an implementation."""
        ours = self.timings.get(OURS)
        return ours.faster_than(self.timings[name]) if ours else None

    def rate(self, name: str) -> float:
        """Work per second, at the least time."""
        return self.row.work / self.timings[name].minimum

    @property
    def sound(self) -> bool:
        """Whether ours ran and everything that ran was right."""
        return OURS in self.timings and not self.failed


def no_loops(_row: Row, _threads: int) -> Mapping[str, Impl]:
    """The machine is not measured."""
    return {}


def run_row(
    row: Row, threads: int, limit_threads: Threads, pace: Pace, peaks: Mapping[str, float] | None = None,
    loops: Loops = no_loops,
) -> Result:  # fmt: skip
    """Check and time one row with a number of threads, in turns with plain loops; peaks of memory are given."""
    with limit_threads(threads):
        case = row.build()
        candidates = {OURS: case.ours, **case.peers}
        missing = {name: impl.reason for name, impl in candidates.items() if isinstance(impl, Missing)}
        present = {name: impl for name, impl in candidates.items() if not isinstance(impl, Missing)}
        errors, failed = check(case, present, row.tolerance)
        right = {name: impl for name, impl in present.items() if name not in failed}
        beside = loops(row, threads)
        timings = interleave({**right, **beside}, finer(pace) if row.limit.endswith("DRAM") else pace)
    limits = {name: timings.pop(name) for name in beside}
    return Result(row, threads, timings, errors, missing, failed, peaks or {}, limits)


def finer(pace: Pace) -> Pace:
    """More time, in more and shorter rounds."""
    return replace(pace, rounds=LONGER * FINER * pace.rounds, seconds=pace.seconds / FINER)


def run_probe(probe: Probe) -> Probed:
    """Take one probe's samples."""
    try:
        samples = probe.measure()
    except Exception as problem:  # as in `check`: the other figures must survive
        return Probed(probe, None, f"{type(problem).__name__}: {problem}")
    if isinstance(samples, Missing):
        return Probed(probe, None, samples.reason)
    return Probed(probe, Timing.of([samples]))


def check(case: Case, impls: Mapping[str, Impl], tolerance: float) -> tuple[dict[str, float], dict[str, str]]:
    """Largest difference of each implementation from float64, and what is wrong with those that fail."""
    expected = case.reference() if impls else None
    errors: dict[str, float] = {}
    failed: dict[str, str] = {}
    for name, impl in impls.items():
        for output in case.outputs:
            output.fill(np.nan if output.dtype.kind not in "iu" else 0)
        try:
            actual = case.view(as_arrays(impl()))
        except Exception as problem:  # one broken implementation must not take the other rows' figures with it
            failed[name] = f"{type(problem).__name__}: {problem}"
            continue
        errors[name] = largest_difference(actual, expected)
        if not errors[name] <= tolerance:
            failed[name] = f"differs from float64 by {errors[name]:.3g}, allowed is {tolerance:.3g}"
    return errors, failed


def as_arrays(result: Any) -> Any:
    """Numpy's arrays of an implementation's result, in a tuple where it is one; bfloat16 becomes float64."""
    if isinstance(result, (tuple, list)):
        return tuple(map(as_arrays, result))
    if hasattr(result, "detach"):
        return result.detach().double().numpy()
    found = np.asarray(result)
    return found if found.dtype.kind in "fiu" else found.astype(np.float64)


def largest_difference(actual: Any, expected: Any) -> float:
    """Largest absolute difference, over all arrays of a tuple; infinite for another shape, NaN if either holds one.

    Examples
    --------
    >>> largest_difference(np.float32([1, 2]), np.array([1.0, 2.5]))
    0.5
    """
    if isinstance(expected, tuple):
        pairs = zip(actual, expected, strict=True)
        return float(np.max([largest_difference(x, y) for x, y in pairs]))
    expected = np.asarray(expected)
    if actual.shape != expected.shape:
        return float("inf")
    return float(np.max(np.abs(actual - expected), initial=0.0))


def interleave(impls: Mapping[str, Impl], pace: Pace) -> dict[str, Timing]:
    """Time implementations by turns, in other orders each round: neighbours disturb, and precede, all of them alike."""
    counts = {name: _calls(impl, pace.seconds) for name, impl in impls.items()}
    samples: dict[str, list[list[float]]] = {name: [] for name in impls}
    for number in range(pace.rounds):
        for name, impl in random.Random(number).sample([*impls.items()], len(impls)):
            if 3 * number > pace.rounds and sum(map(sum, samples[name])) > pace.most:
                continue
            time.sleep(pace.gap)  # threads of the one before spin for some milliseconds: they would take a core
            if counts[name] > 1:  # a long call has no need of warm caches
                impl()
            samples[name].append(_sample(impl, counts[name]))
    return {name: Timing.of(rounds) for name, rounds in samples.items()}


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
