"""Slices that begin before their array, end behind it, or do both: as the interpreter has them, and without masks."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.explain import explain
from tests.backends_cpu.lowering import lowered
from tests.conformance.cases import Launch
from tests.conformance.running import Array, at_level, run

LEVELS = ("x86-64-v2", "x86-64-v3", "host")


@pto.jit
def along(out, u, s, B: pto.constexpr):
    """A row by blocks, moved by a distance that is known at run time."""
    i = pto.program_id(0)
    for j in range(0, out.shape[1], B):
        out[i, j : j + B] = u[i, j + s : j + s + B] * 2 + 1


@pto.jit
def outside(out, u, s, B: pto.constexpr):
    """A block that begins before the array and ends behind it; what is stored does, too."""
    i = pto.program_id(0)
    t = u[i, s - B // 2 : s + B // 2]
    out[i, s - B // 2 : s + B // 2] = t + u[i + s, -3 : B - 3].to(u.dtype)


@pto.jit
def around(out, u, s, R: pto.constexpr, B: pto.constexpr):
    """Five neighbours of each element, and one that is further away."""
    i, j = pto.program_id(0) * R, pto.program_id(1) * B
    t = u[i - 1 : i - 1 + R, j : j + B] + u[i + 1 : i + 1 + R, j : j + B]
    t += u[i : i + R, j - 1 : j - 1 + B] + u[i : i + R, j + 1 : j + 1 + B]
    out[i : i + R, j : j + B] = t + u[i + s : i + s + R, j - s : j - s + B]


@pto.jit
def solid(out, u, s, R: pto.constexpr, B: pto.constexpr):
    """Neighbours in three dimensions, and the greatest of each row of them."""
    i, j = pto.program_id(0) * 2, pto.program_id(1) * R
    t = u[i - 1 : i + 1, j + s : j + s + R, -1 : B - 1] - u[i : i + 2, j : j + R, s : s + B]
    out[i : i + 2, j : j + R, :B] = t + pto.max(t, axis=2)[:, :, None]


def arrays(shape: tuple[int, ...], dtype: str) -> tuple[Array, Array]:
    u = np.random.default_rng(len(shape)).integers(0, 50, shape).astype(dtype)
    return np.full(shape, 3, dtype), u


def check(kernel: Any, level: str, grid: tuple[int, ...], shape: tuple[int, ...], dtype: str, **given: Any) -> None:
    """Equal to the interpreter, and nothing is written beside the arrays."""
    results = []
    for version in (pto.interpret(kernel), at_level(kernel, level)):
        out, u = arrays(shape, dtype)
        launch = Launch(kernel, grid, {"out": out, "u": u, **given}, {"out": out})
        results.append(run(version, launch)["out"].copy())
    np.testing.assert_array_equal(*results)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", ["f4", "u1"])
def test_from_far_before_to_far_behind(level: str, dtype: str) -> None:
    for s in (-1000, -300, -257, -129, -32, -1, 0, 7, 44, 100, 256, 1000):
        check(along, level, (1,), (1, 300), dtype, s=s, B=256)
        check(outside, level, (2,), (2, 300), dtype, s=s, B=512)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("rows", "block"), [(1, 256), (4, 32), (8, 24), (4, 256)])
def test_stencils_in_two_dimensions(level: str, rows: int, block: int) -> None:
    for s in (-40, -2, 1, 9):
        check(around, level, (-(-19 // rows), -(-270 // block)), (19, 270), "f4", s=s, R=rows, B=block)
    check(around, level, (-(-19 // rows), -(-70 // block)), (19, 70), "u1", s=3, R=rows, B=block)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("block", [32, 256])
def test_stencils_in_three_dimensions(level: str, block: int) -> None:
    for s in (-3, 0, 2, 70):
        check(solid, level, (2, 2), (4, 6, block - 5), "f4", s=s, R=4, B=block)


def masked_and_plain(kernel: Any, **given: Any) -> tuple[int, int]:
    """Masked loads and plain ones of a whole chunk in the kernel's text for AVX2."""
    out, u = arrays((64, 1024), "f4")
    text = lowered(Launch(kernel, (1,), {"out": out, "u": u, **given}, {})).text
    return len(re.findall(r"call <8 x float> @llvm.masked.load", text)), len(re.findall(r"= load <\d+ x float>", text))


def test_masks_are_for_chunks_across_an_end() -> None:
    """One masked access for each load, and plain ones: with stores through the caches and past them, and at edges."""
    assert masked_and_plain(along, s=1, B=1024) == (1, 3)
    assert masked_and_plain(around, s=1, R=8, B=64) == (5, 5 * 4)


def test_what_is_left_says_why() -> None:
    @pto.jit(level="x86-64-v3")
    def sums(out, u, B: pto.constexpr):
        i = pto.program_id(0) * 4
        out[i : i + 4, :B] = pto.cumsum(u[i : i + 4, -1 : B - 1], 1)

    out, u = arrays((8, 64), "f4")
    (found,) = [f for f in explain(sums, out, u, B=64).about("access") if "masks" in f.text]
    assert "`cumsum` is computed in its loop" in found.text
    inside = explain(at_level(around, "x86-64-v3"), out, u, s=1, R=8, B=64)
    assert not [f for f in inside.about("access") if "masks" in f.text]
