# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Activation functions, with one program per row."""

from __future__ import annotations

import math

import pypto as pto

ROOT_HALF = math.sqrt(0.5)
REACH = 5.75
# polynomial for log Φ(-a), a up to REACH, interpolated at Chebyshev points; its error is at most 5e-6
TAIL = (
    -0.693144129, -0.797978515, -0.317823808, -0.0373303714, 0.00583808905, -0.000619589953, 3.68175136e-05,
    -5.77729389e-07, -3.27609627e-08,
)  # fmt: skip
LINEAR = -2 * math.sqrt(2 / math.pi)  # 0.5 t (1 + tanh u) is t / (1 + exp(-2u)), with -2u = t (LINEAR + CUBIC t²)
CUBIC = 0.044715 * LINEAR


@pto.jit
def gelu_tile(t):
    return t * 0.5 * (1 + pto.erf(t * ROOT_HALF))


@pto.jit
def gelu_by_tails_tile(t):
    """Computes GELU as max(t, 0) - |t| Φ(-|t|) with a polynomial for log Φ: half the operations, no branch near zero.

    Beyond REACH the second term is below 3e-8.
    """
    a = pto.minimum(pto.abs(t), REACH, propagate_nan=True)
    log = ((TAIL[8] * a + TAIL[7]) * a + TAIL[6]) * a + TAIL[5]
    log = (((log * a + TAIL[4]) * a + TAIL[3]) * a + TAIL[2]) * a + TAIL[1]
    log = log * a + TAIL[0]
    return pto.maximum(t, 0.0, propagate_nan=True) - a * pto.exp(log)


@pto.jit
def gelu_tanh_tile(t):
    return t / (1 + pto.exp(t * (LINEAR + CUBIC * (t * t))))


@pto.jit
def silu_tile(t):
    return t / (1 + pto.exp(-t))


@pto.jit
def activation_kernel(x, y, FUNCTION: pto.constexpr):
    row = pto.program_id(0)
    y[row, :] = FUNCTION(x[row, :].to(pto.float32)).to(y.dtype)


@pto.jit
def swiglu_kernel(x, y):
    row, d = pto.program_id(0), y.shape[1]
    gate, up = x[row, 0:d].to(pto.float32), x[row, d : 2 * d].to(pto.float32)
    y[row, :] = (silu_tile(gate) * up).to(y.dtype)


@pto.jit
def softmax_kernel(x, y):
    row = pto.program_id(0)
    t = x[row, :].to(pto.float32)
    e = pto.exp(t - pto.max(t))
    y[row, :] = (e * (1 / pto.sum(e))).to(y.dtype)


def gelu(x, y):
    """Computes y = x Φ(x) with the error function."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=gelu_tile)


def gelu_by_tails(x, y):
    """Computes GELU with fewer operations, for chips that have no error function."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=gelu_by_tails_tile)


def gelu_tanh(x, y):
    """Computes GELU by its tanh approximation."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=gelu_tanh_tile)


def silu(x, y):
    """Computes y = x sigmoid(x)."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=silu_tile)


def swiglu(x, y):
    """Computes SwiGLU: y = silu of the first half of a row, times the second half."""
    swiglu_kernel[(x.shape[0],)](x, y)


def softmax(x, y):
    """Computes softmax: y = exp(x - max x) divided by its sum, by rows."""
    softmax_kernel[(x.shape[0],)](x, y)
