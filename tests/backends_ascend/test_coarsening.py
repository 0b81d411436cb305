"""Several programs at once: the same as one by one, in fewer and larger instructions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.tile.coarsening import coarsen
from pypto.debug.simulate import function_of
from tests.conformance.networks import softmax_online
from tests.conformance.running import quick_part
from tests.sim.device import needs_compiler

B2 = ascend_target("ascend910b2")
RNG = np.random.default_rng(0)


@pto.jit
def softmax(x, y):
    row = pto.program_id(0)
    t = x[row, :]
    e = pto.exp(t - pto.max(t))
    y[row, :] = e / pto.sum(e)


@pto.jit
def softmax_by_pointers(x, y, stride, n, BLOCK: pto.constexpr):
    row = pto.program_id(0)
    cols = pto.arange(0, BLOCK)
    t = pto.load(x + row * stride + cols, mask=cols < n, other=-float("inf"))
    e = pto.exp(t - pto.max(t))
    pto.store(y + row * stride + cols, e / pto.sum(e), mask=cols < n)


@pto.jit
def layer_norm(x, weight, bias, y, mean, eps):
    row = pto.program_id(0)
    t = x[row, :]
    average = pto.sum(t) / t.shape[0]
    centred = t - average
    y[row, :] = centred * pto.rsqrt(pto.sum(centred * centred) / t.shape[0] + eps) * weight[:] + bias[:]
    mean[row] = average


@pto.jit
def add(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


@pto.jit
def numbered(x, out):
    """The program's number as a number, and in a condition."""
    row = pto.program_id(0)
    t = x[row, :] * row + pto.where(row < 5, 1.0, 2.0)
    out[row, :] = t


@pto.jit
def in_place(x):
    row = pto.program_id(0)
    x[row, :] = pto.sqrt(pto.abs(x[row, :]))


@pto.jit
def shifted(x, out):
    """Rows from another place on, and columns out of bounds."""
    row = pto.program_id(0) + 3
    out[row, 2:34] = x[row, 0:32]


@pto.jit
def blocks(x, out, R: pto.constexpr):
    """Each program has rows of its own, and joins them."""
    row = pto.program_id(0) * R
    out[row : row + R, :] = x[row : row + R, :] - pto.sum(x[row : row + R, :], axis=0)[None, :]


@pto.jit
def many_dtypes(x, flags, out):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32)
    out[row, :] = pto.where(flags[row, :], pto.cumsum(t, 0), -t).to(pto.float16)


def f32(*shape: int) -> Any:
    return RNG.normal(size=shape).astype(np.float32)


Made = tuple[Any, int, tuple[Any, ...], dict[str, Any]]
CASES: dict[str, Callable[[], Made]] = {
    "softmax": lambda: (softmax, 37, (f32(37, 100), f32(37, 100)), {}),
    "more rows than programs": lambda: (softmax, 5, (f32(37, 100), f32(37, 100)), {}),
    "more programs than rows": lambda: (softmax, 99, (f32(37, 100), f32(37, 100)), {}),
    "one program": lambda: (softmax, 1, (f32(37, 100), f32(37, 100)), {}),
    "many programs": lambda: (softmax, 500, (f32(500, 40), f32(500, 40)), {}),
    "strides": lambda: (softmax, 37, (f32(37, 200)[:, :100], f32(100, 37).T.copy()[:, :100]), {}),
    "pointers": lambda: (softmax_by_pointers, 37, (f32(37, 100), f32(37, 100), 100, 100), {"BLOCK": 128}),
    "layer norm": lambda: (layer_norm, 61, (f32(61, 96), f32(96), f32(96), f32(61, 96), f32(61), 1e-5), {}),
    "small blocks": lambda: (add, 21, (f32(1000), f32(1000), f32(1000)), {"BLOCK": 48}),
    "fewer blocks than elements": lambda: (add, 7, (f32(1000), f32(1000), f32(1000)), {"BLOCK": 48}),
    "the program's number": lambda: (numbered, 19, (f32(19, 33), f32(19, 33)), {}),
    "in place": lambda: (in_place, 37, (f32(37, 50),), {}),
    "from another place": lambda: (shifted, 30, (f32(37, 30), f32(37, 30)), {}),
    "columns that do not exist": lambda: (softmax_online, 19, (f32(19, 3), f32(19, 3)), {"BLOCK": 20}),
    "one column of many": lambda: (softmax_online, 19, (f32(19, 1), f32(19, 1)), {"BLOCK": 100}),
    "blocks of rows": lambda: (blocks, 9, (f32(37, 50), f32(37, 50)), {"R": 4}),
    "dtypes": lambda: (many_dtypes, 23, (f32(23, 40).astype(np.float16), f32(23, 40) > 0,
                                         f32(23, 40).astype(np.float16)), {}),
}  # fmt: skip


