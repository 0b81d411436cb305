"""A kernel for each op of the table and some of its dtypes: the simulated device gives what the interpreter gives.

Kernels are compiled many at a time (`units`), and tried with the slow tests, once in CI. Which dtypes beside
float32 and int32 an op is tried with goes round.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pytest

import pypto as pto
from pypto.errors.ascend import NotOnAscend
from pypto.ir.types import DType, float32, int32
from pypto.ops.row import OpRow
from pypto.ops.table import TABLE
from tests.backends_ascend.units import units
from tests.conformance.sources import define
from tests.ops import test_axes as axes
from tests.ops import test_elementwise as elementwise
from tests.ops.rows import COMPUTING, FITTING, Call, calls, takes
from tests.ops.samples import Array, operands, ulp_errors, wide
from tests.sim.device import needs_compiler

pytestmark = needs_compiler
GROUPS: Final = 12
SIZE: Final = 203
# Their rules are thousands of instructions, which `test_cells` tries.
LONGEST: Final = ("erfinv", "erfcinv", "normcdfinv", "tgamma", "cyl_bessel_i0", "cyl_bessel_i1")


REFUSED: Final = ("ldexp_i64", "ldexp_u64")  # a float32 times 2 to the power of 64 bits, with what to write instead


@dataclass
class Case:
    """Calls of one op with operands of one dtype, in a kernel."""

    row: OpRow
    dtype: DType

    def __str__(self) -> str:
        return f"{self.row.name}_{self.dtype.mnemonic}"

    @property
    def calls(self) -> list[Call]:
        return calls(self.row, self.dtype, (SIZE,) if self.row.elementwise else (5, 9, 19))[:4]

    @property
    def text(self) -> str:
        form = elementwise.kernel_text(self.calls, False) if self.row.elementwise else axes.apart(self.calls)
        return form.replace("def kernel(", f"def {self}(")

    def arguments(self) -> tuple[list[Array], list[Array]]:
        """All arrays in the order of the kernel's parameters, and the outputs among them."""
        tried, seed = self.calls, zlib.crc32(str(self).encode())
        if self.row.elementwise:
            made = elementwise.outputs(tried, SIZE)
            return operands(seed, self.dtype, len(tried[0].types), SIZE, self.row.domain) + made, made
        made = axes.outputs(tried)
        return axes.arguments(tried, made), made


def chosen(row: OpRow, turn: Iterator[int]) -> Iterator[DType]:
    """The dtypes that an op is tried with."""
    taken = [d for d in takes(row) if d.bits > 4 and not (d.is_float and d.bits == 8)]
    usual = [d for d in taken if d in (float32, int32)]
    others = [d for d in taken if d not in usual]
    yield from usual
    yield from (others[next(turn) % len(others)] for _ in range(3 if others else 0))


def cases() -> list[Case]:
    turn, rows = itertools.count(), [row for row in COMPUTING if row.name not in LONGEST]
    return [Case(row, dtype) for row in rows for dtype in dict.fromkeys(chosen(row, turn))]


CASES: Final = cases()


def compare(case: Case, kernel: Any) -> None:
    (given, found), (same, wanted) = case.arguments(), case.arguments()
    kernel[1](*given)
    pto.interpret(define(case.text, name=str(case)))[1](*same)
    for call, a, b in zip(case.calls, found, wanted, strict=True):
        if not case.row.elementwise:
            axes.assert_agree(call, given, a, b)
        elif (ulp := elementwise.allowed_on_ascend(case.row, call.op.result.dtype)) > 0:
            assert ulp_errors(a, wide(b), call.op.result.dtype).max() <= ulp + 0.5, str(call)
        else:
            elementwise.assert_agree(a, b, call, "Ascend against interpreter")


@pytest.mark.slow
@pytest.mark.parametrize("group", range(GROUPS))
def test_agrees_with_the_interpreter(group: int) -> None:
    mine = [case for case in CASES[group::GROUPS] if str(case) not in REFUSED]
    with units() as (unit, device), device:
        kernels = [define(case.text, name=str(case)) for case in mine]
        for case, kernel in zip(mine, kernels, strict=True):
            kernel[1](*case.arguments()[0])
        unit.build()
        assert len(unit.functions) >= len(mine)
        for case, kernel in zip(mine, kernels, strict=True):
            compare(case, kernel)


def test_there_are_as_many_as_are_promised() -> None:
    assert len(CASES) >= 400
    assert {case.row.name for case in CASES} == {row.name for row in COMPUTING} - set(LONGEST)
    assert set(LONGEST) < TABLE.keys() and set(FITTING) < {case.row.name for case in CASES}
    assert len({str(case) for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", [case for case in CASES if str(case) in REFUSED], ids=str)
def test_what_is_refused_says_what_to_write(case: Case) -> None:
    with pto.device("ascend-sim"), pytest.raises(NotOnAscend, match=r"\.to\(pto\.int32\)"):
        define(case.text, name=str(case))[1](*case.arguments()[0])


def test_a_difference_is_found() -> None:
    """The comparison sees what a kernel leaves."""
    case = next(c for c in CASES if str(c) == "add_f32")
    wrong = define(case.text.replace("+", "-"), name=str(case))
    with pytest.raises(AssertionError):
        compare(case, wrong)
    assert not np.array_equal(*case.arguments()[0][:2])
