"""Writes the tables of predicted times in ``docs/ascend.md``.

``python -m docs.predictions`` writes all tables, ``python -m docs.predictions order`` those that are named. A table
follows its marker, as in ``<!-- predicted: order -->``. A cell is a text, or a function that predicts it; texts under
*before* are figures of earlier versions.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np

import pypto as pto
from benchmarks.kernels import cube, predicted, rows
from benchmarks.kernels.matmul import matmul_kernel, pointers_kernel
from benchmarks.tutorials import load_tutorial
from pypto.backends.ascend.target import ascend_target

PAGE: Final = Path(__file__).parent / "ascend.md"
B2: Final = "ascend910b2"
A5: Final = "ascend950"
HBM: Final = 1.6e12  # bytes a second, of 910B
Array = np.ndarray[Any, Any]
Cell = str | Callable[[], str]


@dataclass(frozen=True)
class Table:
    """A table of predictions: the heads of its columns, and rows of cells."""

    heads: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def text(self) -> str:
        cells = (tuple(cell if isinstance(cell, str) else cell() for cell in row) for row in self.rows)
        head, *rest = (f"| {' | '.join(line)} |".replace("|  |", "| |") for line in (self.heads, *cells))
        return "\n".join((head, "|---" * len(self.heads) + "|", *rest))


def empty(*shape: int, dtype: Any = np.float16) -> Array:
    return np.empty(shape, dtype)


def seconds(kernel: Any, chip: str, grid: tuple[int, ...], *args: Any, **given: Any) -> float:
    return float(pto.simulate(kernel, chip)[grid](*args, **given).seconds)


def rounded(number: float, digits: int = 4) -> str:
    """A positive number with so many digits, without an exponent."""
    return f"{number:.{max(0, digits - 1 - math.floor(math.log10(number)))}f}"


def microseconds(*args: Any, **given: Any) -> str:
    return rounded(1e6 * seconds(*args, **given))


# --- rows that are longer than UB ------------------------------------------------------------------------------------


def long_rows() -> Table:
    """Reductions of rows of which UB holds a part."""
    count, width = 4096, 65536
    x, out, weight = empty(count, width), empty(count, width), empty(width)
    one, index = empty(count), empty(count, dtype=np.int32)
    cases: tuple[tuple[str, int, int, Any, tuple[Any, ...], dict[str, Any]], ...] = (
        ("sum", 1, 1, predicted.reduction_of_rows, (x, one), {"REDUCE": pto.sum}),
        ("maximum", 1, 1, predicted.reduction_of_rows, (x, one), {"REDUCE": pto.max}),
        ("index of the maximum", 1, 1, predicted.reduction_of_rows, (x, index), {"REDUCE": pto.argmax}),
        ("root mean square norm", 2, 3, rows.rms_norm_kernel, (x, weight, out, 1e-5), {}),
        ("softmax", 3, 4, rows.softmax_kernel, (x, out), {}),
        ("layer norm", 3, 4, rows.layer_norm_kernel, (x, weight, weight, out, 1e-5), {}),
    )
    return Table(
        ("", "passes", "at 1.6 TB/s", B2, A5),
        tuple(
            (name, str(passes), rounded(1e6 * accesses * x.nbytes / HBM),
             *(partial(microseconds, kernel, chip, (count,), *args, **given) for chip in (B2, A5)))
            for name, passes, accesses, kernel, args, given in cases
        ),
    )  # fmt: skip


# --- functions of elements -------------------------------------------------------------------------------------------

SIZE: Final = 8192


@pto.jit
def identity(t):
    return t


@pto.jit
def silu(t):
    return pto.silu(t)


@pto.jit
def tanh_gelu(t):
    return pto.gelu(t, approximate="tanh")


@pto.jit
def power(t):
    return t**1.7


def of_rows(function: Any, dtype: Any = np.float16, exact: bool = False, chip: str = B2) -> float:
    """Seconds of a function of a square array, by programs of one row."""
    x, out = empty(SIZE, SIZE, dtype=dtype), empty(SIZE, SIZE, dtype=dtype)
    disable = ("unit_functions",) if exact else ()
    if function == "pow":
        return seconds(predicted.power_of_rows.with_options(disable=disable), chip, (SIZE,), x, x, out)
    return seconds(predicted.function_of_rows.with_options(disable=disable), chip, (SIZE,), x, out, FUNCTION=function)


def of_copy(function: Any, dtype: Any = np.float16) -> str:
    return rounded(of_rows(function, dtype) / of_rows(identity, dtype), 3)


def functions() -> Table:
    """Functions of float16 as multiples of a copy."""
    cases = {
        "`exp`": pto.exp, "`log`": pto.log, "`sigmoid`": pto.sigmoid, "`silu`": silu, "`tanh`": pto.tanh,
        '`gelu(approximate="tanh")`': tanh_gelu, "`gelu`": pto.gelu, "`erf`": pto.erf,
    }  # fmt: skip
    return Table(tuple(cases), (tuple(partial(of_copy, function) for function in cases.values()),))


def transcendental() -> Table:
    """Sine, cosine and powers as multiples of a copy of the same dtype."""
    cases = {"`sin`": pto.sin, "`cos`": pto.cos, "`x ** 1.7`": power, "`x ** y`": "pow"}
    dtypes = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32}
    cells = ((name, *(partial(of_copy, f, dtype) for f in cases.values())) for name, dtype in dtypes.items())
    return Table(("of a copy of the same dtype", *cases), tuple(cells))


def by_rule(function: Any, exact: bool) -> str:
    return rounded(1e6 * of_rows(function, exact=exact))


def rules() -> Table:
    """The exact rule of a function of float16 and its formula, in microseconds."""
    cases = {
        "exp": pto.exp, "exp2": pto.exp2, "log": pto.log, "log2": pto.log2, "log1p": pto.log1p, "sigmoid": pto.sigmoid,
        "tanh": pto.tanh, "erf": pto.erf, "erfc": pto.erfc, "softplus": pto.softplus, "x ** y": "pow",
        "x ** 1.7": power, "sin": pto.sin, "cos": pto.cos,
    }  # fmt: skip

    def cells(name: str) -> Iterator[Cell]:
        yield f"`{name}`"
        for exact in (True, False):
            yield partial(by_rule, cases[name], exact)

    names = list(cases)
    half = len(names) // 2
    both = ((*cells(left), "", *cells(right)) for left, right in zip(names[:half], names[half:], strict=True))
    return Table(("function", "exact rule", "formula", "", "function", "exact rule", "formula"), tuple(both))


# --- extremes of rows ------------------------------------------------------------------------------------------------


def extremes() -> Table:
    """Extremes of rows, whose NaN vector instructions deal with."""
    return Table(
        ("", "by the scalar unit", "now"),
        (
            ("maximum of 1024 float32", "35.2", partial(maximum, 1024, np.float32)),
            ("maximum of 1024 float16", "25.9", partial(maximum, 1024, np.float16)),
            ("maximum of 2048 float32", "67.6", partial(maximum, 2048, np.float32)),
            ("softmax of 1024 float32", "47.5", partial(softmax, 1024)),
            ("softmax of 4096 float32", "161.9", partial(softmax, 4096)),
            ("maxima of 4096² products by blocks of 64 x 64", "80.6", partial(products_maximum, 64)),
            ("maxima of 4096² products by blocks of 64 x 128", "48.3", partial(products_maximum, 128)),
        ),
    )


def maximum(width: int, dtype: Any) -> str:
    x, out = empty(SIZE, width, dtype=dtype), empty(SIZE, dtype=dtype)
    return microseconds(predicted.reduction_of_rows, B2, (SIZE,), x, out, REDUCE=pto.max)


def softmax(width: int) -> str:
    x, out = (empty(SIZE, width, dtype=np.float32) for _ in range(2))
    return microseconds(rows.softmax_kernel, B2, (SIZE,), x, out)


def products_maximum(columns: int) -> str:
    a, b, out = empty(4096, 128), empty(128, 4096), empty(4096 // columns, 4096, dtype=np.float32)
    return microseconds(predicted.maxima_of_products, B2, (64, 4096 // columns), a, b, out, BM=64, BN=columns)


# --- products --------------------------------------------------------------------------------------------------------

BLOCKS: Final = {"BM": 128, "BN": 256, "BK": 64}


def square(n: int, chip: str, rows: int = 128, disable: tuple[str, ...] = ()) -> float:
    """Seconds of a product of n x n x n of float16 in blocks of so many rows and 256 columns."""
    a, b, c = (empty(n, n) for _ in range(3))
    kernel, grid = matmul_kernel.with_options(disable=disable), (-(-n // rows), n // 256)
    sizes = BLOCKS | {"BM": rows}
    return seconds(kernel, chip, grid, a, b, c, ACC=pto.float32, PRECISION="ieee", **sizes)


def by_pointers(chip: str) -> float:
    n = 4096
    a, b, c = (empty(n, n) for _ in range(3))
    return seconds(pointers_kernel, chip, (n // 128 * (n // 256),), a, b, c, n, n, n, n, n, n, GROUP=8, **BLOCKS)


def experts(chip: str) -> float:
    x, w, y = empty(8192, 2048), empty(8, 2048, 2048), empty(8192, 2048)
    numbers = np.repeat(np.arange(8, dtype=np.int32), 8)
    return seconds(cube.by_expert, chip, (64, 8), x, w, numbers, y, **BLOCKS)


def groups(chip: str) -> float:
    x, w, y = empty(8192, 2048), empty(8, 2048, 2048), empty(8192, 2048)
    starts = np.arange(0, 8193, 1024, dtype=np.int32)
    return seconds(cube.by_groups, chip, (8, 8), x, w, starts, y, **BLOCKS)


def routed(chip: str) -> float:
    x, w, y = empty(8192, 2048), empty(8, 2048, 2048), empty(8192, 2048)
    tokens, numbers = np.arange(8192, dtype=np.int32), np.repeat(np.arange(8, dtype=np.int32), 8)
    return seconds(cube.routed, chip, (64, 8), x, w, tokens, numbers, y, COUNT=8192, **BLOCKS)


def convolution(chip: str) -> float:
    x, w, y = empty(8, 64, 128, 256), empty(3, 3, 256, 256), empty(8, 64, 128, 256)
    return seconds(cube.convolution, chip, (8 * 64, 1), x, w, y, BP=128, BC=64)


def int8_weights(last: bool, chip: str) -> float:
    n = 4096
    a, b, scale, c = empty(n, n), empty(n, n, dtype=np.int8), empty(n), empty(n, n)
    return seconds(cube.dequantised, chip, (n // 128, n // 256), a, b, scale, c, LAST=last, **BLOCKS)


def paged(chip: str) -> float:
    heads, length, page = 16 * 8, 8192, 128
    pages = np.arange(heads * length // page, dtype=np.int32).reshape(heads, -1)
    keys, values = (empty(pages.size, page, 128) for _ in range(2))
    q, out, lengths = empty(heads, 16, 128), empty(heads, 16, 128), np.full(heads, length, np.int32)
    return seconds(cube.paged_attention, chip, (heads,), q, keys, values, pages, lengths, out, PAGE=page)


def percent(flops: float, predict: Callable[[str], float], chip: str) -> str:
    """Of the peak of the cube cores."""
    target = ascend_target(chip)
    return rounded(100 * flops / predict(chip) / (2 * 16**3 * target.cube_cores * target.mhz * 1e6), 2)


def products() -> Table:
    """Products of float16, in percent of the cube cores' peak."""
    tokens = 2 * 8192 * 2048**2
    pixels = 2 * 8 * 64 * 128 * 9 * 256**2
    cases: tuple[tuple[str, str, float, Callable[[str], float]], ...] = (
        ("4096³, slices", "80", 2 * 4096**3, partial(square, 4096)),
        ("8192³, slices", "86", 2 * 8192**3, partial(square, 8192)),
        ("4096³, `% M` and moving pointers", "24", 2 * 4096**3, by_pointers),
        ("eight experts of 2048 x 2048 for blocks of 128 of 8192 tokens", "0.4", tokens, experts),
        ("the same, groups of rows from an array of starts", "2.2", tokens, groups),
        ("the same, tokens in the order of a list", "0.03", tokens, routed),
        ("3 x 3 convolution, 8 x 64 x 128 pixels, 256 channels, padded", "0.4", pixels, convolution),
        ("4096³ with int8 weights, scales on the weights", "38", 2 * 4096**3, partial(int8_weights, False)),
        ("4096³ with int8 weights, scales on the result", "13", 2 * 4096**3, partial(int8_weights, True)),
        ("attention of 16 x 8 x 16 queries over 8192 keys in pages of 128", "1.9", 4 * 16 * 8 * 16 * 8192 * 128, paged),
    )  # fmt: skip
    return Table(
        ("product", f"{B2} before", B2, A5),
        tuple((name, old, *(partial(percent, n, f, chip) for chip in (B2, A5))) for name, old, n, f in cases),
    )


