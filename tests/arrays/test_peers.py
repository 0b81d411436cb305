"""scipy and scikit-learn take lazy arrays, and give lazy arrays of the same numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_scipy_and_scikit_learn_take_lazy_arrays() -> None:
    for package in ("scipy", "sklearn", "array_api_compat"):
        pytest.importorskip(package)
    command = [sys.executable, "-W", "ignore", "-m", "tests.arrays.peers"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not run.returncode, run.stderr
    results = json.loads(run.stdout.splitlines()[-1])
    assert len(results) == 40
    assert {name: said for name, said in results.items() if said != "right"} == {}
