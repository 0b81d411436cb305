"""What torch computes beside the operators of the library is the same."""

from __future__ import annotations

import pytest

from benchmarks.library import SHOWN, TOLERANCE, build
from benchmarks.peers import VARIABLE, limited_threads
from benchmarks.runner import OURS, check
from pypto.library import rows


@pytest.mark.torch
@pytest.mark.parametrize(("name", "dtype"), SHOWN)
def test_peer_computes_the_same(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv(VARIABLE, "torch")
    with limited_threads(1):
        case = build(rows[name], dtype, "small")
        errors, failed = check(case, {OURS: case.ours, "torch": case.peers["torch"]}, TOLERANCE)
    assert failed == {}
    assert errors.keys() == {OURS, "torch"}
