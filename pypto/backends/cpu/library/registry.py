"""Structural cells: what single ops, or families of ops, need alone. They are found by the op's name.

A cell's modules are loaded with the first kernel that uses it; a kernel that does not compiles without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.ir import LibraryOp
from pypto.ir.core import Function, Op
from pypto.ops.row import Effect
from pypto.ops.table import ROWS

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.llvm.lane_emitter import LaneEmitter
    from pypto.backends.cpu.loopir.build import ItemList, LoopIRBuilder


class LibraryEmitter(Protocol):
    """Emits the items of a cell in one kernel."""

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """As a program begins: its number, its place along the axes of the grid, and the grid's sizes."""

    def emit(self, item: LibraryOp) -> None:
        """Code for an item, where it stands."""


class LibraryLowering(Protocol):
    """What the backend asks of a cell."""

    RECORDS: Sequence[type]  # the classes of its items, and of the records in their fields, for texts of Loop IR

    def schedule(self, op: Op, scheduler: LoopIRBuilder, items: ItemList) -> None:
        """Append the op's items."""

    def emitter(self, function: FunctionEmitter) -> LibraryEmitter: ...


def gemm() -> LibraryLowering:
    from pypto.backends.cpu.gemm import lowering

    return lowering


def sorting() -> LibraryLowering:
    from pypto.backends.cpu.library import sort

    return sort


def atomics() -> Callable[[LaneEmitter, Op, list[VectorValue]], VectorValue]:
    from pypto.backends.cpu.library.atomics import atomic

    return atomic


def histograms() -> Callable[..., None]:
    from pypto.backends.cpu.library.histogram import count

    return count


# Ops that become items of their own, and those that are done element by element inside of a nest.
LIBRARY_OPS: Final[Mapping[str, Callable[[], LibraryLowering]]] = MappingProxyType({"dot": gemm, "sort_keys": sorting})
SCALAR_LOOP_OPS: Final = MappingProxyType({
    "histogram": histograms, **dict.fromkeys((row.name for row in ROWS if row.effect is Effect.ATOMIC), atomics),
})  # fmt: skip


def used_library_ops(function: Function) -> dict[str, LibraryLowering]:
    """The cells of a function's ops."""
    names = {op.name for op in function.walk()}
    return {name: cell() for name, cell in LIBRARY_OPS.items() if name in names}
