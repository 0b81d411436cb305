"""Kernels on scalars are Python functions too: what Python computes is what the IR has to compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto.language as pto
from tests.frontend.evaluate import run

NUMBERS = range(-2, 9)


def if_else(out, n):
    if n > 3:
        x = 1
        if n > 5:
            x = 10
    elif n == 2:
        x = n
    else:
        x = -1
    out[0] = x


def early_return(out, n):
    if n < 0:
        return
    out[0] = 1
    if n > 4:
        out[1] = 2
        return
    out[2] = 3


def nested_return(out, n):
    if n > 0:
        if n > 3:
            out[0] = 1
            return
        out[1] = 2
    else:
        out[2] = 3
    out[3] = 4


def loop_sum(out, n):
    total = 0
    for i in range(n):
        total += i
    out[0] = total


def loop_bounds(out, n):
    total = 0
    for i in range(n, n * 3, 2):
        total += i
    for i in range(n, -n, -1):
        total = total * 2 + i
    out[0] = total


def loop_run_time_step(out, n):
    step = 2 if n > 3 else -3
    total = 0
    for i in range(n, 4 - n, step):
        total += i
        if total > 20:
            break
    out[0] = total


def break_continue(out, n):
    total = 0
    for i in range(10):
        if i == n:
            continue
        if i > n + 3:
            break
        total = total * 2 + i
    out[0] = total
    out[1] = 5


def nested_exit(out, n):
    count = 0
    for i in range(6):
        if i > 1:
            if i == n:
                continue
            count += 1
        else:
            count += 10
        count += 100
        for j in range(4):
            if j == n:
                break
            if i + j == 7:
                return
            count += j
        out[1] = count
    out[0] = count


def return_in_loop(out, n):
    for i in range(20):
        if i * i > n:
            out[0] = i
            return
        if i == 2:
            continue
        out[1] = i
    out[2] = 1


def while_loop(out, n):
    i = 0
    total = 0
    while i < n and total < 15:
        i += 1
        if i == 3:
            continue
        total += i
    out[0] = total
    out[1] = i


def while_true(out, n):
    i = 0
    while True:
        i += 1
        if i > n:
            break
    out[0] = i


def unrolled(out, n):
    total = 0
    for i in pto.static_range(5):
        if i == 1:
            continue
        if i == n:
            break
        total += i * n
    for a, b in ((1, 2), (3, 4)):
        total += a * b
    out[0] = total


def unrolled_run_time_exit(out, n):
    total = 0
    for i in (1, 2, 3, 4):
        if i > n:
            continue
        if i + n == 6:
            return
        total += i
    out[0] = total


def ternaries(out, n):
    out[0] = 1 if n > 3 else 2 if n > 1 else 3
    out[1] = n if (n > 0 and n < 5) or n == 7 else -n
    out[2] = 1 if not n > 2 else 0
    out[3] = 1 if -1 < n <= 4 != n else 0


def helper(x, limit=3):
    if x > limit:
        return x * 2
    for i in range(5):
        if i == x:
            return i + 100
    return -1


def calls(out, n):
    out[0] = helper(n)
    out[1] = helper(n, limit=0)
    out[2] = helper(limit=n, x=4)


def fact(k):
    return 1 if k <= 1 else k * fact(k - 1)


def functions(out, n):
    def apply(f, *args):
        return f(*args)

    scale = 3
    out[0] = apply(lambda a, b: a * scale + b, n, 1)
    out[1] = fact(5) + apply(helper, n)


def tuples(out, n):
    a, (b, *c) = n, (1, 2, 3)
    pair = (a, b)
    for i in range(3):
        pair = (pair[1], pair[0] + i)
    x, y = pair
    x, y = y, x
    out[0] = x * 10 + y + c[1] + len(c)


def widened(out, n):
    a = 0
    b = 1
    for _ in range(4):
        for j in range(3):
            for k in range(2):
                a += b + k
            b = a - b if j == n else b + 1
    out[0] = a
    out[1] = b


def constant_in_loop(out, n):
    mode = 2
    scale = 5
    for i in range(n):
        if mode == 1:
            scale = n
        for j in pto.static_range(mode):
            out[j] = scale + i
        last = i
        last += 1
        out[3] = last


def counter_guard(out, n):
    i = 0
    total = 0
    while i < 4:
        if i > 0:
            total += 12 // i
        i += 1
    out[0] = total


def swaps(out, n):
    a = 1
    b = n
    while a < 30:
        a, b = b + a, a
        if b < 0:
            return
    out[0] = a
    out[1] = b


FUNCTIONS = [f for f in list(globals().values()) if hasattr(f, "__code__")]
KERNELS = [f for f in FUNCTIONS if f.__code__.co_varnames[:2] == ("out", "n")]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", NUMBERS)
def test_computes_what_python_computes(kernel: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, result = np.full(4, -7, np.int64), np.full(4, -7, np.int64)
    run(kernel, out=result, n=n)
    monkeypatch.setattr(pto, "static_range", range)
    kernel(expected, n)
    assert result.tolist() == expected.tolist()
