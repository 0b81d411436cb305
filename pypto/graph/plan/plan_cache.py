"""The plans of a fused function: found by the form of the arguments, each with the guards that it was traced with."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pypto.graph.capture.rows import Path, Roots
from pypto.graph.ir.dims import Sizes
from pypto.graph.plan.plan import Plan
from pypto.graph.tracing.trace import Traced

Array = np.ndarray[Any, Any]
MOST_VERSIONS: Final = 256  # plans of a function that are kept


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A plan, and what it was traced with."""

    plan: Plan
    traced: Traced

    def serves(self, sizes: Sizes) -> bool:
        """Whether what the function asked about sizes has the same answers."""
        guards = self.traced.graph.guards
        return guards is None or guards.hold(sizes)


class PlanCache:
    """The plans of a fused function; of too many, the one that has not been looked up for longest is dropped.

    Attributes
    ----------
    varying : set of Path
        Numbers that were met with two values: run-time scalars of the plans to come.
    pinned : set of Path
        Numbers whose value a traced function asked for: each value has a plan of its own.
    """

    def __init__(self, most: int = MOST_VERSIONS) -> None:
        self.most = most
        self.forms: dict[Hashable, list[Version]] = {}
        self.recent: dict[Version, Hashable] = {}
        self.varying: set[Path] = set()
        self.pinned: set[Path] = set()

    def find(self, form: Hashable, roots: Roots, sizes: Sizes) -> tuple[Version, list[Array]] | None:
        """The plan for a call, with the arrays that it reads from outside; the newest is asked first."""
        for version in reversed(self.forms.get(form, ())):
            if version.serves(sizes):
                arrays = version.traced.outside.read(roots)
                if arrays is not None:
                    return version, arrays
        return None

    def touch(self, version: Version) -> None:
        """Note that a plan is in use."""
        form = self.recent.pop(version, None)
        if form is not None:
            self.recent[version] = form

    def note_varying(self, form: Hashable, roots: Roots) -> None:
        """Find the numbers by which a call differs from one that has a plan."""
        for version in reversed(self.forms.get(form, ())):
            self.varying.update(version.traced.outside.changed(roots) or ())
        self.varying -= self.pinned

    def add(self, form: Hashable, version: Version) -> None:
        self.pinned |= version.traced.outside.pinned
        self.varying -= self.pinned
        while len(self.recent) >= self.most:
            oldest = next(iter(self.recent))
            self.drop(oldest, self.recent[oldest])
        self.forms[form] = [*self.forms.get(form, ()), version]
        self.recent[version] = form

    def drop(self, version: Version, form: Hashable) -> None:
        del self.recent[version]
        left = [v for v in self.forms[form] if v is not version]
        if left:
            self.forms[form] = left
        else:
            del self.forms[form]

    def replace(self, old: Version, new: Version) -> None:
        """Put a tuned plan in the place of the one that it comes of."""
        self.recent = {new if v is old else v: form for v, form in self.recent.items()}
        self.forms = {form: [new if v is old else v for v in versions] for form, versions in self.forms.items()}


def without_arguments(arrays: list[Array], given: int) -> list[Array]:
    """The arrays of a traced function with stand-ins for those of its arguments, so that a plan keeps none alive."""
    return [*map(layout_of, arrays[:given]), *arrays[given:]]


def layout_of(array: Array) -> Array:
    """An array of this shape, type and layout with no memory of its own, which nobody reads."""
    return as_strided(np.zeros((), array.dtype), array.shape, array.strides, writeable=False)


class Planned(Protocol):
    """A function that has plans: what views and verification ask of one."""

    function: Any

    @property
    def versions(self) -> list[Version]:
        """The plans that were made and are kept, in order."""

    def version_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Version, list[Array], Sizes]:
        """The plan for some arguments, with their arrays and the sizes of dimensions by name."""
