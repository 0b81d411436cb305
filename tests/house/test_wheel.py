"""The wheel as a user gets it: built from the checkout, installed into an environment of its own, and tried there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house.measure import ROOT, python_files

# The editable install of the test environment must not be what the clean environment finds.
BESIDE = ("pypto/_runtime_sources/", "pypto/_tutorials/")  # what is no code of the package
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYPTO"))}


def run(*command: str | Path, cwd: Path, **env: str) -> str:
    """The output of a command; on failure its last lines are the message."""
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=CLEAN | env, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.fail(f"{command[0]} failed:\n{(done.stdout + done.stderr)[-4000:]}")
    return done.stdout


def python_of(folder: Path, *, with_pip: bool = False) -> Path:
    venv.create(folder, with_pip=with_pip, symlinks=os.name != "nt")
    return folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, cwd=ROOT)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def clean_python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A fresh environment with the wheel, which finds the dependencies in the folders of the running one."""
    python = python_of(tmp_path_factory.mktemp("clean"))
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, cwd=wheel.parent)
    (site,) = python.parents[1].rglob("site-packages")
    libraries = dict.fromkeys(sysconfig.get_path(kind) for kind in ("purelib", "platlib"))
    # Folders named in a .pth file come last, and their own .pth files (the editable install) are not read.
    (site / "dependencies.pth").write_text("\n".join(libraries), encoding="utf-8")
    yield python


def first_kernel(python: Path, folder: Path, **env: str) -> str:
    """The output of the first kernel in README.md, run with a disk cache of its own."""
    found = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None, "README.md shows no kernel"
    (folder / "first.py").write_text(found[1], encoding="utf-8")
    return run(python, "first.py", cwd=folder, XDG_CACHE_HOME=str(folder / "cache"), **env)


def test_wheel_is_pure_and_named_after_the_distribution(wheel: Path) -> None:
    assert re.fullmatch(r"pypto_jit-\d+\.\d+\.\d+-py3-none-any\.whl", wheel.name)


def test_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    data = (path for kind in ("*.ll", "*.c", "*.txt", "*.h", "*.pyi") for path in (ROOT / "pypto").rglob(kind))
    sources = [*python_files("pypto"), *data]
    package = {path.relative_to(ROOT).as_posix() for path in sources}
    shipped = {name for name in names if not name.startswith(("pypto_jit-", *BESIDE))}
    assert shipped == package | {"pypto/py.typed"}


def test_wheel_carries_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert "License-Expression: Apache-2.0" in archive.read(metadata).decode()
        (licence,) = (name for name in archive.namelist() if name.endswith("/LICENSE"))
        assert archive.read(licence) == (ROOT / "LICENSE").read_bytes()


def test_clean_environment_imports_the_wheel(clean_python: Path, tmp_path: Path) -> None:
    where = run(clean_python, "-c", "import pypto; print(pypto.__file__)", cwd=tmp_path).strip()
    assert Path(where).is_relative_to(clean_python.parents[1])


def test_clean_environment_runs_the_first_kernel(clean_python: Path, tmp_path: Path) -> None:
    assert first_kernel(clean_python, tmp_path) == "[ 998.  999. 1000.]\n"


def test_clean_environment_has_the_command(clean_python: Path, tmp_path: Path) -> None:
    command = clean_python.parent / ("pypto.exe" if os.name == "nt" else "pypto")
    assert "llvmlite" in run(command, "doctor", cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache"))
    run(command, "tutorials", "copy", "mine", cwd=tmp_path)
    assert (tmp_path / "mine" / "01_vector_add.py").is_file()
    run(command, "new", "scaled_add", cwd=tmp_path)
    assert (tmp_path / "scaled_add" / "scaled_add.py").is_file()


TYPED = """
import numpy as np
import pypto as pto
from pypto import library as lib


@pto.jit
def add(x: pto.tensor, y: pto.tensor, BLOCK: pto.constexpr) -> None:
    i = pto.program_id(0) * BLOCK
    y[i : i + BLOCK] = pto.maximum(x[i : i + BLOCK], 0.0) + pto.softmax(x[i : i + BLOCK])


@pto.fuse
def scaled(x: np.ndarray, factor: float = 2.0) -> np.ndarray:
    return x * factor


@pto.fuse(precision="tf32")
def doubled(x: np.ndarray) -> np.ndarray:
    return x * 2


x = np.ones((4, 8), np.float32)
add[(1,)](x, x, BLOCK=8)
reveal_type(scaled(x, factor=1.0))
reveal_type(doubled(x))
reveal_type(scaled(x, out=x))
reveal_type(lib.rms_norm(x, x[0]))
reveal_type(lib.quantize_per_token(x))
reveal_type(lib.scatter_update.check())
scaled(x, 1.0, 2.0)
scaled("x")
lib.rms_norm(x)
lib.rms_norm(x, x[0], epsilon=1.0)
pto.program_ids(0)
lib.rmsnorm(x)
"""
REVEALED = ("ndarray", "ndarray", "ndarray", "float", "tuple[numpy.ndarray[", "Sequence[Any]")
REFUSED = ("call-overload",) * 4 + ("attr-defined",) * 2


def test_type_checkers_know_names_arguments_and_results(clean_python: Path, tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    (tmp_path / "typed.py").write_text(TYPED, encoding="utf-8")
    command = [sys.executable, "-m", "mypy", "--python-executable", str(clean_python), "--config-file", os.devnull]
    done = subprocess.run([*command, "typed.py"], cwd=tmp_path, env=CLEAN, capture_output=True, text=True, check=False)
    types = re.findall(r'Revealed type is "(.*)"', done.stdout)
    assert len(types) == len(REVEALED), done.stdout
    assert all(part in found for part, found in zip(REVEALED, types, strict=True)), types
    assert "numpy.signedinteger" in types[4] or "int8" in types[4]
    errors = {int(line): code for line, code in re.findall(r"typed.py:(\d+): error: .*\[(.*)\]", done.stdout)}
    first = TYPED.splitlines().index("scaled(x, 1.0, 2.0)") + 1
    assert errors == {first + n: code for n, code in enumerate(REFUSED)}, done.stdout


def test_wheel_holds_the_simulated_device(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    sources = [p for p in (ROOT / "runtime").rglob("*") if p.is_file() and p.suffix not in (".pyc", ".md")]
    assert {f"pypto/_runtime_sources/{p.relative_to(ROOT / 'runtime').as_posix()}" for p in sources} <= names


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("g++"), reason="needs g++")
def test_clean_environment_runs_the_first_kernel_on_the_simulated_device(clean_python: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    printed = first_kernel(clean_python, tmp_path, PYPTO_DEVICE="ascend-sim", PYPTO_CACHE_DIR=cache)
    assert printed == "[ 998.  999. 1000.]\n"
    assert list((tmp_path / "cache").glob("ascend-sim-*")), "it was built, so that is where the kernel ran"


@pytest.mark.slow
def test_wheel_brings_its_dependencies(wheel: Path, tmp_path: Path) -> None:
    python = python_of(tmp_path / "fresh", with_pip=True)
    run(python, "-m", "pip", "install", "--quiet", wheel, cwd=tmp_path)
    assert first_kernel(python, tmp_path) == "[ 998.  999. 1000.]\n"