def high_blocks() -> Table:
    """Blocks of 256 rows, for which 950 has room in L0C twice."""
    sizes = (4096, 8192)
    cells = (partial(percent, 2 * n**3, partial(square, n, rows=256), A5) for n in sizes)
    return Table((f"{A5}, blocks of 256 x 256", *(f"{n}³" for n in sizes)), (("percent of the peak", *cells),))


def way_out() -> Table:
    """Products whose sums leave L0C between products, and beside them, in microseconds."""

    def cell(n: int, *disable: str) -> Cell:
        return lambda: rounded(1e6 * square(n, B2, disable=disable))

    sizes = (2048, 4096, 8192)
    return Table(
        ("product", "with events", "with unit flags"), tuple((f"{n}³", cell(n, "unit_flags"), cell(n)) for n in sizes)
    )


def order() -> Table:
    """Products whose programs run in the grid's order, and in bands, in milliseconds."""

    def cell(n: int, chip: str, rows: int, disable: tuple[str, ...]) -> Cell:
        return lambda: rounded(1e3 * square(n, chip, rows, disable), 3)

    cases = (
        (f"8192³ on {B2}", 8192, B2, 128),
        (f"16384³ on {B2}", 16384, B2, 128),
        (f"8192³ on {A5}, blocks of 128 x 256", 8192, A5, 128),
        (f"8192³ on {A5}, blocks of 256 x 256", 8192, A5, 256),
    )
    return Table(
        ("product", "in order", "in bands"),
        tuple((name, cell(*case, ("swizzle",)), cell(*case, ())) for name, *case in cases),
    )


