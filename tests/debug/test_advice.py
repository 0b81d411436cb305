"""Warnings about kernels that hardly do what their author wants: once, at the line, and filtered as others are."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compat.triton.kernels import jit as triton_jit
from pypto.errors import PyptoWarning
from pypto.errors.advice import CutsFractions, ManyVersions, OffTheCube, PrintsNothing, StoresNothing
from tests.conformance.sources import define
from tests.sim.device import needs_compiler

F32, I32 = np.float32, np.int32


def text(body: str, args: str = "x, o") -> str:
    return "\n".join([f"def kernel({args}):", *(f"    {line}" for line in body.splitlines()), ""])


def said(kernel: Any, *args: Any, **given: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        kernel[1](*args, **given)
    return caught


def floats() -> np.ndarray[Any, Any]:
    return np.ones(4, F32)


@pytest.mark.parametrize("interpreted", [False, True])
def test_a_kernel_that_stores_nothing(interpreted: bool) -> None:
    kernel = define(text("t = x[:]\no = t * 2"))
    run = pto.interpret(kernel) if interpreted else kernel
    (first,) = said(run, floats(), floats())
    assert issubclass(first.category, StoresNothing) and issubclass(StoresNothing, PyptoWarning)
    assert first.lineno == 3 and "    o = t * 2" in str(first.message)
    assert "write into the array: `o[:] = …`" in str(first.message)
    assert said(run, floats(), floats()) == []  # once
    assert said(run, np.ones(4), np.ones(4)) == []  # for another version, too


@pytest.mark.parametrize(
    "body",
    ["o[:] = x[:]", "pto.atomic_add(o, x[0])", "print(x[0])", "assert x[0] > 0", "pto.static_print(x.ndim)",
     "pto.static_assert(x.ndim == 1)", "for i in range(2):\n    if x[i] > 0:\n        o[i] = 1.0"],
)  # fmt: skip
def test_what_does_something_is_told_nothing(body: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(define(text(body)), floats(), floats()) == []


def test_a_kernel_without_arrays_or_a_name_that_is_bound_anew() -> None:
    assert said(define(text("t = n + 1", "n")), 3) == []
    (found,) = said(define(text("t = x[:] * 2", "x")), floats())
    assert found.lineno == 1 and "as in `out[:] = value`" in str(found.message)


@pytest.mark.parametrize(
    ("body", "column"),
    [("o[:] = x[:] / 2", 5), ("o[0] = pto.sqrt(x[0])", 5), ("o[:] = 2.5", 5), ("pto.atomic_add(o, 0.5)", 5),
     ("pto.store(o + pto.arange(0, 4), x[:])", 5), ("for _ in range(3):\n    o[:] += x[:] * 0.5", 9)],
)  # fmt: skip
def test_a_float_into_integers(body: str, column: int) -> None:
    kernel, o = define(text(body)), np.zeros(4, I32)
    (found,) = said(kernel, floats(), o)
    assert issubclass(found.category, CutsFractions) and "`.to(pto.int32)`" in str(found.message)
    assert f":{found.lineno}:{column}, in kernel" in str(found.message)
    assert said(kernel, floats(), o) == []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutsFractions)
        define(text(body + "\n"))[1](floats(), np.zeros(4, I32))


@pytest.mark.parametrize(
    "body",
    ["o[:] = x[:].to(pto.int32)", "o[:] = 2.0", "o[:] = x[:] > 0", "o[:] = o[:] // 2",
     "pto.store(o, x[0].to(pto.int8))"],
)  # fmt: skip
def test_what_says_so_is_told_nothing(body: str) -> None:
    assert said(define(text(body)), floats(), np.zeros(4, I32)) == []


def test_floats_and_bools_take_floats() -> None:
    for dtype in (F32, np.float16, np.bool_):
        assert said(define(text("o[:] = x[:] * 0.5")), floats(), np.zeros(4, dtype)) == []


@pytest.mark.parametrize("what", ["constant `N`", "variable `SCALE`"])
def test_the_ninth_version(what: str) -> None:
    kernel = define(f"SCALE = 0  # {what}\n" + text("o[0] = N * SCALE", "o, N: pto.constexpr"))
    counts = []
    for n in range(12):
        if "SCALE" in what:
            kernel.function.__globals__["SCALE"] = n
        counts.append(said(kernel, floats(), n if "N" in what else 0))
    assert [len(found) for found in counts] == [0] * 8 + [1] + [0] * 3
    message = str(counts[8][0].message)
    assert issubclass(counts[8][0].category, ManyVersions)
    assert f"9 versions of kernel were compiled for the same types; what keeps changing is the {what}" in message


def test_versions_that_are_meant_are_not_counted() -> None:
    """Those of a tuner's constants, and those for other types."""
    body = text("o[0] = N", "o, N: pto.constexpr")
    tuned = pto.autotune([pto.Config({"N": 5}), pto.Config({"N": 5, "num_warps": 2})], key=[])(define(body))
    assert "N" in tuned.fn.tuned
    for n in range(12):
        assert said(tuned.fn, floats(), n) == []
    plain = define(body)
    for dtype in (F32, np.float64, np.int8, np.int16, I32):
        for n in range(3):
            assert said(plain, np.ones(4, dtype), n) == []


def like_triton(x, o, n, N: pto.constexpr):
    offsets = pto.arange(0, 4)
    pto.store(o + offsets, pto.load(x + offsets) * N)


def idle_like_triton(x, o):
    o = x + 1  # noqa: F841


def test_triton_kernels_are_told_nothing() -> None:
    kernel: Any = triton_jit(like_triton)
    for n in range(12):
        assert said(kernel, floats(), np.zeros(4, I32), 3, n) == []
    assert said(triton_jit(idle_like_triton), floats(), floats()) == []


@needs_compiler
def test_a_device_that_prints_nothing_says_so() -> None:
    kernel = define(text("o[:] = x[:]\nprint(x[0])"))
    with pto.device("ascend-sim"):
        (found,) = said(kernel, floats(), floats())
        assert said(kernel, floats(), floats()) == []
    assert issubclass(found.category, PrintsNothing) and "kernel prints nothing on ascend" in str(found.message)


def told_of_products(kernel: Any, *args: Any) -> list[warnings.WarningMessage]:
    """What is said when a kernel is compiled for a chip."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel.compile(*args, target="ascend910b2")
    return caught


def test_a_product_that_is_not_on_the_cube_core_is_told_of_with_its_line_and_the_reason() -> None:
    body = "n = starts[0]\no[:, :] = pto.dot(x[:, :], y[:, n : n + 16])"
    x, o, starts = np.ones((32, 32), np.float16), np.ones((32, 16), np.float16), np.zeros(1, I32)
    kernel = define(text(body, "x, y, o, starts"))
    (first,) = told_of_products(kernel, x, x, o, starts)
    assert issubclass(first.category, OffTheCube) and first.lineno == 3
    assert "line 3: an operand may begin before its array along its rows" in str(first.message)
    assert told_of_products(pto.jit(kernel.function), x, x, o, starts)  # from the cache, too
    nonnegative = define(text(body.replace("starts[0]", "pto.maximum(starts[0], 0)"), "x, y, o, starts"))
    assert told_of_products(nonnegative, x, x, o, starts) == []  # the way out
    squares = [np.ones((32, 32), dtype) for dtype in (np.int16, np.int16, I32)]
    (second,) = told_of_products(define(text("o[:, :] = pto.dot(x[:, :], y[:, :])", "x, y, o")), *squares)
    assert "the cube core has no products of int16" in str(second.message)
