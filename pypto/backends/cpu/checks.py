"""Where checked mode hooks into the emission of code: in a kernel that is not checked, nothing is emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from pypto.backends.cpu.lanes import Lanes
from pypto.backends.cpu.loopir import Control
from pypto.backends.sites import Check
from pypto.ir.core import Function, Op

if TYPE_CHECKING:
    from pypto.backends.cpu.lower import FunctionEmitter
    from pypto.backends.cpu.memory import Chunk
    from pypto.backends.cpu.pull import IndexMap


class Unchecked:
    """The checks of a kernel that has none. `found` are the places that may fail, `known` names with their types."""

    found: tuple[Check, ...] = ()
    known: Mapping[str, str] = MappingProxyType({})

    def enter(self) -> None:
        pass

    def program(self, number: Lanes) -> None:
        pass

    def ready(self, region: int) -> None:
        pass

    def after_part(self) -> None:
        pass

    def lanes(self, op: Op, base: Lanes, index: IndexMap, at: Chunk, mask: Lanes | None) -> bool:
        return False

    def element(self, op: Op, address: Lanes, mask: Lanes | None) -> None:
        pass

    def atomic(self, op: Op, operands: Sequence[Lanes]) -> None:
        pass

    def loop(self, item: Control) -> None:
        pass

    def picked(self, op: Op, where: Lanes, at: Chunk) -> bool:
        return False

    def finish(self) -> None:
        pass

    def text(self) -> str:
        return ""


def checks_of(emitter: FunctionEmitter) -> Unchecked:
    """What a kernel has for checks; the code for them is loaded with the first kernel that has some."""
    if not emitter.function.attrs.get("checked"):
        return Unchecked()
    from pypto.backends.cpu.checking import Checks

    return Checks(emitter, emitter.memory)


def guarded(function: Function) -> Function:
    """A checked function with its guards, see `passes.guards`."""
    if not function.attrs.get("checked"):
        return function
    from pypto.passes.guards import guard

    return guard(function)
