"""Hooks of checked mode in code generation. A kernel that is not checked has `Unchecked`, which emits nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.backends.cpu.loopir.ir import Control
from pypto.backends.llvm.value import VectorValue
from pypto.backends.sites import Check
from pypto.ir.core import Function, Op

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.codegen.memory import Chunk
    from pypto.backends.cpu.loopir.index_maps import IndexMap


class Unchecked:
    """The hooks of a kernel without checks."""

    places: tuple[Check, ...] = ()  # the places that may fail
    known: Mapping[str, str] = MappingProxyType({})  # LLVM types, by name, of what outlined parts may read

    def enter(self) -> None:
        """At the entry of the function."""

    def program(self, number: VectorValue) -> None:
        """At the start of a program."""

    def ready(self, region: int) -> None:
        """Before each item of a region, and at its end."""

    def after_part(self) -> None:
        """After the call of an outlined part."""

    def lanes(self, op: Op, base: VectorValue, index: IndexMap, at: Chunk, mask: VectorValue | None) -> bool:
        """At an access of lanes; gives whether it was tested there."""
        return False

    def element(self, op: Op, address: VectorValue, mask: VectorValue | None) -> None:
        """At an access of one element."""

    def atomic(self, op: Op, operands: Sequence[VectorValue]) -> None:
        """At an atomic."""

    def loop(self, item: Control) -> None:
        """Before a loop."""

    def picked(self, op: Op, where: VectorValue, at: Chunk) -> bool:
        """At a gather from a tile; gives whether it was tested there."""
        return False

    def finish(self) -> None:
        """At the end of the function."""

    def text(self) -> str:
        """Helper functions."""
        return ""


def checks_of(emitter: FunctionEmitter) -> Unchecked:
    """The checks of a kernel; their code is loaded with the first checked kernel."""
    if not emitter.function.attrs.get("checked"):
        return Unchecked()
    from pypto.backends.cpu.instrument.bounds import Checks

    return Checks(emitter, emitter.memory)


def guarded(function: Function) -> Function:
    """A checked function with its guards, see `passes.guards`."""
    if not function.attrs.get("checked"):
        return function
    from pypto.passes.guards import guard

    return guard(function)
