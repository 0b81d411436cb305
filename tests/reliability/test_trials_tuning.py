"""Tuning as it is used: three kernels over 40 configurations each, with a budget, an interrupt, and a second run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.reliability.jobs import ROOT

BUDGET = 2.0
KERNELS = ("add_one", "scaled", "product")
SLACK = 20.0  # one compilation more than the budget, on a machine that does much else


@contextmanager
def started(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """The program; it has to end well."""
    env = {**os.environ, "PYPTO_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ROOT / "tests" / "reliability" / "tuned.py"), str(BUDGET)]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        yield process
    assert process.returncode == 0


def told(lines: Iterable[str]) -> list[dict[str, Any]]:
    """What the program told about each kernel."""
    return [json.loads(line) for line in lines if line.startswith("{")]


def whole(folder: Path) -> list[dict[str, Any]]:
    with started(folder) as process:
        assert process.stdout is not None
        return told(process.stdout)


def interrupted(folder: Path, runs: int) -> list[dict[str, Any]]:
    """The program with Ctrl-C after so many runs of trials of its second kernel."""
    lines: list[str] = []
    with started(folder) as process:
        assert process.stdout is not None
        while lines.count("trial\n") < runs:
            lines.append(process.stdout.readline())
            assert lines[-1], "the program has ended"
        process.send_signal(signal.SIGINT)
        lines += process.stdout
    return told(lines)


def test_each_search_ends_with_its_time_and_is_found_by_the_next_process(tmp_path: Path) -> None:
    first, second = whole(tmp_path), whole(tmp_path)
    assert [line["kernel"] for line in first] == [line["kernel"] for line in second] == list(KERNELS)
    assert all(line["right"] for line in (*first, *second))
    assert all(line["rows"] == 40 and line["tried"] >= 2 for line in first)
    assert all(line["seconds"] < BUDGET + SLACK for line in first)
    assert all(line["rows"] == 0 for line in second), "a search was made again"
    assert [line["best"] for line in first] == [line["best"] for line in second]


@pytest.mark.parametrize("runs", [3, 17])
def test_ctrl_c_ends_one_search_with_what_it_knows(runs: int, tmp_path: Path) -> None:
    lines = interrupted(tmp_path, runs)
    assert [line["kernel"] for line in lines] == list(KERNELS)
    assert all(line["right"] for line in lines)
    assert [line["interrupted"] for line in lines] == [False, True, False]
