"""Line tables: LLVM IR and assembly in which each instruction names the source line that it comes from.

A kernel that is inspected is emitted once more, with debug information: every instruction gets the line of the op that
it is written for, and LLVM carries that through its passes into the assembly. What is compiled and run never has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from pypto.backends.cpu.codegen.function import FunctionEmitter
from pypto.backends.cpu.codegen.memory import Chunk
from pypto.backends.cpu.codegen.nest import NestEmitter
from pypto.backends.cpu.loopir.index_maps import IndexMap
from pypto.backends.cpu.loopir.ir import Control, Item, LibraryOp, Nest, Scalar, Stmt
from pypto.backends.llvm.value import VectorValue
from pypto.backends.llvm.writer import Writer
from pypto.ir.core import Op
from pypto.loc import Loc

_UNIT: Final = 1000  # numbers of metadata from here on are ours
_HEAD: Final = """!llvm.dbg.cu = !{!1000}
!llvm.module.flags = !{!1002}
!1000 = distinct !DICompileUnit(language: DW_LANG_C99, file: !1001, emissionKind: DebugDirectivesOnly)
!1001 = !DIFile(filename: "kernel", directory: "")
!1002 = !{i32 2, !"Debug Info Version", i32 3}
!1003 = !DISubroutineType(types: !1004)
!1004 = !{null}
"""
_MARK: Final = re.compile(r", !dbg !@(\d+)")
_NODE: Final = re.compile(r"^!(\d+) = !DILocation\(line: (\d+)", re.MULTILINE)
_DEBUG: Final = re.compile(r",? !dbg !(\d+)")
_OURS: Final = re.compile(r"!(1\d{3,}|llvm\.)\S* = ")
_LOC: Final = re.compile(r"\s+\.loc\s+\d+\s+(\d+)")
_DIRECTIVE: Final = re.compile(r"\s+\.(file\s+\d|cfi_)|\.Ltmp\d+:|\.Lfunc_begin\d+:")


class LinkedWriter(Writer):
    """Writes behind every instruction which line it is for."""

    def __init__(self) -> None:
        super().__init__()
        self.place = 0
        self.nodes = list[str]()

    def line(self, text: str, level: int | None = None) -> None:
        super().line(f"{text}, !dbg !@{self.place}", level)

    def node(self, text: str) -> int:
        self.nodes.append(text)
        return _UNIT + 4 + len(self.nodes)

    def finish_function(self, header: str, body: list[str]) -> None:
        scope = self.node("distinct !DISubprogram(type: !1003, unit: !1000, file: !1001, spFlags: DISPFlagDefinition)")
        super().finish_function(f"{header} !dbg !{scope}", body)
        text = self.functions[-1]
        numbers = {n: self.node(f"!DILocation(line: {n}, scope: !{scope})") for n in dict.fromkeys(_MARK.findall(text))}
        self.functions[-1] = _MARK.sub(lambda m: f", !dbg !{numbers[m[1]]}", text)

    def text(self) -> str:
        nodes = (f"!{_UNIT + 5 + n} = {text}\n" for n, text in enumerate(self.nodes))
        return f"{super().text()}{_HEAD}{''.join(nodes)}"


class LinkedNests(NestEmitter):
    """Tells the writer which op it writes for."""

    w: LinkedWriter
    file: str = ""

    @contextmanager
    def at(self, loc: Loc | None) -> Iterator[None]:
        before = self.w.place
        self.w.place = (line_in(self.file, loc) if loc is not None else 0) or before
        try:
            yield
        finally:
            self.w.place = before

    def emit(self, nest: Nest, once: bool = False) -> list[VectorValue]:
        with self.at(place_of(nest.stmts[-1])):
            return super().emit(nest, once)

    def compute(self, op: Op, index: IndexMap, at: Chunk) -> VectorValue:
        with self.at(op.loc):
            return super().compute(op, index, at)

    def emit_compute(self, stmt: Stmt, at: Chunk) -> None:
        with self.at(place_of(stmt)):
            super().emit_compute(stmt, at)

    def emit_store(self, stmt: Stmt, at: Chunk) -> None:
        with self.at(place_of(stmt)):
            super().emit_store(stmt, at)

    def emit_scalar_loop(self, stmt: Stmt, at: Chunk) -> None:
        with self.at(place_of(stmt)):
            super().emit_scalar_loop(stmt, at)

    def emit_accumulate(self, stmt: Stmt, at: Chunk, accumulators: list[Any]) -> None:
        with self.at(place_of(stmt)):
            super().emit_accumulate(stmt, at, accumulators)

    def reduction_result(self, stmt: Stmt, accumulators: list[Any]) -> VectorValue:
        with self.at(place_of(stmt)):
            return super().reduction_result(stmt, accumulators)


class LinkedFunction(FunctionEmitter):
    """Emits a kernel with the user's lines."""

    nest_emitter: ClassVar[type[NestEmitter]] = LinkedNests
    writer_kind: ClassVar[type[Writer]] = LinkedWriter
    nests: LinkedNests

    def __post_init__(self) -> None:
        super().__post_init__()
        self.nests.file = self.function.loc.file

    def emit_item(self, item: Item, once: bool) -> None:
        op = item.op if isinstance(item, LibraryOp | Scalar | Control) else None
        with self.nests.at(op.loc if op is not None else None):
            super().emit_item(item, once)


def place_of(stmt: Stmt) -> Loc | None:
    op = stmt.op or (stmt.value.op if stmt.value is not None else None)
    return op.loc if op is not None else None


def line_in(file: str, loc: Loc | None) -> int:
    """The line of a file that a place lies in, or was called from; 0 where there is none."""
    while loc is not None and loc.file != file:
        loc = loc.call_site
    return loc.line if loc is not None else 0


# --- texts ---------------------------------------------------------------------------------------------------------


def lines_marked(text: str) -> str:
    """LLVM IR without the debug information, and with ``;@12`` behind what comes from line 12."""
    lines = dict(_NODE.findall(text))
    return marked(text, lambda line: _OURS.match(line) is None, lambda line: place_in(lines, line))


def place_in(lines: dict[str, str], line: str) -> tuple[str, str]:
    reference = _DEBUG.search(line)
    return _DEBUG.sub("", line), lines.get(reference[1], "0") if reference else "0"


def assembly_marked(text: str) -> str:
    """Assembly without its debug directives, and with ``;@12`` behind what comes from line 12."""
    current = "0"

    def place(line: str) -> tuple[str, str]:
        nonlocal current
        directive = _LOC.match(line)
        if directive:
            current = directive[1]
        elif line.endswith(":") and not line.startswith(".L"):
            current = "0"  # another function
        return line, current if line.startswith("\t") and not line.startswith("\t.") else "0"

    return marked(text, lambda line: not (_DIRECTIVE.match(line) or _LOC.match(line)), place)


def marked(text: str, is_shown: Callable[[str], bool], place: Callable[[str], tuple[str, str]]) -> str:
    """The lines that are shown, each with the number of the source line that it comes from."""
    placed: Sequence[tuple[str, tuple[str, str]]] = [(line, place(line)) for line in text.splitlines()]
    lines = (shown + (f"  ;@{number}" if number != "0" else "") for line, (shown, number) in placed if is_shown(line))
    return "\n".join(lines) + "\n"
