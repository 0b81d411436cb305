"""The hashes of all that is generated: the same everywhere, complete, and different where a text is."""

from __future__ import annotations

import os
import re
import runpy
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.simulate import function_of
from tests.backends_ascend import test_every_op
from tests.conformance.processes import ROOT, python
from tests.conformance.sources import define
from tests.house import texts
from tests.house.recording import SOURCES, Recorded, recording

FEW = "conformance/[ls]*_[bp]*"  # a layer norm backward, a softmax by pointers
HERE = "from tests.house.texts import texts; print(*sorted(texts('conformance', 0, 1, {!r})), sep='\\n')"


@pto.jit
def twice(x, out):
    out[:] = x[:] * 2


def recorded(function: Any = twice.function) -> Recorded:
    with recording(runs=False) as recorder:
        pto.jit(function).compile(np.ones(8, np.float32), np.ones(8, np.float32))
    return recorder.all()[0]


def test_they_do_not_depend_on_hash_seeds_or_folders(tmp_path: Path) -> None:
    found = {python("-c", HERE.format(FEW), PYTHONHASHSEED=s, PYPTO_CACHE_DIR=str(tmp_path / s)) for s in ("0", "77")}
    assert len(found) == 1
    lines = found.pop().splitlines()
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines)
    for name in (*texts.CPUS, *texts.CHIPS):
        assert any(f" {name} plain " in line for line in lines)
    names = {line.split(" ")[0] for line in lines}
    for kernel in names:
        count = sum(line.startswith(f"{kernel} ") and " llvm " in line for line in lines)
        assert count == len(texts.CPUS) * len(texts.MODES)


def test_what_a_chip_refuses_has_the_message() -> None:
    name, case = next((str(c), c) for c in test_every_op.CASES if str(c) in test_every_op.REFUSED)
    kernel = define(case.text, name=name)
    with recording(runs=False) as recorder:
        function_of(kernel, kernel.signature.bind(tuple(case.arguments()[0]), {}))
    (found,) = recorder.all()
    assert [line.split(" ")[:4] for line in texts.lines(found, name, "ascend950", "plain")] == [
        [name, "ascend950", "plain", "refused"]
    ]
    assert len(texts.lines(found, name, "aarch64", "plain")) == 4


def test_folders_are_no_part_of_a_text(tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.py"
    file.write_text("import pypto as pto\n\n\n@pto.jit\ndef copy(x, out):\n    out[:] = x[:]\n", encoding="utf-8")
    kernel = recorded(runpy.run_path(str(file))["copy"].function)
    assert kernel.built.loc.user.file == str(file)
    assert texts.digest(f"// {ROOT}/a.py:3 {file}:4", kernel) == texts.digest("// a.py:3 elsewhere.py:4", kernel)
    assert texts.digest("// a.py:3 elsewhere.py:5", kernel) != texts.digest("// a.py:3 elsewhere.py:4", kernel)


def test_a_recorded_kernel_is_what_is_compiled() -> None:
    """Recording changes nothing where kernels run, and nothing is run where they do not."""
    x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
    with recording(runs=False):
        pto.jit(twice.function)[1](x, out)
    assert not out.any()
    with recording(runs=True) as recorder:
        pto.jit(twice.function)[1](x, out)
    assert (out == 2).all()
    assert [kernel.name for kernel in recorder.all()] == ["twice#1"]


def test_every_tutorial_and_suite_is_a_source() -> None:
    stems = {path.stem for path in (ROOT / "tutorials").glob("[0-9]*.py")}
    assert {f"tutorials/{stem}" for stem in stems} | {"conformance", "benchmarks", "guide", "ascend"} == SOURCES.keys()


def test_patterns_choose_sources() -> None:
    def sources(pattern: str) -> set[str]:
        return {source for source, *_ in texts.tasks(pattern)}

    assert sources("*") == SOURCES.keys()
    assert sources("conformance/soft*") == {"conformance"}
    assert sources("tutorials/0[12]*") >= {"tutorials/01_vector_add", "tutorials/02_fused_softmax"}
    assert sources("nothing") == set()


def test_processes_have_settings_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYPTO_LEVEL", "x86-64-v2")
    before = dict(os.environ)
    with texts.settings("folder"):
        assert os.environ["PATH"] == before["PATH"]
        assert "PYPTO_LEVEL" not in os.environ
        assert os.environ["PYPTO_CACHE_DIR"] == "folder"
    assert dict(os.environ) == before


def test_differences_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    old = ["a v3 plain abi 11", "a v3 plain llvm 12", "b v3 plain llvm 13"]
    new = ["a v3 plain abi 11", "a v3 plain llvm 14", "c v3 plain llvm 15"]
    for name in ("old.txt", "old.gz"):
        texts.write(tmp_path / name, old)
        assert texts.read(tmp_path / name) == old
        monkeypatch.setattr(texts, "generate", lambda *given: new)
        monkeypatch.setattr(sys, "argv", ["texts", "--compare", str(tmp_path / name)])
        assert texts.main() == 1
        said = capsys.readouterr().out
        assert re.findall(r"^(\S+) v3 plain llvm: (.*)$", said, re.MULTILINE) == [
            ("a", "12 → 14"), ("b", "13 → not there"), ("c", "not there → 15"),
        ]  # fmt: skip
        monkeypatch.setattr(texts, "generate", lambda *given: old)
        assert texts.main() == 0


def test_a_changed_text_has_another_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, real = recorded(), texts.lower

    def before() -> list[str]:
        return texts.lines(kernel, "x", "x86-64-v3", "checked")

    same = before()
    assert before() == same
    monkeypatch.setattr(texts, "lower", lambda *given: replace(real(*given), text="other", scratch_bytes=64))
    changed = texts.differences(same, before())
    assert [line.split(" ")[3].rstrip(":") for line in changed] == ["llvm", "scratch"]
