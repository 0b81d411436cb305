"""What a kernel takes from outside: globals, closures, functions and constants, and that a change is noticed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.frontend import UndefinedName


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


SCALE = 2
OFFSET: Any = None


def helper(v):
    return v * SCALE


@pto.jit
def shifted(v):
    return helper(v) + (0 if OFFSET is None else OFFSET)


@pto.jit
def outer(out, n):
    out[0] = shifted(n)


def result(n: int, kernel: Any = outer) -> float:
    out = np.zeros(1, np.float32)
    kernel[1](out, n)
    return float(out[0])


def test_globals_of_called_functions_are_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    module, kernel = globals(), pto.jit(outer.fn)  # no other test's versions are compared with
    assert result(5, kernel) == 10
    monkeypatch.setitem(module, "SCALE", 3)
    assert result(5, kernel) == 15
    monkeypatch.setitem(module, "OFFSET", 100)
    assert result(5, kernel) == 115
    assert kernel.specializations[-1].reason == "a global or closure variable changed: OFFSET"
    monkeypatch.setitem(module, "OFFSET", None)
    monkeypatch.setitem(module, "SCALE", 2)
    assert result(5, kernel) == 10
    monkeypatch.delitem(module, "SCALE")
    with pytest.raises(UndefinedName, match="`SCALE` is not defined"):
        result(5, kernel)


def test_a_replaced_function_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    assert result(4) == 8
    monkeypatch.setitem(globals(), "helper", lambda v: v + 1000)
    assert result(4) == 1004


def test_closures_are_read_anew() -> None:
    factor = 2

    @pto.jit
    def kernel(out, n):
        out[0] = n * factor

    out = np.zeros(1, np.int32)
    kernel[1](out, 3)
    assert out[0] == 6
    factor = 7
    kernel[1](out, 3)
    assert out[0] == 21


CONSTANTS = [1, True, 1.0, 0, False, 0.0, -0.0, None, "1", pto.float32, (1, 2), (1.0, 2), (True, (0.0,)), (1, (-0.0,))]


def test_equal_constants_of_different_types_are_not_mixed_up() -> None:
    @pto.jit
    def kernel(out, value: pto.constexpr):
        out[0] = 1

    versions = [kernel.compile(np.zeros(1), value) for value in CONSTANTS]
    for value in (*CONSTANTS, *CONSTANTS):
        kernel[1](np.zeros(1), value)
    assert [dict(version.types)["value"] for version in versions] == [repr(value) for value in CONSTANTS]
    assert len(kernel.specializations) == len(CONSTANTS)


def test_functions_as_constants() -> None:
    @pto.jit
    def apply(x, out, f: pto.constexpr):
        out[:] = f(x[:])

    def square(t):
        return t * t

    for f, value in ((square, 9), (pto.exp, np.exp(np.float32(3))), (lambda t: t + 1, 4), (square, 9)):
        out = np.zeros(2, np.float32)
        apply[1](ones(2) * 3, out, f)
        np.testing.assert_allclose(out, value, rtol=1e-6)
    assert len(apply.specializations) == 3


def test_none_is_a_constant_without_being_declared() -> None:
    @pto.jit
    def kernel(x, out, bias):
        if bias is None:
            out[:] = x[:]
        else:
            out[:] = x[:] + bias[:]

    out = np.zeros(3, np.float32)
    kernel[1](ones(3), out, None)
    assert out.tolist() == [1, 1, 1]
    kernel[1](ones(3), out, ones(3))
    assert out.tolist() == [2, 2, 2]
