"""Sorting, slicing, turning and running sums on the vector cores: by vectors, where there are some."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.block.verify import verify
from pypto.backends.ascend.blockir.ir import BlockKernel
from pypto.backends.ascend.blockir.parser import parse
from pypto.backends.ascend.blockir.printer import listing
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.vector.handlers.sort import merge_plan
from pypto.debug.simulate import function_of
from tests.backends_ascend.test_ascendc import complaints
from tests.sim.device import needs_compiler

GOLDEN = Path(__file__).with_name("golden")
B2 = ascend_target("ascend910b2")


@pto.jit
def sorted_rows(x, out, R: pto.constexpr, DESCENDING: pto.constexpr = False):
    row = pto.program_id(0) * R
    out[row : row + R, :] = pto.sort(x[row : row + R, :], descending=DESCENDING)


def numbers(dtype: Any, *shape: int) -> Any:
    rng = np.random.default_rng(shape[-1])
    if np.issubdtype(dtype, np.integer):
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True) // 3 * 3
    x = rng.normal(size=shape).astype(dtype)
    x[0, : shape[1] // 3] = rng.choice([np.inf, -np.inf, 0.0, -0.0, 1.0], shape[1] // 3)
    return x


def long(*values: Any) -> Any:
    """A case that takes seconds to compile."""
    return pytest.param(*values, marks=pytest.mark.slow)


@needs_compiler
@pytest.mark.parametrize(("dtype", "size", "rows", "descending"), [
    (np.int32, 40, 3, False), (np.int32, 64, 1, True), (np.float32, 1, 3, False), (np.float32, 3, 4, True),
    (np.float32, 100, 2, True), long(np.float32, 2000, 2, False), (np.float16, 65, 2, False), (np.int8, 33, 2, True),
])  # fmt: skip
def test_rows_in_order(dtype: Any, size: int, rows: int, descending: bool) -> None:
    x = numbers(dtype, 2 * rows, size)
    out = np.zeros_like(x)
    with pto.device("ascend-sim"):
        sorted_rows[2](x, out, R=rows, DESCENDING=descending)
    np.testing.assert_array_equal(out, np.sort(x, axis=1)[:, :: -1 if descending else 1])


def made(x: Any, rows: int = 1, descending: bool = False) -> tuple[BlockKernel, str]:
    values = sorted_rows.signature.bind((x, x.copy()), {"R": rows, "DESCENDING": descending})
    block, text = lower_to_text(function_of(sorted_rows, values), B2)
    verify(block, B2)
    return replace(block, file="sorted_rows.py"), text


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("dtype", "passes"), [
    (np.float32, 2), (np.int32, 2), (np.uint32, 2), (np.float16, 1), (np.int16, 1), (np.uint8, 1), (np.bool_, 1),
])  # fmt: skip
def test_numbers_are_in_order_after_a_pass_for_each_16_bits(dtype: Any, passes: int, descending: bool) -> None:
    text = made(np.zeros((4, 1000), dtype), descending=descending)[1]
    assert text.count("Sort32(") == passes
    assert text.count("MrgSort(") == 3 * passes  # 32 lists become 8, then 2, then one
    assert "GetValue" not in text


def test_rows_of_one_length_are_put_in_order_at_once() -> None:
    text = made(np.zeros((16, 100), np.int16), rows=16)[1]
    assert text.count("Sort32(") == text.count("MrgSort(") == 1
    assert "mergeInfo.repeatTimes = 16;" in text


def test_lists_are_merged_by_fours_and_none_is_left_alone() -> None:
    for count in range(2, 129):
        lists = (32,) * count
        merges = list(merge_plan(lists))
        assert [at for at, _, _ in merges] == [sum(sum(n) * k for _, n, k in merges[:i]) for i in range(len(merges))]
        assert sum(len(lengths) * times for _, lengths, times in merges) == count
        assert all(2 <= len(lengths) <= 4 and (times == 1 or len(lengths) == 4) for _, lengths, times in merges)
    assert list(merge_plan((128, 128, 128, 128, 32))) == [(0, (128,) * 3, 1), (384, (128, 32), 1)]


def test_lists_of_unequal_lengths_are_not_merged_in_one_instruction_of_repeats() -> None:
    block, text = made(numbers(np.float32, 4, 2000), rows=2)  # which the verifier has read
    assert parse(listing(block)) == block
    assert text.count("mergeInfo.repeatTimes") > 0


def test_sorting_by_pairs_is_many_times_as_fast_as_a_network() -> None:
    """A network exchanges 1024 numbers 55 times, in 300 cycles at least for each; each merge takes 78 for 128."""
    x = np.zeros((48, 1024), np.float32)
    found = pto.simulate(sorted_rows)[48](x, x.copy(), R=1)
    assert found.seconds < 55 * 300 / 1.8e9 + 1e-6


def test_the_golden_sort(update_golden: bool) -> None:
    block, text = made(np.zeros((4, 1000), np.float32))
    assert parse(listing(block)) == block
    for found, file in ((listing(block), GOLDEN / "sorted_rows.blocks"), (text, GOLDEN / "sorted_rows.asc")):
        if update_golden:
            file.write_text(found, encoding="utf-8")
        assert found == file.read_text(encoding="utf-8"), "`pytest --update-golden`, then `git diff`, shows the change"


@needs_compiler
def test_the_golden_sort_compiles_without_a_warning(tmp_path: Path) -> None:
    assert complaints((GOLDEN / "sorted_rows.asc").read_text(encoding="utf-8"), tmp_path) == ""


def patterns(dtype: Any, rows: int, n: int) -> Any:
    """Bits of all kinds, many of them alike, and what is special among them."""
    kind = np.dtype(dtype)
    rng = np.random.default_rng(n)
    bits = rng.integers(0, 256, (rows, n, kind.itemsize), np.uint8).view(kind).reshape(rows, n)
    bits[:, ::3] = bits[:, :1]
    limits = [np.iinfo(kind).max, np.iinfo(kind).min, 0] if kind.kind in "iu" else []
    some = [np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, 1.0, -0.0] if kind.kind == "f" else limits
    bits[:, : len(some)] = np.array(some[:n], kind)
    return bits


@pto.jit
def both_ways(x, up, down, best, R: pto.constexpr, K: pto.constexpr):
    row = pto.program_id(0) * R
    keys = x[row : row + R, :]
    up[row : row + R, :] = pto.sort(keys)
    down[row : row + R, :] = pto.sort(keys, descending=True)
    best[row : row + R, :] = pto.topk(keys, K)


@needs_compiler
@pytest.mark.parametrize(("dtype", "rows", "size"), [
    (np.float32, 2, 1), (np.float32, 3, 2), (np.float16, 2, 31), (np.int8, 5, 32), (np.float32, 3, 33),
    (np.int16, 2, 100), (np.int32, 3, 128), (np.uint16, 1, 160), long(np.float16, 2, 1000), long(np.float32, 1, 4096),
    long(np.uint32, 70, 64),
])  # fmt: skip
def test_bits_are_what_the_interpreter_says(dtype: Any, rows: int, size: int) -> None:
    """NaN of all kinds, both zeros, infinities and duplicates among them."""
    x, k = patterns(dtype, 2 * rows, size), min(size, 8)
    found = []
    for where in (pto.device("ascend-sim"), pto.interpreter()):
        arrays = [np.zeros_like(x), np.zeros_like(x), np.zeros_like(x[:, :k])]
        with where:
            both_ways[2](x, *arrays, R=rows, K=k)
        found.append([a.tobytes() for a in arrays])
    assert found[0] == found[1]


@pto.jit
def places(x, up, down, R: pto.constexpr):
    row = pto.program_id(0) * R
    keys = x[row : row + R, :]
    up[row : row + R, :] = pto.argsort(keys)
    down[row : row + R, :] = pto.argsort(keys, descending=True)


@needs_compiler
@pytest.mark.parametrize(("dtype", "rows", "size"), [
    (np.float32, 3, 33), (np.float16, 1, 2), (np.int8, 2, 31), (np.uint32, 2, 100), long(np.float32, 1, 4096),
    (np.int64, 2, 40), long(np.float64, 1, 100),
])  # fmt: skip
def test_places_are_what_the_interpreter_says(dtype: Any, rows: int, size: int) -> None:
    """Equal ones keep their order, both zeros are equal, NaN are last."""
    x, found = patterns(dtype, 2 * rows, size), []
    for where in (pto.device("ascend-sim"), pto.interpreter()):
        up, down = (np.zeros(x.shape, np.int32) for _ in range(2))
        with where:
            places[2](x, up, down, R=rows)
        found.append((up.tobytes(), down.tobytes()))
    assert found[0] == found[1]


@needs_compiler
@pytest.mark.parametrize(("dtype", "rows", "size"), [
    long(np.int64, 2, 100), long(np.uint64, 1, 33), (np.float64, 1, 64),
])  # fmt: skip
def test_numbers_of_64_bits_are_in_order(dtype: Any, rows: int, size: int) -> None:
    x = patterns(dtype, 2 * rows, size)
    found = []
    for where in (pto.device("ascend-sim"), pto.interpreter()):
        out = np.zeros_like(x)
        with where:
            sorted_rows[2](x, out, R=rows)
        found.append(out.tobytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(("dtype", "passes"), [(np.float32, 2), (np.int8, 1), (np.int64, 8)])
def test_places_need_no_pass_for_what_is_in_order(dtype: Any, passes: int) -> None:
    """Of 64-bit numbers, two halves are sorted one after the other, each with the place below it."""
    x = np.zeros((4, 1000), dtype)
    values = places.signature.bind((x, x.astype(np.int32), x.astype(np.int32)), {"R": 1})
    block, text = lower_to_text(function_of(places, values), B2)
    verify(block, B2)
    assert text.count("Sort32(") == 2 * passes
    assert dtype == np.int64 or "GetValue" not in text


@pto.jit
def lower_halves(x, out, other):
    t = x[:, :]
    out[:, :] = pto.cast(t, pto.int32)
    other[:, :] = pto.cast(t & 0xFFFFFFFF, pto.uint32)


@needs_compiler
def test_the_lower_words_of_64_bits() -> None:
    x = patterns(np.int64, 3, 13)
    out, other = np.zeros(x.shape, np.int32), np.zeros(x.shape, np.uint32)
    text = lower_to_text(function_of(lower_halves, lower_halves.signature.bind((x, out, other), {})), B2)[1]
    assert text.count("GatherMask(") == 2 and "GetValue" not in text
    with pto.device("ascend-sim"):
        lower_halves[1](x, out, other)
    np.testing.assert_array_equal(out, x.astype(np.int32))
    np.testing.assert_array_equal(other, x.astype(np.uint32))


@pto.jit
def pieces(x, out, tail, middle):
    t = x[:, :] * 2
    out[:, :] = t[1:4, 8:27] + 1
    tail[:, :] = t[:, 24:30]
    middle[:, :] = t[2:3, 3:9]


@needs_compiler
def test_slices_at_blocks_and_elsewhere() -> None:
    x = numbers(np.float32, 5, 30)
    x[np.isinf(x)] = -0.0
    out, tail, middle = (np.zeros(shape, np.float32) for shape in ((3, 19), (5, 6), (1, 6)))
    with pto.device("ascend-sim"):
        pieces[1](x, out, tail, middle)
    np.testing.assert_array_equal(out, x[1:4, 8:27] * 2 + 1)
    np.testing.assert_array_equal(tail.view(np.int32), (x[:, 24:30] * 2).view(np.int32))
    np.testing.assert_array_equal(middle, x[2:3, 3:9] * 2)


@pto.jit
def alone(x, j, out):
    """Elements of a column, which lies as a row does, and of a row."""
    column, row = x[:, j : j + 1] * 2, x[1:2, :] * 2
    for k in pto.static_range(5):
        out[k] = column[k, 0] + 1
    out[5] = row[0, 8] + row[0, 7]


@needs_compiler
def test_slices_of_one_element() -> None:
    x, out = numbers(np.int32, 5, 12), np.zeros(6, np.int32)
    with pto.device("ascend-sim"):
        alone[1](x, 3, out)
    np.testing.assert_array_equal(out, [*(x[:, 3] * 2 + 1), np.sum(x[1, 7:9] * 2, dtype=np.int32)])


@pto.jit
def turned(x, out, every, cube):
    t = x[:, :]
    out[:, :] = t.T + t.T
    every[:, :] = t.T[0:8, 3:5]
    cube[:, :, :] = pto.permute(pto.reshape(t, (x.shape[0], 4, x.shape[1] // 4)), (2, 0, 1))


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_transposes(dtype: Any) -> None:
    x = (np.arange(5 * 36).reshape(5, 36) % 60).astype(dtype)
    out, every, cube = np.zeros((36, 5), dtype), np.zeros((8, 2), dtype), np.zeros((9, 5, 4), dtype)
    with pto.device("ascend-sim"):
        turned[1](x, out, every, cube)
    np.testing.assert_array_equal(out, 2 * x.T)
    np.testing.assert_array_equal(every, x.T[:8, 3:5])
    np.testing.assert_array_equal(cube, x.reshape(5, 4, 9).transpose(2, 0, 1))


def test_a_transpose_is_a_gather_for_each_row() -> None:
    values = turned.signature.bind((np.zeros((16, 36), np.float32), np.zeros((36, 16), np.float32),
                                    np.zeros((8, 2), np.float32), np.zeros((9, 16, 4), np.float32)), {})  # fmt: skip
    text = lower_to_text(function_of(turned, values), B2)[1]
    assert "GetValue" not in text
    loop = text[text.index("Gather(") :].split("}", 1)[0]
    assert "PipeBarrier" not in loop  # rows do not wait for each other


@pto.jit
def running(x, out, back, products):
    t = x[:, :]
    out[:, :] = pto.cumsum(t, 1)
    back[:, :] = pto.cumsum(t, 1, reverse=True)
    products[:, :] = pto.cumprod(t, 1)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_running_results_along_rows(dtype: Any) -> None:
    x = np.random.default_rng(0).choice([-2, -1, 1, 2], (3, 77)).astype(dtype)
    x[:, 4:] = np.sign(x[:, 4:])  # so that products stay small
    out, back, products = (np.zeros_like(x) for _ in range(3))
    with pto.device("ascend-sim"):
        running[1](x, out, back, products)
    np.testing.assert_array_equal(out, np.cumsum(x, 1, dtype))
    np.testing.assert_array_equal(back, np.cumsum(x[:, ::-1], 1, dtype)[:, ::-1])
    np.testing.assert_array_equal(products, np.cumprod(x, 1, dtype))


def test_running_sums_take_a_step_for_each_doubling() -> None:
    x = [np.zeros((4, 1000), np.float32) for _ in range(4)]
    text = lower_to_text(function_of(running, running.signature.bind(tuple(x), {})), B2)[1]
    assert "GetValue" not in text
    assert text.count("Gather(") == 30


@pto.jit
def chosen(x, where, below, along, out):
    t = x[:, :]
    along[:, :] = pto.gather(t, where[:, :], 1)
    out[:, :] = pto.gather(t, below[:, :], 0)


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8])
def test_elements_at_indices(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-60, 60, (5, 37)).astype(dtype)
    where = rng.integers(0, 37, (5, 20)).astype(np.int32)
    below = rng.integers(0, 5, (3, 37)).astype(np.int32)
    along, out = np.zeros((5, 20), dtype), np.zeros((3, 37), dtype)
    with pto.device("ascend-sim"):
        chosen[1](x, where, below, along, out)
    np.testing.assert_array_equal(along, np.take_along_axis(x, where, 1))
    np.testing.assert_array_equal(out, np.take_along_axis(x, below, 0))


def test_elements_at_indices_come_row_by_row() -> None:
    arrays = np.zeros((5, 37), np.float32), np.zeros((5, 20), np.int32), np.zeros((3, 37), np.int32)
    values = chosen.signature.bind((*arrays, np.zeros((5, 20), np.float32), np.zeros((3, 37), np.float32)), {})
    text = lower_to_text(function_of(chosen, values), B2)[1]
    assert "GetValue" not in text
    assert text.count("Gather(") == 2
