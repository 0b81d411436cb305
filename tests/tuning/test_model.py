"""The timing model as the measure: on the simulated device, and for chips that are not there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import PyptoError
from pypto.runtime.devices import Device
from pypto.tuning import Autotuner, Config, Space, autotune, heuristics
from tests.sim.device import needs_compiler


@pto.jit
def scale(x: Any, y: Any, n: Any, BLOCK: pto.constexpr, FACTOR: pto.constexpr = 2) -> None:
    pto.static_assert(BLOCK != 13, "an unlucky size")
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(y + i, pto.load(x + i, mask=i < n) * FACTOR, mask=i < n)


def grid(meta: dict[str, Any]) -> tuple[int]:
    return (-(-meta["n"] // meta["BLOCK"]),)


def tuner(configs: Any, **options: Any) -> Autotuner:
    return autotune(configs, key=["n"], **{"cache_results": False, **options})(scale)


BLOCKS = [Config({"BLOCK": size}) for size in (64, 4096, 256, 13)]


def test_configurations_are_ranked_for_a_chip_that_is_not_there() -> None:
    kernel, n = tuner(BLOCKS), 1 << 20
    x, y = np.ones((2, n), np.float32)
    (section,) = kernel.rank(x, y, n, grid=grid, target="ascend910b3").sections
    assert [row.config for row in section.rows] == ["BLOCK=4096", "BLOCK=256", "BLOCK=64", "BLOCK=13"]
    assert section.rows[0].chosen
    assert "an unlucky size" in section.rows[-1].reason
    single = pto.simulate(scale, "ascend910b3")[256](x, y, n, BLOCK=4096)
    assert section.rows[0].median == pytest.approx(1e3 * single.seconds)
    assert "ascend910b3, predicted" in section.title
    np.testing.assert_array_equal(y, 1)  # nothing ran
    grid_here = kernel.key_of({"x": x, "y": y, "n": n})
    assert grid_here not in kernel.cache  # what a chip's model says is nothing to this machine


def test_targets_have_configurations_of_their_own() -> None:
    configs = [Config({"BLOCK": 64}, target="ascend910b4"), Config({"BLOCK": 4096}, target="cpu"),
               Config({"BLOCK": 256}, target="ascend")]  # fmt: skip
    kernel, n = tuner(configs), 1 << 20
    x, y = np.ones((2, n), np.float32)
    for target, found in (("ascend910b4", ["BLOCK=256", "BLOCK=64"]), ("ascend950", ["BLOCK=256"])):
        (section,) = kernel.rank(x, y, n, grid=grid, target=target).sections
        assert [row.config for row in section.rows] == found
    with pytest.raises(PyptoError, match="none of 1 configurations is to be tried on ascend950, predicted"):
        tuner([Config({"BLOCK": 64}, target="cpu")]).rank(x, y, n, grid=grid, target="ascend950")


def test_a_chips_winner_is_exported_under_its_name(tmp_path: Path) -> None:
    kernel, n, path = tuner(Space(BLOCK=[64, 4096])), 1 << 20, tmp_path / "winners.json"
    x, y = np.ones((2, n), np.float32)
    kernel.rank(x, y, n, grid=grid)
    assert kernel.export_tuning(path) == 1
    (row,) = json.loads(path.read_text())["winners"]
    assert (row["target"], row["config"]) == ("ascend910b2, predicted", "BLOCK=4096")
    assert tuner(Space(BLOCK=[64, 4096]), results=path).winners.find(kernel.key_of({"n": n, "x": x, "y": y}),
                                                                     "ascend910b2, predicted") is not None  # fmt: skip


def test_rules_inside_of_a_search_count() -> None:
    ruled = heuristics({"FACTOR": lambda args: args["BLOCK"] // 64})(scale)
    kernel = autotune(BLOCKS[:2], key=["n"], cache_results=False)(ruled)
    x, y = np.ones((2, 1 << 16), np.float32)
    (section,) = kernel.rank(x, y, 1 << 16, grid=grid).sections
    assert section.rows[0].config == "BLOCK=4096"


@needs_compiler
def test_the_model_chooses_on_the_simulated_device(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, n = tuner(BLOCKS), 5000
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    launched: list[Any] = []
    plain = Device.launch
    monkeypatch.setattr(Device, "launch", lambda self, *args: launched.append(args[0]) or plain(self, *args))
    with pto.device("ascend-sim"):
        kernel[grid](x, y, n=n)
        kernel[grid](x, y, n=n)
    np.testing.assert_array_equal(y, 2 * x)
    assert len(launched) == 2  # the launches themselves, and no trial
    (section,) = kernel.tuning_report().sections
    assert "ascend910b2, predicted" in section.title
    assert kernel.best_config is not None
    there, out = pto.to_device(x, "ascend-sim"), pto.to_device(y * 0, "ascend-sim")
    kernel[grid](there, out, n=n)
    np.testing.assert_array_equal(out.numpy(), 2 * x)
    assert len(kernel.cache) == 1
    kernel[grid](x, y, n=n)  # on this machine, a clock measures
    assert len(kernel.cache) == 2
