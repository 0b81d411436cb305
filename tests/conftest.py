"""For all rooms: a disk cache for this run alone, the backend under test, and the CPU feature levels.

With ``--kernel-cache=FOLDER``, kernels of tests that do not look at the cache are kept for another run on this commit.
With ``--backend=ascend-sim``, every test runs under that device. A kernel that the compiler refuses for it is skipped
with the reason, and the end of the run says which part of all that is. With ``--checked``, kernels run with checks.
"""

from __future__ import annotations

import gc
import os
import platform
import tempfile
import zlib
from collections import Counter
from collections.abc import Generator
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from pypto import checked
from pypto.errors import Diagnostic, OptionError
from tests import covering
from tests.skips import allowed, violations
from tests.with_torch import forgotten, needs_torch

BACKENDS = ("cpu", "ascend-sim", "ascend-sim:ascend950")  # the last one: another chip
# No test of these looks at the cache, or it has one of its own.
CACHED = ("tests/ops/", "tests/conformance/", "tests/language/", "tests/backends_cpu/")
REFUSED = "refused: "
LAUNCHES = "launches on the device"
IS_X86 = platform.machine().lower() in ("x86_64", "amd64")
LEVELS = ("", "x86-64-v3") if IS_X86 else ("",)
ALL_LEVELS = (*LEVELS, "x86-64-v2") if IS_X86 else LEVELS
_CACHE = pytest.StashKey[tempfile.TemporaryDirectory[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--backend", choices=BACKENDS, default="cpu", help="backend that kernels are tested on")
    parser.addoption("--least", type=float, default=0, help="percent of the tests that a backend must not refuse")
    parser.addoption("--checked", action="store_true", help="run the kernels of all tests with checks")
    parser.addoption("--kernel-cache", default="", help="folder where another run finds kernels of this one again")
    parser.addoption("--update-golden", action="store_true", help="write the texts that tests compare with")


def pytest_configure(config: pytest.Config) -> None:
    """Settings of the user must not change what is tested. Workers and subprocesses inherit this environment."""
    gc.disable()  # while tests are collected: of what is made there, nothing is garbage
    without_deadlines()
    if hasattr(config, "workerinput"):
        return
    for name in [name for name in os.environ if name.startswith("PYPTO_")]:
        del os.environ[name]
    config.stash[_CACHE] = tempfile.TemporaryDirectory(prefix="pypto-tests-")
    os.environ["PYPTO_CACHE_DIR"] = os.path.join(config.stash[_CACHE].name, "cache")
    os.environ["ASCSIM_WARNINGS"] = "error"  # of a kernel's C++; the headers are the system's


def without_deadlines() -> None:
    """Let Hypothesis take the time that it needs: on a busy machine, a limit for each try fails what is right."""
    slow = (*settings.default.suppress_health_check, HealthCheck.too_slow)
    settings.register_profile("pypto", settings.default, deadline=None, suppress_health_check=slow)
    settings.load_profile("pypto")


def pytest_unconfigure(config: pytest.Config) -> None:
    folder = config.stash.get(_CACHE, None)
    if folder is not None:
        folder.cleanup()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs torch and what is slow, and begin the longest tests first."""
    for item in items:
        if isinstance(item, pytest.Function) and needs_torch(item.path, item.originalname):
            item.add_marker(pytest.mark.torch)
    if config.getoption("--backend") == "cpu":
        mark_levels([item for item in items if item.get_closest_marker(covering.MARKER) is None])
        mark_covering([item for item in items if item.get_closest_marker(covering.MARKER) is not None])
    items.sort(key=lambda item: item.get_closest_marker("first") is None)


def mark_levels(items: list[pytest.Item]) -> None:
    """Of a case that runs at several feature levels, one is quick, the others are slow.

    Which one it is depends on the case's name alone, so that all levels have their share of the quick run.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if level_of(item) is not None:
            cases.setdefault(f"{item.nodeid.partition('[')[0]} {other_parameters(item)}", []).append(item)
    for case, same in cases.items():
        chosen = zlib.crc32(case.encode()) % len(same)
        for item in (*same[:chosen], *same[chosen + 1 :]):
            item.add_marker(pytest.mark.slow)


def mark_covering(items: list[pytest.Item]) -> None:
    """Of a test with the marker `covering`, few combinations of parameters are quick, more of them slow."""
    tests: dict[str, list[pytest.Item]] = {}
    for item in items:
        tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in tests.values():
        covering.mark(same)


def pytest_collection_finish() -> None:
    """Take what was collected out of the garbage collector's sight: each of its passes would look at all of it."""
    gc.collect()
    gc.freeze()
    gc.enable()


def level_of(item: pytest.Item) -> str | None:
    """The feature level that a test runs at, None where it has none."""
    callspec = getattr(item, "callspec", None)
    return callspec.params.get("level") if callspec is not None else None


def other_parameters(item: pytest.Item) -> str:
    """The parameters of a test but for its level, as text that is the same in every run."""
    callspec: Any = getattr(item, "callspec", None)
    level = callspec.params["level"] or "host"
    return "-".join(part for part in callspec.id.split("-") if part not in ("", *level.split("-")))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Let tests that do not look at the cache have one that outlives the run, where one is named."""
    kept, own = item.config.getoption("--kernel-cache"), os.environ["PYPTO_CACHE_DIR"]
    if kept and item.nodeid.startswith(CACHED):
        os.environ["PYPTO_CACHE_DIR"] = os.path.abspath(kept)
    try:
        return (yield)
    finally:
        os.environ["PYPTO_CACHE_DIR"] = own


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Run a test on the backend; what the compiler refuses is no failure of the test."""
    name = item.config.getoption("--backend")
    if name == "cpu":
        with checked() if item.config.getoption("--checked") else nullcontext():
            return (yield)
    from tests.watched import Watched

    with Watched(name) as device:
        try:
            return (yield)
        except (Diagnostic, ExceptionGroup) as error:
            reason = refusal(error)
            if reason is None:
                raise
            pytest.skip(f"{REFUSED}{reason}")
        finally:
            item.user_properties.append((LAUNCHES, device.launches))


def refusal(error: Exception) -> str | None:
    """Why the compiler refuses a kernel, if it does; of several that Hypothesis found, the first one's reason."""
    if isinstance(error, ExceptionGroup):
        reasons = [refusal(e) for e in error.exceptions]
        return None if None in reasons else reasons[0]
    is_refused = isinstance(error, Diagnostic) and type(error).__module__ == "pypto.errors.ascend"
    return error.message if is_refused else None


def refusals(reporter: pytest.TerminalReporter) -> tuple[int, Counter[str]]:
    """How many tests ran something on the device, and why others were refused."""
    reasons = [str(r.longrepr[2]) for r in reporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)]
    refused = Counter(x.split(REFUSED)[1] for x in reasons if REFUSED in x)
    done = [r for kind in ("passed", "failed") for r in reporter.stats.get(kind, ())]
    return sum(dict(r.user_properties).get(LAUNCHES, 0) > 0 for r in done), refused


def wrong_skips(reporter: pytest.TerminalReporter) -> list[str]:
    """Tests that may not be skipped; CI_REQUIRES names what no test may miss, separated by spaces."""
    skipped = [(r, str(r.longrepr[2])) for r in reporter.stats.get("skipped", ()) if isinstance(r.longrepr, tuple)]
    wrong = violations([reason for _, reason in skipped], allowed(), os.environ.get("CI_REQUIRES", "").split())
    return wrong + forgotten(skipped, allowed(), reporter.config.rootpath)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    name, (ran, refused) = config.getoption("--backend"), refusals(terminalreporter)
    if name == "cpu":
        for problem in wrong_skips(terminalreporter):
            terminalreporter.line(problem, red=True)
        return
    share = 100 * ran / max(1, ran + refused.total())
    terminalreporter.section(f"{name}: {ran} ran, {refused.total()} were refused: {share:.1f} %")
    for reason, count in refused.most_common():
        terminalreporter.line(f"{count:5}  {reason}")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Too many refusals are a failure of the run, and so are tests that may not be skipped."""
    least, reporter = session.config.getoption("--least"), session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter and session.config.getoption("--backend") == "cpu" and wrong_skips(reporter):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    if least and reporter:
        ran, refused = refusals(reporter)
        if 100 * ran < least * (ran + refused.total()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


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

    name: str = request.param
    if backend != "cpu":
        if name:
            pytest.skip(f"{backend} has no feature levels")
        return name
    try:
        host_target(name)
    except OptionError as error:
        pytest.skip(str(error))
    return name
