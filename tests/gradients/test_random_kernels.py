"""Random kernels: the derived gradients of float64 arrays beside central differences along a random direction.

Each kernel loads two matrices, applies random ops to their tiles, some of them in a loop or a branch, and stores one
result. The same kernel at moved arguments is the reference.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.jit.generated import kernel_of

M, N = 5, 7
STEP = 1e-6
ELEMENTWISE = (
    "pto.exp(-{a} * {a})", "pto.tanh({a})", "pto.sin({a} + {b})", "{a} * {b}", "{a} - {b} * 0.5", "pto.erf({a})",
    "{a} / (2 + pto.abs({b}))", "pto.sqrt(1 + {a} * {a})", "pto.log(2 + {b} * {b})", "pto.maximum({a}, {b})",
    "pto.where({a} > {b}, {a}, {b} * 0.25)", "pto.sigmoid({a})", "pto.fma({a}, {b}, {a})",
    "pto.minimum({a} * 0.5, {b})",
)  # fmt: skip
ACROSS = (
    "{a} - pto.max({a}, axis=1, keep_dims=True)", "{a} / pto.sum(1 + pto.abs({b}), axis=0, keep_dims=True)",
    "{a} * pto.rsqrt(pto.sum({a} * {a}, axis=1, keep_dims=True) + 1)", "pto.cumsum({a}, axis=1) * 0.1",
    "pto.dot({a}, pto.trans({b}))[:, 0:1] * {b}", "pto.exp({a} - pto.max({a}, axis=1, keep_dims=True))",
    "pto.reshape(pto.trans({a}), (5, 7))", "pto.gather({a}, pto.argsort({b}, 1), 1)",
    "pto.sum({a}, axis=1)[:, None] * 0.3 + {b}", "pto.min({b}, axis=0)[None, :] + {a}",
)  # fmt: skip


@st.composite
def kernel_texts(draw: Any) -> str:
    """A kernel: some lines at its top, some in a loop that carries one value, some in a branch."""
    names = ["t0", "t1"]
    lines = [f"    t0 = x[i : i + {M}, :]", "    t1 = w[:, :]"]

    def step(indent: str, known: list[str]) -> str:
        template = draw(st.sampled_from(ELEMENTWISE + ACROSS))
        a, b = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        name = f"t{len(names)}"
        names.append(name)
        known.append(name)
        lines.append(f"{indent}{name} = {template.format(a=a, b=b)}")
        return name

    top = list(names)
    for _ in range(draw(st.integers(1, 4))):
        step("    ", top)
    if draw(st.booleans()):
        lines.append(f"    carried = {draw(st.sampled_from(top))}")
        lines.append(f"    for k in range({draw(st.integers(0, 3))}):")
        inner = [*top, "carried"]
        for _ in range(draw(st.integers(1, 2))):
            last = step("        ", inner)
        lines.append(f"        carried = 0.5 * carried + 0.25 * {last}")
        top.append("carried")
    if draw(st.booleans()):
        lines.append("    if pto.program_id(0) == 1:")
        lines.append(f"        {top[-1]} = pto.tanh({top[-1]} * {draw(st.sampled_from(top))})")
    lines.append(f"    y[i : i + {M}, :] = {top[-1]}")
    head = f"@pto.jit\ndef random_kernel(x, w, y):\n    i = pto.program_id(0) * {M}\n"
    return "import pypto as pto\n\n\n" + head + "\n".join(lines) + "\n"


def check(text: str, seed: int) -> None:
    """The derivative along a random direction, derived and measured."""
    rng = np.random.default_rng(seed)
    kernel = kernel_of(text, "random_kernel")
    x, w, g = rng.normal(size=(3 * M, N)), rng.normal(size=(M, N)), rng.normal(size=(3 * M, N))
    y, d_x, d_w = np.empty_like(x), np.full_like(x, np.nan), np.full_like(w, np.nan)
    pto.adjoint(kernel, ["x", "w"])[3](x, w, y, d_y=g, d_x=d_x, d_w=d_w)
    along_x, along_w = rng.normal(size=x.shape), rng.normal(size=w.shape)

    def loss(step: float) -> float:
        kernel[3](x + step * along_x, w + step * along_w, y)
        return float((y * g).sum())

    measured = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    half = (loss(STEP / 2) - loss(-STEP / 2)) / STEP
    derived = float((d_x * along_x).sum() + (d_w * along_w).sum())
    scale = 1 + abs(measured) + float(np.abs(d_x).sum() + np.abs(d_w).sum())
    if abs(measured - half) <= 1e-6 * scale:  # else a maximum or an order changes on the way
        assert abs(derived - measured) <= 1e-5 * scale, (derived, measured, text)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernel_texts(), st.integers(0, 5))
def test_random_kernels(text: str, seed: int) -> None:
    check(text, seed)


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(kernel_texts(), st.integers(0, 5))
def test_many_random_kernels(text: str, seed: int) -> None:
    check(text, seed)
