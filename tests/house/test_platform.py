"""Where pypto refuses to be installed or imported, and how it notices that its name is taken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from pypto._platform import SUPPORTED, Host, cann_conflict, check_platform, refusal, suspicious
from tests.house.measure import ROOT

GOOD = Host((3, 12), "cpython", 64, "linux", "x86_64", musl=False)


@pytest.mark.parametrize("system, machine", SUPPORTED)
def test_supported_platforms_pass(system: str, machine: str) -> None:
    assert refusal(GOOD._replace(system=system, machine=machine)) is None


def test_this_machine_passes() -> None:
    check_platform()
    assert refusal(Host.current()) is None


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"version": (3, 10)},
            "pypto-jit needs Python 3.11 or later and this is Python 3.10: make an environment with a newer Python.",
        ),
        (
            {"implementation": "pypy"},
            "pypto-jit needs CPython and this is pypy: make an environment with CPython.",
        ),
        (
            {"bits": 32},
            "pypto-jit needs a 64-bit Python and this one has 32 bits: install the 64-bit build of Python.",
        ),
        (
            {"machine": "riscv64"},
            "pypto-jit runs on Linux with glibc (x86-64, aarch64), macOS (arm64) and Windows (x86-64, arm64), and this "
            "is linux on riscv64: use one of those, for instance in a container or a virtual machine.",
        ),
        (
            {"musl": True},
            "pypto-jit runs on Linux with glibc (x86-64, aarch64), macOS (arm64) and Windows (x86-64, arm64), and this "
            "is linux with musl on x86_64: use one of those, for instance in a container or a virtual machine.",
        ),
    ],
)
def test_import_stops_with_a_sentence(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ImportError) as caught:
        check_platform(GOOD._replace(**change))
    assert str(caught.value) == sentence


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of which only the platform check exists."""
    (tmp_path / "pypto").mkdir()
    shutil.copy(ROOT / "pypto" / "_platform.py", tmp_path / "pypto")
    return tmp_path


def wheel_hook(root: Path) -> Any:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
    from hatchling.plugin.utils import load_plugin_from_script

    file = ROOT / "hatch_build.py"
    hook: Any = load_plugin_from_script(str(file), file.name, BuildHookInterface, "build_hook")
    return hook(str(root), {}, None, None, str(root / "dist"), "wheel")


def test_build_stops_with_the_same_sentence(checkout: Path) -> None:
    file = checkout / "pypto" / "_platform.py"
    file.write_text(file.read_text(encoding="utf-8").replace("OLDEST: Final = (3, 11)", "OLDEST: Final = (9, 0)"))
    with pytest.raises(SystemExit, match=r"pypto-jit needs Python 9\.0 or later and this is Python 3\.\d+: make"):
        wheel_hook(checkout).initialize("standard", {"force_include": {}})


@pytest.mark.parametrize("exists", [False, True])
def test_build_ships_the_runtime_sources_once_they_exist(checkout: Path, exists: bool) -> None:
    if exists:
        (checkout / "runtime").mkdir()
    data: dict[str, dict[str, str]] = {"force_include": {}}
    wheel_hook(checkout).initialize("standard", data)
    assert data["force_include"] == ({"runtime": "pypto/_runtime_sources"} if exists else {})


def install(folder: Path, name: str, files: tuple[str, ...] = ()) -> None:
    """What pip leaves behind for a distribution, as far as detection reads it."""
    info = folder / f"{name.replace('-', '_')}-0.2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.2.0\n", encoding="utf-8")
    for file in files:
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).touch()
    (info / "RECORD").write_text("".join(f"{file},,\n" for file in files), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "files"),
    [("pypto", ()), ("PyPTO", ()), ("cann-pypto", ("pypto/__init__.py", "pypto/pypto_impl.so"))],
)
def test_another_pypto_is_named_with_the_remedy(tmp_path: Path, name: str, files: tuple[str, ...]) -> None:
    install(tmp_path, "pypto-jit", ("pypto/__init__.py",))
    install(tmp_path, name, files)
    assert cann_conflict(metadata.distributions(path=[str(tmp_path)])) == (
        f"the distribution {name} 0.2.0 is installed in this environment too, and it is imported as `pypto` just as "
        "pypto-jit is: give each a virtual environment of its own, or remove both with "
        f"`pip uninstall {name} pypto-jit` and then install pypto-jit again."
    )


def test_our_own_distribution_and_strangers_are_no_conflict(tmp_path: Path) -> None:
    install(tmp_path, "pypto-jit", ("pypto/__init__.py",))
    install(tmp_path, "numpy", ("numpy/__init__.py",))
    (tmp_path / "half_removed-1.0.dist-info").mkdir()
    assert cann_conflict(metadata.distributions(path=[str(tmp_path)])) is None


def test_a_glance_at_the_folders_finds_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "pypto", ("pypto/__init__.py",))
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "pip uninstall pypto pypto-jit" in (cann_conflict() or "")


def test_a_glance_is_enough_where_nothing_is_wrong(tmp_path: Path) -> None:
    install(tmp_path, "pypto-jit")
    path = [str(tmp_path), str(tmp_path / "missing"), ""]
    assert not suspicious(path, str(tmp_path))
    (tmp_path / "pypto_impl.cpython-311-x86_64-linux-gnu.so").touch()
    assert suspicious(path, str(tmp_path))


def test_importing_pypto_beside_cann_warns(tmp_path: Path) -> None:
    install(tmp_path, "pypto", ("pypto/__init__.py",))
    (tmp_path / "pypto" / "__init__.py").write_text("raise ImportError('this is CANN')", encoding="utf-8")
    path = os.pathsep.join((str(ROOT), str(tmp_path)))
    command = [sys.executable, "-W", "always", "-c", "import pypto; pypto.jit"]
    result = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True, cwd=tmp_path.parent
    )
    assert "PyptoWarning: the distribution pypto 0.2.0 is installed in this environment too" in result.stderr
    assert "pip uninstall pypto pypto-jit" in result.stderr


def test_importing_pypto_alone_warns_of_nothing() -> None:
    command = [sys.executable, "-W", "error", "-c", "import pypto"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stderr == ""
