"""Tuning as it is used: three kernels over 40 configurations each, with a budget, an interrupt, and a second run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.jobs import ROOT

BUDGET = 0.1  # of the program's own clock, which moves by a millisecond with each look at it
KERNELS = ("add_one", "scaled", "product")


def told(folder: Path, *arguments: str) -> tuple[list[dict[str, Any]], str]:
    """What the program told about each kernel, and what it wrote beside that; it has to end well."""
    env = {**os.environ, "PYPTO_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "reliability" / "tuned.py"), *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr


def test_each_search_ends_with_its_time_and_is_found_by_the_next_process(tmp_path: Path) -> None:
    """By the clock of the program, so that nothing else on the machine matters."""
    (first, _), (second, _) = told(tmp_path, str(BUDGET)), told(tmp_path, str(BUDGET))
    assert [line["kernel"] for line in first] == [line["kernel"] for line in second] == list(KERNELS)
    assert all(line["right"] for line in (*first, *second))
    assert all(line["rows"] == 40 and 2 <= line["tried"] < 40 for line in first)
    assert all(BUDGET < line["seconds"] < BUDGET + 0.05 for line in first), "one candidate more, and the last round"
    assert all(line["rows"] == 0 for line in second), "a search was made again"
    assert [line["best"] for line in first] == [line["best"] for line in second]


@pytest.mark.parametrize(("how", "runs"), [("seen", 17), ("lost", 3)])
def test_ctrl_c_ends_one_search_with_what_it_knows(how: str, runs: int, tmp_path: Path) -> None:
    """Also where Python throws the exception away, since a finaliser ran."""
    lines, said = told(tmp_path, str(BUDGET), str(runs), how)
    assert [line["kernel"] for line in lines] == list(KERNELS)
    assert all(line["right"] for line in lines)
    assert [line["interrupted"] for line in lines] == [False, True, False]
    assert not said
