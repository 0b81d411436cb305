"""Tuning a fused function: what is found stays, also for other processes, and never changes a result or an array."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim
from pypto.compile import session
from pypto.errors.graph import NotTuned
from pypto.graph.codegen.kernel_text import texts_of
from pypto.graph.codegen.tile_candidates import tile_candidates, tile_sizes, varied
from pypto.graph.codegen.writer import KernelText
from pypto.graph.plan.pipeline import groups_of, surroundings_of
from pypto.graph.plan.plan_text import parse_plan, plan_text
from pypto.graph.tune import candidate_run, tune
from pypto.runtime.disk_cache.cache import Cache

RNG = np.random.default_rng(3)
X, W = RNG.standard_normal((200, 96), np.float32), RNG.standard_normal((96, 160), np.float32)


def layer(x: Any, w: Any) -> Any:
    y = np.tanh(x @ w)
    return y, (y * y).sum(axis=0)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """A disk cache of its own."""
    made = Cache(tmp_path, "rw")
    monkeypatch.setattr(session(), "cache", made)
    monkeypatch.setattr(session(), "settings", replace(session().settings, cache="rw"))
    yield made


@pytest.fixture
def second_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tuning in which the second candidate of every kernel is the fastest, whatever the clock says."""
    monkeypatch.setattr(tune.Tuner, "searched", lambda self, job, configs, *more: configs[min(1, len(configs) - 1)])
    monkeypatch.setattr(tune.Tuner, "compared", lambda self, tuned: (2.0, 1.0))


def names(plan: Any) -> list[str]:
    return [kernel.name for kernel in plan.kernels]


