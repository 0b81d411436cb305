"""Launches of the kernels at sizes that divide nothing, with what numpy says they compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

from tests.conformance import kernels

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Launch:
    """A launch, and what it leaves in its outputs. Floats may differ by `tolerance`, relatively and absolutely."""

    kernel: Any
    grid: Any
    arguments: dict[str, Any]
    expected: dict[str, Array]
    tolerance: float = 0.0


Make = Callable[[np.random.Generator], Launch]


@dataclass
class Cases:
    """Functions that make launches, by name."""

    make: dict[str, Make] = field(default_factory=dict)

    def __call__(self, function: Make) -> Make:
        self.make[function.__name__] = function
        return function


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float32) -> Array:
    return rng.standard_normal(shape).astype(dtype)


def empty(*shape: int, dtype: Any = np.float32) -> Array:
    """An output that holds something else before."""
    return np.full(shape, 77, dtype)


def numbers(rng: np.random.Generator, count: int, dtype: Any) -> Array:
    """Integers over the whole range."""
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max, count, dtype, endpoint=True)


CASES = Cases()
SIZE = 1003


@CASES
def add_native(rng):
    x, y = normal(rng, 2, SIZE)
    return Launch(kernels.add_native, 5, {"x": x, "y": y, "out": empty(SIZE), "BLOCK": 211}, {"out": x + y})


@CASES
def add_native_f64(rng):
    x, y = normal(rng, 2, SIZE, dtype=np.float64)
    out = empty(SIZE, dtype=np.float64)
    return Launch(kernels.add_native, (1,), {"x": x, "y": y, "out": out, "BLOCK": 1024}, {"out": x + y})


@CASES
def add_native_f16(rng):
    x, y = normal(rng, 2, SIZE, dtype=np.float16)
    out = empty(SIZE, dtype=np.float16)
    return Launch(kernels.add_native, 11, {"x": x, "y": y, "out": out, "BLOCK": 100}, {"out": x + y})


@CASES
def add_strided(rng):
    """A negative stride, a stride of 3 and a broadcast."""
    x, y = normal(rng, SIZE)[::-1], np.broadcast_to(np.float32(2), (SIZE,))
    out = empty(3 * SIZE)[::3]
    return Launch(kernels.add_native, 3, {"x": x, "y": y, "out": out, "BLOCK": 400}, {"out": x + y})


@CASES
def add_pointers(rng):
    x, y = normal(rng, 2, SIZE, dtype=bfloat16)
    args = {"x": x, "y": y, "out": empty(SIZE + 5, dtype=bfloat16), "n": SIZE, "BLOCK": 128}
    return Launch(
        kernels.add_pointers,
        lambda meta: (-(-meta["n"] // meta["BLOCK"]),),
        args,
        {"out": np.concatenate([x + y, empty(5, dtype=bfloat16)])},
    )


@CASES
def axpy_mixed(rng):
    x, y = normal(rng, SIZE, dtype=bfloat16), normal(rng, SIZE, dtype=np.float16)
    expected = np.float32(0.3) * x.astype(np.float32) - y.astype(np.float32)
    args = {"a": 0.3, "x": x, "y": y, "out": empty(SIZE), "BLOCK": 256}
    return Launch(kernels.axpy_mixed, 4, args, {"out": expected})


def called(activation: Any, reference: Callable[[Array], Array], tolerance: float) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x = normal(rng, SIZE)
        args = {"x": x, "out": empty(SIZE), "ACTIVATION": activation, "BLOCK": 300}
        return Launch(kernels.calls, 4, args, {"out": reference(x) + x * x + 4 * x + x}, tolerance)

    return make


def gelu(x: Array) -> Array:
    from pypto.ops.mathematics import erf

    return (0.5 * x * (1 + erf(x.astype(np.float64) / np.sqrt(2)))).astype(x.dtype)


CASES.make["calls_relu"] = called(kernels.relu, lambda x: np.maximum(x, 0), 1e-6)
CASES.make["calls_default"] = called(kernels.leaky, lambda x: np.where(x > 0, x, x / 8), 1e-6)
CASES.make["calls_gelu"] = called(kernels.gelu, gelu, 2e-6)


@CASES
def quantize(rng):
    x = 40 * normal(rng, SIZE)
    t = x / np.float32(0.75)
    expected = np.clip(np.where(t < 0, np.ceil(t - 0.5), np.floor(t + 0.5)), -127, 127).astype(np.int8)
    args = {"x": x, "out": empty(SIZE, dtype=np.int8), "scale": 0.75, "BLOCK": 96}
    return Launch(kernels.quantize, 11, args, {"out": expected})


@CASES
def hash_bits(rng):
    h = x = numbers(rng, SIZE, np.uint32)
    for shift in (3, 10, 17):
        h = (h ^ (h << np.uint32(shift))) * np.uint32(0x9E3779B1)
        h = h ^ (h >> np.uint32(shift + 2)) | np.uint32(1)
    args = {"x": x, "out": empty(SIZE, dtype=np.uint32), "n": SIZE, "BLOCK": 77}
    return Launch(kernels.hash_bits, 14, args, {"out": ~h % np.uint32(1000003) + h // np.uint32(7)})


def divided(x: Array, y: Array) -> tuple[Array, Array]:
    """Quotient towards zero and rest; both are 0 where the divisor is."""
    a, b = x.astype(object), np.where(y == 0, 1, y.astype(object))
    quotient = abs(a) // abs(b) * np.where((a < 0) == (b < 0), 1, -1)
    zero, bits = x.dtype.type(0), 8 * x.itemsize
    wrapped = (quotient + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)
    rest = (a - quotient * b).astype(x.dtype)
    return np.where(y == 0, zero, wrapped.astype(x.dtype)), np.where(y == 0, zero, rest)


def integers(dtype: Any) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x, y = numbers(rng, SIZE, dtype), numbers(rng, SIZE, dtype)
        y[::7], y[1::7], x[1::7] = 0, -1, np.iinfo(dtype).min
        quotient, rest = divided(x, y)
        args = {"x": x, "y": y, "out": empty(SIZE, dtype=dtype), "BLOCK": 250}
        return Launch(kernels.wide_integers, 5, args, {"out": x * y + quotient - rest * (x >> 3)})

    return make


CASES.make["integers_i64"] = integers(np.int64)
CASES.make["integers_i32"] = integers(np.int32)
CASES.make["integers_i16"] = integers(np.int16)
CASES.make["integers_i8"] = integers(np.int8)


@CASES
def logic(rng):
    x, y = rng.integers(-2, 3, (2, SIZE)).astype(np.int16)
    flags = ((x > 0) & (y > 0) | (x == y)) ^ (x < -1)
    both = (x > 0) & (y > 0) | (x == y)
    counts = [np.sum(both[i : i + 128]) for i in range(0, SIZE, 128)]
    counts[-1] += -SIZE % 128  # where there is nothing, both are 0 and so they are equal
    args = {"x": x, "y": y, "flags": empty(SIZE, dtype=bool), "counts": empty(8, dtype=np.int32), "BLOCK": 128}
    return Launch(kernels.logic, 8, args, {"flags": flags, "counts": np.array(counts, np.int32)})


@CASES
def running_sums(rng):
    x = rng.integers(-9, 9, (2, 13, 7)).astype(np.int32)
    args = {"x": x, "forward": empty(2, 13, 7, dtype=np.int32), "backward": empty(2, 13, 7, dtype=np.int32)}
    expected = {"forward": np.cumsum(x, 1), "backward": np.cumsum(x[:, :, ::-1], 2)[:, :, ::-1]}
    return Launch(kernels.running_sums, 2, args, {k: v.astype(np.int32) for k, v in expected.items()})


@CASES
def running_sums_f32(rng):
    x = normal(rng, 2, 13, 7)
    expected = {"forward": np.cumsum(x, 1), "backward": np.cumsum(x[:, :, ::-1], 2)[:, :, ::-1]}
    args = {"x": x, "forward": empty(2, 13, 7), "backward": empty(2, 13, 7)}
    return Launch(kernels.running_sums, 2, args, expected, 1e-5)


def reduced(dtype: Any, sums: Any, tolerance: float, shape: tuple[int, ...] = (5, 9, 19)) -> Make:
    def make(rng: np.random.Generator) -> Launch:
        x = (10 * normal(rng, *shape)).astype(dtype)
        wide = x.astype(np.float64) if x.dtype.kind not in "iu" else x
        parts = {"s0": wide.sum(0), "s1": wide.sum(1), "s2": wide.sum(2, keepdims=True), "s02": wide.sum((0, 2))}
        expected = {name: value.astype(sums) for name, value in parts.items()}
        expected |= {"most": x.max(1), "least": x.min().reshape(1)}
        args = {"x": x, **{name: empty(*value.shape, dtype=value.dtype) for name, value in expected.items()}}
        return Launch(kernels.reduce_axes, 1, args, expected, tolerance)

    return make


CASES.make["reduce_f32"] = reduced(np.float32, np.float32, 1e-5)
CASES.make["reduce_f64"] = reduced(np.float64, np.float64, 1e-13)
CASES.make["reduce_f16"] = reduced(np.float16, np.float16, 2e-3)
CASES.make["reduce_bf16"] = reduced(bfloat16, bfloat16, 1e-2)
CASES.make["reduce_i8"] = reduced(np.int8, np.int32, 0)
# One element behind whole registers: its store narrows, and must not write its neighbour.
CASES.make["reduce_bf16_one_left"] = reduced(bfloat16, bfloat16, 1e-2, (3, 16, 17))
CASES.make["reduce_i8_one_left"] = reduced(np.int8, np.int32, 0, (3, 65, 33))


@CASES
def arg_extremes(rng):
    """Few values, so that there are many ties."""
    x = rng.integers(0, 4, (11, 37)).astype(np.float32)
    x[3, :30], x[5, :] = np.nan, np.nan
    most, least = np.where(np.isnan(x), -np.inf, x), np.where(np.isnan(x), np.inf, x)
    expected = {"hi0": most.argmax(0), "hi1": most.argmax(1), "lo1": least.argmin(1)[:, None], "hi_all": most.argmax()}
    expected = {name: np.array(value, np.int32, ndmin=1) for name, value in expected.items()}
    args = {"x": x, **{name: empty(*value.shape, dtype=np.int32) for name, value in expected.items()}}
    return Launch(kernels.arg_extremes, 1, args, expected)
