"""The launch list of a backward pass: its text, and gradients that are not contiguous."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.gradients import NoGradient


@pto.jit
def scale(x, w, y):  # type: ignore[no-untyped-def]
    """Multiply a row by weights."""
    y[pto.program_id(0), :] = x[pto.program_id(0), :] * w[:]


def test_a_backward_pass_is_a_launch_list() -> None:
    x, w = np.ones((4, 8), np.float32), np.ones(8, np.float32)
    launches = pto.adjoint(scale, ["x", "w"]).schedule(4, x, w, x)
    assert str(launches) == "\n".join([
        "input x: f32[4, 8]",
        "input w: f32[8]",
        "input d_x: f32[4, 8]",
        "input d_y: f32[4, 8]",
        "input d_w: f32[8]",
        "arena 128 bytes on cpu",
        "  partial_w: f32[4, 8] at 0, steps 0-1, zeroed",
        "scale_adjoint_x_w[4, 1, 1](x=x, w=w, programs_0=4, d_x=d_x, partial_w=partial_w, d_y=d_y)",
        "sum_of_rows[1, 1, 1](partial=partial_w[4, 8], total=d_w[8], BLOCK=1024)",
    ])  # fmt: skip


def check(x: Any, w: Any, d_y: Any, d_x: Any, d_w: Any) -> None:
    back = pto.adjoint(scale, ["x", "w"])
    for _ in range(3):
        back[8](x, w, x, d_y=d_y, d_x=d_x, d_w=d_w)
        np.testing.assert_allclose(np.asarray(d_w), np.asarray((d_y * x).sum(0)), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(d_x), np.asarray(d_y * w), rtol=1e-6)
        d_w[...] = 0


def test_a_sum_over_programs_is_written_to_every_other_element() -> None:
    rng = np.random.default_rng(0)
    x, d_y = rng.standard_normal((2, 8, 16)).astype(np.float32)
    check(x, x[0].copy(), d_y, np.empty_like(x), np.empty(32, np.float32)[::2])


def test_a_sum_over_programs_is_written_to_a_tensor_with_strides() -> None:
    torch = pytest.importorskip("torch")
    x, d_y = torch.randn(2, 8, 16, generator=torch.Generator().manual_seed(0))
    check(x, x[0].clone(), d_y, torch.empty(8, 16), torch.empty(32)[::2])


def is_released(call: Callable[[Any], Any]) -> list[bool]:
    """Whether the array of each of three calls is gone after it; the second one prepares a replay."""
    gone = []
    for _ in range(3):
        x = np.ones((8, 16), np.float32)
        alive = weakref.ref(x)
        call(x)
        del x
        gone.append(alive() is None)
    return gone


def test_idle_launches_of_an_adjoint_keep_no_array_alive() -> None:
    back = pto.adjoint(scale, ["x", "w"])

    def call(x: Any) -> None:
        w = np.ones(16, np.float32)
        back[8](x, w, x, d_y=x.copy(), d_x=x.copy(), d_w=w.copy())

    assert is_released(call) == [True] * 3


def test_idle_launches_of_a_fused_function_keep_no_array_alive() -> None:
    fused = pto.fuse(lambda x: (x @ x.T + 1).sum(0))
    fused(np.ones((8, 16), np.float32))  # the arrays of the trace are kept
    assert is_released(fused) == [True] * 3


@pto.jit
def halved(x, y):  # type: ignore[no-untyped-def]
    """Halve a row until it is small."""
    row = pto.program_id(0)
    t = x[row, :]
    while pto.max(pto.abs(t)) > 1:
        t = t * 0.5
    y[row, :] = t


def test_a_loop_that_only_a_run_can_count_has_no_schedule() -> None:
    x = np.ones((4, 8), np.float32)
    with pytest.raises(NoGradient, match="how often a loop runs is not known before the launch") as error:
        pto.adjoint(halved, ["x"], max_trips=4).schedule(4, x, x)
    assert "while pto.max" in str(error.value)
    assert "give it bounds made of sizes and program ids" in str(error.value)
