"""The loops that measure the machine compute what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks import loops
from benchmarks.limits import (
    MOVED,
    Limits,
    Machine,
    buffers,
    call,
    compile_loops,
    fastest,
    per_round,
    product_rate,
)
from benchmarks.limits_ir import CHAINS, PRODUCTS, STREAMS, module, products, tile_operations
from benchmarks.loops import beside
from benchmarks.runner import Case, Row


@pytest.fixture(scope="module")
def machine() -> Machine:
    return compile_loops()


def run(machine: Machine, loop: str, n: int = 1024) -> tuple[Any, Any, Any]:
    dst, a, b = buffers(n, 1)
    a[:] = np.arange(n)
    b[:] = 7
    call(machine, loop, 2, n, (dst, a, b))()
    return dst, a, b


@pytest.mark.parametrize("loop", ["copy", "copy_nt"])
def test_copy(machine: Machine, loop: str) -> None:
    dst, a, _ = run(machine, loop)
    assert np.array_equal(dst, a)


@pytest.mark.parametrize("loop", ["add", "add_nt"])
def test_add(machine: Machine, loop: str) -> None:
    dst, a, b = run(machine, loop)
    assert np.array_equal(dst, a + b)


def test_read_sums_everything(machine: Machine) -> None:
    dst, a, _ = run(machine, "read")
    assert dst[: machine.width].sum() == a.sum()


def test_fma_does_all_rounds(machine: Machine) -> None:
    dst, a, b = buffers(64, 0)
    call(machine, "fma", 1, 10, (dst, a, b))()
    assert np.array_equal(dst[: machine.width], np.full(machine.width, 10.0 * CHAINS, np.float32))


def test_buffers_are_aligned() -> None:
    assert all(array.ctypes.data % 64 == 0 and array.size == 256 for k in range(3) for array in buffers(256, k))


def test_rates_are_positive(machine: Machine) -> None:
    assert all(product_rate(machine, name, 2) > 0 for name in machine.products)


def test_fastest_runs_calls_together() -> None:
    done: list[int] = []
    assert fastest([lambda: done.append(1), lambda: done.append(2)]) >= 0
    assert done.count(1) == done.count(2) > 1


EVERYTHING = frozenset({"avx512bf16", "avx512vnni"})


def test_products_need_their_features() -> None:
    assert products(frozenset()) == ("fma", "fma64")
    assert products(EVERYTHING) == tuple(PRODUCTS)


def test_products_count_every_operation() -> None:
    assert [row.flops for row in PRODUCTS.values()] == [2, 1, 4, 8]


@pytest.mark.parametrize(
    ("width", "features"), [(4, frozenset()), (8, frozenset()), (16, frozenset()), (16, EVERYTHING)]
)
def test_ir_is_valid(width: int, features: frozenset[str]) -> None:
    import llvmlite.binding as llvm

    parsed = llvm.parse_assembly(module(width, features))
    parsed.verify()
    assert {f.name for f in parsed.functions if not f.is_declaration} == {*products(features), *STREAMS}


def test_an_unmeasured_rate_is_an_error() -> None:
    with pytest.raises(KeyError):
        Limits({"fma": {1: 1.0}}).rate("fma", 2)


def bounded(limit: str, work: float = 24 * 1024 * 16) -> Row:
    return Row("anything", "n", work, "B", limit, 0.0, lambda: Case(lambda: None, {}, lambda: None))


@pytest.mark.parametrize("kind", ["read", "copy", "add"])
@pytest.mark.parametrize("threads", [1, 2])
def test_streams_move_what_a_row_moves(machine: Machine, kind: str, threads: int, monkeypatch: Any) -> None:
    made: list[Any] = []
    monkeypatch.setattr(loops, "buffers", lambda n, k: made.extend(buffers(n, k)) or made)
    found = beside(machine, bounded(f"{kind} DRAM"), threads)
    assert set(found) == {name for name in STREAMS if name.startswith(kind)}
    for loop in found.values():
        loop()
    dst, a, b = made
    assert a.nbytes * MOVED[kind] == 24 * 1024 * 16
    if kind != "read":
        assert np.array_equal(dst, a + b if kind == "add" else a)


def test_rows_within_caches_and_short_ones_have_no_loops(machine: Machine) -> None:
    assert beside(machine, bounded("copy L3"), 1) == beside(machine, bounded("fma"), 1) == {}


@pytest.mark.parametrize("kind", ["fma", "bf16", "int8"])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_do_as_many_operations_as_a_row(machine: Machine, kind: str, threads: int, monkeypatch: Any) -> None:
    asked: list[int] = []
    monkeypatch.setattr(loops, "call", lambda m, name, repeats, n, arrays: lambda: asked.append(repeats * n))
    work = 8.0 * 1024**3
    ((name, loop),) = beside(machine, bounded(kind, work), threads).items()
    loop()
    if kind in machine.tiles:
        assert name == f"{kind}_tiles"
    else:
        assert name == (kind if kind in machine.products else "fma")
    assert len(asked) == threads
    each = tile_operations(kind) if kind in machine.tiles else per_round(machine, name)
    assert sum(asked) * each == pytest.approx(work, rel=1e-4)
