"""What a search promises: users' memory stays, wrong and failing configurations leave, time and Ctrl-C end it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import PyptoError, PyptoWarning
from pypto.runtime.copies import Copies
from pypto.tuning import Autotuner, Config, Space, TuningFileError, autotune
from pypto.tuning.agreement import alike
from pypto.tuning.search import Outcome, Search
from tests.tuning.clocks import FakeClock, FakeTrial


@pto.jit
def scale(x: Any, n: Any, BLOCK: pto.constexpr, FACTOR: pto.constexpr = 2) -> None:
    pto.static_assert(BLOCK != 13, "an unlucky size")
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(x + i, pto.load(x + i, mask=i < n) * FACTOR, mask=i < n)


def launch(kernel: Any, x: Any) -> None:
    kernel[lambda meta: (-(-len(x) // meta["BLOCK"]),)](x, len(x))


def tuner(configs: Any, **options: Any) -> Autotuner:
    return autotune(configs, key=["n"], **{"cache_results": False, **options})(scale)


BLOCKS = [Config({"BLOCK": size}) for size in (16, 32, 64)]


def test_a_wrong_configuration_is_reported_and_never_chosen() -> None:
    wrong = Config({"BLOCK": 4096, "FACTOR": 3})
    kernel, x = tuner([wrong, *BLOCKS]), np.ones(100, np.float32)
    with pytest.warns(PyptoWarning, match=r"scale with BLOCK=4096, FACTOR=3 .* the results differ by up to 1"):
        launch(kernel, x)
    np.testing.assert_array_equal(x, 2)
    rows = {row.config: row for row in kernel.tuning_report().sections[0].rows}
    assert rows["BLOCK=4096, FACTOR=3"].status == "wrong"
    agree = "3 other configurations (BLOCK=16, BLOCK=32 and BLOCK=64), which agree"
    assert agree in rows["BLOCK=4096, FACTOR=3"].reason
    assert sum(row.chosen for row in rows.values()) == 1


def test_what_does_not_compile_is_in_the_report_with_its_reason() -> None:
    kernel = tuner([Config({"BLOCK": 13}), *BLOCKS])
    launch(kernel, np.ones(50, np.float32))
    text = str(kernel.tuning_report())
    assert "failed: [E227]" in text
    assert "an unlucky size" in text
    assert text.count("chosen") == 1
    assert len(text.splitlines()) == 3 + 4


def test_the_users_memory_is_touched_by_the_launch_alone() -> None:
    """Trials see what the arrays hold, and write elsewhere."""
    seen: list[bool] = []
    x = np.ones(64, np.float32)

    def look(named: dict[str, Any], **_: Any) -> None:
        if "x" in named:
            seen.append(np.shares_memory(named["x"], x) and not (x == 1).all())

    kernel = tuner(BLOCKS, post_hook=look)
    launch(kernel, x)
    assert seen
    assert not any(seen)
    np.testing.assert_array_equal(x, 2)


def test_an_interrupt_keeps_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def interrupting(named: dict[str, Any], **_: Any) -> None:
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt

    kernel, x = tuner(BLOCKS, post_hook=interrupting), np.ones(40, np.float32)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 2)
    (section,) = kernel.tuning_report().sections
    assert section.interrupted
    assert "interrupted" in str(kernel.tuning_report())
    assert {row.status for row in section.rows} >= {"ok", "untried"}


def test_an_interrupt_before_anything_is_known_is_one() -> None:
    def interrupting(named: dict[str, Any], **_: Any) -> None:
        raise KeyboardInterrupt

    kernel, x = tuner(BLOCKS, pre_hook=interrupting), np.ones(40, np.float32)
    with pytest.raises(KeyboardInterrupt):
        launch(kernel, x)
    np.testing.assert_array_equal(x, 1)


def search_of(milliseconds: list[float], budget: float = 60.0) -> Search:
    """A search over configurations that take so long, by a clock that nothing else moves."""
    clock = FakeClock()
    outcomes = [Outcome(Config({"N": n})) for n in range(len(milliseconds))]
    trials = [FakeTrial(clock, ms) for ms in milliseconds]
    return Search(outcomes, lambda c: trials[c.kwargs["N"]], budget, lambda outcome: None, clock)


@pytest.mark.parametrize(("budget", "tried"), [(60.0, 6), (0.121, 4), (0.079, 2), (0.0, 1)])
def test_a_search_ends_with_its_time(budget: float, tried: int) -> None:
    """The fastest of those that there is time for wins; the rest is left untried. Each one runs twice at first."""
    search = search_of([20, 20, 1, 20, 20, 20], budget)
    best = search.run()
    assert best is search.outcomes[2 if tried > 2 else 0] or best is search.outcomes[min(tried, 2) - 1]
    assert [o.status for o in search.outcomes] == ["ok"] * tried + ["untried"] * (6 - tried)
    assert all(o.reason == "the time was over" for o in search.outcomes[tried:])


def test_the_slower_half_leaves_the_race() -> None:
    search = search_of([4, 1, 8, 6, 7, 5, 9, 3])
    assert search.run() is search.outcomes[1]
    runs = [len(o.times) for o in search.outcomes]
    assert runs[6] < runs[7] <= runs[1]
    assert runs[1] >= 5


def test_the_winner_is_the_one_that_is_fastest_when_undisturbed() -> None:
    """Other work on the machine makes every second run of the faster one ten times as long: its median is the worst."""
    clock = FakeClock()
    quiet, disturbed = FakeTrial(clock, 2.0), FakeTrial(clock, 1.0, disturbed=10.0)
    trials = {0: quiet, 1: disturbed}
    outcomes = [Outcome(Config({"N": n})) for n in trials]
    search = Search(outcomes, lambda c: trials[c.kwargs["N"]], 60, lambda outcome: None, clock)
    assert search.run() is outcomes[1]
    assert outcomes[1].quantiles[2] > outcomes[0].quantiles[2]


def test_a_space_is_searched() -> None:
    space = Space(BLOCK=[16, 32, 13], FACTOR=[2], where=lambda BLOCK, FACTOR: BLOCK != 32)
    assert [c.kwargs["BLOCK"] for c in space] == [16, 13]
    kernel, x = tuner(space), np.ones(30, np.float32)
    assert kernel.budget == 30
    launch(kernel, x)
    np.testing.assert_array_equal(x, 2)
    with pytest.raises(ValueError, match="needs values for every constant: BLOCK"):
        Space(BLOCK=[])


def test_configurations_for_other_targets_are_left_out() -> None:
    kernel, x = tuner([Config({"BLOCK": 16, "FACTOR": 3}, target="ascend"), *BLOCKS]), np.ones(30, np.float32)
    launch(kernel, x)
    np.testing.assert_array_equal(x, 2)
    assert len(kernel.tuning_report().sections[0].rows) == 3
    nowhere = tuner([Config({"BLOCK": size}, target="ascend") for size in (16, 32)])
    with pytest.raises(PyptoError, match="none of 2 configurations is to be tried on cpu"):
        launch(nowhere, x)


def test_arrays_in_the_key_count_by_their_shape() -> None:
    kernel = autotune(BLOCKS, key=["x"], cache_results=False)(scale)
    for n in (10, 20, 20):
        launch(kernel, np.ones(n, np.float32))
    assert [key[0] for key in kernel.cache] == [(10,), (20,)]


# --- winners that stay ---


def test_winners_are_found_by_later_processes() -> None:
    configs = [Config({"BLOCK": size}) for size in (48, 96)]
    first, x = tuner(configs, cache_results=True), np.ones(77, np.float32)
    launch(first, x)
    later = tuner(configs, cache_results=True)
    launch(later, x)
    np.testing.assert_array_equal(x, 4)
    assert later.best_config == first.best_config
    assert not later.tuning_report().sections
    others = tuner([*configs, Config({"BLOCK": 192})], cache_results=True)
    launch(others, x)
    assert len(others.tuning_report().sections[0].rows) == 3


def test_winners_go_to_a_file_and_come_back(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    first, x = tuner(BLOCKS, results=path), np.ones(50, np.float32)
    launch(first, x)
    launch(first, np.ones(60, np.float32))
    assert first.export_tuning(path) == 2
    text = path.read_text(encoding="utf-8")
    assert first.export_tuning(path) == 2
    assert path.read_text(encoding="utf-8") == text
    later = tuner(BLOCKS, results=path)
    launch(later, x)
    assert not later.tuning_report().sections
    launch(later, np.ones(70, np.float32))
    assert len(later.tuning_report().sections) == 1
    fewer = tuner([Config({"BLOCK": 8}), Config({"BLOCK": 128})], results=path)
    launch(fewer, x)
    assert len(fewer.tuning_report().sections) == 1, "what is stored is no configuration of this kernel"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"format": "pypto tuning 0", "winners": []}',
    '{"format": "pypto tuning 1", "winners": [{"kernel": 1}]}'])  # fmt: skip
def test_a_file_of_something_else_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tuning.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(TuningFileError, match="tun"):
        tuner(BLOCKS, results=path)
    with pytest.raises(TuningFileError):
        tuner(BLOCKS).export_tuning(path)
    assert path.read_text(encoding="utf-8") == text


def test_export_keeps_what_others_found(tmp_path: Path) -> None:
    path = tmp_path / "tuning.json"
    other = {"kernel": "other", "target": "cpu x x2", "key": "(1,)", "config": "BLOCK=1", "ms": "1"}
    path.write_text(json.dumps({"format": "pypto tuning 1", "winners": [other]}), encoding="utf-8")
    kernel = tuner(BLOCKS)
    launch(kernel, np.ones(50, np.float32))
    assert kernel.export_tuning(path) == 2
    assert other in json.loads(path.read_text(encoding="utf-8"))["winners"]


# --- copies ---


@pytest.mark.parametrize(
    "view",
    [lambda a: a, lambda a: a[::-1], lambda a: a[::3], lambda a: a.reshape(8, 12).T, lambda a: a[5:6], lambda a: a[:0]],
)
def test_stand_ins_lie_in_memory_as_their_arrays_do(view: Any) -> None:
    x = view(np.arange(96, dtype=np.float32))
    copies = Copies.of({"x": x})
    assert copies is not None
    copies.restore()
    made = copies.stand_ins["x"]
    np.testing.assert_array_equal(made, x)
    assert not np.shares_memory(made, x)
    assert made.strides == x.strides or not x.size
    assert (made.ctypes.data - x.ctypes.data) % 64 == 0 or not x.size
    made[...] = 7
    copies.restore()
    np.testing.assert_array_equal(made, x)


def test_arrays_that_share_memory_share_it_again() -> None:
    base = np.arange(20.0)
    copies = Copies.of({"a": base[:12], "b": base[8:], "c": base.copy()})
    assert copies is not None
    copies.restore()
    a, b, c = (copies.stand_ins[n] for n in "abc")
    a[8:] = -1
    assert (b[:4] == -1).all()
    assert not np.shares_memory(a, c)
    assert Copies.of({"a": base, "memory": memoryview(base)}) is None


def test_results_are_compared_as_their_types_allow() -> None:
    x = np.linspace(-1, 1, 50, dtype=np.float32)
    assert alike(x, x * np.float32(1 + 1e-6))
    assert not alike(x, x + np.float32(0.1))
    assert not alike(np.array([1, 2]), np.array([1, 3]))
    assert alike(np.array([np.nan, np.inf]), np.array([np.nan, np.inf]))
    assert not alike(np.array([np.nan]), np.array([1.0]))
