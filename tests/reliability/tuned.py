"""A program that tunes three kernels over 40 configurations each; test_trials_tuning.py runs and interrupts it.

It prints a line of JSON per kernel: what was tried, what won, how long it took; and a line for each run of a trial of
the second kernel. The first argument is the budget of every search in seconds.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any

import numpy as np

import pypto as pto

BUDGET = float(sys.argv[1])
SIZES = [32 * n for n in range(1, 41)]
TILES = [(m, n) for m in (8, 16, 32, 48, 64) for n in (16, 32, 48, 64, 80, 96, 112, 128)]
ROWS, COLUMNS = 96, 160


def tell_trial(named: dict[str, Any], **_: Any) -> None:
    os.write(1, b"trial\n")  # whole, also where Ctrl-C comes: print would leave the line without its end


@pto.autotune([pto.Config({"BLOCK": size}) for size in SIZES], key=["n"], budget=BUDGET)
@pto.jit
def add_one(x, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(x + i, pto.load(x + i, mask=i < n) + 1, mask=i < n)


@pto.autotune([pto.Config({"BM": m, "BN": n}) for m, n in TILES], key=["M", "N"], budget=BUDGET, post_hook=tell_trial)
@pto.jit
def scaled(x, y, M, N, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    y[i : i + BM, j : j + BN] = pto.exp(x[i : i + BM, j : j + BN]) * 2


@pto.autotune([pto.Config({"BM": m, "BN": n}) for m, n in TILES], key=["M", "N", "K"], budget=BUDGET)
@pto.jit
def product(a, b, c, M, N, K: pto.constexpr, BM: pto.constexpr, BN: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    c[i : i + BM, j : j + BN] = pto.dot(a[i : i + BM, 0:K], b[0:K, j : j + BN])


def tell(name: str, kernel: pto.tuning.Autotuner, right: bool, start: float) -> None:
    sections = kernel.tuning_report().sections  # none where the winner came from an earlier process
    told = [row.status for section in sections for row in section.rows]
    line = {"kernel": name, "right": right, "rows": len(told), "tried": told.count("ok"),
            "interrupted": any(section.interrupted for section in sections), "best": str(kernel.best_config),
            "seconds": time.perf_counter() - start}  # fmt: skip
    print(json.dumps(line), flush=True)


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background inherit that it is ignored
    rng = np.random.default_rng(0)
    x, y, z = rng.random(5000), rng.random((ROWS, COLUMNS)), rng.random((COLUMNS, ROWS))
    a, b = y.astype(np.float32), z.astype(np.float32)
    print("ready", flush=True)

    start, v = time.perf_counter(), x.astype(np.float32)
    add_one[lambda m: (pto.cdiv(5000, m["BLOCK"]),)](v, 5000)
    tell("add_one", add_one, bool((v == x.astype(np.float32) + 1).all()), start)

    start, w = time.perf_counter(), np.zeros_like(a)
    scaled[lambda m: (pto.cdiv(ROWS, m["BM"]), pto.cdiv(COLUMNS, m["BN"]))](a, w, ROWS, COLUMNS)
    tell("scaled", scaled, bool(np.allclose(w, np.exp(a) * 2, rtol=1e-6)), start)

    start, c = time.perf_counter(), np.zeros((ROWS, ROWS), np.float32)
    product[lambda m: (pto.cdiv(ROWS, m["BM"]), pto.cdiv(ROWS, m["BN"]))](a, b, c, ROWS, ROWS, COLUMNS)
    tell("product", product, bool(np.allclose(c, a @ b, rtol=1e-5)), start)


if __name__ == "__main__":
    main()
