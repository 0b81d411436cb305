"""The operands and the result of a dot where a kernel reads and writes them: addresses, sizes, panels."""

from __future__ import annotations

from dataclasses import dataclass

from pypto.backends.cpu.llvm.value import VectorValue
from pypto.ir.core import Value
from pypto.ir.types import DType
from pypto.passes.dot_facts import dot_dtype
from pypto.passes.target_facts import TargetFacts


@dataclass(frozen=True, slots=True)
class ValidRange:
    """The part of a dimension that exists: from `start` to before `stop`."""

    start: VectorValue
    stop: VectorValue


@dataclass(frozen=True, slots=True)
class Matrix:
    """Numbers in memory, rows `pitch` bytes apart, the numbers of a row side by side; `dtype` as memory holds them."""

    address: VectorValue
    pitch: VectorValue
    rows: ValidRange
    columns: ValidRange
    dtype: DType


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a result goes if it is `in_bounds` there, of a loop at its last step.

    With `is_epilogue`, where a nest puts it.
    """

    matrix: Matrix
    in_bounds: VectorValue
    is_epilogue: bool = False


def choose_nr(v: Value, target: TargetFacts, in_place: bool) -> int:
    """Columns of the panels of a dot's right side: one, two or four registers of them.

    Four registers by six rows load a number for every 2.4 multiply-adds, two by eight rows, which is what fits where
    rows of the left side stay in place, one for every 1.6. Alone on a core both wait for the multiply-adds; with
    another thread on it, they wait for the loads.
    """
    lanes = target.vector_bytes // dot_dtype(v.dtype).itemsize
    if in_place and target.vector_bytes >= 64 and v.shape[-1] % (4 * lanes) == 0:
        return 4 * lanes
    return lanes * (2 if v.shape[-1] > lanes else 1)
