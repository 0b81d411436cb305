"""Casts between pointers and addresses, pointers that a kernel finds in memory, and pointers to const."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.interp import OutOfBounds, WildPointer
from pypto.errors.language import OpTypeError
from pypto.errors.launch import ReadOnlyArgument
from pypto.ir.parser import parse_function
from pypto.ir.printer import print_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.analysis.memory_effects import written_names
from tests.conformance.sources import define


@pto.jit
def grouped_sums(table, sizes, out, K: pto.constexpr):
    """One array per program; its address is data."""
    g = pto.program_id(0)
    first = pto.load(table + g).to(pto.pointer_type(pto.float16))
    i = pto.arange(0, K)
    x = pto.load(first + i, mask=i < pto.load(sizes + g), other=0.0)
    pto.store(out + g, pto.sum(x.to(pto.float32)))


@pto.jit
def grouped_doubles(table, sizes, K: pto.constexpr):
    g = pto.program_id(0)
    first = pto.load(table + g).to(pto.pointer_type(pto.float16))
    i = pto.arange(0, K)
    mask = i < pto.load(sizes + g)
    pto.store(first + i, pto.load(first + i, mask=mask) * 2, mask=mask)


@pto.jit
def through_addresses(x, y, n, BLOCK: pto.constexpr):
    i = pto.arange(0, BLOCK)
    addresses = x.to(pto.int64) + i.to(pto.int64) * 4
    pto.store(y + i, pto.load(addresses.to(pto.pointer_type(pto.float32)), mask=i < n), mask=i < n)


@pto.jit
def upper_halves(x, y, n, BLOCK: pto.constexpr):
    """An array of another type in the same memory."""
    i = pto.arange(0, BLOCK)
    halves = x.to(pto.pointer_type(pto.uint16), bitcast=True)
    pto.store(y + i, pto.load(halves + 2 * i + 1, mask=i < n), mask=i < n)
    pto.store(halves + 2 * i, (i * 0).to(pto.uint16), mask=i < n)


@pto.jit
def sums_of_pairs(x, y, BLOCK: pto.constexpr):
    i = pto.arange(0, BLOCK)
    pairs = x.to(pto.pointer_type(pto.int64))
    pto.store(y + i, pto.load(pairs + i) + 1)


@pto.jit
def is_set(x, y):
    pto.store(y, x.to(pto.int1).to(pto.int32))


ARRAYS = [np.linspace(-1, 3, n).astype(np.float16) for n in (5, 1, 100)]


def table_of(arrays: list[Any]) -> tuple[Any, Any]:
    return np.array([a.ctypes.data for a in arrays], np.int64), np.array([len(a) for a in arrays], np.int32)


@pytest.mark.parametrize("unsigned", [False, True])
def test_addresses_in_an_array(unsigned: bool) -> None:
    table, sizes = table_of(ARRAYS)
    table = table.astype(np.uint64) if unsigned else table
    for kernel in (grouped_sums, pto.interpret(grouped_sums, memory=tuple(ARRAYS))):
        out = np.zeros(3, np.float32)
        kernel[3](table, sizes, out, 128)
        np.testing.assert_allclose(out, [a.astype(np.float32).sum() for a in ARRAYS], rtol=1e-6)


def test_stores_through_addresses() -> None:
    for run in (lambda arrays: grouped_doubles, lambda arrays: pto.interpret(grouped_doubles, memory=tuple(arrays))):
        arrays = [a.copy() for a in ARRAYS]
        run(arrays)[3](*table_of(arrays), 128)
        for found, before in zip(arrays, ARRAYS, strict=True):
            np.testing.assert_array_equal(found, before * 2)


def test_the_interpreter_knows_whose_memory_it_is() -> None:
    table, sizes = table_of(ARRAYS)
    out = np.zeros(3, np.float32)
    with pytest.raises(WildPointer, match="memory="):
        pto.interpret(grouped_sums)[3](table, sizes, out, 128)
    with pytest.raises(OutOfBounds, match=r"memory\[0\]\[5\]"):
        pto.interpret(grouped_sums, memory=tuple(ARRAYS))[3](table, sizes + 1, out, 128)
    assert not out.any()


def test_there_and_back() -> None:
    x = np.arange(10, dtype=np.float32)
    for kernel in (through_addresses, pto.interpret(through_addresses)):
        y = np.zeros(10, np.float32)
        kernel[1](x, y, 10, 16)
        np.testing.assert_array_equal(y, x)


def test_memory_of_another_type() -> None:
    for narrow in (upper_halves, pto.interpret(upper_halves)):
        x, y = np.arange(1, 11, dtype=np.float32) / 3, np.zeros(10, np.uint16)
        bits = x.view(np.uint32).copy()
        narrow[1](x, y, 10, 16)
        np.testing.assert_array_equal(y, bits >> 16)
        np.testing.assert_array_equal(x.view(np.uint32), bits & 0xFFFF0000)
    for wide in (sums_of_pairs, pto.interpret(sums_of_pairs)):
        x, out = np.arange(8, dtype=np.int32), np.zeros(4, np.int64)
        wide[1](x, out, 4)
        np.testing.assert_array_equal(out, x.view(np.int64) + 1)
    with pytest.raises(OutOfBounds):
        pto.interpret(sums_of_pairs)[1](np.zeros(7, np.int32), np.zeros(4, np.int64), 4)


def test_a_pointer_is_true() -> None:
    for kernel in (is_set, pto.interpret(is_set)):
        y = np.zeros(1, np.int32)
        kernel[1](np.zeros(3), y)
        assert y[0] == 1


def test_what_is_written_through_integers() -> None:
    """An array whose address went through an integer is known to be written; one that gave data is not."""
    text = """
