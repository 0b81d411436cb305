"""Commands that tell of the machine and the language, and those that give files to begin with."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import pypto as pto
from pypto._platform import install_command
from pypto.ops.table import ROWS
from tests.cli.commands import answer, called
from tests.house.measure import ROOT
from tests.patience import limit


def test_ops_lists_the_table() -> None:
    said = answer("ops")["ops"]
    assert [row["name"] for row in said] == [row.name for row in ROWS if row.public]
    assert answer("ops", "exp")["ops"][0]["cpu"] == "yes"


def test_doctor_tells_of_everything_that_it_looks_for() -> None:
    found = {f["what"]: f for f in answer("doctor")["findings"]}
    assert found.keys() >= {"python", "cpu", "blocking", "threads", "disk cache", "C++ compiler", "CANN", "llvmlite"}
    assert all(f["found"] or f["way"] for f in found.values())
    for name in ("numpy", "llvmlite"):
        assert found[name]["found"].startswith(metadata.version(name))
    assert re.search(r", with LLVM \d+\.\d+\.\d+$", found["llvmlite"]["found"])
    assert found["pypto"]["found"] == f"{pto.__version__}, checkout, {ROOT / 'pypto'}"


def test_doctor_cuts_no_path_and_no_command() -> None:
    lines = called("doctor").stdout.splitlines()
    assert f"python        CPython {platform.python_version()}, {sys.executable}" in lines
    missing = [f for f in answer("doctor")["findings"] if not f["found"]]
    assert missing
    for finding in missing:
        assert f"{'':14}→ {finding['way']}" in lines


def test_doctor_gives_advice_that_works_from_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {f["what"]: f["way"] for f in answer("doctor")["findings"] if not f["found"]}
    wanted = install_command("torch")
    assert wanted == f'"{sys.executable}" -m pip install -e "{ROOT}[torch]"'
    assert missing.get("torch", wanted) == wanted
    monkeypatch.setattr("pypto._platform.PACKAGE", "/opt/python/site-packages/pypto")
    assert install_command("torch") == f'"{sys.executable}" -m pip install "pypto-jit[torch]"'


def doctor_with(cache: str) -> dict[str, str]:
    """What doctor says of a cache in a folder."""
    env = {**os.environ, "PYPTO_CACHE_DIR": cache, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-W", "ignore", "-m", "pypto", "doctor", "--json"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=limit(60))
    return next(f for f in json.loads(done.stdout)["findings"] if f["what"] == "disk cache")


def test_doctor_tells_of_a_cache_that_it_cannot_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder", encoding="utf-8")
    found = doctor_with(str(tmp_path / "file"))
    assert found["found"] == ""
    assert "is not the folder it should be" in found["way"]


@pytest.mark.skipif(not os.path.isdir("/proc"), reason="needs a folder that nobody can write to, root neither")
def test_doctor_does_not_call_a_cache_rw_that_cannot_be_written() -> None:
    found = doctor_with("/proc/pypto-cache")
    assert "/proc/pypto-cache, not writable: 0 entries" in found["found"]
    assert "nothing can be written to /proc" in found["way"]
    assert "PYPTO_CACHE_DIR" in found["way"]


def test_the_version() -> None:
    assert called("--version").stdout == f"pypto {pto.__version__}\n"
    assert re.fullmatch(r"\d+\.\d+\.\d+", pto.__version__)
    assert metadata.version("pypto-jit") == pto.__version__


def test_a_new_project_passes_its_own_tests(tmp_path: Path) -> None:
    assert called("new", "scaled_add", "--into", tmp_path).exit_code == 0
    env = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    for command in (["-m", "pytest", "-q", "-p", "no:cacheprovider"], ["tune.py"]):
        done = subprocess.run([sys.executable, *command], cwd=tmp_path / "scaled_add", env=env, capture_output=True,
                              text=True, check=False, timeout=limit(120))  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_commands_in_the_readme_of_a_new_project_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    called("new", "scaled_add", "--into", tmp_path)
    monkeypatch.chdir(tmp_path / "scaled_add")
    lines = Path("README.md").read_text(encoding="utf-8").splitlines()
    commands = [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("    pypto ")]
    assert [command[0] for command in commands] == ["run", "bench", "tune", "inspect"]
    for command in commands:
        result = called(*command)
        assert result.exit_code == 0, result.output
    assert Path("scaled_add.html").is_file()


@pytest.mark.parametrize("name", ["../up", "a b", "class", "1st", 'quo"te', "*/", "a\nb", ""])
def test_a_name_that_is_none_makes_nothing(tmp_path: Path, name: str) -> None:
    result = called("new", "--into", tmp_path / "there", "--", name)
    assert result.exit_code == 2
    assert "is no Python name" in result.output
    assert list(tmp_path.rglob("*")) == []


def test_a_new_project_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    result = called("new", "mine", "--into", tmp_path)
    assert result.exit_code == 2
    assert "is there already" in result.output


def test_tutorials_are_copied_and_what_is_there_stays(tmp_path: Path) -> None:
    mine = tmp_path / "01_vector_add.py"
    mine.write_text("mine", encoding="utf-8")
    said = answer("tutorials", "copy", tmp_path)
    assert said["kept"] == 1
    assert mine.read_text(encoding="utf-8") == "mine"
    assert (tmp_path / "02_fused_softmax.py").read_bytes() == (ROOT / "tutorials/02_fused_softmax.py").read_bytes()
    assert answer("tutorials", "list")["tutorials"].keys() >= {"01_vector_add.py", "06_sentence_encoder.py"}


@pytest.mark.parametrize("command", [(), ("cache",), ("tutorials",)])
def test_help_is_shown_where_no_command_is_given(command: tuple[str, ...]) -> None:
    assert "Usage:" in called(*command).output


def test_every_command_of_a_kernel_shows_an_example() -> None:
    for name in ("run", "compile", "bench", "explain", "inspect", "tune"):
        assert "pypto " + name in called(name, "--help").stdout.replace("Usage: root", "")
