"""Runs one tuning candidate on the plan's inputs and private output buffers."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.errors import PyptoError
from pypto.graph.codegen.writer import KernelText, full_source
from pypto.graph.ir.dims import value_of
from pypto.graph.plan.execution_context import Frame, seen
from pypto.jit.generated import kernel_of
from pypto.tuning.agreement import alike

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class KernelTrial:
    """A compiled candidate kernel with the arrays of its launch."""

    code: Any
    launch: Callable[[], None]
    outputs: tuple[tuple[str, Array], ...]

    @staticmethod
    def of(text: KernelText, frame: Frame) -> KernelTrial:
        """Compile a candidate, and check that it reproduces the step's results in a frame.

        Raises
        ------
        PyptoError
            When its results differ, or it does not compile.
        """
        kernel = kernel_of(full_source(text), text.name, text.sized, text.blocking)
        expected = {a.name: seen(frame, a) for a in text.arguments if a.is_output}
        outputs = {name: np.empty_like(array) for name, array in expected.items()}
        given = [outputs[a.name] if a.is_output else seen(frame, a) for a in text.arguments]
        grid = value_of(text.grid, frame.sizes)
        version = kernel.compile(*given)
        artifact = version.program.artifact
        code = artifact.code, artifact.abi, artifact.scratch_bytes, artifact.locality, grid
        trial = KernelTrial(code, kernel.bind(*given, grid=grid), tuple(outputs.items()))
        trial.prepare(0xFF)
        trial.call()
        if not all(alike(array, outputs[name]) for name, array in expected.items()):
            raise PyptoError("it computes something else than the plan")
        return trial

    def prepare(self, fill: int | None = None) -> None:
        """Fill the outputs with a byte if one is given."""
        for _, array in self.outputs if fill is not None else ():
            array.view(np.uint8).fill(fill)

    def call(self) -> None:
        self.launch()

    def probe(self) -> bool:
        return False

    def arrays(self) -> list[tuple[str, Array, bool]]:
        return [(name, array, True) for name, array in self.outputs]


def milliseconds(call: Callable[[], Any]) -> float:
    """Time a call in milliseconds."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e6
