"""Finds the dimension of its iteration space along which a generated kernel walks through memory.

Inductor passes a kernel to its heuristics only as text, so addresses are read from the text's AST. They decide only the
sizes of blocks; the correctness of a kernel does not depend on them.

Inductor names an index by its dimension: `x0`, `y1`, `r0_2`. In the address of a load, an index that stands alone has
stride 1, and one with a factor has a larger one: ``tl.load(in_ptr0 + (x0 + 1024*r0_1), …)`` walks along x.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_INDEX: Final = re.compile(r"(x|y|z|r0_|r1_)\d+")


@dataclass(frozen=True)
class Strides:
    """For each dimension, the number of accesses that walk along it with stride 1.

    `periods` are the numbers by which the index along x is divided.
    """

    unit: Counter[str]
    periods: tuple[int, ...]

    def columns(self, most: int) -> int:
        """Returns the longest block along x, a power of two up to `most`, that divides all periods of its index."""
        while most > 1 and any(n % most for n in self.periods):
            most //= 2
        return most

    @property
    def crossed(self) -> bool:
        """Says whether accesses differ in the dimension of stride 1, as in a transpose."""
        return bool(self.unit["x"] and (self.unit["y"] or self.unit["z"]))

    @property
    def outer(self) -> bool:
        """Says whether a reduction runs over rows, so that its outputs are adjacent."""
        return self.unit["x"] + self.unit["y"] > self.unit["r0_"] + self.unit["r1_"]


def strides(text: str) -> Strides:
    """Returns the strides of a kernel's accesses.

    Examples
    --------
    >>> strides("def f(a, b): tl.store(b + (y0 + 64*x1), tl.load(a + (x1 + 32*y0), xmask), xmask)").crossed
    True
    >>> strides("def f(a, b): tl.store(b + (x0), tl.sum(tl.load(a + (x0 + 1024*r0_1), xmask), 0), xmask)").outer
    True
    >>> strides("def f(): x0 = xindex % 96").columns(512)
    32
    """
    unit, tree = Counter[str](), ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("tl.load", "tl.store"):
            alone, scaled = set[str](), set[str]()
            for name, factor in terms(node.args[0], False):
                (scaled if factor else alone).add(name)
            dimensions = alone | scaled
            if len(dimensions) > 1 or dimensions & {"r0_", "r1_"}:  # others are read once for a row
                unit.update(alone)
    return Strides(unit, tuple(sorted(periods(tree))))


def periods(tree: ast.AST) -> set[int]:
    """Returns the constants by which the index along x is divided."""
    lengths = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.FloorDiv):
            by_constant = isinstance(node.right, ast.Constant) and isinstance(node.right.value, int)
            if by_constant and isinstance(node.left, ast.Name) and node.left.id == "xindex":
                lengths.add(ast.literal_eval(node.right))
    return lengths


def terms(node: ast.AST, scaled: bool) -> Iterator[tuple[str, bool]]:
    """Yields the dimensions of an address, and for each whether its index has a factor."""
    if isinstance(node, ast.Name) and (match := _INDEX.fullmatch(node.id)):
        yield match[1], scaled
    below = scaled or (isinstance(node, ast.BinOp) and not isinstance(node.op, ast.Add | ast.Sub))
    for child in ast.iter_child_nodes(node):
        yield from terms(child, below)
