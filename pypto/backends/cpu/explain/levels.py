"""The texts of a kernel on its way to the CPU: Loop IR, LLVM IR and assembly."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from pypto.backends.base import Artifact, Show
from pypto.backends.cpu.codegen.function import Lowered, lower
from pypto.backends.cpu.explain.line_tables import LinkedFunction, assembly_marked, lines_marked
from pypto.backends.cpu.loopir.printer import print_schedule
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import CpuTarget
from pypto.ir.core import Function
from pypto.passes import optimize


class CpuLevels:
    """Prints the levels of a prepared function for one target; with `places`, a text names lines of the source."""

    def __init__(self, target: CpuTarget, engine: Engine) -> None:
        self.target = target
        self.engine = engine

    @property
    def shows(self) -> Mapping[str, Show]:
        """The levels, from the source down; each is computed when it is asked for."""
        return MappingProxyType({"loop-ir": self.loop_ir, "llvm-ir": self.llvm_ir, "assembly": self.assembly})

    def loop_ir(self, function: Function, artifact: Artifact, places: bool) -> str:
        return print_schedule(self.lowered(function).schedule, places)

    def llvm_ir(self, function: Function, artifact: Artifact, places: bool) -> str:
        return lines_marked(self.linked(function)) if places else self.lowered(function).text

    def assembly(self, function: Function, artifact: Artifact, places: bool) -> str:
        if places:
            return assembly_marked(self.engine.assembly(self.linked(function)))
        return self.engine.assembly(self.lowered(function).text)

    def lowered(self, function: Function) -> Lowered:
        return lower(optimize(function), self.target)

    def linked(self, function: Function) -> str:
        """LLVM IR with a line table, in the form of debug information."""
        return lower(optimize(function), self.target, LinkedFunction).text
