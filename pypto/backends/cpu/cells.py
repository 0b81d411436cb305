"""Structural cells: what single ops, or families of ops, need alone. They are found by the op's name.

A cell's modules are loaded with the first kernel that uses it; a kernel that does not compiles without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import CellItem
from pypto.ir.core import Function, Op
from pypto.ops.row import Effect
from pypto.ops.table import ROWS

if TYPE_CHECKING:
    from pypto.backends.cpu.emitter import LaneEmitter
    from pypto.backends.cpu.fuse import Fuser
    from pypto.backends.cpu.lower import FunctionEmitter
    from pypto.backends.cpu.schedule import Scheduler
    from pypto.backends.cpu.target import CpuTarget


class CellEmitter(Protocol):
    """Emits the items of a cell in one kernel."""

    def begin(self, program: Lanes, ids: Sequence[Lanes], grid: Sequence[Lanes]) -> None:
        """As a program begins: its number, its place along the axes of the grid, and the grid's sizes."""

    def emit(self, item: CellItem) -> None:
        """Code for an item, where it stands."""


class Cell(Protocol):
    """What the backend asks of a cell."""

    def prepare(self, function: Function) -> Function:
        """What is around its ops in other forms, before programs are merged."""

    def legalize(self, function: Function, target: CpuTarget) -> Function:
        """Its ops in Tile IR, in the forms that it lowers."""

    def schedule(self, op: Op, scheduler: Scheduler, fuser: Fuser) -> None:
        """Hand the op's items to the fuser."""

    def emitter(self, function: FunctionEmitter) -> CellEmitter: ...


def products() -> Cell:
    from pypto.backends.cpu import products

    return products


def sorts() -> Cell:
    from pypto.backends.cpu import sort

    return sort


def atomics() -> Callable[[LaneEmitter, Op, list[Lanes]], Lanes]:
    from pypto.backends.cpu.atomics import atomic

    return atomic


def histograms() -> Callable[..., None]:
    from pypto.backends.cpu.histogram import count

    return count


# Ops that become items of their own, and those that are done element by element inside of a nest.
CELLS: Final[Mapping[str, Callable[[], Cell]]] = MappingProxyType({"dot": products, "sort_keys": sorts})
ONE_BY_ONE: Final = MappingProxyType({
    "histogram": histograms, **dict.fromkeys((row.name for row in ROWS if row.effect is Effect.ATOMIC), atomics),
})  # fmt: skip


def used(function: Function) -> dict[str, Cell]:
    """The cells of a function's ops."""
    names = {op.name for op in function.walk()}
    return {name: cell() for name, cell in CELLS.items() if name in names}
