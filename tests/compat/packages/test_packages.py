"""Entry points of installed packages do what the page for their users says."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")

from tests.compat.packages import warm_start
from tests.compat.packages.outcomes import FILE, MODULES, RIGHT, checks, outcome, version
from tests.house.measure import ROOT
from tests.patience import limit

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


@pytest.mark.slow
def test_with_an_exported_cache_vllms_kernels_start_warm(tmp_path: Path) -> None:
    """The sampler and Mamba2's kernels compile nothing in a second home, into which the first one's cache came."""
    if importlib.util.find_spec("vllm") is None:
        pytest.skip("could not import 'vllm'")

    def said(home: str, module: str, *words: str) -> str:
        (tmp_path / home).mkdir(exist_ok=True)
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYPTO_", "XDG_"))}
        env = {**kept, "HOME": str(tmp_path / home), "PYTHONPATH": str(ROOT)}
        call = [sys.executable, "-W", "ignore", "-m", module, *words]
        done = subprocess.run(call, env=env, capture_output=True, text=True, check=False, timeout=limit(200))
        assert done.returncode == 0, done.stderr
        return done.stdout.splitlines()[-1]

    archive = str(tmp_path / "kernels.zip")
    compiled = int(said("first", warm_start.__name__).removesuffix(" modules compiled"))
    assert compiled >= 8
    said("first", "pypto", "cache", "export", archive)
    said("second", "pypto", "cache", "import", archive)
    assert said("second", warm_start.__name__) == "0 modules compiled"
