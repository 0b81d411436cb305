"""Finds the user's functions that a graph comes from, in the order of files and lines."""

from __future__ import annotations

import ast
import linecache
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from pypto.graph.ir.node import Graph
from pypto.loc import Loc
from pypto.markup import Markup, join, note, tag
from pypto.markup.colours import coloured


def lines_of(graph: Graph) -> dict[str, set[int]]:
    """Returns the lines that nodes come from, by file."""
    lines: dict[str, set[int]] = defaultdict(set)
    for node in graph.live():
        if node.place is not None:
            loc: Loc = node.loc
            lines[loc.file].add(loc.line)
    return dict(lines)


def functions(file: str, lines: set[int]) -> list[tuple[int, int]]:
    """Returns first and last lines of the innermost functions around some lines; a line outside stands alone."""
    text = "".join(linecache.getlines(file))
    try:
        tree = ast.parse(text)
    except SyntaxError:  # a cell with magics
        return spans_of(lines, [])
    heads = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    spans = [(min([n.lineno, *(d.lineno for d in n.decorator_list)]), n.end_lineno or n.lineno) for n in heads]
    return spans_of(lines, spans)


def spans_of(lines: set[int], spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Returns the innermost spans that contain the lines, and the lines outside; spans inside another are left out."""
    used = set[tuple[int, int]]()
    for line in lines:
        around = [s for s in spans if s[0] <= line <= s[1]]
        used.add(min(around, key=lambda s: s[1] - s[0], default=(line, line)))
    return sorted(s for s in used if not any(o != s and o[0] <= s[0] and s[1] <= o[1] for o in used))


def source_lines(graph: Graph) -> Markup:
    """Returns the functions of the user, each line with its place."""
    return join(part for file, lines in sorted(lines_of(graph).items()) for part in file_lines(file, lines))


def file_lines(file: str, lines: set[int]) -> Iterator[Markup]:
    name = Path(file).name
    yield note(name)
    for n, (first, last) in enumerate(functions(file, lines)):
        if n:
            yield tag("pre", "⋮", class_="line")
        for number in range(first, last + 1):
            text = linecache.getline(file, number).rstrip("\n")
            key = f"{name}:{number}" if number in lines else ""
            yield tag("pre", tag("i", number, class_="row"), coloured(text), class_="line", data_line=key)
