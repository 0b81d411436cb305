"""Specialization by use: a kernel is compiled for the facts that its code asks for, and reused where they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto.errors.launch import NeedsShape
from pypto.runtime.arrays import ArrayInfo

Fact = tuple[str, str, int]  # kind ("shape", "stride" or "one"), argument, dimension
_VALUES_BEFORE_DYNAMIC = 2


@dataclass
class FactRecorder:
    """Answers the front end about one launch's arguments and remembers what it asked: that becomes the guard.

    A shape entry in `dynamic` stays a run-time value, unless a tile's extent depends on it.
    """

    kernel: str
    values: Mapping[str, Any]
    dynamic: frozenset[tuple[str, int]]
    declared: Mapping[str, str]
    guard: dict[Fact, int | bool | None] = field(default_factory=dict)

    def shape(self, arg: str, dim: int) -> int | None:
        promised = self.declared.get(arg)
        if ("shape", arg, dim) in self.guard and self.guard["shape", arg, dim] is not None:
            return self.require_shape(arg, dim)
        if promised == "dynamic" or (promised != "static" and (arg, dim) in self.dynamic):
            return None
        return self.require_shape(arg, dim)

    def require_shape(self, arg: str, dim: int) -> int:
        if self.declared.get(arg) == "dynamic":
            raise NeedsShape(kernel=self.kernel, arg=arg, dim=dim)
        size: int = self.values[arg].shape[dim]
        self.guard["shape", arg, dim] = size
        return size

    def stride(self, arg: str, dim: int) -> int | None:
        value = observe(("stride", arg, dim), self.values)
        self.guard["stride", arg, dim] = value
        return None if value is None else int(value)

    def equals_one(self, arg: str) -> bool:
        value = observe(("one", arg, 0), self.values)
        self.guard["one", arg, 0] = value
        return bool(value)


def observe(fact: Fact, values: Mapping[str, Any]) -> int | bool | None:
    """What holds of a launch: a size, a stride of 0 or 1 (None for others), whether a number is 1."""
    kind, arg, dim = fact
    value = values[arg]
    if kind == "one":
        return bool(value == 1)
    assert isinstance(value, ArrayInfo)
    if kind == "shape":
        return value.shape[dim]
    # The stride of a dimension of size 1 is never used.
    return value.strides[dim] if value.strides[dim] in (0, 1) else 1 if value.shape[dim] == 1 and dim == len(value.shape) - 1 else None


@dataclass(eq=False)
class Specialization:
    """One compiled version of a kernel, and when it may be used.

    Attributes
    ----------
    types : tuple of (str, str)
        Argument names with their types; constants with their values.
    guard : dict
        The facts that the code read, with the values that it was compiled for.
    noalias : bool
        Whether it needs written arrays to overlap no other argument.
    reason : str
        Why it was compiled.
    """

    types: tuple[tuple[str, str], ...]
    guard: dict[Fact, int | bool | None]
    noalias: bool
    reason: str
    timings: dict[str, float]
    captures: tuple[Any, ...] = ()
    program: Any = None

    def holds(self, values: Mapping[str, Any], noalias: bool) -> bool:
        fits = all(observe(fact, values) == expected for fact, expected in self.guard.items())
        return fits and self.noalias <= noalias and self.is_current()

    def is_current(self) -> bool:
        """Whether the globals and closures that went into the code are still the same."""
        return all(c.current is c.value for c in self.captures)

    def __str__(self) -> str:
        types = ", ".join(f"{name}: {kind}" for name, kind in self.types)
        facts = ", ".join(f"{kind}({arg}, {dim}) = {value}" if kind != "one" else f"{arg} == 1 is {value}"
                          for (kind, arg, dim), value in sorted(self.guard.items()))
        return f"({types}) with {facts or 'no facts'}{'' if self.noalias else ', overlapping arrays'}; {self.reason}"


def changing_entries(known: list[Specialization], values: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Shape entries of which this launch brings at least the third value."""
    seen: dict[tuple[str, int], set[int]] = {}
    for s in known:
        for (kind, arg, dim), value in s.guard.items():
            if kind == "shape" and value is not None:
                seen.setdefault((arg, dim), set()).add(int(value))
    return frozenset(key for key, sizes in seen.items()
                     if len(sizes | {values[key[0]].shape[key[1]]}) > _VALUES_BEFORE_DYNAMIC)


def why(known: list[Specialization], values: Mapping[str, Any], noalias: bool) -> str:
    """Why none of the known versions fits, in a sentence."""
    if not known:
        return "first call with these types"
    nearest = known[-1]
    if not nearest.is_current():
        return "a global or closure variable changed: " + ", ".join(c.name for c in nearest.captures if c.current is not c.value)
    changed = [f"{arg}.{kind}[{dim}]: {expected} → {observe((kind, arg, dim), values)}" if kind != "one" else f"{arg} == 1"
               for (kind, arg, dim), expected in nearest.guard.items() if observe((kind, arg, dim), values) != expected]
    return "changed: " + ", ".join(changed) if changed else "arrays overlap" if nearest.noalias > noalias else "arrays no longer overlap"


Log = Callable[[str], None]
