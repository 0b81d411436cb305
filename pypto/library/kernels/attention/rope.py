# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Rotary position embedding; one program turns all heads of a token."""

from __future__ import annotations

import pypto as pto


@pto.jit
def pairs(x):
    """Splits rows into their even and odd elements."""
    rows, d = x.shape
    return pto.split(pto.reshape(x, (rows, d // 2, 2)))


@pto.jit
def rope_half_kernel(x, cos, sin, y, FIRST: pto.constexpr, WIDTH: pto.constexpr, HALVED: pto.constexpr):
    """Turns columns FIRST to FIRST + WIDTH by halves, and copies the others."""
    t, h = pto.program_id(0), WIDTH // 2
    a = x[t, :, FIRST : FIRST + h].to(pto.float32)
    b = x[t, :, FIRST + h : FIRST + WIDTH].to(pto.float32)
    at = 0 if HALVED else h
    c, s = cos[t, 0:h].to(pto.float32)[None, :], sin[t, 0:h].to(pto.float32)[None, :]
    c2, s2 = cos[t, at : at + h].to(pto.float32)[None, :], sin[t, at : at + h].to(pto.float32)[None, :]
    y[t, :, FIRST : FIRST + h] = (a * c - b * s).to(y.dtype)
    y[t, :, FIRST + h : FIRST + WIDTH] = (b * c2 + a * s2).to(y.dtype)
    if FIRST > 0:
        y[t, :, 0:FIRST] = x[t, :, 0:FIRST]
    if x.shape[2] > FIRST + WIDTH:
        y[t, :, FIRST + WIDTH :] = x[t, :, FIRST + WIDTH :]


@pto.jit
def rope_interleaved_kernel(x, cos, sin, y, SIGN: pto.constexpr, HALVES: pto.constexpr):
    """Turns pairs of neighbours; they stay neighbours, or with HALVES become halves of the row."""
    t, h = pto.program_id(0), x.shape[2] // 2
    a, b = pairs(x[t, :, :].to(pto.float32))
    if HALVES:
        c, s = cos[t, 0:h].to(pto.float32)[None, :], sin[t, 0:h].to(pto.float32)[None, :]
        c2, s2 = cos[t, h : 2 * h].to(pto.float32)[None, :], sin[t, h : 2 * h].to(pto.float32)[None, :]
        y[t, :, 0:h] = (a * c - b * s).to(y.dtype)
        y[t, :, h : 2 * h] = (b * c2 + a * s2).to(y.dtype)
    else:
        c, c2 = pairs(cos[t, :].to(pto.float32)[None, :])
        s, s2 = pairs(sin[t, :].to(pto.float32)[None, :])
        rotated = pto.join(a * c - SIGN * b * s, b * c2 + SIGN * a * s2)
        y[t, :, :] = pto.reshape(rotated, (x.shape[1], 2 * h)).to(y.dtype)


def rope_half(x, cos, sin, y):
    """Turns pairs that are made of the two halves of a row."""
    rope_half_kernel[(x.shape[0],)](x, cos, sin, y, FIRST=0, WIDTH=x.shape[2], HALVED=False)


def rope_partial(x, cos, sin, y):
    """Turns the first columns by halves, with one cosine for both, and copies the others."""
    rope_half_kernel[(x.shape[0],)](x, cos, sin, y, FIRST=0, WIDTH=2 * cos.shape[1], HALVED=True)


def rope_interleaved(x, cos, sin, y):
    """Turns pairs of neighbours, which stay neighbours."""
    rope_interleaved_kernel[(x.shape[0],)](x, cos, sin, y, SIGN=1, HALVES=False)


def rope_interleaved_inverse(x, cos, sin, y):
    """Turns pairs of neighbours by the opposite angle."""
    rope_interleaved_kernel[(x.shape[0],)](x, cos, sin, y, SIGN=-1, HALVES=False)


def rope_interleaved_to_half(x, cos, sin, y):
    """Turns pairs of neighbours, and stores them as halves of the row."""
    rope_interleaved_kernel[(x.shape[0],)](x, cos, sin, y, SIGN=1, HALVES=True)
