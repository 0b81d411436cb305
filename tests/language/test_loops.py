"""`pto.range` with several iterations at once."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from tests.frontend.evaluate import built
from tests.language.running import both


@pto.jit
def unrolled(x, low, high, out):
    acc, last, count = 0.0, -1, 0
    for i in pto.range(low, high, 3, unroll=[8, 4]):
        last = i
        if i % 2 == 0:
            continue
        acc = acc * 0.5 + x[i]
        count += 1
    out[0], out[1], out[2] = acc, last, count
    for j in pto.range(high, unroll=4):
        if j > 5:
            break
        out[3] = j


@pytest.mark.parametrize(("low", "high"), [(0, 0), (0, 1), (0, 24), (5, 100), (5, 103), (7, 3), (1, 290)])
def test_every_iteration_runs_once_and_in_order(low: int, high: int, level: str) -> None:
    x = np.random.default_rng(0).random(300)
    (out,) = both(unrolled, x, low, high, np.zeros(4), outputs=1, level=level)
    acc, done = 0.0, list(range(low, high, 3))
    for i in (i for i in done if i % 2):
        acc = acc * 0.5 + x[i]
    wanted = [acc, ([-1, *done])[-1], sum(i % 2 for i in done), max(0, min(high - 1, 5))]
    np.testing.assert_allclose(out, wanted, rtol=1e-6)


def test_one_loop_for_each_number() -> None:
    def kernel(out, n):
        acc = 0
        for i in pto.range(n, unroll=(4, 2)):
            acc += i
        out[0] = acc

    ops = [op for op in built(kernel, out=np.zeros(1, np.int32), n=7).function.walk() if op.name == "for"]
    assert [sum(o.name == "add" for o in op.regions[0].ops) for op in ops] == [7, 3, 1]
