"""Kernels stay right without any one of the optional passes of the CPU; all kernels take part, in turns."""

from __future__ import annotations

from typing import Final

import pytest

import pypto as pto
from pypto.backends.cpu.pipeline import PASSES
from tests.conformance.running import ALL, assert_close, make_launch, run

OPTIONAL: Final = tuple(dict.fromkeys(row.name for row in PASSES if row.optional))
NAMES: Final = tuple(ALL)


@pytest.mark.slow
@pytest.mark.parametrize("name", OPTIONAL)
def test_kernels_are_right_without_a_pass(name: str) -> None:
    kernels = NAMES[OPTIONAL.index(name) :: len(OPTIONAL)]
    assert kernels
    for kernel in kernels:
        launch = make_launch(kernel)
        found = run(pto.jit(launch.kernel.function, disable=(name,)), launch)
        assert_close(found, launch.expected, launch.tolerance, f"{kernel} without {name}")
