"""Activations in float16: which forms the pass recognises, and every float16 on the simulated device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.debug.simulate import function_of
from tests.sim.device import needs_compiler

ROOT_HALF = math.sqrt(0.5)
LINEAR, CUBIC = math.sqrt(2 / math.pi), 0.044715


@pto.jit
def gelu_by_tanh(t):
    w = t.to(pto.float32)
    return (0.5 * w * (1 + pto.tanh(LINEAR * (w + CUBIC * w * w * w)))).to(pto.float16)


@pto.jit
def gelu_by_erf(t):
    w = t.to(pto.float32)
    return (w * 0.5 * (1 + pto.erf(w * ROOT_HALF))).to(pto.float16)


@pto.jit
def gated(t):
    w = t.to(pto.float32)
    return (pto.silu(w) * w).to(pto.float16)


@pto.jit
def silu(t):
    return pto.silu(t)


@pto.jit
def gelu(t):
    return pto.gelu(t)


@pto.jit
def gelu_tanh(t):
    return pto.gelu(t, approximate="tanh")


@pto.jit
def apply(x, y, FUNCTION: pto.constexpr):
    i = pto.program_id(0) * 4096
    y[i : i + 4096] = FUNCTION(x[i : i + 4096])


def normal(x: Any) -> Any:
    return x * np.array([0.5 * math.erfc(-v * ROOT_HALF) if abs(v) < 1e9 else v > 0 for v in x.tolist()])


def logistic(x: Any, scale: Any = 1.0) -> Any:
    return x / (1 + np.exp(-scale * x))


def by_tanh(x: Any) -> Any:
    return logistic(x, 2 * LINEAR * (1 + CUBIC * x * x))


CASES = {
    "silu": (silu, logistic, 0.51),
    "silu and product": (gated, lambda x: logistic(x) * x, 0.51),
    "gelu": (gelu, normal, 0.95),
    "gelu by erf": (gelu_by_erf, normal, 0.95),
    "gelu, approximate": (gelu_tanh, by_tanh, 0.51),
    "gelu by tanh": (gelu_by_tanh, by_tanh, 0.51),
}


@needs_compiler
@pytest.mark.parametrize("name", CASES)
def test_every_float16(name: str) -> None:
    function, meaning, ulp = CASES[name]
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = np.zeros_like(x)
    with pto.device("ascend-sim"):
        apply[16](x, y, FUNCTION=function)
    with np.errstate(all="ignore"):
        wanted = meaning(x.astype(np.float64))
        rounded = wanted.astype(np.float16)
        unit = np.spacing(np.maximum(np.abs(rounded), np.float16(2**-14))).astype(np.float64)
        error = np.where(rounded == y, 0, np.abs(y.astype(np.float64) - wanted) / unit)
    np.testing.assert_array_equal(np.isnan(y[np.isnan(x)]), True)
    assert y[x == np.inf] == np.inf
    assert error[np.isfinite(x)].max() <= ulp


def text_of(function: Any, dtype: Any, **options: Any) -> str:
    x = np.zeros(1 << 16, dtype)
    kernel = apply.with_options(**options)
    return lower_to_text(function_of(kernel, (x, x, function)), ascend_target("ascend910b2"))[1]


def test_one_exponential_and_one_quotient() -> None:
    for function in (silu, gated, gelu_tanh, gelu_by_tanh):
        text = text_of(function, np.float16)
        assert text.count("Exp(") == text.count("Div(") == 1 and "Select(" not in text
    for function in (gelu, gelu_by_erf):
        text = text_of(function, np.float16)
        assert text.count("Exp(") == 1 and "Div(" not in text and "Select(" not in text


def test_the_pass_keeps_to_float16_and_can_be_left_out() -> None:
    assert text_of(gelu, np.float32).count("Exp(") > 1
    assert text_of(gelu, np.float16, disable=("activation_idioms",)).count("Exp(") > 1
    assert "Exp(" not in text_of(silu, np.float16, disable=("unit_functions",))
