"""Specializes an adjoint: it derives kernels for the types, constants and facts of a launch, and guards their use."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pypto.arguments import describe, spec_key
from pypto.blocking import Blocking
from pypto.errors.gradients import WrongGradient
from pypto.frontend.unparse import unparse
from pypto.gradients.checks import arrays_in_place, check_in_place, check_stores
from pypto.ir.core import Function, Op, Value
from pypto.ir.types import ArrayType
from pypto.jit.generated import kernel_of
from pypto.jit.specialize import backend_for
from pypto.ops.memory import Access
from pypto.passes import optimize, prepare
from pypto.passes.adjoint.bounded_loops import bound_loops
from pypto.passes.adjoint.derive import (
    ALL_AXES,
    Derivation,
    DerivedKernel,
    Target,
    Workspace,
    is_of,
    stored_arrays,
    stores_reals,
)
from pypto.passes.adjoint.footprint import AffineNumbers, LaunchNumbers
from pypto.passes.adjoint.in_place import with_results_apart
from pypto.passes.adjoint.memory import is_native
from pypto.passes.adjoint.ownership import Accumulation, Ownership, accesses_of, ownership
from pypto.passes.analysis.memory_effects import accessed_array, accesses_memory
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.specialization import observe

_MOST_LAUNCHES: Final = 1024  # whose steps are remembered
ORDERED: Final = "ordered"
ATOMIC: Final = "atomic"
BUDGET: Final = 1 << 30  # bytes of saved values
_NARROW: Final = 32  # bits below which sums are kept in float32


_BY_ATOMICS: Final = Ownership(ALL_AXES, Accumulation.ATOMIC)


@dataclass(frozen=True)
class Request:
    """The arguments of `pto.adjoint`."""

    wrt: tuple[str, ...]
    accumulate: str = ORDERED
    max_trips: int | None = None
    reuse: frozenset[str] = frozenset()
    budget: int = BUDGET
    in_place: bool = True  # whether arrays may be read and written


@dataclass(frozen=True)
class Step:
    """A derived kernel that can be launched, with its source and the memory that the launch adds."""

    derived: DerivedKernel
    source: str
    kernel: Any


@dataclass(eq=False)
class Version:
    """Forward IR for given types, constants and facts, and the kernels derived from it by ownership of gradients."""

    function: Function
    key: tuple[Any, ...]
    guard: Mapping[Any, Any]
    captures: tuple[Any, ...]
    in_place: Mapping[str, str]  # arrays that are read and written, by the names of what is written to them
    contributing: frozenset[Op] | None = None  # the loads that add to gradients, once they are known
    steps: dict[Any, tuple[Step, ...]] = field(default_factory=dict)
    known: dict[Any, tuple[Step, ...]] = field(default_factory=dict)  # by the numbers of a launch

    def holds(self, key: tuple[Any, ...], infos: Mapping[str, Any]) -> bool:
        """Says whether the version is valid for a launch."""
        return (
            key == self.key
            and all(observe(fact, infos) == expected for fact, expected in self.guard.items())
            and all(c.read() is c.value for c in self.captures)
        )

    @functools.cached_property
    def stored(self) -> tuple[str, ...]:
        """Returns the arrays of floats that the forward IR stores, in the order of its arguments."""
        stored = stored_arrays(self.function)
        return tuple(v.hint for v in self.function.args if v.hint in stored and stores_reals(stored[v.hint]))

    @functools.cached_property
    def results(self) -> tuple[str, ...]:
        """Returns the stored arrays under their names in the kernel, in the order of its arguments."""
        names = {self.in_place.get(n, n) for n in self.stored}
        return tuple(v.hint for v in self.function.args if v.hint in names)

    def numbers(self, launch: LaunchNumbers) -> LaunchNumbers:
        """Returns the numbers of a launch, with those of the results in place, which only the version has."""
        shapes, strides = (
            {**table, **{after: table[name] for after, name in self.in_place.items()}}
            for table in (launch.shapes, launch.strides)
        )
        return replace(launch, shapes=shapes, strides=strides)

    @functools.cached_property
    def by_pointers(self) -> frozenset[str]:
        """Returns arrays with accesses that are not slices: their gradients must have the same layout."""
        facts = self.function.attrs["facts"]
        return frozenset(
            self.in_place.get(array.hint, array.hint)
            for op in self.function.walk()
            if accesses_memory(op) and (array := accessed_array(op)) is not None and not is_slice(op, facts)
        )


def is_slice(op: Op, facts: Any) -> bool:
    return op.name in ("tile_load", "tile_store") and is_native(Access.of(op), facts)


def make_version(
    kernel: Any, infos: Mapping[str, Any], specs: Mapping[str, Any], key: tuple[Any, ...], request: Request
) -> Version:
    """Builds the version of a kernel: forward IR with separate arrays for results in place, and with bounded loops."""
    differentiable = kernel.kind(kernel.function, replace(kernel.options, differentiable=True), kernel.opaque)
    built, facts = differentiable.build(infos, specs, frozenset(), {})
    function = prepare(built.function)
    function.attrs["noalias"] = True
    function = optimize(function)
    bounded = bound_loops(function, request.max_trips)
    function = function if bounded is function else optimize(bounded)
    names = arrays_in_place(kernel, function, request.wrt, request.in_place)
    function, in_place = with_results_apart(function, names) if names else (function, {})
    results = {after: infos[name] for after, name in in_place.items()}
    function.attrs["facts"] = shape_facts({**infos, **results})
    return Version(function, key, dict(facts.guard), built.captures, in_place)


def shape_facts(infos: Mapping[str, Any]) -> tuple[tuple[str, str, int, int], ...]:
    """Returns the shapes and strides of a launch, by which a derivation recognizes constants in the IR."""
    facts = []
    for name, info in infos.items():
        if isinstance(info, ArrayInfo):
            facts += [("array_shape", name, d, int(n)) for d, n in enumerate(info.shape)]
            facts += [("array_stride", name, d, int(n)) for d, n in enumerate(info.strides)]
    return tuple(facts)


def derive(kernel: Any, version: Version, request: Request, launch: LaunchNumbers) -> tuple[Step, ...]:
    """Returns the kernels that a launch needs; they are cached by the numbers of the launch."""
    numbers = launch.key
    if numbers not in version.known:
        if len(version.known) >= _MOST_LAUNCHES:
            version.known.clear()
        check_stores(kernel, version.function, version.in_place, launch)
        check_in_place(kernel, version.function, version.in_place, launch)
        version.known[numbers] = derived_steps(kernel, version, request, launch)
    return version.known[numbers]


def derived_steps(kernel: Any, version: Version, request: Request, launch: LaunchNumbers) -> tuple[Step, ...]:
    """Derives the kernels for a launch; launches in which the same axes own the same arrays share them."""
    loads = {name: loads_of(version, request, name) for name in request.wrt}
    owned = {name: owner(version.function, name, loads[name], launch) for name in request.wrt}
    if request.accumulate == ATOMIC:
        owned = {name: how if how.axes == ALL_AXES else _BY_ATOMICS for name, how in owned.items()}
    trivial = frozenset(a for a, n in enumerate(launch.grid) if n == 1)
    key = trivial, tuple(owned.items())
    if key not in version.steps:
        sweep = Derivation(version.function, (), version.stored, None, trivial, request.reuse)
        sweep.overwritten = overwritten(version, request)
        version.steps[key] = tuple(
            make_step(kernel, replace(sweep, targets=targets, axes=axes))
            for axes, targets in grouped(version.function, owned)
        )
    return version.steps[key]


def overwritten(version: Version, request: Request) -> frozenset[str]:
    """Returns the results in place of arrays that have a gradient.

    The gradient of elements that the kernel did not write goes to the array.
    """
    return frozenset(after for after, name in version.in_place.items() if name in request.wrt)


def loads_of(version: Version, request: Request, name: str) -> list[tuple[Op, tuple[Op, ...]]]:
    """Returns the loads of an array that contribute to its gradient, each with its surrounding loops."""
    body = version.function.body
    loads = [(op, loops) for op, loops in accesses_of(body, ("load", "tile_load")) if is_of(op, name)]
    if len(loads) < 2:
        return loads
    if version.contributing is None:
        targets = [Target(n, Ownership(ALL_AXES, Accumulation.ADD), Workspace.NONE) for n in request.wrt]
        trial = Derivation(version.function, targets, version.stored, ALL_AXES, frozenset(), request.reuse)
        version.contributing = trial.contributing_loads()
    return [(op, loops) for op, loops in loads if op in version.contributing]


def owner(
    function: Function, name: str, loads: Sequence[tuple[Op, tuple[Op, ...]]], launch: LaunchNumbers
) -> Ownership:
    """Decides how the gradient of an array is accumulated in a launch."""
    if not loads:
        return Ownership(ALL_AXES, Accumulation.ADD)
    return ownership(loads, launch.shapes[name], AffineNumbers(function, launch))


def grouped(function: Function, owned: Mapping[str, Ownership]) -> list[tuple[frozenset[int] | None, list[Target]]]:
    """Groups the targets by the programs of their derived kernel: axes of the grid, or blocks (None)."""
    groups: dict[frozenset[int], list[Target]] = {}
    for name, how in owned.items():
        groups.setdefault(how.axes, []).append(Target(name, how, workspace(function, name, how)))
    shared = groups.pop(frozenset(), [])
    complete = groups.pop(ALL_AXES, [])
    result: list[tuple[frozenset[int] | None, list[Target]]] = []
    if shared:
        result.append((None, [*complete, *shared]))
    elif complete:
        result.append((ALL_AXES, complete))
    result += [(axes, groups[axes]) for axes in sorted(groups, key=sorted)]
    return result


def workspace(function: Function, name: str, how: Ownership) -> Workspace:
    """Decides where a gradient is accumulated.

    It is not the gradient's array if several blocks add to it, or if its floats are narrow.
    """
    if not how.axes:
        return Workspace.BLOCKS
    kind = next(v.type for v in function.args if v.hint == name)
    assert isinstance(kind, ArrayType)
    is_narrow = how.accumulation is not Accumulation.STORE and kind.elem.bits < _NARROW
    return Workspace.SHARED if is_narrow else Workspace.NONE


def make_step(kernel: Any, derivation: Derivation) -> Step:
    """Derives one kernel, prints it, and parses the text, so that a user can read and copy what runs."""
    derived, axes = derivation.derive(), derivation.axes
    if axes is not None and len(axes) == 3 and derived.saved:  # what is kept for each program is to stay small
        derived = replace(derivation.cleared(), axes=None).derive()
    names = ", ".join(f"`{t.name}`" for t in derivation.targets)
    text = unparse(derived.function, f"Gradients of {derivation.forward.name} by {names}.")
    function = kernel_from(text, derived.function.name, kernel, derived.function.args)
    return Step(derived, "@pto.jit(fast_math=True)\n" + text, function)


def kernel_from(text: str, name: str, forward: Any, args: Sequence[Value]) -> Any:
    """Parses the kernel of a text, with the forward kernel's options and FMA.

    Its specializations do not depend on the values of numbers.
    """
    numbers = [v.hint for v in args if not isinstance(v.type, ArrayType)]
    options = replace(forward.options, blocking=Blocking(), disable=(), fast_math=True)
    return forward.kind(kernel_of(text, name).function, options, numbers)


def described(kernel: Any, values: tuple[Any, ...]) -> tuple[dict[str, Any], dict[str, Any], tuple[Any, ...]]:
    """Returns what is known of the arguments, their types, and a key of the types and the backend."""
    infos, specs = describe(kernel.signature, values)
    return infos, specs, (backend_for(kernel, infos), *((name, spec_key(spec)) for name, spec in specs.items()))


def launch_numbers(infos: Mapping[str, Any], grid: tuple[int, int, int]) -> LaunchNumbers:
    """Returns the numbers of a launch from which footprints are computed."""
    arrays = {name: info for name, info in infos.items() if isinstance(info, ArrayInfo)}
    scalars = {name: value for name, value in infos.items() if name not in arrays}
    shapes = {name: tuple(map(int, info.shape)) for name, info in arrays.items()}
    strides = {name: tuple(map(int, info.strides)) for name, info in arrays.items()}
    return LaunchNumbers(scalars, shapes, strides, grid)


__all__ = ["Step", "Version", "WrongGradient", "derive", "described", "launch_numbers", "make_version"]
