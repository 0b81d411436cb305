"""Guards of direct launches, which generated code makes: its compiler vouches for what a kernel is given.

Types, numbers and overlaps are looked at as ever, since a version was chosen by them. What only a user can get wrong is
not: names, defaults, constants, captured variables, and what autograd records. The grid follows from the numbers, so it
is part of the guard, and so is the value of every whole number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pypto.backends.cpu.runtime.launcher.recipe import (
    Recipe,
    Unfit,
    add_array,
    add_facts,
    add_number,
    add_places,
    start,
)  # fmt: skip

Argument = tuple[Any, Any]  # an argument as it was given, and what is known of it: an `ArrayInfo` for an array


def direct_recipe(version: Any, given: Mapping[str, Argument], grid: Sequence[int], overlapping: bool) -> Recipe:
    """The steps for a compiled version, from arguments by name that it was chosen for. Numbers come first: they differ.

    Raises
    ------
    Unfit
        When an argument is of a kind that native code does not know.
    """
    steps, written = start(version.program.artifact.abi, list(given)), version.program.written
    infos = {name: info for name, (_, info) in given.items()}
    arrays = {name: n for n, name in enumerate(given) if hasattr(infos[name], "reach")}
    for n, (name, (value, _)) in enumerate(given.items()):
        if name not in arrays:
            add_exact(steps, n, name, value)
    for name, n in arrays.items():
        add_array(steps, n, infos[name], given[name][0], name in written)
    add_facts(steps, version.guard, infos, arrays)
    add_places(steps, arrays, written)
    steps.add("MET", 0, overlapping)
    for axis, size in enumerate(grid):
        steps.add("PUT_WORD", 0, axis, size)
    return steps


def add_exact(steps: Recipe, n: int, name: str, value: Any) -> None:
    """Guard a number: an int by its value, others by their type."""
    if type(value) is int and -(2**63) <= value < 2**63:
        steps.add("INT", n, value, value, steps.slot(name))
    elif type(value) in (bool, float):
        add_number(steps, n, name, value, None)
    else:
        raise Unfit
