# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""The Walsh-Hadamard transform of rows, by butterflies or as a product with the matrix."""

from __future__ import annotations

import math

import numpy as np

import pypto as pto
from pypto.ir.types import DType
from pypto.library.binding import empty
from pypto.runtime.arrays import array_info

ROWS = 16


@pto.jit
def butterflies(t, STAGES: pto.constexpr):
    """Computes sums and differences of elements whose indices differ in one bit, bit by bit."""
    rows, d = t.shape
    for stage in pto.static_range(STAGES):
        half = 1 << stage
        split = pto.reshape(t, (rows, d // (2 * half), 2, half))
        a, b = pto.split(pto.permute(split, (0, 1, 3, 2)))
        t = pto.reshape(pto.permute(pto.join(a + b, a - b), (0, 1, 3, 2)), (rows, d))
    return t


@pto.jit
def fast_kernel(x, y, scale, STAGES: pto.constexpr, ROWS: pto.constexpr):
    i = pto.program_id(0) * ROWS
    t = x[i : i + ROWS, :].to(pto.float32)
    y[i : i + ROWS, :] = (butterflies(t, STAGES) * scale).to(y.dtype)


@pto.jit
def dense_kernel(x, matrix, y, SCALE: pto.constexpr, ROWS: pto.constexpr):
    i = pto.program_id(0) * ROWS
    acc = pto.dot(x[i : i + ROWS, :], matrix[:, :])
    y[i : i + ROWS, :] = (acc * SCALE).to(y.dtype)


def sylvester(d):
    """Returns the Hadamard matrix of size d in natural order, with elements 1 and -1."""
    matrix = np.ones((1, 1), np.float32)
    while matrix.shape[0] < d:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def fast(x, y):
    """Transforms rows with d log d sums and differences."""
    d = x.shape[1]
    fast_kernel[(pto.cdiv(x.shape[0], ROWS),)](x, y, 1 / math.sqrt(d), STAGES=d.bit_length() - 1, ROWS=ROWS)


def dense(x, y):
    """Transforms rows by a product with the matrix, whose elements bfloat16 holds exactly."""
    d, dtype = x.shape[1], array_info(x, "hadamard", "x").dtype
    matrix = empty(np.zeros(0), (d, d), DType(dtype.mnemonic))
    matrix[:] = sylvester(d)
    dense_kernel[(pto.cdiv(x.shape[0], ROWS),)](x, matrix, y, SCALE=1 / math.sqrt(d), ROWS=ROWS)
