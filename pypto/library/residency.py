"""Tracks which arrays stay in a cache between the launches of one call, for predicted times.

A written result stays in the cache until as many later bytes have passed as the cache holds. This module counts those
bytes; the timing model knows the capacity. An array counts as written if a launch writes more than half of it: that
includes arrays with gaps between rows, and excludes key-value caches that get a few new rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto.arguments import describe
from pypto.debug.simulate import function_of
from pypto.passes.analysis.memory_effects import written_names
from pypto.runtime.arrays import ArrayInfo

Span = tuple[int, int]


@dataclass
class Written:
    """Arrays that launches have written, with the bytes that came from memory since."""

    since: dict[Span, float] = field(default_factory=dict)

    def arguments(self, kernel: Any, values: tuple[Any, ...]) -> dict[str, float]:
        """Returns the arguments of a launch that lie in written arrays."""
        return {
            name: later
            for name, (start, end) in spans(kernel, values).items()
            for (first, last), later in self.since.items()
            if first <= start and end <= last
        }

    def add(self, kernel: Any, values: tuple[Any, ...], launch: Any) -> None:
        """Records the arrays of which a launch has written more than half, judged by its bytes."""
        self.since = {span: later + launch.levels.get("HBM", 0.0) for span, later in self.since.items()}
        written, names = spans(kernel, values), written_names(function_of(kernel, values))
        for span in (written[name] for name in names if name in written):
            if span[1] - span[0] < 2 * launch.bytes.get("GM written", 0.0):
                self.since[span] = 0.0


def spans(kernel: Any, values: tuple[Any, ...]) -> dict[str, Span]:
    """Returns the first byte and the end of each array argument."""
    infos: Mapping[str, Any] = describe(kernel.signature, values)[0]
    return {
        name: (info.address + info.reach[0], info.address + info.reach[1])
        for name, info in infos.items()
        if isinstance(info, ArrayInfo)
    }
