"""float64 by integer operations of the scalar unit: what the CPU gives, to the last bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.softfloat64 import code, parts, texts_of
from pypto.language import libdevice
from pypto.runtime.places import Place
from tests.sim.device import needs_compiler

Array = np.ndarray[Any, Any]
N = 1024
SPECIAL = (
    *(0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 5e-324, -5e-324, 2.0**-1022, 2.0**-1022 - 5e-324, 1.5, 2.5, -2.5),
    *(0.5, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**53 + 1, 2.0**63, -(2.0**63), 2.0**64, 65519.999, 1e-7),
)


@pytest.fixture(scope="module")
def device() -> Iterator[Place]:
    with pto.device("ascend-sim") as place:
        yield place


def samples(seed: int) -> Array:
    """Numbers near 1, of all sizes, subnormal ones, halves, and pairs of special ones."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 64, N, np.uint64)
    fraction, sign = bits & np.uint64((1 << 52) - 1), bits & np.uint64(1 << 63)
    near = (sign | (rng.integers(983, 1063, N, np.uint64) << np.uint64(52)) | fraction).view(np.float64)
    small, halves = (sign | fraction).view(np.float64), rng.integers(-20, 20, N) / 2.0
    chosen = np.choose(rng.integers(0, 5, N), [near, near, bits.view(np.float64), small, halves])
    special = np.array(SPECIAL)
    chosen[: special.size**2] = (np.repeat(special, special.size) if seed % 2 else np.tile(special, special.size))[:N]
    return chosen


def on_both(device: Place, kernel: Any, *arguments: Any, **more: Any) -> list[tuple[Array, Array]]:
    """The outputs, which the last arguments are, of a kernel here and there."""
    here, there = ([x.copy() if isinstance(x, np.ndarray) else x for x in arguments] for _ in range(2))
    kernel[1](*there, **more)
    with pto.device("cpu"):
        kernel[1](*here, **more)
    return [(a, b) for a, b in zip(there, here, strict=True) if isinstance(a, np.ndarray)]


def assert_same(pairs: list[tuple[Array, Array]]) -> None:
    for number, (found, wanted) in enumerate(pairs):
        np.testing.assert_array_equal(found, wanted, err_msg=f"array {number}", strict=True)
        if found.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(wanted[wanted == 0]))


@pto.jit
def arithmetic(x, y, z, out, flags, N: pto.constexpr):
    a, b, c = x[0:N], y[0:N], z[0:N]
    out[0, :] = a + b
    out[1, :] = a - b
    out[2, :] = a * b
    out[3, :] = a / b
    out[4, :] = pto.sqrt(a)
    out[5, :] = pto.fma(a, b, c)
    out[6, :] = pto.fma(a, b, -(a * b))
    out[7, :] = pto.floor(a)
    out[8, :] = pto.ceil(a)
    out[9, :] = pto.round(a)
    out[10, :] = pto.trunc(a)
    out[11, :] = pto.where(a < b, -a, pto.abs(b))
    out[12, :] = pto.maximum(a, b) + 0.0
    out[13, :] = libdevice.ldexp(a, -3)
    flags[0, :] = a < b
    flags[1, :] = a <= b
    flags[2, :] = a == b
    flags[3, :] = a != b
    flags[4, :] = a > b
    flags[5, :] = a >= b


@needs_compiler
@pytest.mark.parametrize("seed", [1, 2])
def test_arithmetic(seed: int, device: Place) -> None:
    x, y, z = samples(seed), samples(seed + 1), samples(seed + 2)
    assert_same(on_both(device, arithmetic, x, y, z, np.zeros((14, N)), np.zeros((6, N), bool), N=N))


@pto.jit
def remainders(x, y, out, N: pto.constexpr):
    out[:] = x[0:N] % y[0:N]


@needs_compiler
def test_remainders(device: Place) -> None:
    assert_same(on_both(device, remainders, samples(1), samples(2), np.zeros(N), N=N))


@pto.jit
def casts(  # noqa: PLR0913, PLR0917  # an array for each dtype
    x, i, u, single, half, brain, long, word, short, byte, positive, bits, flags, back, N: pto.constexpr
):
    a = x[0:N]
    single[:] = a.to(pto.float32)
    half[:] = a.to(pto.float16)
    brain[:] = a.to(pto.bfloat16)
    long[:] = a.to(pto.int64)
    word[:] = a.to(pto.int32)
    short[:] = a.to(pto.int16)
    byte[:] = a.to(pto.uint8)
    positive[:] = a.to(pto.uint64)
    bits[:] = a.to(pto.int64, bitcast=True)
    flags[:] = a.to(pto.int1)
    back[0, :] = single[:].to(pto.float64)
    back[1, :] = half[:].to(pto.float64)
    back[2, :] = i[:].to(pto.float64)
    back[3, :] = u[:].to(pto.float64)
    back[4, :] = (i[:] & 255).to(pto.uint8).to(pto.float64)
    back[5, :] = (i[:] > 0).to(pto.float64)


