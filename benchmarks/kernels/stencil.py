# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Elements from their neighbours: slices that begin before an array or end behind it, where they are 0."""

from __future__ import annotations

import pypto as pto

ROWS, COLUMNS = 16, 1024


def blocks(x):
    """Programs over a matrix."""
    return pto.cdiv(x.shape[0], ROWS), pto.cdiv(x.shape[1], COLUMNS)


@pto.jit
def shift_kernel(x, out, by, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    out[i : i + BLOCK] = x[i - by : i - by + BLOCK]


def shift(x, out, by):
    """out = x moved to higher indices, shape (n,)."""
    shift_kernel[(pto.cdiv(x.shape[0], 4096),)](x, out, by, BLOCK=4096)


@pto.jit
def five_point_kernel(x, out, R: pto.constexpr, C: pto.constexpr):
    i, j = pto.program_id(0) * R, pto.program_id(1) * C
    t = x[i - 1 : i - 1 + R, j : j + C] + x[i + 1 : i + 1 + R, j : j + C]
    t += x[i : i + R, j - 1 : j - 1 + C] + x[i : i + R, j + 1 : j + 1 + C]
    out[i : i + R, j : j + C] = t * 0.125 + x[i : i + R, j : j + C] * 0.5


def five_point(x, out):
    """out = a step of heat conduction in x, shape (m, n)."""
    five_point_kernel[blocks(x)](x, out, R=ROWS, C=COLUMNS)


@pto.jit
def convolution_kernel(x, w, out, R: pto.constexpr, C: pto.constexpr):
    i, j = pto.program_id(0) * R, pto.program_id(1) * C
    t = pto.zeros((R, C), pto.float32)
    for a in pto.static_range(3):
        for b in pto.static_range(3):
            t += x[i + a - 1 : i + a - 1 + R, j + b - 1 : j + b - 1 + C] * w[a, b]
    out[i : i + R, j : j + C] = t


def convolution(x, w, out):
    """out = x weighted by w around each element, shapes (m, n), (3, 3) and (m, n)."""
    convolution_kernel[blocks(x)](x, w, out, R=ROWS, C=COLUMNS)


@pto.jit
def life_kernel(x, out, R: pto.constexpr, C: pto.constexpr):
    i, j = pto.program_id(0) * R, pto.program_id(1) * C
    n = pto.zeros((R, C), pto.uint8)
    for a in pto.static_range(3):
        for b in pto.static_range(3):
            if a != 1 or b != 1:
                n += x[i + a - 1 : i + a - 1 + R, j + b - 1 : j + b - 1 + C]
    alive = x[i : i + R, j : j + C] == 1
    out[i : i + R, j : j + C] = ((n == 3) | ((n == 2) & alive)).to(pto.uint8)


def life(x, out):
    """out = the next generation of x, bytes of shape (m, n)."""
    life_kernel[blocks(x)](x, out, R=ROWS, C=COLUMNS)
