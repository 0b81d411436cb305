"""Configurations that become the same code are compiled and timed once, and the report says which they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compile import compile_program
from pypto.tuning import Autotuner, Config, autotune

N = 96


@pto.jit
def triple(x, o, n, BLOCK: pto.constexpr, IDLE: pto.constexpr = 0):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(o + i, pto.load(x + i, mask=i < n) * 3, mask=i < n)


def launch(kernel: Autotuner) -> list[Any]:
    x, o = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    kernel[lambda meta: (pto.cdiv(N, meta["BLOCK"]),)](x, o, N)
    np.testing.assert_array_equal(o, 3 * x)
    return list(kernel.tuning_report().sections[0].rows)


def test_what_gpus_alone_are_told_makes_no_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fifty configurations, two of them different here."""
    compiled: list[Any] = []
    monkeypatch.setattr("pypto.compile.compile_program", lambda *args: compiled.append(args) or compile_program(*args))
    configs = [Config({"BLOCK": b}, num_warps=w, num_stages=s) for b in (16, 32) for w in range(5) for s in range(5)]
    kernel = autotune(configs, key=["n"], cache_results=False)(triple)
    rows = launch(kernel)
    assert len(compiled) == 2
    assert [row.status for row in rows] == ["ok"] * 2 + ["equal"] * 48
    reasons = {row.config: row.reason for row in rows}
    assert reasons["BLOCK=32, num_warps=4, num_stages=2"] == "the same code as BLOCK=32, num_warps=0, num_stages=0"
    assert len(reasons) == 50
    assert len(kernel.configs_timings) == 2
    assert all(times[0] < np.inf for times in kernel.configs_timings.values())


def test_a_constant_that_the_kernel_does_not_use_makes_no_trial() -> None:
    kernel = autotune([Config({"BLOCK": 16, "IDLE": n}) for n in range(3)], key=["n"], cache_results=False)(triple)
    rows = launch(kernel)
    assert [row.status for row in rows] == ["ok", "equal", "equal"]
    assert rows[1].reason == "the same code as BLOCK=16, IDLE=0"
    assert "equal: the same code as" in str(kernel.tuning_report())


def test_the_same_code_over_another_grid_is_not_equal() -> None:
    configs = [Config({"BLOCK": 16, "IDLE": n}) for n in range(2)]
    kernel = autotune(configs, key=["n"], cache_results=False)(triple)
    x, o = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    kernel[lambda meta: (pto.cdiv(N, 16) + meta["IDLE"],)](x, o, N)
    assert [row.status for row in kernel.tuning_report().sections[0].rows] == ["ok", "ok"]


def test_a_hint_that_the_kernel_takes_as_a_parameter_counts() -> None:
    @pto.jit
    def warped(x, o, n, num_warps: pto.constexpr):
        i = pto.program_id(0) * num_warps * 8 + pto.arange(0, num_warps * 8)
        pto.store(o + i, pto.load(x + i, mask=i < n) * 3, mask=i < n)

    configs = [Config({}, num_warps=w) for w in (2, 4)]
    kernel = autotune(configs, key=["n"])(warped)
    x, o = np.arange(N, dtype=np.float32), np.zeros(N, np.float32)
    kernel[lambda meta: (pto.cdiv(N, 8 * meta["num_warps"]),)](x, o, N)
    np.testing.assert_array_equal(o, 3 * x)
    rows = kernel.tuning_report().sections[0].rows
    assert sorted((row.config, row.status) for row in rows) == [("num_warps=2", "ok"), ("num_warps=4", "ok")]
    later = autotune(configs, key=["n"])(warped)
    later[lambda meta: (pto.cdiv(N, 8 * meta["num_warps"]),)](x, o, N)
    assert later.best_config is kernel.best_config
