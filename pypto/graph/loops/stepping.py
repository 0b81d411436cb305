"""What a loop runs over: ranges, arrays, and `zip`, `enumerate` and `reversed` of them, which its kernel indexes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from pypto.graph.loops.arrays import View, is_same
from pypto.graph.loops.expressions import Counted, Expressions, Iteration, is_array
from pypto.graph.loops.indexing import as_index, indexed
from pypto.graph.loops.numbers import NotCompiled, Number, known, storage_type
from pypto.graph.loops.store import copied
from pypto.graph.loops.writer import ONE, ZERO

KINDS: Final[Mapping[str, Any]] = MappingProxyType({"zip": zip, "enumerate": enumerate, "reversed": reversed})


@dataclass(frozen=True, slots=True)
class Steps:
    """`zip`, `enumerate` or `reversed` of ranges and arrays, whose parts are known.

    Examples
    --------
    >>> steps = Steps("enumerate", (range(5, 7),), 1)
    >>> len(steps), list(steps)
    (2, [(1, 5), (2, 6)])
    """

    kind: str
    parts: tuple[Any, ...]
    start: int = 0

    def __len__(self) -> int:
        return min(map(len, self.parts))

    def __iter__(self) -> Iterator[Any]:
        more = (self.start,) if self.kind == "enumerate" else ()
        return KINDS[self.kind](*self.parts, *more)  # type: ignore[no-any-return]


class Stepper:
    """The stand-in for `zip`, `enumerate` or `reversed` where a loop begins."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def of(self, *parts: Any, **how: Any) -> Any:
        """Return the steps, or what Python makes of arguments whose lengths are not known."""
        start = how.get("start", 0)
        if self.kind == "enumerate" and len(parts) == 2:
            start = parts[1]
            parts = parts[:1]
        are_rows = all(isinstance(x, Steps) or (hasattr(x, "__len__") and hasattr(x, "__getitem__")) for x in parts)
        is_equal = not how.get("strict") or (are_rows and len(set(map(len, parts))) == 1)
        if not parts or not are_rows or not is_equal or type(start) is not int:
            more = {"start": start} if self.kind == "enumerate" else how
            return KINDS[self.kind](*parts, **more)
        return Steps(self.kind, parts, start)


def counted(e: Expressions, *bounds: Any) -> Counted:
    """`range`."""
    if not all(isinstance(x, Number) and storage_type(x.kind).kind in "iu" for x in bounds):
        raise NotCompiled("a range of what is no integer")
    rows = [e.w.stored(as_index(x)) for x in bounds]
    start, stop = (ZERO, rows[0]) if len(rows) == 1 else rows[:2]
    step = rows[2] if len(rows) == 3 else ONE
    if not step.is_known or step.value == 0:
        raise NotCompiled("a range whose step is not known")
    return Counted(start, stop, step.value)


def iteration(e: Expressions, x: Any) -> Iteration:
    """Return the values of a range, an array or another iteration, by their number."""
    if isinstance(x, Iteration):
        return x
    if isinstance(x, Counted):
        size = e.apply("subtract", x.stop, x.start)
        if abs(x.step) > 1 and not size.is_known:
            raise NotCompiled("a range of steps whose length is not known")
        size = known(len(range(0, size.value, x.step))) if size.is_known else e.apply("multiply", size, known(x.step))
        return Iteration(size, lambda n: e.apply("add", x.start, e.apply("multiply", n, known(x.step))))
    if not is_array(x) or not x.extents:
        raise NotCompiled("a loop over what is neither a range nor an array")
    view = x if isinstance(x, View) else copied(e.w, x)
    return Iteration(view.extents[0], lambda n: e.loaded(indexed(e.w, view, [n])))


def together(e: Expressions, *parts: Any) -> Iteration:
    """`zip`."""
    rows = [iteration(e, x) for x in parts]
    if not rows or not (all(x.size.is_known for x in rows) or all(is_same(rows[0].size, x.size) for x in rows)):
        raise NotCompiled("a loop over several arrays whose lengths may differ")
    size = min((x.size for x in rows), key=lambda x: x.value) if rows[0].size.is_known else rows[0].size
    return Iteration(size, lambda n: tuple(x.item(n) for x in rows))


def numbered(e: Expressions, x: Any, start: Number = ZERO) -> Iteration:
    """`enumerate`."""
    row = iteration(e, x)
    return Iteration(row.size, lambda n: (e.apply("add", n, start), row.item(n)))


def backwards(e: Expressions, x: Any) -> Iteration:
    """`reversed`."""
    row = iteration(e, x)
    last = e.apply("subtract", row.size, known(1))
    return Iteration(row.size, lambda n: row.item(e.apply("subtract", last, n)))
