"""Runs a kernel on the CPU and in the interpreter, for tests that compare with numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

import pypto as pto

Array = np.ndarray[Any, Any]

FLOATS: tuple[Any, ...] = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)
SIGNED: tuple[Any, ...] = (np.int8, np.int16, np.int32, np.int64)
UNSIGNED: tuple[Any, ...] = (np.uint8, np.uint16, np.uint32, np.uint64)
NUMBERS = (*FLOATS, *SIGNED, *UNSIGNED)


def both(kernel: Any, *arguments: Any, outputs: int, level: str = "", **constants: Any) -> list[Array]:
    """What a kernel leaves in its last arguments, which are the outputs; the interpreter leaves the same."""
    made = []
    for run in (pto.jit(level=level)(kernel.function), pto.interpret(kernel)):
        given = [x.copy() if isinstance(x, np.ndarray) else x for x in arguments]
        run[1](*given, **constants)
        made.append(given[len(given) - outputs :])
    for found, wanted in zip(*made, strict=True):
        assert_near(found, wanted)
    return made[0]


def assert_near(found: Array, wanted: Array) -> None:
    """Equal, or for floats as near as another order of rounding may bring it."""
    if found.dtype.kind in "iub":
        np.testing.assert_array_equal(found, wanted)
        return
    eps = float(ml_dtypes.finfo(found.dtype).eps)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_allclose(a, b, rtol=64 * eps, atol=64 * eps)


def sample(dtype: Any, shape: tuple[int, ...], seed: int = 0) -> Array:
    """Numbers of a dtype: small floats, integers from the whole range."""
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind in "iu":
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, shape, dtype, endpoint=True)
    return rng.normal(size=shape).astype(dtype) if np.dtype(dtype).kind != "b" else rng.random(shape) < 0.5
