# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""One element in, one element out, in one pass over memory."""

from __future__ import annotations

import math

import pypto as pto

BLOCK = 4096
LINEAR = -2 * math.sqrt(2 / math.pi)  # 0.5 t (1 + tanh u) is t / (1 + exp(-2u)), with -2u = t (LINEAR + CUBIC t²)
CUBIC = 0.044715 * LINEAR


@pto.jit
def add_kernel(x, y, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i : i + BLOCK] + y[i : i + BLOCK]


def add(x, y, out, block=BLOCK):
    """out = x + y, shape (n,)."""
    add_kernel[(pto.cdiv(x.shape[0], block),)](x, y, out, BLOCK=block)


@pto.jit
def gelu_kernel(x, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    t = x[i : i + BLOCK]
    out[i : i + BLOCK] = t / (1 + pto.exp(t * (LINEAR + CUBIC * (t * t))))


def gelu(x, out, block=BLOCK):
    """out = gelu of x with tanh, shape (n,)."""
    gelu_kernel[(pto.cdiv(x.shape[0], block),)](x, out, BLOCK=block)


@pto.jit
def swiglu_kernel(gate, up, out, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    g = gate[i : i + BLOCK]
    out[i : i + BLOCK] = g * pto.sigmoid(g) * up[i : i + BLOCK]


def swiglu(gate, up, out, block=BLOCK):
    """out = gate · sigmoid(gate) · up, shape (n,)."""
    swiglu_kernel[(pto.cdiv(gate.shape[0], block),)](gate, up, out, BLOCK=block)


@pto.jit
def chain_kernel(x, y, z, out, scale, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    a, b, c = x[i : i + BLOCK], y[i : i + BLOCK], z[i : i + BLOCK]
    t = a * scale + b
    t = pto.maximum(t, 0) - pto.abs(c)
    t = t * t + a * c
    t = pto.clamp(t, -6.0, 6.0)
    out[i : i + BLOCK] = pto.exp(-t * t) + t / (1 + pto.abs(b))


def chain(x, y, z, out, scale, block=BLOCK):
    """out = a chain of fifteen operations on x, y and z, shape (n,)."""
    chain_kernel[(pto.cdiv(x.shape[0], block),)](x, y, z, out, scale, BLOCK=block)


@pto.jit
def adamw_kernel(param, grad, first, second, rate, step, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    g, p = grad[i : i + BLOCK], param[i : i + BLOCK]
    m = 0.9 * first[i : i + BLOCK] + 0.1 * g
    v = 0.999 * second[i : i + BLOCK] + 0.001 * g * g
    first[i : i + BLOCK] = m
    second[i : i + BLOCK] = v
    param[i : i + BLOCK] = p * (1 - rate * 0.01) - step * m / (pto.sqrt(v) + 1e-8)


def adamw(param, grad, first, second, rate, step, block=BLOCK):
    """A step of AdamW in place; arrays of shape (n,)."""
    adamw_kernel[(pto.cdiv(param.shape[0], block),)](param, grad, first, second, rate, step, BLOCK=block)
