"""The table of decided semantics, row by row: memory, control flow, functions, order. Tests are named after rows."""

from __future__ import annotations

import mmap
import threading
from typing import Any

import numpy as np
import pytest

import pypto as pto
from tests.language.engines import F32, I32, Engine, run
from tests.patience import limit


@pto.jit
def masked(x, out, first, last, BLOCK: pto.constexpr):
    i = pto.arange(0, BLOCK) + first
    pto.store(out + i - first, pto.load(x + i, mask=(i >= 0) & (i < last), other=-1))


def test_masked_lanes_touch_no_memory() -> None:
    """The array ends where the process may read no further."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, page)
    x = np.frombuffer(memory, F32)
    x[:] = 1
    out = np.zeros(2 * page, F32)
    masked[1](x, out, 0, x.size, BLOCK=2 * page)
    assert out[: x.size].all() and (out[x.size :] == -1).all()
    masked[1](x, out, -64, x.size, BLOCK=x.size)
    assert (out[:64] == -1).all() and (out[64 : x.size] == 1).all()


@pto.jit
def collatz(x, out, limit):
    """Every form of control flow."""
    n, steps = x[pto.program_id(0)], 0
    while n != 1 and steps < limit:
        steps += 1
        if n % 2 == 0:
            n = n // 2
            continue
        n = 3 * n + 1
    out[pto.program_id(0)] = steps if 0 <= steps < limit else -1


def test_control_flow(on: Engine) -> None:
    def steps(n: int) -> int:
        count = 0
        while n != 1 and count < 100:
            n, count = n // 2 if n % 2 == 0 else 3 * n + 1, count + 1
        return count if count < 100 else -1

    x, out = np.arange(1, 40, dtype=I32), np.zeros(39, I32)
    on(collatz)[39](x, out, 100)
    assert out.tolist() == [steps(int(n)) for n in x]


@pto.jit
def two_types(x, out, n):
    t = x[:]
    if n > 1:
        t = pto.sum(t)
    out[:] = t


def test_a_variable_has_one_type(on: Engine) -> None:
    """The error names it, both types and both places, and the place of the reading."""
    with pytest.raises(pto.errors.Diagnostic, match="type for t: f32 on one path") as error:
        on(two_types)[1](np.ones(4, F32), np.ones(4, F32), 3)
    assert str(error.value).count("-->") == 3 and "f32" in str(error.value)


@pto.jit
def ordered(x, out):
    """A load sees the program's own earlier stores."""
    i = pto.arange(0, 8)
    for k in range(3):
        pto.store(x + i, pto.load(x + 7 - i) + k)
    out[:] = x[:]


def test_memory_order_within_a_program(on: Engine) -> None:
    x = np.arange(8, dtype=I32)
    expected = x.copy()
    for k in range(3):
        expected = expected[::-1] + k
    assert run(on, ordered, x, dtype=I32).tolist() == expected.tolist()


@pto.jit
def counted(lock, count):
    """A lock of one word, held while a plain number is counted up."""
    while pto.atomic_cas(lock, 0, 1) == 1:
        pass
    count[0] = count[0] + 1
    pto.atomic_xchg(lock, 0)


def test_the_holder_of_a_lock_makes_progress() -> None:
    lock, count = np.zeros(1, I32), np.zeros(1, I32)
    thread = threading.Thread(target=lambda: counted[500](lock, count), daemon=True)
    thread.start()
    thread.join(limit(60))
    assert not thread.is_alive() and count[0] == 500


@pto.jit
def squared(a, out):
    out[:] = a[:] * a[:]


def test_aliasing(on: Engine) -> None:
    """In place, and with a shift: what program order gives."""
    x = np.arange(64, dtype=F32)
    on(squared)[1](x[:32], x[:32])
    np.testing.assert_array_equal(x[:32], np.arange(32) ** 2)
    on(squared)[1](x[:32], x[1:33])
    np.testing.assert_array_equal(x[1:33], np.arange(32, dtype=F32) ** 4)


@pto.jit
def power(x, N: pto.constexpr):
    return x if N == 1 else x * power(x, N - 1)


def applied(function, x, *rest, scale=1):
    return function(x, *rest) * scale


@pto.jit
def functions(a, out):
    out[:] = applied(power, a[:], 3, scale=SCALE) + applied(lambda v: v + 1, a[:])


SCALE = 2


def test_functions(on: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions as arguments, defaults, keywords, recursion over constants; a changed global is seen."""
    x = np.arange(5, dtype=F32)
    np.testing.assert_array_equal(run(on, functions, x), 2 * x**3 + x + 1)
    monkeypatch.setitem(globals(), "SCALE", 5)
    np.testing.assert_array_equal(run(on, functions, x), 5 * x**3 + x + 1)


@pto.jit
def kinds(value, out):
    pto.static_assert(value is None or value.dtype == out.dtype)
    out[0] = 7 if value is None else value


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(2**31 - 1, np.int32), (-(2**31), np.int32), (2**31, np.int64), (2**63, np.uint64), (0.1, np.float32),
     (True, np.bool_), (np.float64(0.1), np.float64), (np.int8(3), np.int8), (None, np.int32)],
)  # fmt: skip
def test_scalar_arguments(on: Engine, value: Any, dtype: Any) -> None:
    out = np.zeros(1, dtype)
    on(kinds)[1](value, out)
    assert out[0] == np.array(7 if value is None else value).astype(dtype)


def test_scalar_arguments_too_large() -> None:
    with pytest.raises(OverflowError, match="64 bits"):
        kinds[1](2**64, np.zeros(1, np.uint64))


@pto.jit
def in_order(x, up, down, best):
    t = x[:]
    up[:], down[:], best[:] = pto.sort(t), pto.sort(t, descending=True), pto.topk(t, 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sort_and_topk_put_nan_last(on: Engine, dtype: Any) -> None:
    x = np.array([3, np.nan, -1, np.inf, 3, -np.inf, 0], dtype)
    up, down, best = np.zeros(7, dtype), np.zeros(7, dtype), np.zeros(2, dtype)
    on(in_order)[1](x, up, down, best)
    np.testing.assert_array_equal(up, np.array([-np.inf, -1, 0, 3, 3, np.inf, np.nan], dtype))
    np.testing.assert_array_equal(down, np.array([np.inf, 3, 3, 0, -1, -np.inf, np.nan], dtype))
    np.testing.assert_array_equal(best, np.array([np.inf, 3], dtype))


@pto.jit
def counts(x, out, BINS: pto.constexpr):
    out[:] = pto.histogram(x[:], BINS)


def test_histogram_drops_what_is_out_of_range(on: Engine) -> None:
    out = np.zeros(4, I32)
    on(counts)[1](np.array([0, 3, 3, 4, -1, 1000, 2], I32), out, 4)
    assert out.tolist() == [1, 0, 1, 2]


@pto.jit
def picked(x, index, out):
    out[:] = pto.gather(x[:], index[:], 0)


def test_gather(on: Engine) -> None:
    x, index = np.array([5, 6, 7], F32), np.array([2, 0, 0, 1], np.int64)
    out = np.zeros(4, F32)
    on(picked)[1](x, index, out)
    assert out.tolist() == [7, 5, 5, 6]


@pto.jit
def drawn(out, seed):
    out[:] = pto.randint(seed, pto.arange(0, 4)).to(pto.uint32)


def test_dropout_and_friends_are_philox(on: Engine) -> None:
    """Counter 0, key 0: the first word is that of the published test vector of Philox 4x32-10."""
    out = np.zeros(4, np.uint32)
    on(drawn)[1](out, 0)
    assert out[0] == 0x6627E8D5
