"""A launch that takes long lets signal handlers run, and ends with what one of them raises."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.runtime.pool import PythonPool
from pypto.compile import session
from pypto.options import KernelOptions

MANY, STEPS = 1 << 20, 1_000_000  # hours of work
pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals are sent to the process itself")


def body(o: Any, n: Any) -> None:
    s = 0
    for k in range(n):
        s = (s * 1103515245 + k) % 65537
    o[pto.program_id(0)] = s + 1


def kernel_of(threads: int) -> Any:
    return pto.jit(num_threads=threads)(body)


@contextmanager
def signalled(array: Any) -> Iterator[None]:
    """Send SIGINT to this process as soon as a program has stored something."""

    def send() -> None:
        while not array.any():
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    yield
    thread.join()


@pytest.fixture
def handler() -> Iterator[Callable[[Any], None]]:
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda handle: signal.signal(signal.SIGINT, handle) and None
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("is_warm", [False, True])
def test_ctrl_c_ends_a_launch(threads: int, is_warm: bool, handler: Any) -> None:
    """Both through Python and, once it is known, from native code."""
    kernel, o = kernel_of(threads), np.zeros(MANY, np.int32)
    if is_warm:
        kernel[2](o, 3)
        kernel[2](o, 3)
        o[:] = 0
    with signalled(o), pytest.raises(KeyboardInterrupt, match="`o` may be half written") as caught:
        kernel[MANY](o, STEPS)
    assert str(caught.value).startswith("body was stopped before all programs had run")
    assert caught.value.__suppress_context__
    assert 0 < np.count_nonzero(o) < MANY
    o[:] = 0
    kernel[100](o, 3)
    assert np.count_nonzero(o) == 100


def test_an_exception_of_another_kind_is_as_it_was_raised(handler: Any) -> None:
    def handle(*_: Any) -> None:
        raise ValueError("enough")

    handler(handle)
    kernel, o = kernel_of(2), np.zeros(MANY, np.int32)
    kernel[2](np.zeros(MANY, np.int32), 3)
    with signalled(o), pytest.raises(ValueError, match="enough") as caught:
        kernel[MANY](o, STEPS)
    assert "may be half written" in caught.value.__notes__[0]


def test_a_handler_that_raises_nothing_lets_the_launch_go_on(handler: Any) -> None:
    """The handler launches, too, while the pool is in use."""
    kernel, o, other = kernel_of(2), np.zeros(200, np.int32), np.zeros(100, np.int32)
    handler(lambda *_: kernel[100](other, 3))
    kernel[2](o, 3)
    o[:] = 0
    with signalled(o):
        kernel[200](o, STEPS // 10)
    assert np.count_nonzero(o) == 200
    assert np.count_nonzero(other) == 100


@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_where_python_threads_stand_in(threads: int, handler: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = session().backend(KernelOptions())
    monkeypatch.setattr(backend, "runner", PythonPool())
    monkeypatch.setattr(backend, "threads", 2)
    kernel, o = kernel_of(threads), np.zeros(MANY, np.int32)
    with signalled(o), pytest.raises(KeyboardInterrupt, match="may be half written"):
        kernel[256](o, STEPS // 10)
    assert 0 < np.count_nonzero(o) < 256


def test_references_are_given_back(handler: Any) -> None:
    kernel, o = kernel_of(1), np.zeros(MANY, np.int32)
    kernel[2](o, 3)
    counts = []
    for _ in range(3):
        o[:] = 0
        with signalled(o), pytest.raises(KeyboardInterrupt):
            kernel[MANY](o, STEPS)
        counts.append((sys.getrefcount(o), sys.getrefcount(kernel)))
    assert counts[1] == counts[2]
