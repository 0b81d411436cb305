"""What checked kernels find, one by one: assertions, indices that wrap around, gathers, pointers of several arrays."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from pypto.errors.interp import GatherOutOfRange, IndexOverflow, KernelAssertion, OutOfBounds, WriteRace
from pypto.options import Settings
from pypto.runtime.owners import MOST_NUMBERS, Owners, OwnerStore
from tests.conformance.sources import define
from tests.debug.test_checked import line
from tests.patience import limit

BIG = 10**9


def message(kind: type[Diagnostic], kernel: Any, grid: Any, *args: Any, **constants: int) -> str:
    with pytest.raises(kind) as caught, pto.checked():
        kernel[grid](*args, **constants)
    return str(caught.value)


@pto.jit
def positive(x, out, n):
    i = pto.arange(0, 8)
    value = pto.load(x + i)
    pto.device_assert(value > 0, "all are positive", mask=i < n)
    assert pto.program_id(0) < 2, "two programs"
    pto.store(out + pto.program_id(0) * 8 + i, value)


def test_assertions() -> None:
    x, out = np.array([1, 2, 3, 0, 5, 6, 7, 8], np.float32), np.zeros(24, np.float32)
    with pto.checked():
        positive[2](x, out, 3)
    first, second = message(KernelAssertion, positive, 1, x, out, 4), message(KernelAssertion, positive, 3, x, out, 3)
    assert "assertion failed in program (0, 0, 0): all are positive\n" in first
    assert "assertion failed in program (2, 0, 0): two programs\n" in second
    positive[3](x, out, 8)  # without checks, assertions have no meaning
    np.testing.assert_array_equal(out.reshape(3, 8), [x] * 3)


@pto.jit
def halved(out, n):
    out[pto.program_id(0) * n // n] = 1.0


@pto.jit
def wrapped(out, n, BLOCK: pto.constexpr):
    i = n + pto.arange(0, BLOCK)
    pto.store(out + i % BLOCK, 1.0)


@pto.jit
def counted(out, n):
    k = n
    for _ in range(4):
        k += n
    out[k // n] = 1.0


@pto.jit
def hashed(out, n):
    """Unsigned integers wrap around on purpose, and an address is exact whatever the type of its sums."""
    far = pto.program_id(0) * n * 4
    key = (pto.program_id(0).to(pto.uint32) * 2654435761) % 4
    pto.store(out + key.to(pto.int32) + far - far, 1.0)


@pytest.mark.parametrize(
    ("kernel", "grid", "constants", "source"),
    [
        (halved, 4, {}, "pto.program_id(0) * n"),
        (wrapped, 1, {"BLOCK": 8}, "n + pto.arange(0, BLOCK)"),
        (counted, 1, {}, "k += n"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_index_overflow(kernel: Any, grid: int, constants: dict[str, int], source: str) -> None:
    out, large = np.zeros(8, np.float32), 2**31 - 4 if kernel is wrapped else BIG
    said = message(IndexOverflow, kernel, grid, out, large, **constants)
    assert "index arithmetic leaves the range of int32" in said
    caret = said.splitlines()[3]
    assert said.splitlines()[2][caret.index("^") : caret.rindex("^") + 1] == source
    with pto.checked():
        kernel[1](out, 3, **constants)


def test_what_is_no_index_overflow() -> None:
    with pto.checked(races=False):
        hashed[4](np.zeros(8, np.float32), BIG)


@pto.jit
def chosen(x, out, index):
    i = pto.arange(0, 8)
    pto.store(out + i, pto.gather(pto.load(x + i), pto.load(index + i), axis=0))


@pytest.mark.parametrize("bad", [8, -1, 2**31 - 1])
def test_gathers_from_tiles(bad: int) -> None:
    x, out, index = np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.arange(8, dtype=np.int32)[::-1].copy()
    with pto.checked():
        chosen[1](x, out, index)
    np.testing.assert_array_equal(out, x[::-1])
    index[3] = bad
    said = message(GatherOutOfRange, chosen, 1, x, out, index)
    assert f"gather out of range: index {bad} along axis 0 of size 8, in program (0, 0, 0)" in said
    chosen[1](x, out, index)  # without checks, some element


@pto.jit
def either(x, y, n):
    """Stores through a pointer that may come from two arrays."""
    p = x
    for k in range(2):
        p = y if k == n else p
    pto.store(p + pto.arange(0, 8), 1.0)


@pytest.mark.parametrize(("n", "array"), [(1, "y"), (5, "x")])
def test_pointers_of_several_arrays(n: int, array: str) -> None:
    memory = np.zeros(200, np.float32)
    whole, short = {"x": memory[:8], "y": memory[100:108]}, {"x": memory[:6], "y": memory[100:106]}
    with pto.checked():
        either[1](*whole.values(), n)
    said = message(OutOfBounds, either, 1, *{**whole, array: short[array]}.values(), n)
    assert f"store out of bounds: {array}[6] in program" in said


def test_beyond_32_bits(tmp_path: Path) -> None:
    """Sparse memory of more than 2**32 elements: the last one is checked, its owner noted, the one behind refused."""
    size = 2**32 + 5
    x = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(size,))

    @pto.jit
    def at(x, first, BLOCK: pto.constexpr):
        pto.store(x + first + pto.program_id(0).to(pto.int64) * BLOCK + pto.arange(0, BLOCK), 1)

    with pto.checked():
        at[2](x, size - 8, BLOCK=4)
    assert x[-8:].all() and not x[-9]
    assert f"out of bounds: x[{size}] in program (1, 0, 0)" in message(OutOfBounds, at, 2, x, size - 7, BLOCK=4)
    assert "out of bounds: x[-1] in program (0, 0, 0)" in message(OutOfBounds, at, 2, x, -1, BLOCK=4)


@pytest.mark.parametrize("stride", [2**35, 2**36, 2**40, 2**59, 2**61 - 1, 2**61, 2**61 + 1, -(2**61)])
def test_offsets_that_wrap_around_in_64_bits(stride: int) -> None:
    """Every eighth element, and the last one, may be back inside where others are not."""

    @pto.jit(checked=True, num_threads=1)
    def far(x, stride, BLOCK: pto.constexpr):
        pto.store(x + pto.arange(0, BLOCK).to(pto.int64) * stride, 1.0)

    with pytest.raises(OutOfBounds):
        far[1](np.zeros(64, np.float32), np.int64(stride), BLOCK=32)


@pytest.mark.parametrize(("threads", "least", "most"), [(1, 100, 100), (4, 0, 50_000)])
def test_programs_that_follow_a_failure_do_not_run(threads: int, least: int, most: int) -> None:
    @pto.jit(checked=True, num_threads=threads)
    def grows(out, n):
        out[pto.program_id(0)] = 1.0
        pto.device_assert(pto.program_id(0) < n)

    out = np.zeros(100_000, np.float32)
    with pytest.raises(KernelAssertion):
        grows[len(out)](out, 100)
    assert least <= out.sum() <= most


def test_launches_side_by_side_have_owners_of_their_own() -> None:
    @pto.jit(checked=True)
    def fill(out, value, BLOCK: pto.constexpr):
        pto.store(out + pto.program_id(0) * BLOCK + pto.arange(0, BLOCK), value)

    errors: list[BaseException] = []

    def launch(value: float, out: np.ndarray[Any, Any]) -> None:
        try:
            for _ in range(50):
                fill[len(out) // 64](out, value, BLOCK=64)
        except BaseException as error:
            errors.append(error)

    arrays = [np.zeros(64 * 50, np.float32) for _ in range(4)]
    threads = [threading.Thread(target=launch, args=(n, a)) for n, a in enumerate(arrays)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(limit(60))
    assert not errors
    for n, a in enumerate(arrays):
        assert (a == n).all()


def test_ways_to_turn_checks_on() -> None:
    function, short = line, (np.zeros(6, np.float32), np.zeros(6, np.float32), 8, 0, 8, 1)
    assert "x[6]" in message(OutOfBounds, pto.jit(function), 1, *short, BLOCK=8)
    with pytest.raises(OutOfBounds):
        pto.jit(checked=True)(function)[1](*short, BLOCK=8)
    assert Settings.from_env({"PYPTO_CHECKED": "1"}).checked
    with pto.checked(), pto.interpreter(), pytest.raises(OutOfBounds):
        pto.jit(function)[1](*short, BLOCK=8)


def test_races_alone_may_be_left_out() -> None:
    @pto.jit
    def first(out):
        out[0] = 1.0

    out = np.zeros(4, np.float32)
    with pto.checked(races=False):
        first[8](out)
    assert "two programs write one element: out[0]" in message(WriteRace, first, 8, out)


@pto.jit
def in_turns(x, total, lock, BLOCK: pto.constexpr):
    part = pto.sum(pto.load(x + pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)), axis=0)
    while pto.atomic_cas(lock, 0, 1) == 1:
        pass
    pto.store(total, pto.load(total) + part)
    pto.atomic_xchg(lock, 0)


@pytest.mark.parametrize("way", [pto.interpret, lambda kernel: kernel.checked], ids=["interpreted", "checked"])
def test_programs_that_take_turns_are_no_race(way: Any) -> None:
    x, total, lock = np.ones(64, np.float32), np.zeros(1, np.float32), np.zeros(1, np.int32)
    way(in_turns)[8](x, total, lock, BLOCK=8)
    assert total[0] == 64


@pto.jit
def as_bytes(x, at, DTYPE: pto.constexpr):
    """An element of another type, some bytes into the array."""
    pto.store((x.to(pto.pointer_type(pto.uint8)) + at).to(pto.pointer_type(DTYPE)), 7)


@pytest.mark.parametrize("way", [pto.interpret, lambda kernel: kernel.checked], ids=["interpreted", "checked"])
def test_pointers_to_another_type(way: Any) -> None:
    run, x = way(as_bytes), np.zeros(4, np.int32)
    run[1](x, 8, DTYPE=pto.int64)
    run[1](x, 15, DTYPE=pto.uint8)
    assert x.tolist() == [0, 0, 7, 7 << 24]
    for at, dtype in ((9, pto.int64), (13, pto.int32), (16, pto.uint8), (-1, pto.int16)):
        with pytest.raises(OutOfBounds):
            run[1](x, at, DTYPE=dtype)
    for at in (5, 0):
        with pytest.raises(OutOfBounds):
            run[1](np.zeros(4, np.int32)[::2], at, DTYPE=pto.int64)


def test_owners_begin_anew_before_their_numbers_end() -> None:
    owners = Owners(100)
    assert owners.numbers(10) == 0 and owners.numbers(1) == 11 and owners.numbers(5) == 13
    owners.memory[0:4] = b"\1\1\1\1"
    owners.last = MOST_NUMBERS - 3
    assert owners.numbers(3) == 0 and owners.memory[0:4] == bytes(4)
    store = OwnerStore()
    store.give_back(owners)
    assert store.take(101) is not owners and store.take(50) is owners and store.take(50) is not owners


@pytest.mark.slow
def test_kernels_that_are_compiled_in_parts() -> None:
    lines = [f"    pto.store(out + {4 * k} + i, pto.load(x + {4 * k} + i) + {k})" for k in range(300)]
    kernel = define("\n".join(["def kernel(x, out):", "    i = pto.arange(0, 4)", *lines, ""]))
    x, out = np.arange(1200, dtype=np.float32), np.zeros(1200, np.float32)
    with pto.checked():
        kernel[1](x, out)
    np.testing.assert_array_equal(out, x + np.repeat(np.arange(300), 4))
    out[:] = -1
    said = message(OutOfBounds, kernel, 1, x[:1198], out)
    assert "load out of bounds: x[1198] in program (0, 0, 0)" in said
    assert "pto.load(x + 1196 + i)" in said
    assert (out[1196:] == -1).all()


def test_nothing_to_check() -> None:
    @pto.jit(checked=True)
    def idle(x, n):
        assert n > 2

    @pto.jit(checked=True)
    def unread(x, n):
        pto.load(x + n)

    for _ in range(2):
        idle[4](np.zeros(0, np.float32), 3)
        unread[1](np.zeros(1, np.float32), 3)  # nobody reads what is loaded: no memory is touched


def test_a_kernel_without_checks_has_none() -> None:
    kernel = pto.jit(line)
    arguments = np.zeros(8, np.float32), np.zeros(8, np.float32), 8, 0, 8, 1
    plain = kernel.compile(*arguments, BLOCK=8)
    assert plain.program.artifact.checks == () and "checks" not in str(kernel.inspect(*arguments, BLOCK=8)["llvm-ir"])
    checked = kernel.checked.compile(*arguments, BLOCK=8)
    assert {c.kind for c in checked.program.artifact.checks} == {"load", "store"}
    assert {slot.kind for slot in checked.program.artifact.abi} >= {"report", "watched"}
