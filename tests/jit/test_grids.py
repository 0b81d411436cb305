"""Grids, and how a kernel's arguments are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.runtime.launcher.native import is_supported, launcher_text
from pypto.compile import session
from pypto.options import KernelOptions


@pto.jit
def count(out, BLOCK: pto.constexpr = 1, step=1):
    index = (pto.program_id(0) * pto.num_programs(1) + pto.program_id(1)) * pto.num_programs(2) + pto.program_id(2)
    out[index] = out[index] + step * BLOCK


def counted(grid: Any, *args: Any, **given: Any) -> list[int]:
    out = np.zeros(24, np.int32)
    count[grid](out, *args, **given)
    return [int(n) for n in out]


@pytest.mark.parametrize(
    ("grid", "programs"),
    [(3, 3), ((3,), 3), ([3], 3), ((2, 3), 6), ((2, 3, 4), 24), (np.int64(5), 5), ((np.int32(2), True, 2), 4)],
)
def test_every_program_runs_once(grid: Any, programs: int) -> None:
    assert counted(grid) == [1] * programs + [0] * (24 - programs)


def test_a_grid_may_be_a_function_of_the_arguments_by_name() -> None:
    seen: dict[str, Any] = {}

    def grid(meta: Any) -> tuple[int]:
        seen.update(meta)
        return (meta["BLOCK"] * 2,)

    assert counted(grid, 3) == [3] * 6 + [0] * 18
    assert seen.keys() == {"out", "BLOCK", "step"} and seen["step"] == 1
    assert counted(lambda meta: meta["BLOCK"], BLOCK=2) == [2, 2] + [0] * 22


@pytest.mark.parametrize("grid", [0, (0,), (4, 0), (1, 1, 0), np.int32(0)])
def test_a_grid_without_programs_writes_nothing(grid: Any) -> None:
    assert counted(grid) == [0] * 24


def test_a_grid_without_programs_is_checked_all_the_same() -> None:
    out = np.zeros(24, np.int32)
    out.flags.writeable = False
    with pytest.raises(TypeError, match="`out`, which is read-only"):
        count[0](out)


@pytest.mark.parametrize(
    ("args", "given", "value"),
    [
        ((), {}, 1), ((5,), {}, 5), ((5, 2), {}, 10), ((), {"BLOCK": 5}, 5), ((), {"step": 3}, 3),
        ((2,), {"step": 3}, 6), ((), {"step": 3, "BLOCK": 2}, 6), ((2, 4), {"num_warps": 8, "num_stages": 3}, 8),
        ((), {"num_warps": 8}, 1),
    ],
)  # fmt: skip
def test_arguments_by_position_name_and_default(args: tuple[Any, ...], given: dict[str, Any], value: int) -> None:
    assert counted(1, *args, **given)[0] == value


def test_parameters_may_have_any_name() -> None:
    @pto.jit
    def named(self, grid, args, given):
        self[0] = grid + args + given

    out = np.zeros(1, np.int64)
    named[1](grid=1, self=out, given=30, args=200)
    assert out[0] == 231


def test_keyword_only_parameters() -> None:
    @pto.jit
    def kernel(out, *, scale: pto.constexpr = 2, shift):
        out[0] = scale * 10 + shift

    out = np.zeros(1, np.int32)
    kernel[1](out, shift=3)
    assert out[0] == 23
    kernel[1](out, scale=4, shift=1)
    assert out[0] == 41


def test_a_launcher_can_be_kept() -> None:
    out = np.zeros(24, np.int32)
    launch = count[4]
    for _ in range(3):
        launch(out)
    assert out.tolist() == [3] * 4 + [0] * 20


def test_the_native_launcher_is_there_where_it_can_be() -> None:
    """Launches go through Python without it, which no other test would notice."""
    engine = session().backend(KernelOptions()).engine
    assert engine.compile(launcher_text())
    assert is_supported() or session().launcher is None
