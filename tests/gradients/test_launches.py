"""The launch list of a backward pass: its text, and gradients that are not contiguous."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto


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
