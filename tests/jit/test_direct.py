"""Direct launches, as generated code makes them: what native code guards, and what goes through Python."""

# mypy: disable-error-code="no-untyped-def"

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import language as pl
from pypto.jit.direct import Direct, ThreadCount
from pypto.runtime.mode import MODE, PLAIN

BLOCK = 16


def make() -> Any:
    """A kernel of its own for each test: ``y = x * factor``."""

    @pto.jit
    def scaled(x, y, factor, n, BLOCK: pl.constexpr):
        i = pl.program_id(0) * BLOCK + pl.arange(0, BLOCK)
        pl.store(y + i, pl.load(x + i, mask=i < n) * factor, mask=i < n)

    return scaled


class Counted(Direct):
    """Counts the launches that native code did not make."""

    def __init__(self, kernel: Any) -> None:
        self.slow = 0
        super().__init__(kernel, ("x", "y", "factor", "n"), self.place_of)
        self.is_native = self.table is not None and MODE.get() is PLAIN

    def place_of(self, x: Any, y: Any, factor: float, n: int) -> Any:
        self.slow += 1
        return (-(-n // BLOCK),), (x, y, factor, n, BLOCK)


def arrays(n: int) -> tuple[Any, Any]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_only_the_first_launch_of_a_size_goes_through_python() -> None:
    direct = Counted(make())
    for n in (40, 7, 40, 7, 40):
        for factor in (2.0, 3.0):
            x, y = arrays(n)
            direct.run(x, y, factor, n)
            np.testing.assert_array_equal(y, x * np.float32(factor))
    assert direct.slow == (2 if direct.is_native else 10)


def test_sizes_that_are_too_many_are_right_all_the_same() -> None:
    direct = Counted(make())
    for n in (*range(1, 30), *range(1, 30)):
        x, y = arrays(n)
        direct.run(x, y, 2.0, n)
        np.testing.assert_array_equal(y, x * 2)
    assert direct.slow == (29 * 2 - 16 if direct.is_native else 29 * 2)


def test_no_elements() -> None:
    direct = Counted(make())
    for _ in range(2):
        direct.run(*arrays(0), 2.0, 0)
    assert direct.slow == (1 if direct.is_native else 2)


def test_arrays_that_overlap_get_a_version_of_their_own() -> None:
    kernel = make()
    direct = Counted(kernel)
    for _ in range(2):
        x, y = arrays(64)
        direct.run(x, y, 2.0, 64)
        direct.run(x, x, 2.0, 64)
        np.testing.assert_array_equal(x, np.arange(64, dtype=np.float32) * 2)
    assert direct.slow == (2 if direct.is_native else 4)
    assert len(kernel.specializations) == 2


def test_other_dtypes_find_their_version() -> None:
    direct = Counted(make())
    for dtype in (np.float32, np.float64, np.float32, np.float64):
        x, y = (a.astype(dtype) for a in arrays(20))
        direct.run(x, y, 2.0, 20)
        np.testing.assert_array_equal(y, x * 2)


def test_hooks_and_the_interpreter_see_every_launch() -> None:
    kernel, seen = make(), []
    direct = Counted(kernel)
    x, y = arrays(20)
    direct.run(x, y, 2.0, 20)
    kernel.add_pre_run_hook(lambda *args, **given: seen.append(args[3]))
    direct.run(x, y, 2.0, 20)
    kernel.pre_run_hooks.clear()
    assert seen == [20]
    with pto.interpreter():
        direct.run(x, y, 5.0, 20)
    np.testing.assert_array_equal(y, x * 5)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        direct.run(x, y, 2.0)


def test_whoever_says_so_sets_the_number_of_threads() -> None:
    asked = []

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def count() -> int:
        asked.append(1)
        return 1

    kernel = make()
    kernel.threads_by = ThreadCount(count, ctypes.cast(count, ctypes.c_void_p).value or 0)
    direct = Counted(kernel)
    x, y = arrays(1 << 20)
    for _ in range(3):
        direct.run(x, y, 2.0, 1 << 20)
    np.testing.assert_array_equal(y, x * 2)
    assert len(asked) == 3  # by Python, then twice by native code
