"""A compilation of more than five seconds names the loop that is unrolled. Clocks are passed in."""

from __future__ import annotations

import ast
import gc
import warnings
from collections.abc import Callable

import numpy as np
import pytest

import pypto as pto
from pypto.compile import session
from pypto.errors import SlowCompilation
from pypto.jit import manifest
from pypto.runtime.slow import PATIENCE


def waves(x, N: pto.constexpr):
    v = x[:]
    for i in pto.static_range(2):
        v += i
    for step in pto.static_range(N):
        v = pto.sin(v) + step
    x[:] = v


def plain(x, n):
    for i in range(n):
        x[0] += i


class Clock:
    """Takes note of alarms; goes off at once where it is late."""

    def __init__(self, late: bool) -> None:
        self.late, self.set, self.cancelled = late, [], 0

    def __call__(self, seconds: float, call: Callable[[], None]) -> Callable[[], None]:
        self.set.append(seconds)
        if self.late:
            call()
        return self.cancel

    def cancel(self) -> None:
        self.cancelled += 1


@pytest.fixture
def clock(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock(request.param)
    monkeypatch.setattr(session(), "alarm", made)
    monkeypatch.setattr(manifest, "is_kept", lambda *_: False)  # an earlier test compiled these kernels
    return made


@pytest.mark.parametrize("clock", [True], indirect=True)
def test_a_late_compilation_names_the_largest_loop(clock: Clock) -> None:
    line = waves.__code__.co_firstlineno + 4
    with pytest.warns(SlowCompilation, match="waves takes more than 5 seconds") as caught:
        pto.jit(waves).compile(np.ones(4, np.float32), 7)
    (found,) = caught
    assert (found.filename, found.lineno) == (__file__, line)
    assert "`for step in pto.static_range(N)` is unrolled (7 iterations, " in str(found.message)
    assert "`pto.range` makes a loop" in str(found.message)
    assert clock.set == [PATIENCE] and clock.cancelled == 1


@pytest.mark.parametrize("clock", [True], indirect=True)
def test_where_warnings_are_errors_it_is_printed(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """It is told of in another thread, where raising would be lost."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pto.jit(waves).compile(np.ones(4, np.float32), 8)
    assert "SlowCompilation: waves takes more than 5 seconds" in capsys.readouterr().err


@pytest.mark.parametrize("clock", [False], indirect=True)
def test_a_fast_compilation_says_nothing(clock: Clock) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pto.jit(waves).compile(np.ones(4, np.float32), 9)
        assert (clock.set, clock.cancelled) == ([PATIENCE], 1)
        pto.jit(plain).compile(np.ones(4, np.float32), 5)
    assert clock.set == [PATIENCE]  # nothing is unrolled there


def test_no_garbage_is_collected_while_a_version_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """A source's tree makes so many objects that Python would walk all those of the program, such as torch's."""
    import pypto.frontend.source

    parse, collects = pypto.frontend.source.parse_file.__wrapped__, []

    def watched(text: str) -> ast.Module:
        collects.append(gc.isenabled())
        return parse(text)

    monkeypatch.setattr(pypto.frontend.source, "parse_file", watched)
    monkeypatch.setattr(manifest.Manifest, "load", lambda self: None)
    pypto.frontend.source.parse.cache_clear()

    @pto.jit
    def parsed_once(x):
        x[0] = 1.0

    parsed_once[1,](np.zeros(1, np.float32))
    assert collects
    assert not any(collects)
    assert gc.isenabled()
