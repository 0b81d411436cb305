"""Tile IR of kernels becomes Block IR for vector cores: instructions that exist, on buffers that are there."""

from __future__ import annotations

import pytest

from pypto.backends.ascend.blockir.instructions import INSTRUCTIONS
from pypto.backends.ascend.blockir.ir import BlockKernel, Buffer, Loop, View
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.vector.lower import lower
from pypto.ir.types import uint64
from pypto.passes import optimize
from tests.conformance.running import make_launch

TARGET = ascend_target("ascend910b2")


def lowered(name: str) -> BlockKernel:
    launch = make_launch(name)
    return lower(optimize(launch.kernel.compile(**launch.arguments).program.function), TARGET)


@pytest.mark.parametrize("name", ["add_native", "softmax_native", "transpose", "find"])
def test_every_instruction_is_one_of_the_table(name: str) -> None:
    kernel = lowered(name)
    buffers = set(kernel.buffers)
    for instr in kernel.instructions():
        assert instr.name in INSTRUCTIONS
        views = [a for a in instr.args if isinstance(a, View)]
        assert all(view.of in buffers for view in views if isinstance(view.of, Buffer))


def test_parameters_are_arrays_then_numbers_then_the_grid() -> None:
    kernel = lowered("add_native")
    assert [p.name for p in kernel.params[-3:]] == ["grid_x", "grid_y", "grid_z"]
    kinds = [slot.kind for slot in kernel.slots]
    assert kinds == sorted(kinds, key=lambda kind: kind != "ptr")
    assert len(kernel.slots) == len(kernel.params) - 3


def test_a_core_takes_every_so_many_programs() -> None:
    (loop,) = lowered("add_native").body
    assert isinstance(loop, Loop)
    assert (loop.start, loop.step) == ("block", "blocks")


def test_float64_goes_through_the_scalar_unit_by_its_bits() -> None:
    kernel = lowered("add_native_f64")
    assert {p.dtype for p in kernel.params if p.is_array} == {uint64}
    assert "AddDouble(GetValue(" in listing(kernel)
