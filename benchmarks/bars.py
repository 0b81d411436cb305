"""What a run is held against: every bar of every row with the figure that it got."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from benchmarks.growth import EXPONENT, Grown
from benchmarks.limits import Limits
from benchmarks.runner import OURS, Bar, Probed, Result
from benchmarks.text import duration

NAMES: Final = {"": "the best peer", "memory": "torch's memory over ours", "limit": "the limit"}
LEAST, SECONDS, POWER = "least", "seconds", "power"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A bar, and what was measured; None where there was nothing to measure against.

    With `kind` "least" the figure has to be at least the bar, with "seconds" and "power" at most.
    """

    title: str
    against: str
    value: float | None
    bar: float
    kind: str = LEAST

    @property
    def reached(self) -> bool | None:
        """Whether the bar is reached; None if that was not measured."""
        if self.value is None:
            return None
        return self.value >= self.bar if self.kind == LEAST else self.value <= self.bar

    def shown(self, figure: float | None) -> str:
        """The value or the bar as text."""
        if figure is None:
            return ""
        return duration(figure) if self.kind == SECONDS else f"{figure:.2f}"

    @property
    def line(self) -> str:
        """One line of text about it."""
        words = {LEAST: f" of {self.against}", SECONDS: "", POWER: ""}[self.kind]
        start = f"{self.against}^" if self.kind == POWER else ""
        return f"{self.title}: {start}{self.shown(self.value)}{words}, the bar is {self.shown(self.bar)}"


def of_row(result: Result, limits: Limits, floor: float) -> Iterator[Verdict]:
    """The bars of one row; the floor of its suite among them, unless the row has one against the best peer itself."""
    row = result.row
    every = row.bars if not floor or any(b.against == "" for b in row.bars) else (*row.bars, Bar("", floor))
    for bar in every:
        if bar.threads in (0, result.threads):
            against = NAMES.get(bar.against, bar.against)
            yield Verdict(result.title, against, measured(result, bar.against, limits), bar.least)
    if not math.isinf(row.most):
        took = result.timings[OURS].minimum if OURS in result.timings else None
        yield Verdict(result.title, "", took, row.most, SECONDS)


def of_probes(probes: Iterable[Probed]) -> Iterator[Verdict]:
    """The bars of times without a peer."""
    for probed in probes:
        probe, timing = probed.probe, probed.timing
        if not math.isinf(probe.most):
            yield Verdict(f"{probe.name}: {probe.what}", "", timing.minimum if timing else None, probe.most, SECONDS)


def of_growths(growths: Iterable[Grown]) -> Iterator[Verdict]:
    """The bars of the compiler's stages."""
    for grown in growths:
        for stage in grown.seconds:
            title = f"compiling {grown.growth.name}, {stage}"
            yield Verdict(title, "lines", grown.exponent(stage), EXPONENT, POWER)


def measured(result: Result, against: str, limits: Limits) -> float | None:
    """What a bar is held against: a ratio to peers, to memory, or to the machine's limit; None without a figure."""
    if against == "memory":
        return memory_ratio(result.peaks)
    if against == "limit":
        return fraction(result, OURS, limits) if OURS in result.timings else None
    return result.ratio(against)


def fraction(result: Result, name: str, limits: Limits) -> float | None:
    """An implementation's rate as a fraction of what the machine can do; None where no limit bounds the work."""
    row = result.row
    if not row.limit:
        return None
    if result.loops:
        return min(map(result.timings[name].faster_than, result.loops.values()))
    return result.rate(name) / limits.rate(row.limit, result.threads)


def memory_ratio(peaks: Mapping[str, float]) -> float | None:
    """How many times ours fits into the memory of eager torch."""
    if OURS not in peaks or "torch" not in peaks:
        return None
    return peaks["torch"] / max(peaks[OURS], 1.0)
