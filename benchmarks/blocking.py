"""``python -m benchmarks blocking``: search for a blocking of matrix products that is faster than the compiler's own.

Field by field, every value is timed in turns with the best one so far, and stays where it is faster by more than the
noise. The winner is measured once more beside the compiler's choice: the search is judged by figures it has not seen.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.levels import PEERS as LEVELS
from benchmarks.runner import Pace, interleave
from pypto.backends.cpu.gemm.blocking import choose_blocking
from pypto.backends.cpu.target import level_target
from pypto.blocking import Blocking
from pypto.errors.launch import WrongBlocking

if TYPE_CHECKING:
    from rich.console import Console

    from pypto.ir.core import Op

# What is tried of each field, in this order: what the registers hold decides most.
VALUES: Final[Mapping[str, tuple[int, ...]]] = MappingProxyType({
    "nr": (8, 16, 32, 64),
    "mr": (3, 4, 5, 6, 8, 12, 14),
    "kc": (128, 192, 256, 320, 384, 512),
    "k_unroll": (2, 4, 8),
    "panel_prefetch": (768, 1536, 3072),
    "pack_prefetch": (2, 4, 8),
})  # fmt: skip
CACHES: Final = ((32, 256), (32, 512), (32, 1024), (48, 2048))  # first and second level, of CPUs of the last ten years
NOISE: Final = 0.02  # the part by which a value must be faster
PACE: Final = Pace(rounds=5, seconds=0.03)
Ratio = Callable[[Blocking, Blocking], float]  # how many times as fast the first is; WrongBlocking if it is refused


def search(ratio: Ratio, values: Mapping[str, Sequence[int]] = VALUES, noise: float = NOISE) -> Blocking:
    """The best blocking that is found field by field from the compiler's own; fields that gain nothing stay 0."""
    best = Blocking()
    for field, tried in values.items():
        start, gain = best, 1 + noise
        for value in tried:
            candidate = replace(start, **{field: value})
            try:
                found = ratio(candidate, start)
            except WrongBlocking:  # what this machine's registers do not hold is no candidate
                continue
            if found > gain:
                best, gain = candidate, found
    return best


def product_ratio(size: int, pace: Pace) -> Ratio:
    """The ratio of two blockings of a product of float32 matrices of one size, checked against the first."""
    from benchmarks.kernels.matmul import matmul_kernel

    a, b = (np.random.default_rng(n).random((size, size), np.float32) for n in range(2))
    expected = a.astype(np.float64) @ b
    block = min(size, 128)
    grid = (-(-size // block),) * 2
    more: dict[str, Any] = {"BM": block, "BN": block, "BK": block, "PRECISION": "ieee"}

    def launched(blocking: Blocking) -> Callable[[], Any]:
        import pypto as pto

        kernel, out = matmul_kernel.with_options(blocking=blocking), np.empty((size, size), np.float32)
        given = more | {"ACC": pto.float32}
        kernel[grid](a, b, out, **given)
        if not np.allclose(out, expected, rtol=1e-4):
            raise AssertionError(f"{blocking!r}: the product is wrong")
        return lambda: kernel[grid](a, b, out, **given)

    def ratio(one: Blocking, other: Blocking) -> float:
        timings = interleave({"one": launched(one), "other": launched(other)}, pace)
        return timings["one"].faster_than(timings["other"])

    return ratio


def table() -> str:
    """The compiler's own blocking of large products by level and sizes of caches, as a table in Markdown."""
    lines = ["| level | caches in KiB | float32: MR by NR, KC | int8: MR by NR, KC |", "|---|---|---|---|"]
    dots = {dtype: large_product(dtype) for dtype in ("float32", "int8")}
    for level, caches in itertools.product(sorted(LEVELS), CACHES):
        target = replace(level_target(level), caches=(caches[0] << 10, caches[1] << 10, 32 << 20))
        chosen = [choose_blocking(dot, target, "in_place") for dot in dots.values()]
        cells = (f"{b.mr} by {b.nr}, {b.kc}" for b in chosen)
        lines.append(f"| {level} | {caches[0]}, {caches[1]:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def large_product(dtype: str) -> Op:
    """The `dot` of a product of tiles of 128 rows and columns."""
    import pypto as pto
    from benchmarks.kernels.matmul import matmul_kernel

    side, is_int8 = np.zeros((512, 512), dtype), dtype == "int8"
    out = side.astype(np.int32 if is_int8 else dtype)
    acc = pto.int32 if is_int8 else pto.float32
    compiled = matmul_kernel.compile(a=side, b=side, c=out, ACC=acc, BM=128, BN=128, BK=128, PRECISION="ieee")
    return next(op for op in compiled.program.function.walk() if op.name == "dot")


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--size", type=int, default=1024, metavar="N", help="rows, columns and depth of the product")
    parser.add_argument("--threads", type=int, default=1, metavar="N", help="threads of a launch")
    parser.add_argument("--table", action="store_true", help="only show the compiler's own, by level and caches")
    parser.add_argument("--level", default="", choices=sorted(LEVELS), help="hold the products to a CPU level")


def run(options: argparse.Namespace, console: Console) -> int:
    """Search, measure the winner afresh, and say what to write."""
    import pypto as pto
    from pypto.backends.cpu.target import detect_target
    from pypto.options import Settings

    if options.table:
        print(table())
        return 0
    pto.set_num_threads(options.threads)
    target = detect_target(Settings.from_env().level)
    console.print(f"{options.size}³ of float32 on {options.threads} thread(s), {target.registers_and_caches}")
    best = search(product_ratio(options.size, PACE))
    if best == Blocking():
        console.print(f"nothing is faster than the compiler's own blocking by more than {NOISE:.0%}")
        return 0
    again = product_ratio(options.size, replace(PACE, rounds=4 * PACE.rounds))(best, Blocking())
    console.print(f"{best!r}: {again:.2f} times as fast as the compiler's own, measured afresh", highlight=False)
    if again > 1 + NOISE:
        console.print(f"to use it: @pto.jit(blocking=pto.{best!r})", highlight=False)
    return 0
