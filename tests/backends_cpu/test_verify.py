"""The verifier of Loop IR: schedules of all kernels pass, and two faults of passes are found in the kernels they broke.

`test_loopir_verify` breaks each rule in a text.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir import materialize
from pypto.backends.cpu.loopir.ir import Schedule
from pypto.backends.cpu.loopir.parser import parse_kernel
from pypto.backends.cpu.loopir.printer import print_kernel, print_schedule
from pypto.backends.cpu.loopir.verify import nests, verify, violations
from pypto.backends.cpu.pipeline import before_coarsening, legalize, lower_to_loops
from pypto.errors import CompilerBug
from pypto.ir.core import Function
from tests.backends_cpu.lowering import fixed_target, optimized
from tests.backends_cpu.test_shared_operands import in_a_loop, two_products
from tests.conformance.cases import Launch
from tests.conformance.running import ALL, make_launch


def legal(launch: Launch) -> Function:
    return legalize(before_coarsening(optimized(launch), fixed_target()), fixed_target())


def scheduled(launch: Launch) -> Schedule:
    return lower_to_loops(legal(launch), fixed_target())


def products(kernel: Any = two_products) -> Launch:
    shapes = {"x": (16, 32), "y": (16, 32), "first": (16, 16), "second": (16, 16)}
    return Launch(kernel, 1, {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}, {})


@pytest.mark.parametrize("name", ALL)
def test_schedules_read_what_was_written_and_their_texts_can_be_parsed(name: str) -> None:
    schedule = scheduled(make_launch(name))
    assert not violations(schedule)
    text = print_kernel(schedule)
    again = parse_kernel(text)
    assert print_kernel(again) == text
    assert print_schedule(again) == print_schedule(schedule)
    assert not violations(again)


@pytest.mark.parametrize("kernel", [two_products, in_a_loop], ids=lambda kernel: kernel.__name__)
def test_a_product_that_planning_does_not_know_of(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was wrong once: memory of a tile is given away before the last product has been packed from it."""
    function = legal(products(kernel))
    monkeypatch.setattr(materialize, "packing_dots", lambda plan, v: [])
    schedule = lower_to_loops(function, fixed_target())
    with pytest.raises(CompilerBug, match=r"reads the `exp2` of line \d+ in b\d+, which has been overw"):
        verify(schedule, "twice")


def test_what_a_loop_destroys_is_missed_in_its_second_round() -> None:
    """The first round still finds it."""
    schedule = scheduled(products(in_a_loop))
    loop = next(item for item in schedule.items if hasattr(item, "regions"))
    last = next(reversed([s for nest in nests(loop.regions[0]) for s in nest.stmts if s.buffer is not None]))
    panels = [item.b for item in loop.regions[0] if isinstance(item, Gemm)]
    assert not violations(schedule)
    last.the_buffer.offset = panels[0].offset
    assert any("overwritten" in problem or "same addresses" in problem for problem in violations(schedule))
