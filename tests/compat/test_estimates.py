"""Lists of configurations for GPUs: those that fit a CPU are found without compiling the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compat.triton.kernels import jit
from pypto.tuning import Autotuner, Config, autotune, heuristics
from pypto.tuning.estimates import MOST, estimated

SIZES = (2048, 64, 4096, 1024, 8192, 128)


def double(x: Any, n: Any, BLOCK: pto.constexpr, STEPS: pto.constexpr = 1) -> None:  # type: ignore[assignment]
    for step in range(0, STEPS):
        i = (pto.program_id(0) * STEPS + step) * BLOCK + pto.arange(0, BLOCK)
        pto.store(x + i, pto.load(x + i, mask=i < n) * 2, mask=i < n)


def product(a: Any, b: Any, c: Any, k: Any, BLOCK: pto.constexpr) -> None:
    rows, total = pto.arange(0, 16), pto.zeros((16, 16), pto.float32)
    for start in range(0, k, BLOCK):
        i = start + pto.arange(0, BLOCK)
        x = pto.load(a + rows[:, None] * k + i[None, :], mask=i[None, :] < k, other=0.0)
        y = pto.load(b + i[:, None] * 16 + rows[None, :], mask=i[:, None] < k, other=0.0)
        total += pto.dot(x, y)
    pto.store(c + rows[:, None] * 16 + rows[None, :], total)


def grid(meta: Any) -> tuple[int]:
    return (-(-meta["n"] // meta["BLOCK"]),)


def tuned(sizes: Any = SIZES, kernel: Any = None, **options: Any) -> Autotuner:
    configs = [Config({"BLOCK": size}) for size in sizes]
    return autotune(configs, key=["n"], cache_results=False, **options)(kernel or jit(double))


def statuses(kernel: Autotuner) -> dict[str, str]:
    return {row.config: row.status for row in kernel.tuning_report().sections[0].rows}


def test_blocks_that_are_mostly_padding_are_not_compiled() -> None:
    kernel, x = tuned(), np.ones(100, np.float32)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 2)
    tried = [name for name, status in statuses(kernel).items() if status == "ok"]
    assert sorted(tried) == ["BLOCK=128", "BLOCK=64"]
    assert len(kernel.fn.ours.specializations) == MOST
    assert "untried: its estimated time is longer" in str(kernel.tuning_report())


@pytest.mark.parametrize("kernel", [
    tuned((2048, 64, 4096, 128)),
    tuned(kernel=pto.jit(double)),
    tuned(pre_hook=lambda named, **_: None),
    tuned(prune_configs_by={"perf_model": lambda **given: given["BLOCK"], "top_k": 6}),
])  # fmt: skip
def test_short_lists_lists_for_cpus_and_users_own_measures_are_tried_as_they_are(kernel: Autotuner) -> None:
    x = np.ones(100, np.float32)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 2)
    assert "untried" not in statuses(kernel).values()


def test_rules_of_heuristics_count() -> None:
    rule = heuristics({"STEPS": lambda given: 8 if given["BLOCK"] == 64 else 1})(jit(double))
    kernel, x = tuned(kernel=rule), np.ones(100, np.float32)
    kernel[grid](x, 100)
    np.testing.assert_array_equal(x, 2)
    assert statuses(kernel)["BLOCK=64"] == "untried"


def test_what_does_not_compile_is_tried_last() -> None:
    kernel, x = tuned((*SIZES, -1)), np.ones(100, np.float32)
    kernel[grid](x, 100)
    assert statuses(kernel)["BLOCK=-1"] == "untried"
    np.testing.assert_array_equal(x, 2)


def test_a_loop_over_an_argument_has_its_trip_count() -> None:
    a, b, c = np.ones((16, 96), np.float32), np.ones((96, 16), np.float32), np.zeros((16, 16), np.float32)
    times = [estimated(jit(product), (a, b, c, 96), {"BLOCK": size, "grid": (1,)}) for size in (32, 96, 1024)]
    assert times[1] == pytest.approx(times[0], rel=0.5)
    assert times[2] > 5 * times[0]
