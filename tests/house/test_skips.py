"""The list of reasons for which tests may be skipped, and what a run says of others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.processes import ROOT
from tests.skips import Skip, allowed, violations

ROWS = (Skip("needs g\\+\\+", 2, "g++"), Skip("no .*", 1))
SKIPPED = """
import pytest

def test_nothing():
    pytest.skip("it fails here")

def test_names_it(library="torch"):
    pytest.skip(f"could not import '{library}': No module named '{library}'")

def test_is_seen():
    pytest.skip("could not import 'torch'")
    import torch
"""


def test_the_list_is_read() -> None:
    rows = allowed()
    assert {row.needs for row in rows} >= {"g++", "emulator", "torch"}
    assert all(row.at_most > 0 and re.compile(row.reason) for row in rows)
    assert not any(re.fullmatch(row.reason, "it fails here") for row in rows)


@pytest.mark.parametrize(
    ("reasons", "required", "wrong"),
    [
        ([], [], ""),
        (["Skipped: needs g++", "needs g++", "no nm"], ["emulator"], ""),
        (["needs g++"] * 3, [], r"3 skipped, at most 2 may: needs g\\\+\\\+"),
        (["needs g++"], ["g++"], r"1 skipped, although this run has g\+\+: needs g\+\+"),
        (["it fails here"], [], "1 skipped for a reason that tests/skips.toml does not know: it fails here"),
    ],
)
def test_violations(reasons: list[str], required: list[str], wrong: str) -> None:
    assert re.fullmatch(wrong, "\n".join(violations(reasons, ROWS, required)))


def test_a_run_fails_with_a_reason_that_is_not_listed(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_it.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "test_it.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED
    assert "1 skipped for a reason that tests/skips.toml does not know: it fails here" in done.stdout
    assert "test_it.py::test_names_it is skipped for want of torch, but has no marker `torch`" in done.stdout
    assert done.stdout.count("for want of torch") == 1
