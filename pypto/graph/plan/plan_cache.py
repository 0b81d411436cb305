"""The plans of a fused function: one for each form of its arguments and each value that a guard names."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided

from pypto.errors.advice import ManyPlans
from pypto.graph.capture.guards import Path as ReadPath
from pypto.graph.capture.guards import Roots
from pypto.graph.ir.dims import Sizes
from pypto.graph.ir.node import here, is_ours
from pypto.graph.plan.plan import Plan
from pypto.graph.tracing.trace import Traced

Array = np.ndarray[Any, Any]
MOST_VERSIONS: Final = 256  # plans of a function that are kept
MANY_VERSIONS: Final = 64  # plans at which a warning says what differs


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A plan with the traced function that it was made from."""

    plan: Plan
    traced: Traced

    def serves(self, sizes: Sizes) -> bool:
        """Whether the guards on sizes have the same answers as at trace time."""
        guards = self.traced.graph.guards
        return guards is None or guards.hold(sizes)


class PlanCache:
    """An LRU cache of the plans of a fused function.

    Attributes
    ----------
    varying : set of ReadPath
        Numbers that had two values so far; new plans take them as run-time scalars.
    pinned : set of ReadPath
        Numbers whose value the traced function depends on; each value has its own plan.
    """

    def __init__(self, function: Any = None, most: int = MOST_VERSIONS) -> None:
        self.most = most
        self.forms: dict[Hashable, list[Version]] = {}
        self.recent: dict[Version, Hashable] = {}
        self.varying: set[ReadPath] = set()
        self.pinned: set[ReadPath] = set()
        code = getattr(function, "__code__", None)
        self.is_warned = code is not None and is_ours(code.co_filename)  # one of this package serves all callers

    def find(self, form: Hashable, roots: Roots, sizes: Sizes) -> tuple[Version, list[Array]] | None:
        """Return the plan for a call, with the arrays that it reads from outside; the newest plans come first."""
        for version in reversed(self.forms.get(form, ())):
            if version.serves(sizes):
                arrays = version.traced.outside.read(roots)
                if arrays is not None:
                    return version, arrays
        return None

    def touch(self, version: Version) -> None:
        """Mark a plan as the most recently used."""
        form = self.recent.pop(version, None)
        if form is not None:
            self.recent[version] = form

    def note_varying(self, form: Hashable, roots: Roots) -> None:
        """Record the numbers that differ between a call and an existing plan."""
        for version in reversed(self.forms.get(form, ())):
            self.varying.update(version.traced.outside.changed(roots) or ())
        self.varying -= self.pinned

    def add(self, form: Hashable, version: Version) -> None:
        """Add a plan; a function that has many is told why, once."""
        self.pinned |= version.traced.outside.pinned
        self.varying -= self.pinned
        while len(self.recent) >= self.most:
            oldest = next(iter(self.recent))
            self.drop(oldest, self.recent[oldest])
        self.forms[form] = [*self.forms.get(form, ()), version]
        self.recent[version] = form
        if len(self.recent) == MANY_VERSIONS and not self.is_warned:
            self.is_warned = True
            name = version.traced.graph.name
            warnings.warn(ManyPlans(here().loc(), function=name, reason=self.what_changes()), stacklevel=5)

    def what_changes(self) -> str:
        """Return what differs from plan to plan."""
        if 2 * len(self.forms) > len(self.recent):
            return "its arguments differ in shapes, types, memory orders or options"
        programs = [version.traced.outside for version in self.recent]
        names = dict.fromkeys(row.text for x in programs for row in x.rows if row.path in self.pinned)
        if names:
            texts = ", ".join(f"`{name}`" for name in names)
            return f"the number{'s' * (len(names) > 1)} {texts} decide{'s' * (len(names) == 1)} shapes or branches"
        return "what it reads from outside differs"

    def drop(self, version: Version, form: Hashable) -> None:
        del self.recent[version]
        left = [v for v in self.forms[form] if v is not version]
        if left:
            self.forms[form] = left
        else:
            del self.forms[form]

    def replace(self, old: Version, new: Version) -> None:
        """Replace a plan by its tuned version."""
        self.recent = {new if v is old else v: form for v, form in self.recent.items()}
        self.forms = {form: [new if v is old else v for v in versions] for form, versions in self.forms.items()}


def without_arguments(traced: Traced) -> Traced:
    """Replace the argument arrays of a traced function by stand-ins, so that a plan keeps none alive."""
    given = traced.given
    return replace(traced, arrays=[*map(layout_of, traced.arrays[:given]), *traced.arrays[given:]])


def layout_of(array: Array) -> Array:
    """Return a stand-in without memory of its own that has the shape, type and layout of an array."""
    return as_strided(np.zeros((), array.dtype), array.shape, array.strides, writeable=False)


class Planned(Protocol):
    """The protocol of a function with plans, for views and verification."""

    function: Any

    @property
    def versions(self) -> list[Version]:
        """The cached plans, in the order in which they were made."""

    def version_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Version, list[Array], Sizes]:
        """Return the plan for some arguments, their arrays, and the sizes of the named dimensions."""
