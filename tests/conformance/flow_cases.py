"""Launches of the kernels about addresses and control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.conformance import kernels
from tests.conformance.cases import Array, Cases, Launch, Make, empty, normal

CASES = Cases()


@CASES
def embedding(rng):
    table, ids = normal(rng, 50, 37)[:, ::-1], rng.integers(0, 50, 21)
    args = {"ids": ids, "table": table, "out": empty(21, 2, 37), "BLOCK": 40}
    return Launch(kernels.embedding, 21, args, {"out": np.repeat(table[ids][:, None], 2, 1)})


def likest_in_blocks_of(block: int) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x, order = normal(rng, 23, 40), rng.permutation(23)[:17]
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        args = {"x": x, "keys": x[order] * 3, "out": empty(17, 40), "BM": block}
        return Launch(kernels.likest, -(-17 // block), args, {"out": x[order]})

    return make


CASES.make["likest_one"] = likest_in_blocks_of(1)
CASES.make["likest_many"] = likest_in_blocks_of(5)


@CASES
def scatter(rng):
    x, index = normal(rng, 501), rng.permutation(501).astype(np.int32)
    expected = np.where(np.arange(501) % 2 == 0, x, -1).astype(np.float32)
    args = {"x": x, "index": index, "out": empty(501), "n": 501, "BLOCK": 64}
    return Launch(kernels.scatter, 8, args, {"out": expected})


@CASES
def convolve(rng):
    x, taps = normal(rng, 517, dtype=np.float64), normal(rng, 5, dtype=np.float64)
    args = {"x": x, "taps": taps, "y": empty(517, dtype=np.float64), "BLOCK": 100, "TAPS": 5}
    return Launch(kernels.convolve, 6, args, {"y": np.convolve(x, taps[::-1], "same")}, 1e-14)


@CASES
def every_other(rng):
    x = rng.integers(-99, 99, 1000).astype(np.int64)
    args = {"x": x, "out": empty(333, dtype=np.int64), "n": 333, "STEP": 3, "BLOCK": 100}
    return Launch(kernels.every_other, 4, args, {"out": x[:999:3][::-1]})


@CASES
def box(rng):
    x = rng.integers(-99, 99, (5, 11, 17)).astype(np.int16)
    p, r, c = np.ogrid[:5, :11, :17]
    expected = (x * (p % 3 * 100 + r % 5 * 10 + c % 7) + 233).astype(np.int32)
    return Launch(kernels.box, (2, 3, 3), {"x": x, "out": empty(5, 11, 17, dtype=np.int32)}, {"out": expected})


@CASES
def box_transposed(rng):
    """Strides in another order, read and written."""
    x = rng.integers(-99, 99, (17, 5, 11)).astype(np.int32).transpose(1, 2, 0)
    out = empty(11, 17, 5, dtype=np.int32).transpose(2, 0, 1)
    p, r, c = np.ogrid[:5, :11, :17]
    expected = x * (p % 3 * 100 + r % 5 * 10 + c % 7) + 233
    return Launch(kernels.box, (2, 3, 3), {"x": x, "out": out}, {"out": expected.astype(np.int32)})


@CASES
def collatz(rng):
    starts = np.arange(1, 60, dtype=np.int64)
    expected = np.zeros(59, np.int32)
    for i, start in enumerate(starts.tolist()):
        n = start
        while n != 1 and expected[i] < 50:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            expected[i] += 1
    args = {"starts": starts, "steps": empty(59, dtype=np.int32), "most": 50}
    return Launch(kernels.collatz, 59, args, {"steps": expected})


@CASES
def find(rng):
    x = normal(rng, 33, 19)
    found = [next((i for i, v in enumerate(row) if v > 1.5), -1) for row in x]
    skipped = [int((row[: i if i >= 0 else 19] < 0).sum()) for row, i in zip(x, found, strict=True)]
    args = {"x": x, "limit": 1.5, "where": empty(33, dtype=np.int32), "skipped": empty(33, dtype=np.int8)}
    expected = {"where": np.array(found, np.int32), "skipped": np.array(skipped, np.int8)}
    return Launch(kernels.find, 33, args, expected)


@CASES
def leave_early(rng):
    x, expected = normal(rng, 20, 3), empty(20, 3)
    for i, row in enumerate(x[:15]):
        k = next((k for k in range(3) if 3 * k + i > 9), None)
        expected[i] = row * 2 if row.max() > 1 else -row if k is None else row - k
    return Launch(kernels.leave_early, 20, {"x": x, "out": empty(20, 3), "n": 15}, {"out": expected})


def counted(start: int, stop: int, step: int) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x, total = normal(rng, 12, 5), np.zeros(5, np.float32)
        for i in range(start, stop, step):
            total = total * np.float32(0.5) + x[i]
        expected = np.stack([total, np.full(5, len(range(start, stop, step)), np.float32)])
        args = {"x": x, "out": empty(2, 5), "start": start, "stop": stop, "step": step}
        return Launch(kernels.countdown, 1, args, {"out": expected})

    return make


CASES.make["count_up"] = counted(1, 12, 3)
CASES.make["count_down"] = counted(11, -1, -2)
CASES.make["count_nothing"] = counted(5, 5, 1)


@CASES
def swap_tiles(rng):
    x = rng.integers(-9, 9, (2, 301)).astype(np.int64)
    a, b = x
    for i in range(7):
        a, b = b, a + b * (i + 1) if i % 3 else a - b
    args = {"x": x, "out": empty(2, 301, dtype=np.int64), "n": 7}
    return Launch(kernels.swap_tiles, 1, args, {"out": np.stack([a, b])})


@CASES
def newton(rng):
    x = rng.uniform(0.1, 1000, 401)
    args = {"x": x, "out": empty(401, dtype=np.float64), "BLOCK": 90}
    return Launch(kernels.newton, 5, args, {"out": np.sqrt(x)}, 1e-6)


def chosen(mode: Any, flag: Any, nothing: Any, reference: Any) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x = rng.integers(-99, 99, 207).astype(np.int32)
        args = {"x": x, "out": empty(207, dtype=np.int32), "mode": mode, "flag": flag, "nothing": nothing, "BLOCK": 64}
        return Launch(kernels.choose, 4, args, {"out": reference(x)})

    return make


CASES.make["choose_add"] = chosen(0, False, None, lambda x: x + 1)
CASES.make["choose_double"] = chosen(1, True, None, lambda x: x * 2)
CASES.make["choose_triple"] = chosen(np.int8(1), np.bool_(True), 2.5, lambda x: x * 3)
CASES.make["choose_abs"] = chosen(2**40, True, None, lambda x: x * 0)
CASES.make["choose_wide"] = chosen(np.uint16(4), 3, None, np.abs)


def shifted(distance: int) -> Make:
    """`y` begins a few elements after `x` in the same memory."""

    def make(rng: np.random.Generator) -> Launch:
        memory = rng.integers(0, 99, 60).astype(np.int32)
        expected = memory.copy()
        n, block = 50 - distance, 8
        for i in range(0, n, block):
            end = min(i + block, n)
            expected[i + distance : end + distance] = expected[i:end] + 1
        args = {"x": memory, "y": memory[distance:], "n": n, "BLOCK": block}
        return Launch(kernels.shift_in_place, 1, args, {"x": expected})

    return make


CASES.make["shift_by_0"] = shifted(0)
CASES.make["shift_by_1"] = shifted(1)
CASES.make["shift_by_8"] = shifted(8)


def far_away(array: Array, row: int) -> Launch:
    """Rows of a large array of bytes; few of its pages exist."""
    array[row, :9] = np.arange(9)
    expected = np.arange(9, dtype=np.int8)
    args = {"x": array, "out": empty(2, 9, dtype=np.int8), "row": row, "BLOCK": 9}
    return Launch(kernels.far, 1, args, {"out": np.stack([expected, expected])})
