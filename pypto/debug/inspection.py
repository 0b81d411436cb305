"""`Kernel.inspect` shows a compiled version level by level, with the types and the resulting code of every line."""

from __future__ import annotations

import ast
import linecache
import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pypto.arguments import describe
from pypto.backends.findings import Picture
from pypto.compile import session
from pypto.debug.levels import levels_of
from pypto.debug.line_facts import LineFacts, facts_by_line, predicted_times, profiled_times
from pypto.debug.simulate import slot_number
from pypto.ir.core import Function, Op
from pypto.loc import Loc
from pypto.markup import Shown

if TYPE_CHECKING:
    from pypto.frontend import KernelSource
    from pypto.runtime.specialization import Specialization

_STORES: Final = ("tile_store", "store")
# References to the user's line in a level's text: comments of Ascend C, Tile IR's locations, Loop IR's remarks, and
# the marks that `linked` appends to lines of LLVM IR and assembly.
_COMMENT: Final = re.compile(r"// \S+?:(\d+)\s*$")
_PLACES: Final = (*map(re.compile, (r' loc\(.*?"[^"]*":(\d+):', r"  # (\d+)$", r";@(\d+)$")), _COMMENT)
_HIDDEN: Final = re.compile(r' loc\((?:"(?:[^"\\]|\\.)*"|[^"()])*\)|  ;@\d+$')


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the kernel, and the types of its results: of the names that it assigns, and of stored values."""

    number: int
    text: str
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Level:
    """A level of the compiler as text: each of its lines has the user's line that it comes from, or 0."""

    name: str
    lines: tuple[tuple[int, str], ...]

    @property
    def text(self) -> str:
        return "\n".join(text for _, text in self.lines) + "\n"


@dataclass(frozen=True, slots=True)
class Inspection(Shown):
    """A version of a kernel, level by level. `print` shows the source with its types; a notebook shows all levels.

    Attributes
    ----------
    kernel, version : str
        The name, and the arguments for which it was compiled.
    source : tuple of SourceLine
    levels : tuple of Level
        ``tile-ir``, ``optimized-ir``, and those of the backend: ``loop-ir``, ``llvm-ir`` and ``assembly``, or
        ``block-ir`` and ``ascendc``.
    pictures : tuple of Picture
        The memory plan and a timeline of one core, on Ascend.
    facts : dict from int to LineFacts
        The code of every line: how many elements one pass computes, its share of the time, and the reasons.
    """

    kernel: str
    version: str
    file: str
    source: tuple[SourceLine, ...]
    levels: tuple[Level, ...]
    pictures: tuple[Picture, ...] = ()
    facts: dict[int, LineFacts] = field(default_factory=dict)

    def __getitem__(self, name: str) -> str:
        """The text of a level."""
        by_name = {level.name: level for level in self.levels}
        if name not in by_name:
            raise KeyError(f"there is no level {name!r}; there are {', '.join(by_name)}")
        return by_name[name].text

    def __str__(self) -> str:
        width = max(len(line.text) for line in self.source)
        lines = [f"{self.kernel}{self.version}", ""]
        for line in self.source:
            types = "  ".join(line.types)
            lines.append(f"{line.number:5}  {line.text.ljust(width)}  {types}".rstrip())
        return "\n".join([*lines, "", f"levels: {', '.join(level.name for level in self.levels)}"])

    def html(self) -> str:
        """Returns a self-contained HTML page."""
        from pypto.debug.page import page

        return page(self)

    def save(self, path: str | Path) -> None:
        """Writes the page to a file."""
        Path(path).write_text(self.html(), encoding="utf-8")

    def _repr_html_(self) -> str:
        from pypto.debug.page import body

        return body(self)


def inspect(kernel: Any, *args: Any, **given: Any) -> Inspection:
    """The version of a kernel that a launch with these arguments runs; see `Kernel.inspect`."""
    parameter_names = kernel.signature.names
    chip = given.pop("target", None) if "target" not in parameter_names else None
    profile = given.pop("profile", None) if "profile" not in parameter_names else None
    with session().devices.chip(chip) if chip else nullcontext():
        return inspected(kernel, kernel.compiled(args, given), kernel.signature.bind(args, given), profile)


