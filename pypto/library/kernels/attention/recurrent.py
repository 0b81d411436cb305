# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Recurrent cells compute the gates and the state of a token in one pass."""

from __future__ import annotations

import pypto as pto
from pypto.library.kernels.norms import rms_norm_tile


@pto.jit
def quick_gelu(x):
    """x times the logistic function of 1.702 x."""
    return x * pto.sigmoid(1.702 * x)


@pto.jit
def gate_of(states, z, t, alpha, I: pto.constexpr, D: pto.constexpr):  # noqa: E741
    """Returns gate I of a row's four, with the contribution of the token."""
    state = states[t, I * D : I * D + D].to(pto.float32)
    return state + alpha * z[t, I * D : I * D + D].to(pto.float32)


@pto.jit
def sum_lstm_kernel(states, z, prev, w_c, b_c, w_s, b_s, h, c, alpha, eps):
    t, D = pto.program_id(0), prev.shape[1]
    forget = pto.sigmoid(gate_of(states, z, t, alpha, 0, D))
    enter = pto.sigmoid(gate_of(states, z, t, alpha, 1, D))
    out = pto.sigmoid(gate_of(states, z, t, alpha, 2, D))
    fresh = rms_norm_tile(gate_of(states, z, t, alpha, 3, D), w_c[:], eps) + b_c[:].to(pto.float32)
    state = prev[t, :].to(pto.float32) * forget + quick_gelu(fresh) * enter
    c[t, :] = state.to(c.dtype)
    shown = rms_norm_tile(state, w_s[:], eps) + b_s[:].to(pto.float32)
    h[t, :] = (quick_gelu(shown) * out).to(h.dtype)


def sum_lstm(states, z, prev, w_c, b_c, w_s, b_s, alpha, eps, h, c):
    """Runs one step of the sum-LSTM cell for every row."""
    sum_lstm_kernel[(prev.shape[0],)](states, z, prev, w_c, b_c, w_s, b_s, h, c, alpha, eps)
