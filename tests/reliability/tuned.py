"""A program that tunes three kernels over 40 configurations each; test_trials_tuning.py runs and interrupts it.

It prints a line of JSON per kernel: what was tried, what won, how long it took by its clock. The clock moves by a
millisecond with every look at it. The first argument is the budget of every search in seconds of that clock. With a
second one, so many runs of trials of the second kernel send Ctrl-C to the program itself; with ``lost`` as a third one
the signal comes while a finaliser runs.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

import numpy as np

import pypto as pto
from tests.tuning.clocks import TickingClock

BUDGET = float(sys.argv[1])
RUNS = int(sys.argv[2]) if len(sys.argv) > 2 else 0
IN_FINALISER = sys.argv[3:] == ["lost"]
SIZES = [32 * n for n in range(1, 41)]
TILES = [(m, n) for m in (8, 16, 32, 48, 64) for n in (16, 32, 48, 64, 80, 96, 112, 128)]
ROWS, COLUMNS = 96, 160


class Finalised:
    """Sends Ctrl-C as it goes."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        sum(range(100))  # the handler runs between two instructions of this function


runs: list[int] = []


def interrupt(named: dict[str, Any], **_: Any) -> None:
    """Send Ctrl-C after so many runs of trials."""
    runs.append(1)
    if len(runs) == RUNS:
        if IN_FINALISER:
            Finalised()
        else:
            os.kill(os.getpid(), signal.SIGINT)


@pto.autotune([pto.Config({"BLOCK": size}) for size in SIZES], key=["n"], budget=BUDGET)
@pto.jit
def add_one(x, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(x + i, pto.load(x + i, mask=i < n) + 1, mask=i < n)


@pto.autotune([pto.Config({"BM": m, "BN": n}) for m, n in TILES], key=["M", "N"], budget=BUDGET, post_hook=interrupt)
@pto.jit
def scaled(x, y, M, N, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y[i : i + BM, j : j + BN] = pto.exp(x[i : i + BM, j : j + BN]) * 2


@pto.autotune([pto.Config({"BM": m, "BN": n}) for m, n in TILES], key=["M", "N", "K"], budget=BUDGET)
@pto.jit
def product(a, b, c, M, N, K: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:K], b[0:K, j : j + BN])


def tell(name: str, kernel: pto.tuning.Autotuner, right: bool) -> None:
    sections = kernel.tuning_report().sections  # none where the winner came from an earlier process
    told = [row.status for section in sections for row in section.rows]
    line = {"kernel": name, "right": right, "rows": len(told), "tried": told.count("ok"),
            "interrupted": any(section.interrupted for section in sections), "best": str(kernel.best_config),
            "seconds": kernel.bench_time}  # fmt: skip
    print(json.dumps(line), flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit that it is ignored
    rng = np.random.default_rng(0)
    x, y, z = rng.random(5000), rng.random((ROWS, COLUMNS)), rng.random((COLUMNS, ROWS))
    a, b = y.astype(np.float32), z.astype(np.float32)
    for kernel in (add_one, scaled, product):
        kernel.clock = TickingClock(1.0)
    v = x.astype(np.float32)
    add_one[lambda m: (pto.cdiv(5000, m["BLOCK"]),)](v, 5000)
    tell("add_one", add_one, bool((v == x.astype(np.float32) + 1).all()))

    w = np.zeros_like(a)
    scaled[lambda m: (pto.cdiv(ROWS, m["BM"]), pto.cdiv(COLUMNS, m["BN"]))](a, w, ROWS, COLUMNS)
    tell("scaled", scaled, bool(np.allclose(w, np.exp(a) * 2, rtol=1e-6)))

    c = np.zeros((ROWS, ROWS), np.float32)
    product[lambda m: (pto.cdiv(ROWS, m["BM"]), pto.cdiv(ROWS, m["BN"]))](a, b, c, ROWS, ROWS, COLUMNS)
    tell("product", product, bool(np.allclose(c, a @ b, rtol=1e-5)))


if __name__ == "__main__":
    main()