def kernel(x, y, table, i):
    pto.store((x.to(pto.int64) + 8).to(pto.pointer_type(pto.float32)), pto.load(y))
    pto.store(pto.load(table + i).to(pto.pointer_type(pto.float32)), 1.0)
"""
    kernel = define(text)
    x, y = np.zeros(4, np.float32), np.ones(4, np.float32)
    table = np.array([x.ctypes.data], np.int64)
    y.flags.writeable = table.flags.writeable = False
    made = kernel.compile(x, y, table, 0)
    assert written_names(made.program.function) == {"x"}
    kernel[1](x, y, table, 0)
    assert x.tolist() == [1.0, 0.0, 1.0, 0.0]
    x.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        kernel[1](x, y, table, 0)


def test_a_load_sees_what_was_stored_through_an_address() -> None:
    kernel = define("""
def kernel(x, y, table):
    before = pto.load(x)
    pto.store(pto.load(table).to(pto.pointer_type(pto.int32)), 7)
    pto.store(y, before)
    pto.store(y + 1, pto.load(x))
""")
    for how in (kernel, pto.interpret(kernel)):
        x, y = np.array([3], np.int32), np.zeros(2, np.int32)
        how[1](x, y, np.array([x.ctypes.data], np.int64))
        assert y.tolist() == [3, 7] and x[0] == 7


CONST = """
def kernel(x: {annotation}, y):
    {body}
"""


@pytest.mark.parametrize("annotation", ["pto.const", "'pto.const'", "'*const fp32'", "'*kfp32'"])
@pytest.mark.parametrize("body", ["pto.store(x, 1.0)", "x[0:2] = 1.0", "pto.atomic_add(x + 1, 1.0)", "y[:] = x[:]"])
def test_const(annotation: str, body: str) -> None:
    kernel = define(CONST.format(annotation=annotation, body=body))
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    x.flags.writeable = False
    for how in (kernel, pto.interpret(kernel)):
        if body.startswith("y"):
            how[1](x, y)
            assert y.tolist() == [1.0] * 4
            continue
        with pytest.raises(OpTypeError, match="annotated const"):
            how[1](x, y)


def test_text() -> None:
    """Types of pointers are attributes, and arrays may be const."""
    text = """kernel @f(%x: array<const f32, 1>, %n: i64) {
  %0: ptr<const f32> = array_ptr %x
  %1: i64 = ptr_cast %0 {dtype = i64}
  %2: ptr<f8e5m2> = ptr_cast %n {dtype = ptr<f8e5m2>}
  yield
}
"""
    function = parse_function(text)
    verify(function, TABLE)
    assert print_function(function) == text


@pto.jit
def grouped_matmul(a_table, b_table, c_table, sizes, count, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    """Products of many pairs of matrices in one launch; a program takes every so many tiles of all of them."""
    tile = pto.program_id(0)
    done = 0
    for g in range(count):
        m, n, k = pto.load(sizes + 3 * g), pto.load(sizes + 3 * g + 1), pto.load(sizes + 3 * g + 2)
        columns = pto.cdiv(n, BN)
        tiles = pto.cdiv(m, BM) * columns
        while tile >= done and tile < done + tiles:
            a = pto.load(a_table + g).to(pto.pointer_type(pto.float16))
            b = pto.load(b_table + g).to(pto.pointer_type(pto.float16))
            c = pto.load(c_table + g).to(pto.pointer_type(pto.float32))
            rows = (tile - done) // columns * BM + pto.arange(0, BM)
            cols = (tile - done) % columns * BN + pto.arange(0, BN)
            inner = pto.arange(0, BK)
            a_ptrs, b_ptrs = a + rows[:, None] * k + inner[None, :], b + inner[:, None] * n + cols[None, :]
            acc = pto.zeros((BM, BN), pto.float32)
            for step in range(pto.cdiv(k, BK)):
                left = k - step * BK
                x = pto.load(a_ptrs, mask=(rows[:, None] < m) & (inner[None, :] < left), other=0.0)
                y = pto.load(b_ptrs, mask=(inner[:, None] < left) & (cols[None, :] < n), other=0.0)
                acc = pto.dot(x, y, acc)
                a_ptrs += BK
                b_ptrs += BK * n
            pto.store(c + rows[:, None] * n + cols[None, :], acc, mask=(rows[:, None] < m) & (cols[None, :] < n))
            tile += pto.num_programs(0)
        done += tiles


def test_grouped_matmul() -> None:
    rng, shapes = np.random.default_rng(1), [(33, 20, 40), (16, 16, 16), (1, 70, 5)]
    a = [rng.random((m, k)).astype(np.float16) for m, n, k in shapes]
    b = [rng.random((k, n)).astype(np.float16) for m, n, k in shapes]
    sizes = np.array(shapes, np.int32)
    for interpreted in (False, True):
        c = [np.zeros((m, n), np.float32) for m, n, k in shapes]
        kernel = pto.interpret(grouped_matmul, memory=(*a, *b, *c)) if interpreted else grouped_matmul
        kernel[4](*(table_of(x)[0] for x in (a, b, c)), sizes, 3, 16, 16, 16)
        for x, y, z in zip(a, b, c, strict=True):
            np.testing.assert_allclose(z, x.astype(np.float32) @ y.astype(np.float32), rtol=1e-4)
