"""What `explain` says, for kernels that are made to meet each reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.findings import byte_text
from pypto.debug.explain import explain
from tests.backends_cpu.test_unswitch_modulo import launch, remainders
from tests.conformance.running import make_launch, quick_part

X = np.ones(4096, np.float32)
M = np.ones((64, 64), np.float32)
INDEX = np.arange(4096, dtype=np.int32)
N = 1000


@pto.jit
def indexed(x, index, y, B: pto.constexpr):
    i = pto.program_id(0) * B + pto.arange(0, B)
    pto.store(y + i, pto.load(x + pto.load(index + i)))


@pto.jit
def wrapped(x, y, B: pto.constexpr):
    i = pto.program_id(0) * B + pto.arange(0, B)
    pto.store(y + i, pto.load(x + i % 7))


@pto.jit
def spread(x, y, B: pto.constexpr):
    i = pto.program_id(0) * B + pto.arange(0, B)
    pto.store(y + i, pto.load(x + i * 3))


@pto.jit
def picked(x, y, n, B: pto.constexpr):
    i = pto.program_id(0) * B + pto.arange(0, B)
    a = pto.load(x + i)
    pto.store(y + i, a, mask=(i < n) & (a > 0))


@pto.jit
def table_rows(x, index, y, B: pto.constexpr):
    i = pto.arange(0, B)
    found = pto.load(index + i)
    cols = pto.arange(0, 64)
    pto.store(y + i[:, None] * 64 + cols[None, :], pto.load(x + found[:, None] * 64 + cols[None, :]))


@pto.jit
def normed(x, y):
    row = x[pto.program_id(0), :]
    y[pto.program_id(0), :] = row / pto.sum(row)


@pto.jit
def chain(x, y):
    p = pto.exp(x[:, :])
    y[:, :] = pto.dot(p, p)


@pto.jit
def looped(x, y):
    for i in range(0, 64, 16):
        y[i : i + 16, :] = x[i : i + 16, :] * 2


@pto.jit
def branched(x, y):
    if pto.program_id(0) > 0:
        y[:16, :] = x[:16, :] * 2


@pto.jit
def again(x, y):
    for i in range(0, 64, 16):
        y[:16, :] = x[i : i + 16, :] * 2


@pto.jit
def in_place(x, y):
    y[pto.program_id(0), :] = y[pto.program_id(0), :] * 2


@pto.jit
def turned(x, y):
    t = pto.exp(x[:, :])
    y[:, :] = pto.trans(t) + t


@pto.jit
def product(x, y, z):
    total = pto.zeros((16, 16), pto.float32)
    for i in range(0, x.shape[1], 16):
        total += pto.dot(x[:16, i : i + 16], y[i : i + 16, :16])
    z[:16, :16] = total + 1


def said(topic: str, kernel: Any, *args: Any, **given: Any) -> str:
    return "\n".join(f"{f.text}; {f.way}" for f in explain(kernel, *args, **given).about(topic))


def test_a_gather_names_what_it_comes_of() -> None:
    assert "comes of a load in line" in said("access", indexed, X, INDEX, X.copy(), B=128)
    assert "comes of `rem` in line" in said("access", wrapped, X, X.copy(), B=128)
    assert "rows are found by an index" in said("access", table_rows, M, INDEX, M.copy(), B=16)


def test_products_whose_index_wraps_around_are_explained_by_what_most_programs_run() -> None:
    made = launch(remainders, 70, 90, 33)
    text = said("access", made.kernel, **made.arguments)
    assert text.count("programs that store nothing of what comes of that read it where it lies") == 2
    assert "an address of its own" not in text
    assert "`dot`" not in said("memory", made.kernel, **made.arguments)


def test_strides_and_masks() -> None:
    assert "3 apart" in said("access", spread, X, X.copy(), B=128)
    assert "stride known at run time" in said("access", normed, M.T, M.copy())
    assert "no bound of an index" in said("access", picked, X, X.copy(), N, B=128)
    assert said("access", normed, M, M.copy()) == ""


def test_stores_past_the_caches() -> None:
    assert "a mask decides" in said("stream", picked, X, X.copy(), N, B=128)
    assert "it is in a branch" in said("stream", branched, M, M.copy())
    assert "to one place again and again" in said("stream", again, M, M.copy())
    assert "reads that array, too" in said("stream", in_place, M, M.copy())
    assert "rows of 400 bytes" in said("stream", normed, np.ones((4, 100), np.float32), np.ones((4, 100), np.float32))
    assert "multiples of 64 bytes" in said("stream", normed, M, M.copy())
    wide = np.ones((16, 4096), np.float32)
    assert "next to no time" in said("stream", product, wide, wide.T.copy(), M.copy())


def test_a_store_follows_the_others_in_its_loop() -> None:
    @pto.jit
    def both(x, y, z):
        row = x[pto.program_id(0), :]
        y[pto.program_id(0), :] = row
        z[pto.program_id(0), :] = row + 1

    found = said("stream", both, M, M.copy(), M.copy().T)
    assert "its rows are not contiguous" in found
    assert "in the same loop, does" in found


def test_the_number_of_programs_that_stream_is_the_emitters() -> None:
    target = normed.compile(M, M.copy()).program.backend.target
    assert f"more than {target.caches[-1] // 512:,} programs" in said("stream", normed, M, M.copy())
    turns = target.caches[-1] // (16 * 512)
    assert f"in loops of more than {turns:,} turns in all" in said("stream", looped, M, M.copy())


def test_why_two_nests_are_two() -> None:
    assert "it needs the number that a reduction there gives" in said("fusion", normed, M, M.copy())


def test_what_is_kept_in_memory_and_why() -> None:
    assert "`dot` in line" in said("memory", chain, M, M.copy())
    assert "needs it whole" in said("memory", chain, M, M.copy())
    assert "in another order than it is made in" in said("memory", turned, M, M.copy())


def test_versions_say_why_they_are() -> None:
    kernel = pto.jit(normed.function)
    assert said("version", kernel, M, M.copy()) == ""
    wide = np.ones((8, 96), np.float32)
    assert "number 2 of 2: changed: shape(" in said("version", kernel, wide, wide.copy())


def test_the_text_stands_under_the_lines() -> None:
    text = str(explain(wrapped, X, X.copy(), B=128))
    head, _, rest = text.partition("\n\n")
    assert head.startswith("wrapped, compiled for (x: ")
    assert "test_explain.py:" in rest
    assert "pto.store(y + i, pto.load(x + i % 7))\n  access" in rest


@pytest.mark.parametrize("name", quick_part(2))
def test_every_kernel_can_be_explained(name: str) -> None:
    launch = make_launch(name)
    before = {n: x.copy() for n, x in launch.arguments.items() if isinstance(x, np.ndarray)}
    found = explain(launch.kernel, **launch.arguments)
    assert str(found) == str(explain(launch.kernel, **launch.arguments))
    assert all(f.text and f.loc.line for f in found.findings)
    assert all(np.array_equal(launch.arguments[n], x, equal_nan=x.dtype.kind == "f") for n, x in before.items())


@pytest.mark.parametrize(("count", "text"), [(0, "0 bytes"), (1536, "1.5 KB"), (32 << 20, "32 MB")])
def test_size(count: int, text: str) -> None:
    assert byte_text(count) == text


def test_a_kernel_for_a_chip_tells_its_cores_and_its_accesses() -> None:
    from pypto.compile import session

    @pto.jit
    def product(a, b, c):
        c[:, :] = pto.maximum(pto.dot(a[:, :], b[:, :]), 0.0)

    @pto.jit
    def columns(x, y):
        y[0] = pto.sum(x[:, 0])

    a = np.ones((64, 64), np.float16)
    with session().devices.chip("ascend910b2"):
        found = explain(product, a, a, np.ones((64, 64), np.float32))
        assert "runs on cube cores" in found.about("form")[0].text
        other = explain(columns, np.ones((8, 8), np.float32), np.ones(1, np.float32))
    assert [f.text for f in other.about("form")] == ["it runs on vector cores"]
    assert len(other.about("access")) == 1
    assert "per block" in str(other)
