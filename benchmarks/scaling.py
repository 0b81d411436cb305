"""The suite `scaling`: sizes over five decades, on one thread and on all."""

from __future__ import annotations

from functools import partial
from typing import Final

from benchmarks.data import count, memory_limit
from benchmarks.elementwise import add_case, gelu_case
from benchmarks.gemm import matmul_case, tolerance
from benchmarks.rows import softmax_case
from benchmarks.runner import Row, Suite

SIZES: Final = tuple(10**k for k in range(2, 8))
EDGES: Final = (16, 32, 64, 128, 256, 512, 1024)
ROW: Final = 100
BOTH: Final = (1, 0)


def add_row(n: int) -> Row:
    made = partial(add_case, n)
    return Row("vector add", count(n), 12 * n, "B", memory_limit("add", 12 * n), 3e-7, made, (), BOTH)


def gelu_row(n: int) -> Row:
    made = partial(gelu_case, n)
    return Row("gelu", count(n), 8 * n, "B", memory_limit("copy", 8 * n), 1e-6, made, (), BOTH)


def softmax_row(n: int) -> Row:
    made, shape = partial(softmax_case, n // ROW, ROW), f"{count(n // ROW)} x {ROW}"
    return Row("softmax", shape, 8 * n, "B", memory_limit("copy", 8 * n), 1e-6, made, (), BOTH)


def matmul_row(n: int) -> Row:
    made, allowed = partial(matmul_case, n, n, n), tolerance("fp32", n)
    return Row("matmul", f"{n}³", 2.0 * n**3, "flop", "fma", allowed, made, (), BOTH)


ROWS: Final = (
    *map(add_row, SIZES), *map(gelu_row, SIZES), *map(softmax_row, SIZES), *map(matmul_row, EDGES),
)  # fmt: skip
SCALING: Final = Suite("scaling", ROWS)
