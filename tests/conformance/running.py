"""Runs launches on the CPU and in the interpreter, and compares what they leave."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.conformance import cases, flow_cases, network_cases
from tests.conformance.cases import Array, Launch, Make
from tests.conformance.fences import Fences

ALL: dict[str, Make] = {**cases.CASES.make, **flow_cases.CASES.make, **network_cases.CASES.make}


def quick_part(parts: int, names: Iterable[str] = ALL) -> list[Any]:
    """Kernels as parameters of a test: one of so many is quick, the others are slow, by their names alone."""
    slow = {name: pytest.mark.slow for name in names if zlib.crc32(name.encode()) % parts}
    return [pytest.param(name, marks=[slow[name]] if name in slow else []) for name in names]


def make_launch(name: str) -> Launch:
    """The same arrays each time, in memory of their own."""
    return ALL[name](np.random.default_rng(zlib.crc32(name.encode())))


@functools.cache
def at_level(kernel: Any, level: str) -> Any:
    """The kernel, compiled for a feature level."""
    return pto.jit(level=level)(kernel.function)


def run(kernel: Any, launch: Launch) -> dict[str, Array]:
    """Launch; gives the outputs, and asserts that the inputs and the memory around all arrays are as before."""
    with Fences() as fences:
        for name, x in launch.arguments.items():
            others = (other for n, other in launch.arguments.items() if n != name and isinstance(other, np.ndarray))
            if isinstance(x, np.ndarray) and x.flags.c_contiguous and not any(np.shares_memory(x, o) for o in others):
                launch.arguments[name] = fences.around(x)
        return run_inside(kernel, launch)


def run_inside(kernel: Any, launch: Launch) -> dict[str, Array]:
    before = {n: x.copy() for n, x in launch.arguments.items() if isinstance(x, np.ndarray)}
    kernel[launch.grid](**launch.arguments)
    outputs = {name: launch.arguments[name] for name in launch.expected}
    for name, array in before.items():
        if not any(np.shares_memory(array_of(launch, name), out) for out in outputs.values()):
            np.testing.assert_array_equal(launch.arguments[name], array, err_msg=f"{name} is no output")
    return outputs


def array_of(launch: Launch, name: str) -> Array:
    array: Array = launch.arguments[name]
    return array


def assert_close(found: dict[str, Array], expected: dict[str, Array], tolerance: float, what: str) -> None:
    for name, wanted in expected.items():
        array = found[name]
        assert (array.dtype, array.shape) == (wanted.dtype, wanted.shape), f"{what}: {name}"
        wide = np.float64 if array.dtype.kind not in "iub" else array.dtype
        np.testing.assert_allclose(
            array.astype(wide), wanted.astype(wide), rtol=tolerance, atol=tolerance, err_msg=f"{what}: {name}"
        )
