"""What launches of one call leave in a cache for those after them.

A result that a launch has written is there until as many bytes have come after it as the cache holds. How many these
are, the timing model knows; here they are counted. Of an array with gaps between its rows more than half is written; of
a cache in which few rows are new, less, and it is not taken for one that is there.
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
    """Memory that launches have written, with the bytes that came from memory after it."""

    since: dict[Span, float] = field(default_factory=dict)

    def arguments(self, kernel: Any, values: tuple[Any, ...]) -> dict[str, float]:
        """The arguments of a launch that lie in such memory."""
        return {
            name: later
            for name, (start, end) in spans(kernel, values).items()
            for (first, last), later in self.since.items()
            if first <= start and end <= last
        }

    def add(self, kernel: Any, values: tuple[Any, ...], launch: Any) -> None:
        """Note the arrays of which a launch has written more than half, as far as its bytes tell."""
        self.since = {span: later + launch.levels.get("HBM", 0.0) for span, later in self.since.items()}
        found, names = spans(kernel, values), written_names(function_of(kernel, values))
        for span in (found[name] for name in names if name in found):
            if span[1] - span[0] < 2 * launch.bytes.get("GM written", 0.0):
                self.since[span] = 0.0


def spans(kernel: Any, values: tuple[Any, ...]) -> dict[str, Span]:
    """First byte and end of all array arguments."""
    infos: Mapping[str, Any] = describe(kernel.signature, values)[0]
    return {
        name: (info.address + info.reach[0], info.address + info.reach[1])
        for name, info in infos.items()
        if isinstance(info, ArrayInfo)
    }
