"""Trial 33: narrow types in and out through numpy and torch, bit by bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import UnsupportedArgument
from pypto.ir.types import FLOAT8, DType, bfloat16, float16

NARROW = (*FLOAT8, bfloat16, float16)


@pto.jit
def slices(x, y):
    y[:] = x[:]


@pto.jit
def pointers(x, y, n, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(y + i, pto.load(x + i, mask=i < n), mask=i < n)


@pto.jit
def widened(x, y):
    y[:] = x[:]


@pto.jit
def unpacked(x, y, n, BLOCK: pto.constexpr):
    """Two integers of 4 bits per byte, the first in its lower half."""
    i = pto.arange(0, BLOCK)
    byte = pto.load(x + i // 2, mask=i < n).to(pto.int8, bitcast=True)
    pto.store(y + i, (byte << (4 * (1 - i % 2)).to(pto.int8)) >> 4, mask=i < n)


def codes(dtype: DType) -> np.ndarray[Any, Any]:
    return np.arange(2**dtype.bits, dtype=f"u{dtype.itemsize}").view(dtype.numpy)


def is_quiet(x: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """All but signalling NaNs of 16 bits, which the machine's conversion to float32 makes quiet."""
    with np.errstate(all="ignore"):
        nan = np.isnan(x.astype(np.float32))
    quiet = x.view(f"u{dtype.itemsize}") >> (dtype.fp_mantissa_width - 1) & 1 == 1
    return ~nan | quiet | (dtype.bits == 8)


def copies(x: Any, empty: Any) -> list[Any]:
    """Copies by slices and by pointers, on the CPU and in the interpreter."""
    found = []
    for kernel in (slices, pto.interpret(slices)):
        found.append(empty())
        kernel[1](x, found[-1])
    for kernel in (pointers, pto.interpret(pointers)):
        found.append(empty())
        kernel[-(-len(x) // 999)](x, found[-1], len(x), 999)
    return found


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_trial_33(dtype: DType) -> None:
    x = codes(dtype)
    x = x[is_quiet(x, dtype)]
    for y in copies(x, lambda: np.zeros(len(x), dtype.numpy)):
        assert y.tobytes() == x.tobytes()
    wide = np.zeros(len(x), np.float32)
    widened[1](x, wide)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wide, x.astype(np.float32))
    back, number = np.zeros(len(x), dtype.numpy), ~np.isnan(wide)
    widened[1](wide, back)
    assert back[number].tobytes() == x[number].tobytes()


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_trial_33_torch(dtype: DType) -> None:
    torch = pytest.importorskip("torch")
    kind, x = getattr(torch, dtype.public), codes(dtype)
    x = x[is_quiet(x, dtype)]
    raw = torch.uint8 if dtype.bits == 8 else torch.int16
    bits = torch.from_numpy(x.view(np.uint8 if dtype.bits == 8 else np.int16))
    for y in copies(bits.view(kind), lambda: torch.zeros(len(x), dtype=kind)):
        assert torch.equal(y.view(raw), bits)
    wide = torch.zeros(len(x), dtype=torch.float32)
    widened[1](bits.view(kind), wide)
    assert torch.equal(torch.nan_to_num(wide, 7.0), torch.nan_to_num(bits.view(kind).to(torch.float32), 7.0))


def test_trial_33_int4() -> None:
    """An array of int4 is refused with the way out, and that way works: two in a byte."""
    numbers = np.arange(-8, 8)
    with pytest.raises(UnsupportedArgument, match=r"`\.astype\(np\.int8\)` of it, or pack several into a uint8"):
        slices[1](numbers.astype(ml_dtypes.int4), np.zeros(16, np.int8))
    whole = numbers.astype(ml_dtypes.int4).astype(np.int8)
    packed = (whole[::2] & 15 | whole[1::2] << 4).astype(np.uint8)
    for kernel in (unpacked, pto.interpret(unpacked)):
        found = np.zeros(16, np.int8)
        kernel[1](packed, found, 16, 32)
        np.testing.assert_array_equal(found, whole)
