"""The figures of the performance guide: ``python -m benchmarks.guide`` measures them, ``--write`` puts them there.

The kernels are those of the page itself, which is run for them. The versions of a case are compared with each other
before they are timed.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import numpy as np

import pypto as pto
from docs.blocks import blocks, run_python
from pypto.testing import compare

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
MARK: Final = "<!-- figure: {} -->"
Run = Callable[[], Any]


@dataclass(frozen=True)
class Case:
    """Two versions of one computation, which run and give their results, and what was measured in words."""

    better: Run
    worse: Run
    told: str


def page(folder: Path) -> Any:
    """What the page defines; its blocks become files of a folder, where kernels find their source."""
    module = ModuleType("page")
    for block in blocks(PAGE.read_text(encoding="utf-8")):
        if block.language == "python":
            run_python(block, module, folder)
    return module


def floats(*shape: int) -> Any:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def launched(kernel: Any, grid: Any, out: Any, *arguments: Any, **constants: Any) -> Run:
    """A launch that gives the array it writes."""

    def run() -> Any:
        kernel[grid](*arguments, **constants)
        return out

    return run


def one_kernel(p: Any, size: int) -> Case:
    n = 64 * size
    x, bias, out, other = floats(n), np.float32(0.5), np.empty(n, np.float32), np.empty(n, np.float32)
    better = launched(p.gelu, pto.cdiv(n, 4096), out, x, bias, out, BLOCK=4096)
    return Case(better, lambda: p.gelu_numpy(x, bias, other) or other, f"numpy's version, on {n:,} numbers,")


def block_size(p: Any, size: int) -> Case:
    n = 256 * size
    x, out, other = floats(n), np.empty(n, np.float32), np.empty(n, np.float32)
    better = launched(p.add, pto.cdiv(n, 4096), out, x, x, out, BLOCK=4096)
    worse = launched(p.add, pto.cdiv(n, 16), other, x, x, other, BLOCK=16)
    return Case(better, worse, f"`add` of {n:,} numbers with `BLOCK=16` in place of 4096")


def whole_rows(p: Any, size: int) -> Case:
    x = floats(size, 1000)
    out, other = np.empty_like(x), np.empty_like(x)
    better = launched(p.softmax, size, out, x, out)
    worse = launched(p.softmax_in_blocks, size, other, x, other, BLOCK=128)
    return Case(better, worse, f"`softmax_in_blocks`, on {size:,} rows of 1000 with `BLOCK=128`,")


def neighbours(p: Any, size: int) -> Case:
    x = floats(size, 1024)
    out, other = np.empty(1024, np.float32), np.empty(1024, np.float32)
    better = launched(p.sums_of_columns, 4, out, x, out, COLUMNS=256, ROWS=64)
    worse = launched(p.sum_of_column, 1024, other, x, other)
    return Case(better, worse, f"`sum_of_column`, on a matrix of {size:,} by 1024,")


def slices(p: Any, size: int) -> Case:
    n = 256 * size
    x, out, other = floats(n), np.empty(n, np.float32), np.empty(n, np.float32)
    indices = np.arange(1, n + 1, dtype=np.int32)
    better = launched(p.smooth, pto.cdiv(n, 4096), out, x, out, BLOCK=4096)
    worse = launched(p.smooth_by_indices, pto.cdiv(n, 4096), other, x, indices, other, BLOCK=4096)
    return Case(better, worse, f"`smooth_by_indices`, on {n:,} numbers,")


def blocks_of_products(p: Any, size: int) -> Case:
    n = size // 4
    a, b, out, other = floats(n, n), floats(n, n).T.copy(), np.empty((n, n), np.float32), np.empty((n, n), np.float32)
    better = launched(p.matmul, (pto.cdiv(n, 128),) * 2, out, a, b, out, BM=128, BN=128, BK=64)
    worse = launched(p.matmul, (pto.cdiv(n, 16),) * 2, other, a, b, other, BM=16, BN=16, BK=16)
    return Case(better, worse, f"`matmul` of {n} by {n} with blocks of 16 in place of 128, 128 and 64")


def launches(p: Any, size: int) -> Case:
    x, factors = floats(size, 64), floats(size)
    out, other = np.empty_like(x), np.empty_like(x)

    def worse() -> Any:
        for row in range(size):
            p.scale_row[1](x[row], other[row], factors[row])
        return other

    better = launched(p.scale_rows, size, out, x, out, factors)
    return Case(better, worse, f"a launch of `scale_row` for each of {size:,} rows of 64, in place of `scale_rows`,")


def bytes_moved(p: Any, size: int) -> Case:
    n = 2048 * size
    x, out = floats(n), np.empty(n, np.float32)
    wide, other = x.astype(np.float64), np.empty(n, np.float64)
    better = launched(p.add, pto.cdiv(n, 4096), out, x, x, out, BLOCK=4096)
    worse = launched(p.add, pto.cdiv(n, 4096), other, wide, wide, other, BLOCK=4096)
    return Case(better, worse, f"`add` of {n:,} numbers in float64 in place of float32")


CASES: Final[Mapping[str, Callable[[Any, int], Case]]] = {
    "one kernel": one_kernel, "block size": block_size, "whole rows": whole_rows, "neighbours": neighbours,
    "slices": slices, "blocks of products": blocks_of_products, "launches": launches, "bytes": bytes_moved,
}  # fmt: skip


def check(case: Case) -> None:
    np.testing.assert_allclose(np.array(case.better()), case.worse(), rtol=1e-3, atol=1e-3)


def measured(name: str, module: Any, size: int, rep: float) -> str:
    """A sentence with the figure."""
    case = CASES[name](module, size)
    check(case)
    ratio = compare({"better": case.better, "worse": case.worse}, rep).ratio("worse")
    return f"> **Measured:** {case.told} took {rounded(ratio)} times as long."


def rounded(ratio: float) -> str:
    """One digit of a large ratio, which varies more, and two of others."""
    return f"about {float(f'{ratio:.1g}'):.0f}" if ratio >= 10 else f"{ratio:.1f}"


def written(text: str, name: str, sentence: str) -> str:
    """The page with a figure behind its mark, in place of the one that was there."""
    mark = MARK.format(name)
    return re.sub(re.escape(mark) + r"\n(\n> .*\n)?", lambda m: f"{mark}\n\n{sentence}\n", text)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.guide", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the figures into docs/performance.md")
    parser.add_argument("--only", default="", help="only figures whose name contains this")
    parser.add_argument("--rep", type=float, default=2000, help="milliseconds for each version")
    given = parser.parse_args()
    pto.set_num_threads(1)
    text = PAGE.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        module = page(Path(folder))
        for name in (name for name in CASES if given.only in name):
            sentence = measured(name, module, 4096, given.rep)
            print(f"{name}: {sentence}", flush=True)
            text = written(text, name, sentence)
    if given.write:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