# --- attention -------------------------------------------------------------------------------------------------------


def attention() -> Table:
    """The attention of tutorial 09 in TFLOP/s, beside published figures, with one size of blocks for all lengths."""

    def cell(n: int) -> Cell:
        kernel = load_tutorial("09_attention_on_ascend").attention
        arrays = [empty(n, 128) for _ in range(4)]
        return lambda: f"{4e-12 * n * n * 128 / seconds(kernel, B2, (-(-n // 108),), *arrays, BM=108, BN=512):.1f}"

    cases = (
        (1024, "25.6", "23.4"), (2048, "66.2", "68.0"), (4096, "96.6", "92.5"),
        (8192, "117.4", "140.8"), (16384, "151.2", "150.5"), (32768, "168.5", "169.1"),
    )  # fmt: skip
    return Table(
        ("queries and keys", "published, TFLOP/s", "predicted before", "predicted"),
        tuple((str(n), published, before, cell(n)) for n, published, before in cases),
    )


TABLES: Final = {
    "long rows": long_rows,
    "functions": functions,
    "transcendental": transcendental,
    "rules": rules,
    "extremes": extremes,
    "products": products,
    "high blocks": high_blocks,
    "way out": way_out,
    "order": order,
    "attention": attention,
}


def marked(name: str) -> re.Pattern[str]:
    """A table behind its marker."""
    return re.compile(rf"(<!-- predicted: {name} -->\n\n)(?:\|.*\n)*")


def write(names: list[str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in names:
        table = TABLES[name]().text()
        text = marked(name).sub(rf"\g<1>{table}\n", text)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(sys.argv[1:] or list(TABLES))
