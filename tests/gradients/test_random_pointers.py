"""Random kernels of pointers: masks, two axes, scalar stores, loops up to loaded numbers, kinks, and arrays in place.

Each kernel is drawn with the launch that its stores depend on. Its derived gradients, in float64, are compared with
central differences along a random direction. Operands at a kink are integers, so that many of them meet it; there the
central difference is the mean of the slopes of both sides, as is the gradient of `maximum`, `minimum` and `abs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.jit.generated import kernel_of
from tests.gradients.test_random_kernels import ELEMENTWISE

ROWS, STEP, MOST_TRIPS = 5, 1e-6, 3
SMOOTH = tuple(x for x in ELEMENTWISE if not any(word in x for word in ("maximum", "minimum", "where", "abs")))
KINKS = ("pto.maximum({a}, {b})", "pto.minimum({a}, {b})", "pto.abs({a})", "pto.softplus({a} - {b})", "max({a}, 0.0)")
LAYOUTS = {
    "row": """    row = pto.program_id(0)
    at = pto.arange(0, 16)
    place, inside = row * n + at, at < n
""",
    "block": """    row = pto.program_id(0)
    for j in range(0, n, 4):
        at = j + pto.arange(0, 4)
        place, inside = row * n + at, at < n
""",
    "axes": f"""    rows = pto.program_id(0) * 2 + pto.arange(0, 2)[:, None]
    at = pto.program_id(1) * 4 + pto.arange(0, 4)[None, :]
    place, inside = rows * n + at, (rows < {ROWS}) & (at < n)
""",
    "plain": """    row = pto.program_id(0)
    place = row * 8 + pto.arange(0, 8)
""",
}


@dataclass(frozen=True)
class Drawn:
    """A kernel with its launch: columns of the arrays, the stride of the sums, and what its kinks are at."""

    text: str
    grid: Any
    columns: int
    stride: int
    has_kink: bool
    in_place: bool


@st.composite
def drawn_kernels(draw: Any) -> Drawn:
    layout = draw(st.sampled_from(tuple(LAYOUTS)))
    columns = 8 if layout == "plain" else draw(st.integers(5, 13))
    indent = "        " if layout == "block" else "    "
    mask = "" if layout == "plain" else ", mask=inside"
    lines = [f"t0 = pto.load(x + place{mask})", f"t1 = pto.load(w + place{mask})"]
    known, has_kink = ["t0", "t1"], draw(st.booleans())
    if has_kink:
        lines.append(f"t2 = {draw(st.sampled_from(KINKS)).format(a='t0', b='t1')}")
        known = ["t2"]
    for _ in range(draw(st.integers(1, 3))):
        a, b = draw(st.sampled_from(known)), draw(st.sampled_from(known))
        known.append(f"t{len(lines)}")
        lines.append(f"{known[-1]} = {draw(st.sampled_from(SMOOTH)).format(a=a, b=b)}")
    if layout in ("row", "plain") and draw(st.booleans()):
        lines.append(f"carried = {known[-1]}")
        lines.append("for k in range(pto.load(counts + row)):")
        lines.append(f"    carried = pto.sin(carried) + 0.5 * {draw(st.sampled_from(known))} * k")
        known.append("carried")
    in_place = draw(st.booleans())
    lines.append(f"pto.store({'x' if in_place else 'y'} + place, {known[-1]}{mask})")
    if layout in ("row", "plain"):
        lines.append(f"pto.store(s + row * stride, pto.sum({known[-1]} * {known[-1]}))")
    head = "import pypto as pto\n\n\n@pto.jit\ndef random_kernel(x, w, counts, y, s, n, stride):\n"
    text = head + LAYOUTS[layout] + "".join(f"{indent}{line}\n" for line in lines)
    grid = (-(-ROWS // 2), -(-columns // 4)) if layout == "axes" else (ROWS,)
    return Drawn(text, grid, columns, draw(st.integers(1, 3)), has_kink, in_place)


def check(drawn: Drawn, seed: int) -> None:
    """The derivative along a random direction, derived and measured."""
    rng = np.random.default_rng(seed)
    kernel = kernel_of(drawn.text, "random_kernel")
    shape = ROWS, drawn.columns
    x, w = rng.normal(size=(2, *shape)) if not drawn.has_kink else rng.integers(-1, 2, (2, *shape)).astype(float)
    g, g_s = rng.normal(size=shape), rng.normal(size=ROWS * drawn.stride)
    counts = rng.integers(0, MOST_TRIPS + 1, ROWS).astype(np.int32)
    numbers = drawn.columns, drawn.stride
    d_x, d_w = g.copy() if drawn.in_place else np.full(shape, np.nan), np.full(shape, np.nan)
    gradients = {"d_x": d_x, "d_w": d_w} | ({} if drawn.in_place else {"d_y": g})
    gradients |= {"d_s": g_s} if "pto.store(s" in drawn.text else {}
    y, s = np.zeros(shape), np.zeros(ROWS * drawn.stride)
    pto.adjoint(kernel, ["x", "w"], max_trips=MOST_TRIPS)[drawn.grid](x, w, counts, y, s, *numbers, **gradients)
    along_x, along_w = rng.normal(size=(2, *shape))

    def loss(step: float) -> float:
        moved = x + step * along_x
        kernel[drawn.grid](moved, w + step * along_w, counts, y, s, *numbers)
        return float(((moved if drawn.in_place else y) * g).sum() + (s * g_s).sum())

    measured = (loss(STEP) - loss(-STEP)) / (2 * STEP)
    derived = float((d_x * along_x).sum() + (d_w * along_w).sum())
    scale = 1 + abs(measured) + float(np.abs(d_x).sum() + np.abs(d_w).sum())
    assert abs(derived - measured) <= 1e-5 * scale, (derived, measured, drawn.text)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_kernels(), st.integers(0, 5))
def test_random_kernels_of_pointers(drawn: Drawn, seed: int) -> None:
    check(drawn, seed)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(drawn_kernels(), st.integers(0, 5))
def test_many_random_kernels_of_pointers(drawn: Drawn, seed: int) -> None:
    check(drawn, seed)
