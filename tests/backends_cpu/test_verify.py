"""The verifier of Loop IR: schedules of all kernels pass, and what is broken in one is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.ir import Gemm
from pypto.backends.cpu.loopir import materialize
from pypto.backends.cpu.loopir.ir import Buffer, Nest, Schedule
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


def kept(schedule: Schedule) -> Buffer:
    """The buffer of the tile that both products are packed from."""
    product = next(item for item in schedule.items if isinstance(item, Gemm))
    assert isinstance(product.b_source, Buffer)
    return product.b_source


def moved(schedule: Schedule) -> None:
    """All buffers at one address."""
    for b in schedule.buffers:
        b.offset = 0


def unwritten(schedule: Schedule) -> None:
    schedule.items = [item for item in schedule.items if not isinstance(item, Nest) or item.stmts[0].kind == "store"]


def mistaken(schedule: Schedule) -> None:
    """The second product looks for its operand where the first one has put its result."""
    first, second = (item for item in schedule.items if isinstance(item, Gemm))
    second.b_source = first.c


def repacked(schedule: Schedule) -> None:
    """Rows are written, and panels of columns are read."""
    product = next(item for item in schedule.items if isinstance(item, Gemm))
    product.b_source = replace(kept(schedule), panel=8, view_of=kept(schedule))


def repadded(schedule: Schedule) -> None:
    """Rows are written at one distance, and read at another."""
    product = next(item for item in schedule.items if isinstance(item, Gemm))
    source = kept(schedule)
    product.b_source = replace(source, sizes=[source.sizes[0], source.sizes[1] + 8], view_of=source)


def halved(schedule: Schedule) -> None:
    """16 bits of a number are kept where the product reads 32."""
    product = next(item for item in schedule.items if isinstance(item, Gemm))
    source = kept(schedule)
    product.b_source = replace(source, elem=pto.float16, in_memory_format=True, view_of=source)


def in_registers(schedule: Schedule) -> None:
    """What only one nest is said to see has no memory."""
    kept(schedule).contracted = True


def row_by_row(schedule: Schedule) -> None:
    """Only the row at hand is stored, although a product reads all of them."""
    kept(schedule).contracted_dims = 1


BROKEN: dict[Callable[[Schedule], None], str] = {
    moved: "at the same addresses",
    unwritten: "has been overwritten, or was never written",
    mistaken: "holds another value",
    repacked: "was written in another layout",
    repadded: "was written in another layout",
    halved: "which holds 2 bytes of a number, not 4",
    in_registers: "has been overwritten, or was never written",
    row_by_row: "has been overwritten, or was never written",
}


@pytest.mark.parametrize("harm", BROKEN, ids=lambda harm: harm.__name__)
def test_broken_schedules_are_found(harm: Callable[[Schedule], None]) -> None:
    schedule = scheduled(products())
    assert not violations(schedule)
    harm(schedule)
    assert any(BROKEN[harm] in problem for problem in violations(schedule)), violations(schedule)


@pto.jit
def softmax(x, out):
    """Rows in loops that all statements share."""
    t = x[:, :]
    e = pto.exp(t - pto.max(t, axis=1, keep_dims=True))
    out[:, :] = e / pto.sum(e, axis=1, keep_dims=True)


def crossed(nest: Nest) -> None:
    """The last statement goes through columns of what the others make as rows."""
    store = nest.stmts[-1]
    store.loops = store.loops[::-1]


def joined(nest: Nest) -> None:
    """What needs a whole sum runs in the innermost loop of it."""
    nest.bodies = [nest.stmts]


@pytest.mark.parametrize("harm", [crossed, joined], ids=lambda harm: harm.__name__)
def test_statements_out_of_step_are_found(harm: Callable[[Nest], None]) -> None:
    x = np.zeros((8, 20), np.float32)
    schedule = scheduled(Launch(softmax, 1, {"x": x, "out": x.copy()}, {}))
    nest = next(nest for nest in nests(schedule.items) if nest.fused_depth and len(nest.bodies) > 1)
    assert not violations(schedule)
    harm(nest)
    assert any("in other rounds of the loops that it shares" in problem for problem in violations(schedule))


def test_what_a_loop_destroys_is_missed_in_its_second_round() -> None:
    """The first round still finds it."""
    schedule = scheduled(products(in_a_loop))
    loop = next(item for item in schedule.items if hasattr(item, "regions"))
    last = next(reversed([s for nest in nests(loop.regions[0]) for s in nest.stmts if s.buffer is not None]))
    panels = [item.b for item in loop.regions[0] if isinstance(item, Gemm)]
    assert not violations(schedule)
    last.the_buffer.offset = panels[0].offset
    assert any("overwritten" in problem or "same addresses" in problem for problem in violations(schedule))
