"""Trials 22 to 30: what a launch may be given. Nothing gives a wrong number silently, hangs or kills the process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic
from pypto.errors.launch import ReadOnlyArgument, UnsupportedArgument, WrongGrid

resource = pytest.importorskip("resource")  # what memory a process took


@pto.jit
def scaled(x, out):
    """Whole arrays of two dimensions, by slices."""
    out[:, :] = x[:, :] * 3


@pto.jit
def scaled_pointers(x, out, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(out + i, pto.load(x + i, mask=i < n) * 3, mask=i < n)


def both(run: Callable[[Any], None]) -> None:
    """On the CPU, and in the interpreter."""
    run(lambda kernel: kernel)
    run(pto.interpret)


BASE = np.arange(20 * 30, dtype=np.float32).reshape(20, 30)
LAYOUTS = {
    "fortran": np.asfortranarray(BASE),
    "reversed rows": BASE[::-1],
    "reversed columns": BASE[:, ::-1],
    "every third": BASE[::2, ::3],
    "broadcast rows": np.broadcast_to(BASE[0], (7, 30)),
    "broadcast columns": np.broadcast_to(BASE[:, :1], (20, 9)),
    "one number": np.broadcast_to(np.float32(4), (3, 5)),
    "transposed": BASE.T,
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_trial_22_strides(layout: str) -> None:
    def run(of: Callable[[Any], Any]) -> None:
        x = LAYOUTS[layout]
        out = np.full((2 * x.shape[0], 3 * x.shape[1]), -1, np.float32)
        part = out[::2, ::-3]
        of(scaled)[1](x, part)
        np.testing.assert_array_equal(part, x * 3)
        assert (out == -1).sum() == out.size - part.size, "elements between those of the output stay as they are"

    both(run)


@pytest.mark.parametrize("offset", range(1, 64))
def test_trial_23_any_address(offset: int) -> None:
    """Arrays begin at any byte, not only where their elements would."""
    size = 133
    memory = np.zeros(2 * 4 * size + 256, np.uint8)
    x = memory[offset : offset + 4 * size].view(np.float32)
    out = memory[4 * size + 64 + offset : 8 * size + 64 + offset].view(np.float32)
    x[:] = np.arange(size)
    scaled_pointers[3](x, out, size, BLOCK=50)
    np.testing.assert_array_equal(out, 3 * np.arange(size, dtype=np.float32))


def test_trial_24_read_only_output() -> None:
    x, out = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    out.flags.writeable = False
    with pytest.raises(ReadOnlyArgument, match="`out`, which is read-only") as error:
        scaled[1](x, out)
    assert isinstance(error.value, TypeError)
    assert not out.any()
    x.flags.writeable = False  # inputs may be
    scaled[1](x, result := np.zeros((4, 4), np.float32))
    assert (result == 3).all()


@pytest.mark.parametrize("shape", [(0, 5), (5, 0), (0, 0)])
def test_trial_25_nothing_to_do(shape: tuple[int, int]) -> None:
    x, out = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    with pytest.raises(Diagnostic, match=r"--> .*test_trials_inputs.py"):  # a tile of no elements, at its line
        scaled[1](x, out)
    scaled_pointers[0](x.reshape(-1), out.reshape(-1), 0, BLOCK=16)
    scaled_pointers[1](x.reshape(-1), out.reshape(-1), 0, BLOCK=16)
    assert out.shape == shape


@pytest.mark.parametrize("grid", [0, (0,), (3, 0), (0, 0, 0)])
def test_trial_25_empty_grids(grid: Any) -> None:
    x, out = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    scaled[grid](x, out)
    assert not out.any()


def test_trial_25_no_dimensions() -> None:
    out = np.zeros(1, np.float32)
    scaled_pointers[1](np.array(7, np.float32), out, 1, BLOCK=4)
    assert out[0] == 21


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 2.3e-308, 1.5e-45, 1e-40, 1.8e308, 3.4e38, 1.0]
)


@pto.jit
def arithmetic(x, y, total, product, quotient, most, least):
    a, b = x[:], y[:]
    total[:], product[:], quotient[:] = a + b, a * b, a / b
    most[:], least[:] = pto.maximum(a, b), pto.minimum(a, b)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_trial_26_special_values(dtype: Any) -> None:
    with np.errstate(all="ignore"):
        x, y = (v.reshape(-1).astype(dtype) for v in np.meshgrid(SPECIAL, SPECIAL))
        expected = [x + y, x * y, x / y, np.fmax(x, y), np.fmin(x, y)]
    outputs = [np.zeros_like(x) for _ in expected]
    arithmetic[1](x, y, *outputs)
    for found, wanted in zip(outputs, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    for found, wanted in zip(outputs[:3], expected[:3], strict=True):  # which zero it is
        real = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


def test_trial_26_subnormals_survive() -> None:
    """The modes of the floating-point unit are as before: subnormals are neither flushed nor taken for zero."""
    x = np.full(64, 1e-40, np.float32)
    out = np.zeros((1, 64), np.float32)
    scaled[1](x.reshape(1, 64), out)
    assert (out > 0).all()
    assert float(np.float32(1e-40) * np.float32(0.5)) > 0


@pto.jit
def move(x, out, n, BLOCK: pto.constexpr):
    """One program, which reads a block before it writes one."""
    for i in range(0, n, BLOCK):
        at = i + pto.arange(0, BLOCK)
        pto.store(out + at, pto.load(x + at, mask=at < n) + 1, mask=at < n)


@pytest.mark.parametrize("shift", [-40, -7, -1, 0, 1, 7, 40])
def test_trial_27_overlapping_arrays(shift: int) -> None:
    """Block after block in program order, as if each block were read whole before it is written."""
    n, block = 100, 16
    memory = np.arange(300, dtype=np.float32)
    expected = memory.copy()
    for i in range(0, n, block):
        stop = min(i + block, n)
        expected[100 + shift + i : 100 + shift + stop] = expected[100 + i : 100 + stop] + 1
    found = memory.copy()
    move[1](found[100 : 100 + n], found[100 + shift : 100 + shift + n], n, BLOCK=block)
    np.testing.assert_array_equal(found, expected)


REFUSED = {
    "big-endian": np.zeros((2, 2), ">f4"),
    "objects": np.array([[1, None]], dtype=object),
    "records": np.zeros((2, 2), [("a", "f4"), ("b", "i4")]),
    "masked": np.ma.masked_array(np.zeros((2, 2), np.float32), mask=[[0, 1], [0, 0]]),
    "complex": np.zeros((2, 2), np.complex64),
    "text": np.array([["a", "b"]]),
    "dates": np.zeros((2, 2), "datetime64[s]"),
    "list": [[1.0, 2.0]],
}


@pytest.mark.parametrize("kind", REFUSED)
def test_trial_28_arrays_without_a_meaning(kind: str) -> None:
    out = np.zeros((2, 2), np.float32)
    with pytest.raises(UnsupportedArgument, match="argument `x` is ") as error:
        scaled[1](REFUSED[kind], out)
    assert isinstance(error.value, TypeError)
    assert "help:" in str(error.value), "it says what to pass instead"
    assert not out.any()


@pto.jit
def far_rows(x, out):
    """The last row of the file, by slice and by pointer."""
    last = x.shape[0] - 1
    out[0, :] = x[last, :]
    cols = pto.arange(0, 64)
    row = pto.program_id(0) + (x.shape[0] - 1)
    pto.store(out + 64 + cols, pto.load(x + row * x.strides[0] + cols))


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files")
def test_trial_29_offsets_beyond_32_bits(tmp_path: Path) -> None:
    rows = 2**31 // 64 + 5  # 2³¹ bytes are passed, and so is every int32 offset in elements
    x = np.memmap(tmp_path / "sparse", np.uint8, "w+", shape=(rows, 64))
    x[-1] = np.arange(64)

    def run(of: Callable[[Any], Any]) -> None:
        out = np.zeros((2, 64), np.uint8)
        of(far_rows)[1](x, out)
        np.testing.assert_array_equal(out, [x[-1], x[-1]])

    both(run)


@pytest.mark.parametrize("block", [0, -1, 3, 2**20])
def test_trial_30_blocks(block: int) -> None:
    x, out = np.ones(100, np.float32), np.zeros(100, np.float32)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if block > 0:
        scaled_pointers[max(1, 100 // block + 1)](x, out, 100, BLOCK=block)
        assert (out == 3).all()
    else:
        with pytest.raises(Diagnostic):
            scaled_pointers[1](x, out, 100, BLOCK=block)
        assert not out.any()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20, "less than a GiB"


@pytest.mark.parametrize("grid", [-1, 2**40, float("nan"), 1.5, (1, -1), (1, 1, 1, 1), (), "3", None])
def test_trial_30_grids(grid: Any) -> None:
    x, out = np.ones((4, 4), np.float32), np.zeros((4, 4), np.float32)
    with pytest.raises(WrongGrid, match="grid"):
        scaled[grid](x, out)
    assert not out.any()