def equal(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_a_function_is_tuned_and_computes_the_same() -> None:
    fused = pto.fuse(layer)
    wanted = fused(X, W)
    report = fused.tune(X, W, budget=0.5)
    assert report.sections
    assert all(any(row.chosen for row in section.rows) for section in report.sections)
    assert not any(row.status == "wrong" for section in report.sections for row in section.rows)
    assert str(report).startswith("tuning of layer: ")
    assert "<table" in report._repr_html_()
    equal(fused(X, W), wanted)


def test_what_was_found_is_used_and_kept(second_best: None) -> None:
    fused = pto.fuse(layer)
    wanted, before = fused(X, W), names(fused.plan(X, W))
    report = fused.tune(X, W)
    tuned = fused.plan(X, W)
    assert report.kept
    assert names(tuned) != before
    assert "blocking=pto.Blocking(" in "".join(kernel.source for kernel in tuned.kernels)
    equal(fused(X, W), wanted)
    again = pto.fuse(layer)
    assert again.plan(X, W).is_compiled
    assert names(again.plan(X, W)) == names(tuned)
    equal(again(X, W), wanted)
    text = plan_text(tuned)
    assert plan_text(parse_plan(text)) == text


def test_a_function_with_the_same_kernels_on_other_lines_uses_what_was_found(second_best: None) -> None:
    fused = pto.fuse(layer)
    fused.tune(X, W)

    def moved(x: Any, w: Any) -> Any:
        y = np.tanh(x @ w)
        return y, (y * y).sum(axis=0)

    plan = pto.fuse(moved).plan(X, W)
    assert not plan.is_compiled
    assert [k.kernel.options.blocking for k in plan.kernels] == [
        k.kernel.options.blocking for k in fused.plan(X, W).kernels
    ]
    assert [step.grid for step in plan.steps] == [step.grid for step in fused.plan(X, W).steps]
    equal(pto.fuse(moved)(X, W), layer(X, W))


def test_arrays_of_the_user_stay_as_they_are() -> None:
    def update(x: Any, w: Any) -> None:
        x *= 2
        x[1:] += w[0, 0]

    x = X.copy()
    fused = pto.fuse(update)
    fused.tune(x, W, budget=0.2)
    np.testing.assert_array_equal(x, X)
    fused(x, W)
    wanted = X * 2
    wanted[1:] += W[0, 0]
    np.testing.assert_allclose(x, wanted, rtol=1e-6)


def test_a_candidate_that_computes_something_else_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    right = tune.variant_text

    def wrong(program: Any, chosen: Any, precision: str) -> KernelText:
        text = right(program, chosen, precision)
        if dict(chosen) == tile_sizes(program):
            return text
        return replace(text, source=text.source.replace("pto.tanh(", "pto.sin("))

    monkeypatch.setattr(tune, "variant_text", wrong)
    fused = pto.fuse(lambda x: np.tanh(x) + 1)
    report = fused.tune(X, budget=0.5)
    rows = report.sections[0].rows
    assert not report.kept
    assert {row.reason for row in rows if row.status == "failed"} == {"it computes something else than the plan"}
    np.testing.assert_allclose(fused(X), np.tanh(X) + 1, rtol=1e-5, atol=1e-6)


def test_a_plan_that_is_slower_as_a_whole_does_not_stay(second_best: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune.Tuner, "compared", lambda self, tuned: (1.0, 1.2))
    fused = pto.fuse(layer)
    before = names(fused.plan(X, W))
    assert "stays as it was" in str(fused.tune(X, W))
    assert names(fused.plan(X, W)) == before
    assert names(pto.fuse(layer).plan(X, W)) == before


def test_a_plan_with_dimensions_by_name_is_tuned_for_all_sizes(second_best: None) -> None:
    fused = pto.fuse(layer, dims={"x": (Dim("n", 1, 400), None)})
    assert fused.tune(X, W).kept
    for n in (1, 7, 200):
        equal(fused(X[:n], W), layer(X[:n], W))


@pytest.mark.parametrize("budget", [0, -1.0, float("nan")])
def test_a_budget_is_above_zero(budget: float) -> None:
    with pytest.raises(NotTuned, match="leaves no time"):
        pto.fuse(layer).tune(X, W, budget=budget)


def test_kernels_that_are_not_compiled_are_not_tuned() -> None:
    with pto.interpreter(), pytest.raises(NotTuned, match="not compiled"):
        pto.fuse(layer).tune(X, W)


def test_the_first_candidate_is_what_was_decided_on() -> None:
    fused = pto.fuse(layer)
    fused(X, W)
    traced = fused.versions[0].traced
    for group in groups_of(traced.graph, surroundings_of(traced)[0]).groups:
        first, *others = tile_candidates(group.program)
        assert first == tile_sizes(group.program)
        assert varied(group.program, first) == group.program
        assert all(varied(group.program, other) != group.program for other in others)


SCRIPT = """
import numpy as np, pypto as pto
from pypto.graph.tune import tune
tune.Tuner.searched = lambda self, job, configs, *more: configs[1]
tune.Tuner.compared = lambda self, tuned: (2.0, 1.0)
f = pto.fuse(lambda x: np.exp(x) * 2)
x = np.ones((300, 200), np.float32)
print(f.plan(x).is_compiled, f.plan(x).steps[0].grid[0])
if not f.plan(x).is_compiled:
    f.tune(x)
print(f.plan(x).steps[0].grid[0], float(f(x)[0, 0]))
"""


def test_a_second_process_uses_the_tuned_sizes(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    env = {**os.environ, "PYPTO_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_CACHE": "rw"}
    runs = [subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, check=True) for _ in "ab"]
    first, second = (run.stdout.split() for run in runs)
    assert (first[0], second[0]) == ("False", "True")
    assert first[1] != first[2]
    assert second[1] == second[2] == first[2]
    assert first[3] == second[3]


def test_a_trial_runs_on_memory_of_its_own() -> None:
    fused = pto.fuse(lambda x: np.exp(x) + 1)
    fused(X)
    version = fused.versions[0]
    frame, times = tune.traced_run(version.plan, [X], {})
    (text,) = texts_of(groups_of(version.traced.graph, surroundings_of(version.traced)[0]))
    assert text is not None
    trial = candidate_run.KernelTrial.of(text, frame)
    ((_, output, is_filled),) = trial.arrays()
    assert is_filled and not any(np.shares_memory(output, array) for array in frame.arrays.values())
    trial.prepare(0)
    assert not output.any()
    trial.call()
    np.testing.assert_allclose(output, np.exp(X).reshape(output.shape) + 1, rtol=1e-5)
    assert len(times) == 1
