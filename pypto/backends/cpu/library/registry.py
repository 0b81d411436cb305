"""Library ops: ops that are algorithms of their own, with a lowering that is found by the op's name.

The module of a lowering is loaded with the first kernel that uses it. A kernel without such ops compiles without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

from pypto.backends.cpu.loopir.ir import LibraryOp
from pypto.backends.llvm.value import VectorValue
from pypto.ir.core import Function, Op
from pypto.ops.row import Effect
from pypto.ops.table import ROWS

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.loopir.build import ItemList, LoopIRBuilder
    from pypto.backends.cpu.peepholes.lane_emitter import CpuLaneEmitter


class LibraryEmitter(Protocol):
    """Emits the library ops of one kind in one kernel."""

    def begin(self, program: VectorValue, ids: Sequence[VectorValue], grid: Sequence[VectorValue]) -> None:
        """Called at the start of a program: its number, its position by axis of the grid, and the grid's sizes."""

    def emit(self, item: LibraryOp) -> None:
        """Emit one op."""


class LibraryLowering(Protocol):
    """The module that lowers library ops of one kind."""

    RECORDS: Sequence[type]  # the classes of its items, and of the records in their fields, for texts of Loop IR

    def schedule(self, op: Op, scheduler: LoopIRBuilder, items: ItemList) -> None:
        """Append the Loop IR of an op."""

    def emitter(self, function: FunctionEmitter) -> LibraryEmitter:
        """The emitter of these ops in one kernel."""


def gemm() -> LibraryLowering:
    """Lowering of matrix products."""
    from pypto.backends.cpu.gemm import lowering

    return lowering


def sorting() -> LibraryLowering:
    """Lowering of sorts."""
    from pypto.backends.cpu.library import sort

    return sort


def atomics() -> Callable[[CpuLaneEmitter, Op, list[VectorValue]], VectorValue]:
    """The emitter of one atomic."""
    from pypto.backends.cpu.library.atomics import atomic

    return atomic


def histograms() -> Callable[..., None]:
    """The emitter of one chunk of a histogram."""
    from pypto.backends.cpu.library.histogram import count

    return count


# Ops that are items of the schedule, and ops that are scalar loops within a nest.
LIBRARY_OPS: Final[Mapping[str, Callable[[], LibraryLowering]]] = MappingProxyType({"dot": gemm, "sort_keys": sorting})
SCALAR_LOOP_OPS: Final = MappingProxyType({
    "histogram": histograms, **dict.fromkeys((row.name for row in ROWS if row.effect is Effect.ATOMIC), atomics),
})  # fmt: skip


def used_library_ops(function: Function) -> dict[str, LibraryLowering]:
    """The lowerings of the library ops that a function has, by name."""
    names = {op.name for op in function.walk()}
    return {name: load() for name, load in LIBRARY_OPS.items() if name in names}
