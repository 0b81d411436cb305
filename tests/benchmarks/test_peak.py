"""Peak memory of a call: what it allocates for a while counts, and so does where its result lies."""

from __future__ import annotations

import subprocess
from typing import Any

import numpy as np
import pytest

from benchmarks import peak
from benchmarks.runner import OURS, Case, Missing

MEGABYTE = 1 << 20
needs_proc = pytest.mark.skipif(not peak.RESET.exists(), reason="the system does not note the highest use of memory")


@needs_proc
def test_a_temporary_counts() -> None:
    got = peak.extra(lambda: np.ones(64 * MEGABYTE, np.int8).sum())
    assert 60 * MEGABYTE < got < 100 * MEGABYTE


@needs_proc
def test_the_output_counts_once() -> None:
    out = np.ones(16 * MEGABYTE, np.int8)
    case = Case(lambda: out, {"numpy": lambda: out + 1}, lambda: out, [out])
    ours, numpy = peak.measure(case, OURS), peak.measure(case, "numpy")
    assert ours is not None and numpy is not None
    assert 16 * MEGABYTE <= ours < 20 * MEGABYTE
    assert 15 * MEGABYTE < numpy < 40 * MEGABYTE


def test_parts_of_a_tuple_are_counted() -> None:
    a, b, c = (np.zeros(8, np.int8) for _ in range(3))
    assert peak.shared((a, b[2:4], 3), (a, b, c)) == 16


def test_who_is_missing_has_no_peak() -> None:
    case = Case(Missing("gone"), {}, lambda: 0)
    assert peak.measure(case, OURS) is None
    assert peak.measure(case, "torch") is None


def test_a_process_that_fails_gives_no_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    from types import SimpleNamespace

    from benchmarks.elementwise import ROWS

    outputs: list[Any] = ["4096", "null"]

    def run(command: Any, **_options: Any) -> Any:
        return SimpleNamespace(returncode=0, stdout=outputs.pop(0))

    monkeypatch.setattr(subprocess, "run", run)
    assert peak.peaks("rows", ROWS[0], 1) == {OURS: 4096.0}
