"""Where checked mode hooks into the emission of code: in a kernel that is not checked, nothing is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.backends.cpu.loopir.ir import Control
from pypto.backends.sites import Check
from pypto.ir.core import Function, Op

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter
    from pypto.backends.cpu.codegen.memory import Chunk
    from pypto.backends.cpu.loopir.index_maps import IndexMap


class Unchecked:
    """The checks of a kernel that has none. `found` are the places that may fail, `known` names with their types."""

    found: tuple[Check, ...] = ()
    known: Mapping[str, str] = MappingProxyType({})

    def enter(self) -> None:
        pass

    def program(self, number: VectorValue) -> None:
        pass

    def ready(self, region: int) -> None:
        pass

    def after_part(self) -> None:
        pass

    def lanes(self, op: Op, base: VectorValue, index: IndexMap, at: Chunk, mask: VectorValue | None) -> bool:
        return False

    def element(self, op: Op, address: VectorValue, mask: VectorValue | None) -> None:
        pass

    def atomic(self, op: Op, operands: Sequence[VectorValue]) -> None:
        pass

    def loop(self, item: Control) -> None:
        pass

    def picked(self, op: Op, where: VectorValue, at: Chunk) -> bool:
        return False

    def finish(self) -> None:
        pass

    def text(self) -> str:
        return ""


def checks_of(emitter: FunctionEmitter) -> Unchecked:
    """What a kernel has for checks; the code for them is loaded with the first kernel that has some."""
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
