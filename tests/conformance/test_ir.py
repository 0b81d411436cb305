"""Tile IR of every kernel of the collection: its text says all of it, and every pass leaves it valid and right."""

from __future__ import annotations

from typing import Any

import pytest

from pypto import interp
from pypto.ir.core import Function
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ir.types import ArrayType
from pypto.loc import Loc
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.manager import Pass, observed, run
from pypto.passes.optimizing import OPTIMIZE
from pypto.passes.preparing import PREPARE
from pypto.runtime.arrays import array_info
from tests.conformance.cases import Launch
from tests.conformance.running import ALL, assert_close, make_launch, quick_part


def tile_ir(launch: Launch) -> Function:
    """What the front end makes of a kernel for a launch, with the launch's fact about overlaps."""
    program = launch.kernel.compile(**launch.arguments).program
    function: Function = program.built.function
    function.attrs["noalias"] = program.function.attrs["noalias"]
    return function


def interpret(function: Function, launch: Launch) -> None:
    grid = launch.grid(launch.arguments) if callable(launch.grid) else launch.grid
    sizes = (*(grid if isinstance(grid, tuple) else (grid,)), 1, 1)[:3]
    arguments: list[Any] = []
    for v in function.args:
        given = launch.arguments[v.hint]
        arguments.append(array_info(given, "kernel", v.hint) if isinstance(v.type, ArrayType) else given)
    interp.run(function, arguments, sizes)


def assert_round_trip(function: Function) -> None:
    for locations in (False, True):
        text = print_function(function, locations=locations)
        again = parse_function(text)
        verify(again, TABLE)
        assert print_function(again, locations=locations) == text


@pytest.mark.parametrize("name", quick_part(2))
def test_round_trip_and_validity_after_every_pass(name: str) -> None:
    function, seen = tile_ir(make_launch(name)), []

    def check(step: Pass, _: Function, made: Function) -> None:
        verify(made, TABLE)
        assert_round_trip(made)
        seen.append(step.name)

    assert_round_trip(function)
    text = print_function(function)
    with observed(check):
        run(function, (*PREPARE, *OPTIMIZE))
    assert seen == [step.name for step in (*PREPARE, *OPTIMIZE)]
    assert print_function(function) == text, "a pass must leave its input as it was"


@pytest.mark.parametrize("name", quick_part(2))
def test_optimized_ir_means_the_same(name: str) -> None:
    launch = make_launch(name)
    interpret(run(tile_ir(launch), (*PREPARE, *OPTIMIZE)), launch)
    found = {name: launch.arguments[name] for name in launch.expected}
    assert_close(found, launch.expected, launch.tolerance, f"{name}, optimized")


def outermost(place: Loc) -> Loc:
    while place.call_site is not None:
        place = place.call_site
    return place


@pytest.mark.parametrize("name", ALL)
def test_every_op_has_a_place_in_the_source(name: str) -> None:
    launch = make_launch(name)
    places = [outermost(op.loc) for op in tile_ir(launch).walk() if op.name != "yield"]
    assert {place.function for place in places} == {launch.kernel.function.__name__}
    assert all(place.line > 0 for place in places)
