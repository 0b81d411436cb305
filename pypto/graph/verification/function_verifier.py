"""`pto.verify` of a fused function: compares each step of its plan, and then its results, with numpy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.graph.capture.guards import is_array
from pypto.graph.plan.plan_cache import Planned, Version
from pypto.graph.tracing.arguments import Slot, leaves, mapped
from pypto.graph.verification.differences import Difference, Tolerance, differs
from pypto.graph.verification.stepwise import ComparedArray, StepByStep
from pypto.markup import Shown, card, note, table

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class VerifiedFunction(Shown):
    """The report of a successful comparison of a fused function with numpy.

    Attributes
    ----------
    function : str
    arrays : tuple of ComparedArray
        The stored arrays of all steps, in order.
    results : tuple of ComparedArray
        The results and updated arguments, compared with those of the function under numpy.
    skipped : int
        The number of steps that call user functions, which have no reference to compare with.
    """

    function: str
    arrays: tuple[ComparedArray, ...]
    results: tuple[ComparedArray, ...]
    skipped: int = 0

    def __str__(self) -> str:
        rows = [self.cells(a) for a in (*self.arrays, *self.results)]
        widths = [max((len(row[n]) for row in rows), default=0) for n in range(5)]
        lines = (
            f"  {row[0]:>{widths[0]}} {row[1]:{widths[1]}}  {row[2]:{widths[2]}}  {row[3]:{widths[3]}}  "
            f"largest difference {row[5]}{f' ({row[6]} ulp)' if row[6] else ''}"
            for row in rows
        )
        return "\n".join([self.head(), *lines])

    def head(self) -> str:
        """Summarise the comparison in one line."""
        steps = len({a.step for a in self.arrays})
        skipped = f"; {self.skipped} calls of functions are not compared" if self.skipped else ""
        return f"{self.function}: {steps} steps compute what numpy does{skipped}"

    @staticmethod
    def cells(a: ComparedArray) -> tuple[str, ...]:
        """Return the table's cells: step, kernel, array, line, elements, largest difference, and in ulp."""
        step = "" if a.step is None else str(a.step)
        ulp = "" if a.ulp is None else f"{a.ulp:.3g}"
        return step, a.kernel, a.array, a.line, f"{a.elements:,}", f"{a.largest:.3g}", ulp

    def _repr_html_(self) -> str:
        headings = ("step", "kernel", "array", "line", "elements", "largest difference", "in ulp")
        shown = table(headings, map(self.cells, (*self.arrays, *self.results)), (0, 4, 5, 6))
        text = "Each step on the arrays that it read; results beside the whole function in numpy."
        return card(f"{self.function}: verified", note(text), shown, note=self.head().partition(": ")[2])


@dataclass(frozen=True, slots=True)
class FunctionVerifier(Shown):
    """A fused function whose calls are compared with numpy, step by step; see `pypto.verify`."""

    fused: Planned
    atol: float | None
    rtol: float | None

    def __str__(self) -> str:
        name = self.fused.__name__  # type: ignore[attr-defined]
        return f"verify({name}): call it as verify({name})(arguments…), or write verify({name}, arguments…)"

    def _repr_html_(self) -> str:
        return card(*str(self).split(": ", 1))

    def __call__(self, *args: Any, **kwargs: Any) -> VerifiedFunction:
        """Run the function step by step on copies of the arguments, and compare.

        Raises
        ------
        ArrayDiffers
            At the user's line of the first array beyond the tolerance.
        """
        version, arrays, sizes = self.fused.version_for(args, kwargs)
        tolerance = Tolerance(self.atol, self.rtol)
        run = StepByStep(version.plan, tolerance, sizes)
        updated = {number for number, _ in version.traced.updates}
        outputs = run.run([np.copy(a, order="K") if n in updated else a for n, a in enumerate(arrays)])
        own_args, own_kwargs = copied((args, kwargs))
        with np.errstate(all="ignore"):
            expected = self.fused.function(*own_args, **own_kwargs)
        after = dict(zip(map(id, leaf_values((args, kwargs))), leaf_values((own_args, own_kwargs)), strict=True))
        pairs = [*of_results(version, outputs, expected), *of_updates(version, outputs, arrays, after)]
        steps = max(1, len(version.plan.steps))
        results = tuple(result(version.plan.graph.name, tolerance, steps, *pair) for pair in pairs)
        return VerifiedFunction(version.plan.graph.name, tuple(run.compared), results, run.skipped)


def leaf_values(tree: Any) -> list[Any]:
    return [leaf for _, leaf in leaves(tree)]


def of_results(version: Version, outputs: list[Array], expected: Any) -> Iterator[tuple[str, Array, Any]]:
    """Pair the arrays of the plan's and the function's result, with names."""
    for (path, slot), wanted in zip(leaves(version.traced.result), leaf_values(expected), strict=True):
        if isinstance(slot, Slot):
            yield f"result {path}".rstrip(), outputs[slot.number], wanted


def of_updates(
    version: Version, outputs: list[Array], arrays: list[Array], after: dict[int, Any]
) -> Iterator[tuple[str, Array, Any]]:
    """Pair the arguments that the plan and the function updated, with names."""
    for number, output in version.traced.updates:
        if number < version.traced.given:
            name = version.traced.graph.inputs[number].attr("name")
            yield f"argument {name}", outputs[output], after[id(arrays[number])]


def result(function: str, tolerance: Tolerance, steps: int, what: str, got: Array, expected: Any) -> ComparedArray:
    """Compare a result with the function's own; the tolerance allows a difference for each step."""
    difference = Difference.of(got, np.asarray(expected), tolerance, steps)
    if difference.count:
        message = (
            "every step computes what its nodes mean, so the trace is wrong, or small differences grow in the function"
        )
        raise differs(function, None, what, difference, message)
    return ComparedArray(None, "", what, "", difference.total, difference.largest, difference.ulp)


def copied(tree: Any) -> Any:
    """Copy the arrays of arguments; an array that occurs twice is copied once."""
    copies: dict[int, Array] = {}

    def copy(_: str, leaf: Any) -> Any:
        return copies.setdefault(id(leaf), np.copy(leaf, order="K")) if is_array(leaf) else leaf

    return mapped(tree, copy)
