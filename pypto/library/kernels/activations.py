# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Activations, one program per row."""

from __future__ import annotations

import math

import pypto as pto

ROOT_HALF = math.sqrt(0.5)
LINEAR = -2 * math.sqrt(2 / math.pi)  # 0.5 t (1 + tanh u) is t / (1 + exp(-2u)), with -2u = t (LINEAR + CUBIC t²)
CUBIC = 0.044715 * LINEAR


@pto.jit
def gelu_tile(t):
    return t * 0.5 * (1 + pto.erf(t * ROOT_HALF))


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


def gelu(x, y):
    """y = x Φ(x), with the error function."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=gelu_tile)


def gelu_tanh(x, y):
    """The same by the approximation with tanh."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=gelu_tanh_tile)


def silu(x, y):
    """y = x sigmoid(x)."""
    activation_kernel[(x.shape[0],)](x, y, FUNCTION=silu_tile)


def swiglu(x, y):
    """y = silu of the first half of a row, times the second half."""
    swiglu_kernel[(x.shape[0],)](x, y)