@needs_compiler
@pytest.mark.parametrize("seed", [3, 4])
def test_casts(seed: int, device: Place) -> None:
    x, rng, n = samples(seed)[: N // 2], np.random.default_rng(seed), N // 2
    whole = rng.integers(-(1 << 63), (1 << 63) - 1, n) >> rng.integers(0, 63, n)
    floats, integers = (np.float32, np.float16, pto.bfloat16.numpy), (np.int64, np.int32, np.int16, np.uint8, np.uint64)
    outputs = [np.zeros(n, kind) for kind in (*floats, *integers, np.int64, np.bool_)]
    pairs = on_both(device, casts, x, whole, whole.astype(np.uint64), *outputs, np.zeros((6, n)), N=n)
    assert_same([(a.astype(np.float32), b.astype(np.float32)) if a.dtype.kind == "V" else (a, b) for a, b in pairs])


@pto.jit
def whole_tiles(x, m, out, places, order, N: pto.constexpr):
    a, b = x[0:N], m[:, :]
    out[0, :] = pto.sort(a)
    out[1, :] = pto.cumsum(a * 0.125)
    out[2, :] = pto.where(pto.arange(0, N) % 2 == 0, pto.flip(a), 3.5)
    out[3, 0] = pto.sum(a * 0.25)
    out[3, 1] = pto.max(a)
    out[3, 2] = pto.min(a)
    out[4, 0:32] = pto.sum(b, axis=1)
    out[4, 32:64] = pto.max(b, axis=0)
    out[5:13, 0:16] = pto.dot(pto.reshape(a, (8, N // 8)), pto.trans(pto.reshape(b, (16, 64))))
    out[13, :] = pto.ravel(pto.trans(pto.reshape(a, (4, N // 4))))
    total = pto.zeros((N,), pto.float64)
    for k in range(3):
        total = total + a * k
    out[14, :] = total
    places[0] = pto.argmax(a)
    places[1] = pto.argmin(a)
    order[:] = pto.argsort(a)


@needs_compiler
@pytest.mark.parametrize("nans", [False, True])
def test_whole_tiles(nans: bool, device: Place) -> None:
    rng = np.random.default_rng(5)
    x, m = rng.integers(-1000, 1000, 512) / 8.0, rng.integers(-9, 9, (32, 32)) / 2.0
    if nans:
        x[:9] = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, np.nan, 7.0, -7.0]
    with np.errstate(invalid="ignore"):
        places = np.zeros(2, np.int32), np.zeros(512, np.int32)
        pairs = on_both(device, whole_tiles, x, m, np.zeros((15, 512)), *places, N=512)
    assert_same(pairs)


@pto.jit
def functions(x, out, N: pto.constexpr):
    a = x[0:N]
    out[0, :] = pto.exp(a)
    out[1, :] = pto.log(a)
    out[2, :] = pto.sin(a * 1e5)
    out[3, :] = pto.tanh(a)


@needs_compiler
def test_functions(device: Place) -> None:
    """Their rules are the CPU's, and sums there may be rounded otherwise."""
    x = np.random.default_rng(6).normal(size=64) * 10
    *_, (found, wanted) = on_both(device, functions, x, np.zeros((4, 64)), N=64)
    np.testing.assert_array_max_ulp(found, wanted, 1)


@pto.jit
def in_more_digits(x, out, N: pto.constexpr):
    a = x[0:N]
    out[0, :] = libdevice.lgamma(a)
    out[1, :] = libdevice.j0(a)
    out[2, :] = libdevice.j1(a)
    out[3, :] = libdevice.y0(a)
    out[4, :] = libdevice.y1(a)
    out[5, 0] = libdevice.lgamma(x[3])


@needs_compiler
def test_functions_that_need_more_digits_than_two_float32_have(device: Place) -> None:
    """Near their zeros, too."""
    zeros = [2.4048255, 3.8317059, 0.8935770, 2.1971413, -2.4570247, -2.7476826, 1.0, 2.0, 0.0, -1.0, np.inf, np.nan]
    x = np.concatenate([zeros, np.random.default_rng(7).uniform(-5, 30, 52)]).astype(np.float32)
    _, (found, wanted) = on_both(device, in_more_digits, x, np.zeros((6, 64), np.float32), N=64)
    np.testing.assert_array_equal(found, wanted)


@pto.jit
def chained(x, out, N: pto.constexpr, M: pto.constexpr):
    a = x[0:N]
    for _ in pto.static_range(M):
        a = a * a + 1
    out[0:N] = a


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float64, np.int64])
def test_chains_whose_links_are_read_twice(dtype: Any, device: Place) -> None:
    """Each link is computed once: the text would else double with every one."""
    x = np.arange(64).astype(dtype) / 7 if dtype is np.float64 else np.arange(64)
    with np.errstate(over="ignore"):
        assert_same(on_both(device, chained, x, np.zeros(64, dtype), N=64, M=24))


def test_parts_need_what_stands_before_them() -> None:
    assert all(name in parts() for part in parts().values() for name in part.needs)
    assert "ShiftSticky" in parts()["RoundDouble"].needs
    (only,) = texts_of({"LeadingZeros"})
    assert only.startswith("__aicore__ inline int32_t LeadingZeros(uint64_t bits) {")


def test_codes() -> None:
    assert [code(x) for x in (0.0, -0.0, 1.5)] == [0, 1 << 63, 0x3FF8 << 48]
