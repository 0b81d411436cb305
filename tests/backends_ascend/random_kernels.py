"""Random kernels give the same on the CPU and on the simulated Ascend device.

``python -m tests.backends_ascend.random_kernels --count 1000 --seed 7`` tries so many, and shows each that differs.
"""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from pypto.errors import Diagnostic
from pypto.ops.table import TABLE
from tests.backends_ascend.units import search, units
from tests.conformance.expressions import LAYOUTS, Program, programs
from tests.conformance.sources import define
from tests.conformance.test_random import check_sum, launch
from tests.ops.samples import Array, assert_same, ulp_errors, wide
from tests.ops.test_elementwise import allowed, allowed_on_ascend

EACH = 48  # that are compiled and compared before the next ones are
LAYOUT_LISTS = st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3)


@dataclass
class Case:
    """A kernel and what it is called with."""

    name: str
    program: Program
    layouts: list[str]
    n: int
    kernel: Any = None
    refused: str = ""

    @property
    def text(self) -> str:
        return self.program.text().replace("def kernel(", f"def {self.name}(")

    def __str__(self) -> str:
        p = self.program
        where = f"sizes {p.sizes}, blocks {p.blocks}, shift {p.shift}, n = {self.n}"
        return f"{self.text}\n{where}, inputs {p.inputs}, layouts {self.layouts}"

    def arrays(self) -> list[Array]:
        return self.program.arrays(7, self.layouts)


def drawn(count: int, seed: int | None = None) -> list[Case]:
    """So many cases: the same ones each time, or those of a seed."""
    found: list[Case] = []

    @settings(max_examples=count, derandomize=seed is None, database=None, deadline=None, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(programs(), LAYOUT_LISTS, st.integers(0, 3))
    def collect(program: Program, layouts: list[str], n: int) -> None:
        found.append(Case(f"kernel_{len(found)}", program, layouts, n))

    (collect if seed is None else hypothesis.seed(seed)(collect))()
    return found


def prepare(case: Case, device: Any) -> None:
    """Compile a kernel for the device; what it refuses is noted."""
    case.kernel = define(case.text, name=case.name)
    try:
        with device:
            launch(case.kernel, case.program, case.arrays(), case.n)
    except Diagnostic as error:
        if type(error).__module__ != "pypto.errors.ascend":
            raise
        case.refused = error.message


def compare(case: Case, device: Any) -> None:
    with device:
        found = launch(case.kernel, case.program, case.arrays(), case.n)
    wanted = launch(define(case.text, name=case.name), case.program, case.arrays(), case.n)
    program = case.program
    for index, (a, b, term, kind) in enumerate(zip(found, wanted, program.outputs, program.checks, strict=True)):
        what = f"y{index} = {term.name}"
        if kind == "exact":
            assert_same(a, b, what)
        elif kind == "sum":
            check_sum(a, b, wanted[index - 1], program, what)
        else:
            errors = ulp_errors(a, wide(b), term.dtype)
            assert errors.max() <= bound(kind, term.dtype), f"{what} is {errors.max():.2f} ulp off"


def bound(name: str, dtype: Any) -> float:
    """How far results of two roundings may be apart."""
    return allowed(TABLE[name], dtype) + allowed_on_ascend(TABLE[name], dtype) + 1


def differing(cases: list[Case], chip: str = "ascend910b2") -> list[tuple[Case, str]]:
    """The cases that differ or fail, with the words."""
    found = []
    with units(chip) as (unit, device):
        for work in (prepare, compare):
            for case in cases:
                try:
                    if not case.refused:
                        work(case, device)
                except Exception:  # whatever it is, it is shown beside the kernel
                    found.append((case, traceback.format_exc(limit=-3)))
                    case.refused = "failed"
            if work is prepare:
                unit.build()
    return found


if __name__ == "__main__":
    sys.exit(search(__doc__, drawn, differing, EACH, None))
