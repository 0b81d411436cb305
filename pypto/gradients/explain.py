"""Describes a derived kernel in sentences: its programs, how it accumulates gradients, and what it saves."""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

from pypto.gradients.launches import StepLaunch
from pypto.passes.adjoint.derive import DerivedKernel, Target, Workspace
from pypto.passes.adjoint.ownership import Accumulation

_IN_PLACE: Final = MappingProxyType({
    Accumulation.STORE: "stored once",
    Accumulation.ADD: "added up by one program, load by load",
    Accumulation.ATOMIC: "added up by atomic additions, in no fixed order",
})  # fmt: skip


def explained(derived: DerivedKernel, launch: StepLaunch) -> Iterator[str]:
    """Describes one kernel of a launch."""
    yield f"{derived.function.name}: {programs(derived.axes)}"
    for target in derived.targets:
        yield f"  d_{target.name}: {accumulation(target)}"
    for saved, buffer in zip(derived.saved, launch.saved, strict=True):
        saved_text = f"{saved.size} {saved.dtype!r} a trip, {buffer.nbytes:,} bytes".replace("pto.", "")
        yield f"  {saved.name}: saves `{saved.variable}` of the loop in line {saved.loop.loc.line}, {saved_text}"
    others = "what else the backward needs" if derived.saved else "what the backward needs"
    yield f"  {others} is computed again"


def programs(axes: frozenset[int] | None) -> str:
    """Describes the programs of a derived kernel."""
    if axes is None:
        return "blocks of programs, one after the other"
    if len(axes) == 3:
        return "the programs of the forward kernel"
    names = ", ".join(map(str, sorted(axes)))
    return f"programs along axis {names} of the grid, which go through the other axes"


def accumulation(target: Target) -> str:
    """Describes how a gradient is accumulated."""
    if target.workspace is Workspace.BLOCKS:
        return "a partial gradient for each block, then their sum"
    if target.ownership.first is not None:
        return "stored once, then added to by the other loads"
    where = " in float32" if target.workspace is Workspace.SHARED else ""
    return _IN_PLACE[target.ownership.accumulation] + where
