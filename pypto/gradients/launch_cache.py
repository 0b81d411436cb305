"""Caches launches of an adjoint by the types, shapes and numbers of the arguments.

A launch uses an entry if its fingerprint is known, the kernel's captured values have not changed, gradients are
writable, and no gradient overlaps an array that is read. Otherwise the launch is checked in full, which raises errors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from pypto.gradients.handwritten import HandwrittenAdjoint
from pypto.gradients.launches import StepLaunch
from pypto.gradients.versions import Version
from pypto.runtime.launch import Pairs, disjoint, fingerprint, overlaps
from pypto.runtime.mode import MODE

_MAX_ENTRIES: Final = 1024


@dataclass(frozen=True, slots=True)
class PreparedLaunch:
    """A prepared launch: derived kernels, or a handwritten backward pass; `is_empty` if the grid has no programs.

    `pairs` contains pairs of array numbers with the range of distances at which they would overlap.
    """

    version: Version
    steps: tuple[StepLaunch, ...]
    is_empty: bool
    pairs: Pairs
    backward: HandwrittenAdjoint | None = None

    def holds(self, addresses: list[int]) -> bool:
        """Says whether it is valid for a launch with the same fingerprint."""
        return disjoint(self.pairs, addresses) and all(c.read() is c.value for c in self.version.captures)


class LaunchCache:
    """Prepared launches by fingerprint. `constant` says of each argument whether it is a constant."""

    def __init__(self, constant: tuple[bool, ...]) -> None:
        self.constant = constant
        self.entries: dict[Any, PreparedLaunch] = {}

    def key(self, grid: Any, values: Sequence[Any], gradients: Mapping[str, Any]) -> tuple[Any, list[int]] | None:
        """Returns the fingerprint of a launch, and the addresses of its arrays; None if a full check is needed."""
        if callable(grid) or not all(map(is_writable, gradients.values())):
            return None
        everything = (*values, *gradients.values())
        try:
            kinds, addresses, leaves = fingerprint(everything, self.constant + (False,) * len(gradients))
            numbers = tuple((x, type(x)) for x in leaves if isinstance(x, (int, np.integer)))
            key = grid, tuple(gradients), kinds, numbers, MODE.get().device
            hash(key)
        except (LookupError, TypeError):
            return None
        return key, addresses

    def find(self, key: tuple[Any, list[int]] | None) -> PreparedLaunch | None:
        """Returns the prepared launch, if it is valid."""
        entry = self.entries.get(key[0]) if key is not None else None
        return entry if key is not None and entry is not None and entry.holds(key[1]) else None

    def add(self, key: tuple[Any, list[int]] | None, entry: PreparedLaunch) -> None:
        if key is None:
            return
        if len(self.entries) >= _MAX_ENTRIES:
            self.entries.clear()
        self.entries[key[0]] = entry


def read_write_pairs(infos: Mapping[str, Any], stored: Sequence[str], written: frozenset[str]) -> Pairs:
    """Returns pairs of arrays that must not overlap: a written gradient, and an array that the kernels access."""
    names = [n for n, x in infos.items() if hasattr(x, "reach")]
    pairs, _ = overlaps(written, infos)
    return [p for p in pairs if names[p[0]] not in stored and names[p[1]] not in stored]


def is_writable(x: Any) -> bool:
    """Says whether an array may be written, as far as it states that."""
    return not isinstance(x, np.ndarray) or x.flags.writeable
