"""Specialization by use: a kernel is compiled for the facts that its code asks for, and reused where they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pypto.errors import OptionError
from pypto.errors.launch import NeedsShape
from pypto.markup import Shown
from pypto.ops.target import TargetConstants

Fact = tuple[str, str, int]  # kind ("shape", "stride", "one" or "weak"), argument, dimension
Guard = dict[Fact, int | bool | None]
_VALUES_BEFORE_DYNAMIC = 2


@dataclass
class FactRecorder:
    """Answers the front end about one launch's arguments and remembers what it asked: that becomes the guard.

    A shape entry in `dynamic` stays a run-time value, unless a tile's extent depends on it. Nothing is told of the
    values of numbers in `opaque`; sizes of arrays in it stay run-time values, and so do strides that are not 0 or 1.
    Numbers in `strong` have a type of their own, whatever they are; None stands for all. `target` gives the facts of
    the machine when one of them is read.
    """

    kernel: str
    values: Mapping[str, Any]
    dynamic: frozenset[tuple[str, int]]
    declared: Mapping[str, str]
    opaque: frozenset[str] = frozenset()
    strong: frozenset[str] | None = frozenset()
    target: Callable[[], TargetConstants] = TargetConstants
    guard: Guard = field(default_factory=dict)

    def shape(self, arg: str, dim: int) -> int | None:
        promised = self.declared.get(arg, "dynamic" if arg in self.opaque or (arg, dim) in self.dynamic else "static")
        if promised == "dynamic" and ("shape", arg, dim) not in self.guard:
            return None
        return self.require_shape(arg, dim)

    def require_shape(self, arg: str, dim: int) -> int:
        if self.declared.get(arg) == "dynamic":
            raise NeedsShape(kernel=self.kernel, arg=arg, dim=dim)
        return int(self.record("shape", arg, dim))

    def stride(self, arg: str, dim: int) -> int | None:
        # Code for any stride serves those of 0 and 1, too, so it needs no guard.
        is_any = arg in self.opaque and observe(("stride", arg, dim), self.values) is None
        stride: int | None = None if is_any else self.record("stride", arg, dim)
        return stride

    def equals_one(self, arg: str) -> bool:
        return arg.partition(".")[0] not in self.opaque and bool(self.record("one", arg, 0))

    def is_weak(self, arg: str) -> bool:
        is_strong = self.strong is None or arg in self.strong
        return not is_strong and bool(self.record("weak", arg, 0))

    def record(self, *fact: Any) -> Any:
        self.guard[fact] = observe(fact, self.values)
        return self.guard[fact]


def observe(fact: Fact, values: Mapping[str, Any]) -> int | bool | None:
    """What holds of a launch: a size, a stride of 0 or 1 (None for others), whether a number is 1."""
    kind, arg, dim = fact
    value = values[arg]
    if kind == "one":
        return bool(value == 1)
    if kind == "weak":
        return type(value) is float
    size, stride = value.shape[dim], value.strides[dim]
    if kind == "shape":
        return int(size)
    if stride in (0, 1):
        return int(stride)
    # The stride of a dimension of size 1 is never used.
    return 1 if size == 1 and dim == len(value.shape) - 1 else None


def shown(fact: Fact, value: Any) -> str:
    kind, arg, dim = fact
    if kind == "one":
        return f"{arg} == 1 is {value}"
    if kind == "weak":
        return f"{arg} is {'a' if value else 'no'} Python float"
    return f"{kind}({arg}, {dim}) = {value}" if value is not None else f"{kind}({arg}, {dim}) not 0 or 1"


@dataclass(eq=False, repr=False)
class Specialization(Shown):
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
    timings : dict
        Seconds of each stage of the compilation: `frontend` (source to Tile IR), the passes `prepare`, `verify`, the
        passes `optimize`, `codegen` (Tile IR to LLVM IR), `llvm_parse`, `llvm_optimize`, `llvm_emit` (to machine code),
        `cache` (the disk cache and its key) and `load`. What came from the disk cache has no stages from `verify` to
        `llvm_emit`, and mostly none before `cache`: its source was not read.
    """

    types: tuple[tuple[str, str], ...]
    guard: Guard
    noalias: bool
    reason: str
    timings: dict[str, float]
    captures: tuple[Any, ...] = ()
    program: Any = None
    simulator: Any = None  # of the chip that it was compiled for, where one was named

    def simulate(self, *args: Any, grid: Any, **given: Any) -> Any:
        """Predict a launch on the chip that it was compiled for: a `Prediction`, as `pto.simulate` gives it.

        Raises
        ------
        OptionError
            When it was compiled for no chip.

        Examples
        --------
        >>> import numpy as np, pypto as pto
        >>> @pto.jit
        ... def double(x):
        ...     x[:] = x[:] * 2
        >>> x = np.zeros(4096, np.float32)
        >>> double.compile(x, target="ascend910b2").simulate(x, grid=1).target
        'ascend910b2'
        """
        if self.simulator is None:
            raise OptionError("it was compiled for no Ascend chip: name one, as in compile(…, target='ascend910b2')")
        return self.simulator.simulate(*args, grid=grid, **given)

    def holds(self, values: Mapping[str, Any], noalias: bool) -> bool:
        return self.noalias <= noalias and self.is_current() and not self.differing(values)

    def is_current(self) -> bool:
        """Whether the globals and closures that went into the code are still the same."""
        return all(c.read() is c.value for c in self.captures)

    def differing(self, values: Mapping[str, Any]) -> list[Fact]:
        """The facts that do not hold of a launch."""
        return [fact for fact, expected in self.guard.items() if observe(fact, values) != expected]

    def _repr_html_(self) -> str:
        from pypto.runtime.versions import version_card

        return version_card(self)

    def __repr__(self) -> str:
        types = ", ".join(f"{name}: {kind}" for name, kind in self.types)
        facts = ", ".join(shown(*row) for row in sorted(self.guard.items())) or "no facts"
        return f"({types}) with {facts}{'' if self.noalias else ', overlapping arrays'}; {self.reason}"


def changing_entries(known: list[Specialization], values: Mapping[str, Any]) -> frozenset[tuple[str, int]]:
    """Shape entries of which this launch brings at least the third value."""
    seen: dict[tuple[str, int], set[int]] = {}
    for s in known:
        for (kind, arg, dim), value in s.guard.items():
            if kind == "shape" and value is not None:
                seen.setdefault((arg, dim), {values[arg].shape[dim]}).add(int(value))
    return frozenset(entry for entry, sizes in seen.items() if len(sizes) > _VALUES_BEFORE_DYNAMIC)


def why(known: list[Specialization], values: Mapping[str, Any], noalias: bool) -> str:
    """Why none of the known versions fits, in a sentence."""
    if not known:
        return "first call with these types"
    nearest = known[-1]
    gone = [c.name for c in nearest.captures if c.read() is not c.value]
    if gone:
        return f"a global or closure variable changed: {', '.join(gone)}"
    changed = [f"{shown(fact, nearest.guard[fact])} → {observe(fact, values)}" for fact in nearest.differing(values)]
    if changed:
        return f"changed: {', '.join(changed)}"
    return "arrays overlap" if nearest.noalias > noalias else "arrays no longer overlap"
