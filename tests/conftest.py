"""For all rooms: a disk cache for this run alone, the backend under test, and the CPU feature levels."""

from __future__ import annotations

import os
import platform
import tempfile

import pytest

from pypto.errors import OptionError

BACKENDS = ("cpu",)
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
LEVELS = ("", "x86-64-v3") if IS_X86 else ("",)
ALL_LEVELS = (*LEVELS, "x86-64-v2") if IS_X86 else LEVELS
_CACHE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", choices=BACKENDS, default="cpu", help="backend that kernels are tested on")
    parser.addoption("--update-golden", action="store_true", help="write the texts that tests compare with")


def pytest_configure(config: pytest.Config) -> None:
    """Settings of the user must not change what is tested. Workers and subprocesses inherit this environment."""
    if hasattr(config, "workerinput"):
        return
    for name in [name for name in os.environ if name.startswith("PYPTO_")]:
        del os.environ[name]
    config.stash[_CACHE] = tempfile.TemporaryDirectory(prefix="pypto-tests-")
    os.environ["PYPTO_CACHE_DIR"] = os.path.join(config.stash[_CACHE].name, "cache")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_CACHE, None)
    if folder is not None:
        folder.cleanup()


@pytest.fixture(scope="session")
def backend(request: pytest.FixtureRequest) -> str:
    """Name of the backend that `--backend` chose."""
    name: str = request.config.getoption("--backend")
    return name


@pytest.fixture(scope="session")
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden texts are to be written anew."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(params=LEVELS, ids=lambda level: level or "host")
def level(request: pytest.FixtureRequest, backend: str) -> str:
    """A CPU feature level; for `ALL_LEVELS`, parametrize it with ``indirect=True``."""
    from pypto.backends.cpu.target import host_target

    if backend != "cpu":
        pytest.skip(f"{backend} has no feature levels")
    name: str = request.param
    try:
        host_target(name)
    except OptionError as error:
        pytest.skip(str(error))
    return name
