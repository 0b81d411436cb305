"""Entry points of installed packages do what the page for their users says."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

from tests.compat.packages.outcomes import FILE, MODULES, RIGHT, checks, outcome, version

RECORDED = json.loads(FILE.read_text(encoding="utf-8"))


def name_of(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


@pytest.mark.parametrize("module", MODULES, ids=name_of)
def test_the_file_holds_every_entry_point(module: ModuleType) -> None:
    results = RECORDED[name_of(module)]["results"]
    assert results.keys() == checks(module).keys(), "run `python -m tests.compat.packages.outcomes`"


@pytest.mark.parametrize("package", sorted({module.PACKAGE for module in MODULES}))
def test_most_entry_points_are_right(package: str) -> None:
    results = [x for kept in RECORDED.values() if kept["package"] == package for x in kept["results"].values()]
    assert results.count(RIGHT) >= 0.9 * len(results)


@pytest.mark.slow
@pytest.mark.parametrize("module", MODULES, ids=name_of)
@pytest.mark.filterwarnings("default")
def test_entry_points(module: ModuleType, triton: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if version(module) is None:
        pytest.skip(f"could not import '{module.PACKAGE}'")
    monkeypatch.chdir(tmp_path)  # unsloth writes files where it is
    found = {name: outcome(check)[0] for name, check in checks(module).items()}
    assert found == RECORDED[name_of(module)]["results"]


def test_an_outcome_is_a_result_with_launches() -> None:
    """A function that falls back to torch is not right: nothing of Triton was tried."""
    assert outcome(lambda: None) == ("no kernel was launched", 0)

    def wrong() -> None:
        raise AssertionError("error 1 where values reach 2\nand more")

    assert outcome(wrong) == ("AssertionError: error 1 where values reach 2", 0)