def group_of(kernel: Any, args: tuple[Any, ...], given: dict[str, Any]) -> int:
    made = coarsen(function_of(kernel, kernel.signature.bind(args, given)))
    return 1 if made is None else made.programs.factor


@needs_compiler
@pytest.mark.parametrize("name", quick_part(2, CASES))
def test_same_as_on_the_cpu(name: str) -> None:
    kernel, programs, args, given = CASES[name]()
    here, there = ([x.copy() if isinstance(x, np.ndarray) else x for x in args] for _ in range(2))
    assert group_of(kernel, args, given) > 1
    kernel[programs](*here, **given)
    with pto.device("ascend-sim"):
        kernel[programs](*there, **given)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3 if a is here[-1] and name == "dtypes" else 2e-6, atol=2e-6)


@pto.jit
def by_two_axes(x, out):
    i, j = pto.program_id(0), pto.program_id(1)
    out[i, j] = x[i, j]


@pto.jit
def overlapping(x, out):
    """Rows of two programs meet."""
    row = pto.program_id(0) * 2
    out[pto.program_id(0), :] = pto.sum(x[row : row + 3, :], axis=0)


@pto.jit
def wandering(x, out):
    """Which row it is, data decide."""
    row = pto.program_id(0)
    out[row, :] = x[x[row, 0].to(pto.int32), :]


@pto.jit
def looping(x, out):
    row = pto.program_id(0)
    acc = pto.zeros((32,), pto.float32)
    for i in range(row):
        acc += x[i, 0:32]
    out[row, 0:32] = acc


@pto.jit
def counting(out):
    pto.atomic_add(out + pto.program_id(0) % 2, 1.0)


SINGLE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "two axes": (by_two_axes, (f32(8, 8), f32(8, 8))),
    "rows that meet": (overlapping, (f32(99, 32), f32(99, 32))),
    "rows that data choose": (wandering, (f32(99, 32), f32(99, 32))),
    "loops": (looping, (f32(99, 32), f32(99, 32))),
    "atomic ops": (counting, (f32(2),)),
    "runs of no whole blocks": (add, (f32(99), f32(99), f32(99))),
    "large tiles": (softmax, (f32(9, 5000), f32(9, 5000))),
}


@pytest.mark.parametrize("name", SINGLE)
def test_other_programs_stay_single(name: str) -> None:
    kernel, args = SINGLE[name]
    given = {"BLOCK": 50} if kernel is add else {}
    assert group_of(kernel, args, given) == 1
    assert "int64_t group = " not in lower_to_text(function_of(kernel, kernel.signature.bind(args, given)), B2)[1]


def test_rows_are_predicted_near_the_speed_of_memory() -> None:
    """Of 8192 rows of 1024 float32, read once, HBM takes 23 µs, and what is written stays in L2: one by one, 131."""
    x, y, mean = (np.empty(shape, np.float32) for shape in ((8192, 1024), (8192, 1024), (8192,)))
    weight = np.empty(1024, np.float32)
    found = pto.simulate(layer_norm)[8192](x, weight, weight.copy(), y, mean, 1e-5)
    assert found.memory_cycles > 0.4 * found.cycles
    assert found.seconds < 60e-6
