"""Splits the wall time of a block into operators of torch, kernels, and Python with all that is not measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from pypto.profiler.bounds import CLOSE, WORTH, Bound, Limits, judge, limits
from pypto.profiler.torch_operators import Sum

if TYPE_CHECKING:
    from pypto.profiler.profile import Launch, Profile, Version

UNKNOWN: Final = Bound()
SMALL: Final = 0.01  # share from which a kernel is looked at more closely
OTHER: Final = "Python and others"


@dataclass(frozen=True, slots=True)
class WallRow:
    """A share of the wall time.

    Attributes
    ----------
    level : str
        ``operator`` of torch, ``kernel``, ``other`` (Python, and what is not measured) or ``module`` of torch, which
        holds operators and kernels.
    name : str
    share : float
        Part of the wall time, 0 to 1. Operators, kernels and the other row add up to 1.
    total_ns : float
        Wall time of all calls, in nanoseconds.
    calls : int
    bytes, flops : float
        What they move and compute, as far as known.
    bound : Bound
        What limits them.
    origins : tuple of str
        Lines of the program that a generated kernel computes.
    """

    level: str
    name: str
    share: float
    total_ns: float
    calls: int
    bytes: float = 0.0
    flops: float = 0.0
    bound: Bound = UNKNOWN
    origins: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """Advises what to try, and whether a kernel for the operator is worth writing."""
        if self.share < WORTH or self.level not in ("operator", "kernel"):
            return self.bound.advice
        saved = f"{self.share * (1 - self.bound.limit):.0%} of the time"
        if self.level == "kernel" or self.bound.limit >= CLOSE:
            return f"{self.bound.advice}; a faster kernel saves at most {saved}"
        return f"worth a kernel of its own, which saves up to {saved}; {self.bound.advice}"


def wall_rows(profile: Profile) -> tuple[WallRow, ...]:
    """Returns rows of operators and kernels, the longest first, and a row for everything else."""
    kernels: dict[str, list[Version]] = {}
    for version in profile.versions.values():
        kernels.setdefault(version.kernel.signature.kernel, []).append(version)
    operators = profile.torch.operators
    total = sum(s.total_ns for s in operators.values()) + sum(v.wall_ns for v in profile.versions.values())
    wall = max(profile.wall_ns, total) or 1.0
    machine = limits() if operators or kernels else Limits(1.0, 1.0)
    rows = [operator_row(name, one, wall, machine) for name, one in operators.items()]
    rows += [kernel_row(name, versions, profile.launches, wall, machine) for name, versions in kernels.items()]
    other = WallRow("other", OTHER, (wall - total) / wall, wall - total, 0)
    return (*sorted(rows, key=lambda row: -row.total_ns), other)


def module_rows(profile: Profile) -> tuple[WallRow, ...]:
    """Returns a row for each module of torch, by name; its time includes the modules whose names begin with its."""
    wall = profile.wall_ns or 1.0
    sums = sorted(profile.torch.modules.items())
    return tuple(WallRow("module", n, min(1.0, one.total_ns / wall), one.total_ns, one.calls) for n, one in sums)


def operator_row(name: str, one: Sum, wall: float, machine: Limits) -> WallRow:
    """Returns the row of an operator of torch."""
    bound = judge(name, one.total_ns, one.calls, one.bytes, one.flops, machine)
    return WallRow("operator", name, one.total_ns / wall, one.total_ns, one.calls, one.bytes, one.flops, bound)


def kernel_row(name: str, versions: list[Version], launches: list[Launch], wall: float, machine: Limits) -> WallRow:
    """Returns the row of a kernel."""
    total, calls = sum(v.wall_ns for v in versions), sum(v.launches for v in versions)
    moved, flops = (
        float(sum(getattr(site, what) * int(v.totals[1][n]) for v in timed(versions) for n, site in enumerate(v.sites)))
        for what in ("bytes", "flops")
    )
    uneven = imbalance([launch for launch in launches if launch.kernel == name])
    gathers = total / wall >= SMALL and any(map(has_gather, versions))
    bound = judge(name, total, calls, moved, flops, machine, imbalance=uneven, gathers=gathers)
    origins = versions[0].kernel.origins
    return WallRow("kernel", name, total / wall, total, calls, moved, flops, bound, tuple(origins))


def timed(versions: list[Version]) -> list[Version]:
    """Returns the versions whose sites were timed."""
    return [version for version in versions if version.sites]


def imbalance(launches: list[Launch]) -> float:
    """Returns the time of the busiest threads divided by the mean time, over launches on several threads."""
    busiest, mean = 0.0, 0.0
    for launch in launches:
        if launch.threads > 1 and launch.sites:
            programs = [events[events[:, 0] == 0] if len(events) else events for events in launch.events]
            times = np.array([np.sum(rows[:, 3] - rows[:, 2]) if len(rows) else 0 for rows in programs], float)
            busiest, mean = busiest + float(times.max(initial=0.0)), mean + float(times.mean()) if times.size else mean
    return busiest / mean if mean else 1.0


def has_gather(version: Version) -> bool:
    """Says whether a kernel loads elements from places that it computes."""
    program = version.program
    if program is None:
        return False
    findings = program.backend.explain(program.function).items
    return any(one.topic == "access" and one.text.startswith("gather") for one in findings)