def inspected(kernel: Any, version: Specialization, values: tuple[Any, ...], profile: Any = None) -> Inspection:
    """Inspects a version, with the pictures and facts for these arguments."""
    from pypto.debug.explain import explained

    source = kernel.kernel_source
    levels = tuple(Level(name, tuple(placed(text))) for name, text in levels_of(version))
    texts = {level.name: level.lines for level in levels}
    infos, _ = describe(kernel.signature, values)
    program = version.program
    details = program.backend.line_details(program.function, program.artifact, texts, slot_number(infos))
    times = predicted_times(details.cycles)
    if not times and profile is not None:
        times = profiled_times(profile, source.name)
    facts = facts_by_line(details.widths, times, explained(kernel, version).findings)
    lines = tuple(source_lines(source, version))
    return Inspection(source.name, str(version), source.file, lines, levels, details.pictures, facts)


def placed(text: str) -> Iterator[tuple[int, str]]:
    """Assigns each line of a text the user's line; long locations of Tile IR are removed from the text.

    In Ascend C, a location holds for all statements up to the next location.
    """
    above = 0
    for line in text.splitlines():
        line_number = next((int(m[1]) for place in _PLACES if (m := place.search(line))), above)
        above = line_number if above or _COMMENT.search(line) else 0
        yield line_number, _HIDDEN.sub("", line)


def source_lines(source: KernelSource, version: Specialization) -> Iterator[SourceLine]:
    types = types_by_line(source, version.program.built.function)
    node = source.node
    for number in range(node.lineno, (node.end_lineno or node.lineno) + 1):
        text = linecache.getline(source.file, number).rstrip("\n")
        yield SourceLine(number, text, tuple(dict.fromkeys(types.get(number, ()))))


def types_by_line(source: KernelSource, function: Function) -> dict[int, list[str]]:
    """Returns the types of assigned names, loop variables and stored values, by line."""
    at: dict[Span, list[Op]] = defaultdict(list)
    for op in function.walk():
        at[span(op.loc)].append(op)
    types: dict[int, list[str]] = defaultdict(list)
    args = {value.hint: str(value.type) for value in function.args}
    types[source.node.lineno] = [f"{name}: {kind}" for name, kind in args.items()]
    for node in ast.walk(source.node):
        types[getattr(node, "lineno", 0)] += notes_on(node, source, at)
    return types


Span = tuple[str, int, int, int, int]


def span(loc: Loc) -> Span:
    user = loc.user
    return user.file, user.line, user.col, user.end_line, user.end_col


def notes_on(node: ast.AST, source: KernelSource, at: dict[Span, list[Op]]) -> list[str]:
    """What a statement makes, as `name: type`; of a store, the type that is stored."""
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return results_of(name, at.get(span(source.loc(value)), []))
        case ast.AugAssign(target=ast.Name(id=name)):
            return results_of(name, at.get(span(source.loc(node)), []))
        case ast.For(target=ast.Name(id=name)):
            loops = [op for op in at.get(span(source.loc(node.iter)), []) if op.name == "for"]
            return [f"{name}: {loops[-1].regions[0].args[0].type}"] if loops else []
        case ast.Subscript() | ast.Call():
            stores = [op for op in at.get(span(source.loc(node)), []) if op.name in _STORES]
            return [f"stores {stored(op)}" for op in stores]
    return []


def results_of(name: str, ops: list[Op]) -> list[str]:
    results = [op.results[0] for op in ops if len(op.results) == 1]
    return [f"{name}: {results[-1].type}"] if results else []


def stored(op: Op) -> str:
    from pypto.ops.memory import Access

    value = Access.of(op).value if op.name == "tile_store" else op.operands[1]
    return str(value.type) if value is not None else ""
