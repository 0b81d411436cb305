"""Sums of products in other steps: the same sum, for every K, and only where a loop is such a sum."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.gemm.blocking import choose_kc
from pypto.ir.core import Op
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.k_blocking import retile_reductions
from pypto.passes.pattern import constant_of
from tests.backends_cpu.lowering import fixed_target, optimized
from tests.conformance.cases import Launch
from tests.conformance.fences import Fences

TARGET_KC = partial(choose_kc, target=fixed_target())


@pto.jit
def known(a, b, c, START: pto.constexpr, STOP: pto.constexpr, STEP: pto.constexpr):
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(START, STOP, STEP):
        acc = pto.dot(a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pto.jit
def unknown(a, b, c, start, stop, STEP: pto.constexpr):
    acc = c[:, :]
    for k in range(start, stop, STEP):
        acc += pto.dot(a[0:16, 2 + k : 2 + k + STEP], pto.trans(b[0:32, k : k + STEP]))
    c[:, :] = acc


@pto.jit
def scaled(a, b, c, n, STEP: pto.constexpr):
    """What lies beyond the arrays is not zero after the sum with 1."""
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n, STEP):
        acc = pto.dot(a[0:16, k : k + STEP] + 1.0, b[k : k + STEP, 0:32] + 1.0, acc)
    c[:, :] = acc


@pto.jit
def groups(a, scales, b, c, n, STEP: pto.constexpr):
    """Every step has scales of its own."""
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n, STEP):
        acc = pto.dot(a[0:16, k : k + STEP] * scales[k // STEP, 0:16][:, None], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pto.jit
def squared(a, b, c, n, STEP: pto.constexpr):
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n, STEP):
        acc = pto.dot(a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc) * 0.5
    c[:, :] = acc


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    """Whole numbers, so that every sum of their products is exact."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def the_loop(kernel: Any, **arguments: Any) -> Op:
    function = retile_reductions(optimized(Launch(pto.jit(kernel.function), 1, arguments, {})), TARGET_KC)
    return next(op for op in function.walk() if op.name == "for")


def the_step(kernel: Any, **arguments: Any) -> Any:
    return constant_of(the_loop(kernel, **arguments).operands[2])


