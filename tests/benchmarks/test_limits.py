"""The loops that measure the machine compute what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.limits import Limits, Machine, buffers, call, compile_loops, fastest, fma_rate, vector_width
from benchmarks.limits_ir import CHAINS, LOOPS, module


@pytest.fixture(scope="module")
def machine() -> Machine:
    return compile_loops()


def run(machine: Machine, loop: str, n: int = 1024) -> tuple[Any, Any, Any]:
    dst, a, b = buffers(n, 1)
    a[:] = np.arange(n)
    b[:] = 7
    call(machine, loop, 2, n, (dst, a, b))()
    return dst, a, b


@pytest.mark.parametrize("loop", ["copy", "copy_nt"])
def test_copy(machine: Machine, loop: str) -> None:
    dst, a, _ = run(machine, loop)
    assert np.array_equal(dst, a)


@pytest.mark.parametrize("loop", ["add", "add_nt"])
def test_add(machine: Machine, loop: str) -> None:
    dst, a, b = run(machine, loop)
    assert np.array_equal(dst, a + b)


def test_read_sums_everything(machine: Machine) -> None:
    dst, a, _ = run(machine, "read")
    assert dst[: machine.width].sum() == a.sum()


def test_fma_does_all_rounds(machine: Machine) -> None:
    dst, a, b = buffers(64, 0)
    call(machine, "fma", 1, 10, (dst, a, b))()
    assert np.array_equal(dst[: machine.width], np.full(machine.width, 10.0 * CHAINS, np.float32))


def test_buffers_are_aligned() -> None:
    assert all(array.ctypes.data % 64 == 0 and array.size == 256 for k in range(3) for array in buffers(256, k))


def test_rates_are_positive(machine: Machine) -> None:
    assert fma_rate(machine, 2) > 0


def test_fastest_runs_calls_together() -> None:
    done: list[int] = []
    assert fastest([lambda: done.append(1), lambda: done.append(2)]) >= 0
    assert done.count(1) == done.count(2) > 1


@pytest.mark.parametrize(
    ("features", "width"), [("+avx,+avx512f", 16), ("+avx2,+avx,-avx512f", 8), ("+neon", 4), ("", 4)]
)
def test_width(features: str, width: int) -> None:
    assert vector_width(features) == width


@pytest.mark.parametrize("width", [4, 8, 16])
def test_ir_is_valid(width: int) -> None:
    import llvmlite.binding as llvm

    parsed = llvm.parse_assembly(module(width))
    parsed.verify()
    assert {f.name for f in parsed.functions if not f.is_declaration} == set(LOOPS)


def test_an_unmeasured_rate_is_an_error() -> None:
    with pytest.raises(KeyError):
        Limits({"fma": {1: 1.0}}).rate("fma", 2)
