"""Every diagnostic has a wrong program, which gives it, and a right one, which runs."""

from __future__ import annotations

import linecache
import shutil
import warnings
from pathlib import Path

import pytest

from pypto.debug.codes import codes, subclasses
from pypto.errors import Diagnostic
from pypto.errors.examples import PRELUDE

KINDS = {kind.code: kind for kind in subclasses(Diagnostic) if "code" in vars(kind)}
SIMULATED = ("E602", "E603", "E604", "E605", "E606", "E607", "E609", "E704")
WITH_TORCH = (
    "E315", "E316", "E319", "E320", "E323", "E324", "E325", "E326", "E336", "E337", "E351", "E352", "E353", "E369",
    "E389", "E399",
)  # fmt: skip
LIBRARIES = dict.fromkeys(WITH_TORCH, "torch")
OURS = list(codes())
PROGRAMS = [pytest.param(code, marks=[pytest.mark.torch] if code in LIBRARIES else []) for code in OURS]
LINKED = ("E332", "E333", "E334", "E335")


def run(code: str, program: str) -> None:
    file, text = f"{code}.py", f"{PRELUDE}\n{program}"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), {"__name__": code})


def skip_without_compiler(code: str) -> None:
    if code in SIMULATED and not shutil.which("g++"):
        pytest.skip("the simulated device needs g++")
    if code in LINKED and not shutil.which("cc"):
        pytest.skip("a shared library needs a C compiler")
    if code in LIBRARIES:
        pytest.importorskip(LIBRARIES[code])


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_wrong_program_gives_the_code(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    skip_without_compiler(code)
    monkeypatch.delenv("ASCEND_HOME_PATH", raising=False)
    with warnings.catch_warnings(), pytest.raises(Diagnostic) as caught:
        warnings.simplefilter("error")
        run(code, KINDS[code].example.wrong)
    assert (caught.value.code, type(caught.value)) == (code, KINDS[code])


@pytest.mark.parametrize("code", PROGRAMS)
def test_the_right_program_runs(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    skip_without_compiler(code)
    example = KINDS[code].example
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(code, example.right)
    assert example.right != example.wrong
    capsys.readouterr()  # what it prints is its own


def test_no_example_is_long() -> None:
    lengths = {code: max(map(len, (kind.example.wrong, kind.example.right))) for code, kind in KINDS.items()}
    assert not {code for code, length in lengths.items() if length > 700 and code in OURS}
    assert Path(__file__).parent.name == "errors"
