"""Lowering of conformance kernels for a machine that is the same everywhere, so that texts can be compared."""

from __future__ import annotations

from dataclasses import replace

from pypto.backends.cpu.codegen.function import Lowered, lower
from pypto.backends.cpu.target import CpuTarget, describe
from pypto.ir.core import Function
from pypto.passes import optimize
from tests.conformance.cases import Launch

FEATURES = ("sse4.2", "popcnt", "ssse3", "avx2", "fma", "f16c", "bmi2")


def fixed_target() -> CpuTarget:
    """x86-64-v3 with a cache of 32 MB, whatever the host is."""
    target = describe("x86-64-v3", "", "x86-64-v3", "x86_64-unknown-linux-gnu", set(FEATURES))
    return replace(target, caches=(32 << 10, 1 << 20, 32 << 20))


def optimized(launch: Launch) -> Function:
    """The IR that the backend lowers."""
    return optimize(launch.kernel.compile(**launch.arguments).program.function)


def lowered(launch: Launch, target: CpuTarget | None = None) -> Lowered:
    return lower(optimized(launch), target or fixed_target())
