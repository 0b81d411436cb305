"""All published times that the timing model is held against: those that its constants are fitted to, and the others.

`python -m tests.backends_ascend.published` prints the tables of docs/timing.md. A point that constants are fitted to
names them; no constant knows the other points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import pypto as pto
from tests.backends_ascend import copy_ladder, ladder, product_ladder

PAGE = Path(__file__).parents[2] / "docs" / "timing.md"


@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc.to(pto.float16)


@pto.jit(disable=("swizzle",))
def matmul_in_order(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc += pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN])
    c[i : i + BM, j : j + BN] = acc.to(pto.float16)


def product(n: int, chip: str, kernel: Any = matmul, rows: int = 128) -> Any:
    """The prediction for a product of n x n x n in blocks of so many rows and 256 columns."""
    a, b, c = (np.empty((n, n), np.float16) for _ in range(3))
    return pto.simulate(kernel, chip)[-(-n // rows), n // 256](a, b, c, BM=rows, BN=256, BK=64)


@dataclass(frozen=True)
class Point:
    """A published time in microseconds; `fitted` are the constants that it decides about."""

    name: str
    published: float
    predicted: Callable[[], float]
    fitted: str = ""

    @property
    def error(self) -> float:
        return self.predicted() / self.published - 1


FITTED = {
    "910b1, GM to UB, 64 x 2 KB": "HBM's rate",
    "910b1, GM to UB, 64 x 128 bytes": "`jump`",
    "910b1, GM to UB, 128 bytes": "`least`",
    "910b1, GM to UB, each quarter four times": "L2's rate",
    "910b1, GM to UB, all cores in one order": "`same_place`",
    "910b1, GM to UB, cores staggered": "`short_run`",
    "910b1, GM to L1, 64 x 128 bytes": "`row`",
    "950, GM to UB, 128 bytes": "`least` of 950",
    "950, GM to UB, 64 x 2 KB, pitch unaligned": "`sector` of 950",
    "950, GM to UB, cores staggered": "`short_run` of 950",
    "950, GM to UB, all cores in one order": "`same_place_vector` of 950",
    "950, GM to L1, all cores in one order": "`same_place` of 950",
    "add, 910b1, scalar, one core": "`SCALAR_ACCESS`",
    "add, 910b1, one core, 8 KB": "`latency`",
    "product of 6144³ in order": "`same_in_l2`",
    "product of 8192³ on 950, 256 x 256": "`from_l0c` of 950",
}


def points() -> Iterator[Point]:
    for copies in copy_ladder.LADDER:
        yield Point(
            copies.label, copies.published, partial(copy_ladder.microseconds, copies), FITTED.get(copies.label, "")
        )
    for rung in ladder.LADDER:
        name = f"add, {rung.label}"
        yield Point(name, rung.published, partial(seconds, ladder.predicted, rung), FITTED.get(name, ""))
    for version in product_ladder.LADDER:
        name = f"product of 8192³ by hand, {version.name}"
        yield Point(name, version.published, partial(seconds, product_ladder.predicted, version))
    for n, published in ((1536, 38.8), (3072, 206.7), (6144, 1506.0), (7680, 3168.0)):
        yield Point(f"product of {n}³ on 910C", published, partial(seconds, product, n, "ascend910c"))
    for name, published, rest in (
        ("product of 6144³ in order", 2100.0, (6144, "ascend910b2", matmul_in_order)),
        ("product of 6144³ in bands", 1600.0, (6144, "ascend910b2")),
        ("product of 8192³ on 950, 256 x 256", 2572.0, (8192, "ascend950", matmul, 256)),
    ):
        yield Point(name, published, partial(seconds, product, *rest), FITTED.get(name, ""))


def seconds(predict: Callable[..., Any], *args: Any) -> float:
    return float(1e6 * predict(*args).seconds)


def row(point: Point) -> str:
    us = point.predicted()
    cells = (point.name, f"{point.published:.1f}", f"{us:.1f}", f"{us / point.published - 1:+.1%}")
    return f"| {' | '.join((*cells, point.fitted) if point.fitted else cells)} |"


def table(fitted: bool) -> str:
    head = (
        ("published, µs", "predicted", "error", "fitted to it") if fitted else ("published, µs", "predicted", "error")
    )
    rows = [f"| point | {' | '.join(head)} |", "|---|" + "---|" * len(head)]
    return "\n".join([*rows, *(row(point) for point in points() if bool(point.fitted) == fitted)])


if __name__ == "__main__":
    print(table(True), table(False), sep="\n\n")
