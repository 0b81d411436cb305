"""Stepwise verification: runs a plan step by step, and compares each stored array with the reference.

The reference of a step (see `reference`) gets the arrays that the step really read. So differences do not accumulate,
and the first differing array is one that its own kernel computes wrongly. Only then the kernel is interpreted, which
distinguishes wrong source from wrong machine code, and names the program and the line that stored the element.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from linecache import getline
from typing import Any

import numpy as np

from pypto.debug.verify import Recorder
from pypto.errors import PyptoError
from pypto.graph.ir.dims import Sizes, value_of
from pypto.graph.ir.node import Node
from pypto.graph.ir.reference import apply
from pypto.graph.ir.types import TensorType
from pypto.graph.plan.execution_context import Frame
from pypto.graph.plan.plan import NO_MEMORY, Plan
from pypto.graph.plan.schedule import Step
from pypto.graph.verification.differences import Difference, Tolerance, differs
from pypto.runtime.launch import Sizes as Grid
from pypto.runtime.launch import check_grid
from pypto.runtime.launches import BoundStep

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class ComparedArray:
    """An array that a step stored, or a result, beside numpy's.

    Attributes
    ----------
    step : int or None
        The number of the step; None for a result.
    kernel : str
        The kernel that wrote the array.
    array, line : str
        Its node and type, and the user's line.
    elements : int
    largest : float
        The largest difference.
    ulp : float or None
        The largest difference in units of the last place of the array's largest element; None for integers.
    """

    step: int | None
    kernel: str
    array: str
    line: str
    elements: int
    largest: float
    ulp: float | None


@dataclass(slots=True)
class StepByStep:
    """A run of a plan that compares every array which a step stores."""

    plan: Plan
    tolerance: Tolerance
    sizes: Sizes
    compared: list[ComparedArray] = field(default_factory=list)
    skipped: int = 0

    def run(self, arrays: list[Array]) -> list[Array]:
        """Run the plan, compare each step, and return the outputs.

        Raises
        ------
        ArrayDiffers
            At the first array beyond the tolerance.
        """
        self.plan.compile(arrays)
        frame = Frame(self.plan, len(arrays), dict(self.sizes))
        frame.enter(arrays, NO_MEMORY)
        for number, (step, call) in enumerate(zip(self.plan.steps, frame.steps, strict=True)):
            expected = self.meaning(frame, step)
            call.run(frame)
            for node, array in expected.items():
                self.compare(number, step, call, frame, node, array)
        return frame.leave()

    def meaning(self, frame: Frame, step: Step) -> dict[Node, Array]:
        """Compute the expected arrays of a step by numpy, from the arrays that it reads."""
        if step.nodes[-1].is_call:
            self.skipped += 1
            return {}
        known: dict[Node, Array] = {}
        return {node: np.array(self.value(frame, step, node, known)) for node in step.writes}

    def value(self, frame: Frame, step: Step, node: Node, known: dict[Node, Array]) -> Array:
        """Return the reference array of a node, and compute it if this step does."""
        if node not in known:
            if node in step.reads:
                known[node] = frame.arrays[node]
            elif node.is_number:
                known[node] = frame.constant(node)
            else:
                operands = [self.value(frame, step, x, known) for x in node.inputs]
                type = TensorType(value_of(node.shape, frame.sizes), node.type.dtype)
                known[node] = apply(node.op, operands, frame.attrs(node), type)
        return known[node]

    def compare(self, number: int, step: Step, call: BoundStep, frame: Frame, node: Node, expected: Array) -> None:
        got = frame.arrays[node]
        difference = Difference.of(got, expected, self.tolerance)
        name = f"%{node.number}: {node.type}"
        writer = step.kernel.name if step.kernel else f"{step.nodes[-1].op} by numpy"
        if difference.count:
            message = (
                f"step {number} wrote it, {writer}{diagnosis(step, call, got.shape, node, difference, self.tolerance)}"
            )
            raise differs(self.plan.graph.name, node.loc if node.place else None, name, difference, message)
        line = "" if node.place is None else f"{node.loc.file.rpartition('/')[2]}:{node.loc.line}"
        self.compared.append(
            ComparedArray(number, writer, name, line, difference.total, difference.largest, difference.ulp)
        )


def diagnosis(
    step: Step, call: BoundStep, shape: tuple[int, ...], node: Node, difference: Difference, tolerance: Tolerance
) -> str:
    """Explain a wrong element: the program and line that stored it, and whether source or machine code is wrong."""
    if step.kernel is None:
        return ""
    pairs = list(zip(step.arguments, call.arguments, strict=True))
    fresh = {a.name: np.empty(x.shape, x.dtype) for a, x in pairs if a.is_output}
    kernel, recorder = step.kernel.kernel, Recorder()
    values = kernel.signature.bind(tuple(fresh.get(a.name, x) for a, x in pairs), {})
    grid = check_grid(call.step.grid, kernel.signature, values)
    try:
        kernel.interpret(grid, values, recorder)
    except PyptoError as error:
        return f"; when it is interpreted, it is refused: {str(error).splitlines()[0]}"
    name = next(a.name for a in step.arguments if a.is_output and a.node is node)
    flat = int(np.ravel_multi_index(difference.index, shape)) if difference.index else 0
    interpreted = fresh[name].ravel()[flat]
    where = stored_by(recorder, recorder.origins[name][flat], grid) if name in recorder.origins else ""
    if Difference.of(np.asarray(interpreted), np.asarray(difference.got), tolerance).count:
        return f"{where}; interpreted, the kernel gives {interpreted:.9g}, so its code is wrong"
    return f"{where}; interpreted, the kernel gives the same, so its text is wrong"


def stored_by(recorder: Recorder, origin: Array, grid: Grid) -> str:
    """Find the program and the line of the kernel that stored an element."""
    program, op, _ = map(int, origin)
    if op < 0:
        return ", and no program stores this element"
    x, y, _ = grid
    loc = recorder.locs[op]
    line = getline(loc.file, loc.line).strip()
    return f", program ({program % x}, {program // x % y}, {program // (x * y)}) at `{line}`"