@pto.jit
def whole(a, b, c, STEP: pto.constexpr):
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, a.shape[1], STEP):
        acc = pto.dot(a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pytest.mark.parametrize(("k", "step"), [(1024, 256), (999, 256), (520, 224), (130, 256)])
def test_known_sums_leave_no_rest(k: int, step: int) -> None:
    a, b, c = numbers(16, k), numbers(k, 32), numbers(16, 32)
    launch = Launch(pto.jit(whole.function), 1, {"a": a, "b": b, "c": c, "STEP": 128}, {})
    function = retile_reductions(optimized(launch), TARGET_KC)
    (dot,) = [op for op in function.walk() if op.name == "dot"]
    assert dot.operands[0].shape[-1] == step
    assert any(op.name == "for" for op in function.walk()) == (k > step)


@pytest.mark.parametrize("k", [100, 128, 256, 500, 512])
def test_what_runs_once_is_no_loop(k: int, level: str) -> None:
    a, b, c = numbers(16, k), numbers(k, 32), numbers(16, 32)
    launch = Launch(pto.jit(whole.function), 1, {"a": a, "b": b, "c": c, "STEP": 128}, {})
    function = retile_reductions(optimized(launch), TARGET_KC)
    assert all(op.name != "for" for op in function.walk())
    verify(function, TABLE)
    pto.jit(level=level)(whole.function)[1](a, b, c, 128)
    np.testing.assert_array_equal(c, a @ b)


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("step", [8, 20, 128])
@pytest.mark.parametrize(("start", "stop"), [(0, 999), (0, 70), (0, 1), (24, 500), (7, 7), (9, 3), (500, 2000)])
def test_known_bounds(start: int, stop: int, step: int, level: str) -> None:
    a, b = numbers(16, 999), numbers(999, 32)
    with Fences() as fences:
        c = fences.around(numbers(16, 32))
        pto.jit(level=level)(known.function)[1](a, b, c, start, stop, step)
    end = start + -(-max(0, stop - start) // step) * step
    np.testing.assert_array_equal(c, a[:, start:end] @ b[start:end])


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("step", [8, 20, 128])
@pytest.mark.parametrize(("start", "stop"), [(0, 990), (0, 70), (0, 1), (24, 500), (7, 7), (9, 3), (500, 2000)])
def test_bounds_of_the_launch(start: int, stop: int, step: int, level: str) -> None:
    a, b, c = numbers(16, 999), numbers(32, 997), numbers(16, 32)
    end = min(start + -(-max(0, stop - start) // step) * step, 997)
    expected = c + a[:, start + 2 : end + 2] @ b[:, start:end].T
    with Fences() as fences:
        out = fences.around(c)
        pto.jit(level=level)(unknown.function)[1](a, b, out, start, stop, step)
    np.testing.assert_array_equal(out, expected)


@pto.jit
def until(a, b, c, n, STEP: pto.constexpr):
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n, STEP):
        acc = pto.dot(a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pto.jit
def negated(a, b, c, n, STEP: pto.constexpr):
    """Its left side has to be computed, all of a step of it."""
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n, STEP):
        acc = pto.dot(-a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pto.jit
def as_deep_as_its_program(a, b, c, n, STEP: pto.constexpr):
    acc = pto.zeros((16, 32), pto.float32)
    for k in range(0, n + 16 * pto.program_id(0), STEP):
        acc = pto.dot(a[0:16, k : k + STEP], b[k : k + STEP, 0:32], acc)
    c[:, :] = acc


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize(("step", "taken"), [(64, 512), (1024, 1024)])
@pytest.mark.parametrize("n", [0, 1, 64, 500, 513, 999, 1100])
def test_sums_of_unknown_length_go_as_deep_as_the_caches_allow(step: int, taken: int, n: int, level: str) -> None:
    a, b, c = numbers(16, 1024), numbers(1024, 32), numbers(16, 32)
    assert the_step(until, a=a, b=b, c=c, n=n, STEP=step) == taken
    pto.jit(level=level)(until.function)[1](a, b, c, n, step)
    end = -(-n // step) * step
    np.testing.assert_array_equal(c, a[:, :end] @ b[:end])


@pytest.mark.parametrize("kernel", [negated, as_deep_as_its_program])
@pytest.mark.parametrize("k", [30, 999])
def test_unknown_sums_that_keep_their_steps(kernel: Any, k: int, level: str) -> None:
    a, b, c = numbers(16, k), numbers(k, 32), numbers(16, 32)
    assert the_step(kernel, a=a, b=b, c=c, n=k, STEP=64) == 64
    pto.jit(level=level)(kernel.function)[1](a, b, c, k, 64)
    np.testing.assert_array_equal(c, (-a if kernel is negated else a) @ b)


@pytest.mark.parametrize("kernel", [scaled, groups])
@pytest.mark.parametrize("k", [96, 100, 1024])
def test_what_depends_on_the_step_keeps_it(kernel: Any, k: int, level: str) -> None:
    a, b, c = numbers(16, k), numbers(k, 32), np.zeros((16, 32), np.float32)
    more = {"scales": numbers(-(-k // 32), 16)} if kernel is groups else {}
    assert the_step(kernel, a=a, **more, b=b, c=c, n=k, STEP=32) == 32
    pto.jit(level=level)(kernel.function)[1](a=a, **more, b=b, c=c, n=k, STEP=32)
    expected = np.zeros_like(c)
    pto.interpret(kernel)[1](a=a, **more, b=b, c=expected, n=k, STEP=32)
    np.testing.assert_array_equal(c, expected)


def test_what_is_no_sum_keeps_its_step() -> None:
    a, b, c = numbers(16, 128), numbers(128, 32), numbers(16, 32)
    assert the_step(squared, a=a, b=b, c=c, n=128, STEP=32) == 32
