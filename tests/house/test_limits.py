"""Limits of time in tests follow the machine (`tests/patience.py`), so that other work on it fails none of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import patience
from tests.house.measure import ROOT
from tests.patience import IDLE, SPARE, limit

WAITING = frozenset({"communicate", "join", "wait", "result"})  # their first argument may be seconds
LIMITED = frozenset({"timeout", "startup_timeout"})
OTHERS = frozenset({"Toolchain"})  # a limit of ours, that a test wants to be met


def fixed(tree: ast.AST) -> Iterator[int]:
    """Lines with a call that has a fixed number of seconds as its limit."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or name_of(node.func) in OTHERS:
            continue
        given = [keyword.value for keyword in node.keywords if keyword.arg in LIMITED]
        given += node.args[:1] if isinstance(node.func, ast.Attribute) and node.func.attr in WAITING else []
        if any(is_number(value) for value in given):
            yield node.lineno


def name_of(function: ast.expr) -> str:
    return function.id if isinstance(function, ast.Name) else ""


def is_number(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


@pytest.mark.parametrize("text", ["run(x, timeout=60)", "job.communicate(timeout=1.5)", "thread.join(60)", "p.wait(9)"])
def test_a_fixed_limit_is_found(text: str) -> None:
    assert list(fixed(ast.parse(text))) == [1]


@pytest.mark.parametrize("text", ["run(x, timeout=limit(60))", "thread.join()", "thread.join(limit(9))", "','.join(x)"])
def test_a_limit_that_follows_the_machine_is_none(text: str) -> None:
    assert not list(fixed(ast.parse(text)))


def test_no_test_has_a_fixed_limit() -> None:
    files = sorted((ROOT / "tests").rglob("*.py"))
    found = [f"{place(path)}:{line}" for path in files for line in fixed(ast.parse(path.read_text(encoding="utf-8")))]
    assert len(files) > 300 and not found, "write `timeout=limit(...)`, with `limit` of tests.patience"


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize(("measured", "times"), [(0.5 * IDLE, 1), (IDLE, 1), (20 * IDLE, 20)])
def test_a_limit_grows_with_what_a_start_takes(measured: float, times: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patience, "start_up", lambda minute: measured)
    assert limit(60) == pytest.approx(60 * SPARE * times)


def test_what_hypothesis_runs_has_no_deadline() -> None:
    """By default a try may take 0.2 seconds, and drawing its values not much longer."""
    assert settings.default.deadline is None
    assert HealthCheck.too_slow in settings.default.suppress_health_check


def test_a_start_is_measured() -> None:
    assert 0.01 < patience.start_up(-1) == patience.start_up(-1)
