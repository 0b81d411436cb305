"""What the language decides: types and values of small expressions, on the CPU and in the interpreter."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.conformance.sources import define

# Operands of the expressions in semantics.txt.
OPERANDS: dict[str, list[Any]] = {
    "i1": [True, False], "i8": [-7, 7], "i16": [-7, 7], "i32": [-7, 7], "i64": [-7, 7], "u8": [0, 7], "u32": [6, 7],
    "f16": [-3.5, 4.0], "bf16": [-3.5, 4.0], "f32": [-3.5, 4.0], "f64": [-3.5, 4.0],
}  # fmt: skip


TEXT = """
import math
NAN, INF = math.nan, math.inf
def kernel({names}, out):
    {loads}
    result = {expression}
    pto.static_assert(result.dtype == pto.{dtype}, "it is another dtype")
    out[:] = result
"""


def expressions() -> list[tuple[str, str, list[Any]]]:
    lines = Path(__file__).with_name("semantics.txt").read_text(encoding="utf-8").splitlines()
    rows = [re.split(r"\s+\| +", line) for line in lines if line and not line.startswith("#")]
    return [(expression, dtype, [number(x) for x in values.split(", ")]) for expression, dtype, values in rows]


def number(text: str) -> Any:
    if text in ("True", "False"):
        return text == "True"
    return int(text) if text.lstrip("-").isdigit() else float(text)


def kernel_text(expression: str, dtype: str) -> str:
    names, loads = ", ".join(f"x_{name}" for name in OPERANDS), "; ".join(f"{name} = x_{name}[:]" for name in OPERANDS)
    return TEXT.format(names=names, loads=loads, expression=expression, dtype=dtype)


def arrays() -> list[Any]:
    from pypto.ir.types import DTYPE_BY_NAME

    return [np.array(values, DTYPE_BY_NAME[name].numpy) for name, values in OPERANDS.items()]


@pytest.mark.parametrize(("expression", "dtype", "expected"), expressions(), ids=str)
def test_expression(expression: str, dtype: str, expected: list[Any]) -> None:
    kernel = define(kernel_text(expression, dtype))
    for run in (kernel, pto.interpret(kernel)):
        out = np.zeros(2, getattr(pto, dtype).numpy)
        run[1](*arrays(), out)
        wide = out if out.dtype.kind in "iub" else out.astype(np.float64)
        np.testing.assert_array_equal(wide, expected)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(5, "int32"), (-(2**31), "int32"), (2**31, "int64"), (-(2**31) - 1, "int64"), (2**63, "uint64"), (1.5, "float32"),
     (True, "int1"), (np.int8(5), "int8"), (np.float64(1.5), "float64"), (np.uint16(7), "uint16"),
     (np.float16(2), "float16"), (np.bool_(False), "int1")],
)  # fmt: skip
def test_types_of_scalar_arguments(value: Any, dtype: str) -> None:
    text = f"def kernel(x, out):\n    pto.static_assert(x.dtype == pto.{dtype})\n    out[0] = x\n"
    for run in (define(text), pto.interpret(define(text))):
        out = np.zeros(1, getattr(pto, dtype).numpy)
        run[1](value, out)
        assert out[0] == value


def test_elementwise_arithmetic_is_not_contracted() -> None:
    """Each product and each sum rounds on its own; `pto.fma` rounds once."""
    x = np.full(64, 1 + 2.0**-12, np.float32)
    text = "def kernel(x, a, b):\n    t = x[:]\n    a[:] = t * t - 1.0\n    b[:] = pto.fma(t, t, -1.0)\n"
    for run in (define(text), pto.interpret(define(text))):
        a, b = np.zeros_like(x), np.zeros_like(x)
        run[1](x, a, b)
        assert (a == np.float32(2.0**-11)).all()
        assert (b == np.float32(2.0**-11 + 2.0**-24)).all()


def test_loads_see_the_stores_before_them() -> None:
    text = """
def kernel(x, y):
    before = x[0:4]
    x[0:4] = before + 1
    pto.store(x + pto.arange(2, 6), 9)
    y[0:6] = x[0:6]
    y[6:10] = before
"""
    for run in (define(text), pto.interpret(define(text))):
        x, y = np.arange(6, dtype=np.int32), np.zeros(10, np.int32)
        run[1](x, y)
        assert y.tolist() == [1, 2, 9, 9, 9, 9, 0, 1, 2, 3]


def test_lambdas_that_python_simplifies() -> None:
    text = "pick = lambda v, w: v if True else w\ndef kernel(x, out):\n    out[:] = pick(x[:], 0)\n"
    out = np.zeros(3, np.int32)
    define(text)[1](np.arange(3, dtype=np.int32), out)
    assert out.tolist() == [0, 1, 2]
