"""Threads of a launch: results do not depend on them, and no launch leaves them in disorder."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.pool import PythonPool
from pypto.compile import session
from pypto.errors import Diagnostic
from pypto.options import KernelOptions
from tests.conformance import kernels, networks
from tests.conformance.processes import python
from tests.conformance.running import assert_close, make_launch, run

NAMES = ("softmax_native", "layer_norm_backward", "matmul_native", "attention", "collatz", "box")
MANY = """
import threading
import numpy as np
import pypto as pto
from tests.conformance.running import ALL, assert_close, make_launch, run

names = {names!r}
large = np.arange(3_000_000, dtype=np.float32)

@pto.jit
def double(x, y, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * 2

def check():
    for name in names:
        launch = make_launch(name)
        assert_close(run(launch.kernel, launch), launch.expected, launch.tolerance, name)
    y = np.zeros_like(large)
    double[3000](large, y, 1000)
    assert (y == 2 * large).all()
"""
THREADS = MANY + """
failures = []

def work():
    try:
        for _ in range(4):
            check()
    except BaseException as error:
        failures.append(error)

threads = [threading.Thread(target=work) for _ in range(16)]
[t.start() for t in threads]
[t.join() for t in threads]
assert not failures, failures[0]
print(pto.get_num_threads())
"""
FORK = MANY + """
import os, warnings
warnings.simplefilter("ignore")  # newer versions of Python warn of any fork beside threads
check()
for _ in range(3):
    child = os.fork()
    if child == 0:
        check()
        grandchild = os.fork()
        if grandchild == 0:
            check()
            os._exit(0)
        os._exit(os.waitstatus_to_exitcode(os.waitpid(grandchild, 0)[1]))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check()
print("done")
"""


@pytest.fixture
def default_threads() -> Iterator[None]:
    """The setting of the process, back as it was."""
    before = session().threads_set
    yield
    session().threads_set = before


def outputs(name: str, threads: int) -> dict[str, Any]:
    launch = make_launch(name)
    return run(pto.jit(num_threads=threads)(launch.kernel.function), launch)


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    alone = outputs(name, 1)
    for threads in (2, 3, 64):
        for output, array in outputs(name, threads).items():
            assert array.tobytes() == alone[output].tobytes(), f"{output} with {threads} threads"


def test_setting_for_the_process(default_threads: None) -> None:
    most = session().most_threads
    pto.set_num_threads(1)
    assert pto.get_num_threads() == 1
    pto.set_num_threads(10**6)
    assert pto.get_num_threads() == most
    pto.set_num_threads(0)
    assert pto.get_num_threads() == most
    test_large_grids()


def test_large_grids() -> None:
    """Many more programs than threads, with work for all of them."""
    x, y = np.arange(2_000_003, dtype=np.float32), np.zeros(2_000_003, np.float32)
    kernels.add_native[2001](x, x, y, 1000)
    np.testing.assert_array_equal(y, x + x)


def test_threads_that_launch_at_once(tmp_path: Path) -> None:
    """16 callers share a pool of 8: each gets its own right result."""
    script = tmp_path / "script.py"
    script.write_text(THREADS.format(names=NAMES), encoding="utf-8")
    assert python(script, PYPTO_NUM_THREADS="8") == "8\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_after_launches(tmp_path: Path) -> None:
    """A child has none of its parent's threads, and starts its own."""
    script = tmp_path / "script.py"
    script.write_text(FORK.format(names=NAMES[:3]), encoding="utf-8")
    assert python(script, PYPTO_NUM_THREADS="4") == "done\n"


def test_errors_leave_the_pool_in_order() -> None:
    x = np.ones((300, 1000), np.float32)
    frozen = x.copy()
    frozen.flags.writeable = False
    for _ in range(3):
        with pytest.raises((Diagnostic, TypeError)):
            networks.softmax_native[300](x, frozen)
        with pytest.raises(Diagnostic):
            networks.softmax_native[-1](x, x)
        y = np.zeros_like(x)
        networks.softmax_native[300](x, y)
        np.testing.assert_allclose(y, 1 / 1000, rtol=1e-6)


def test_python_threads_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pool of systems without the native one gives the same."""
    backend = session().backend(KernelOptions())
    monkeypatch.setattr(backend, "runner", PythonPool(4))
    monkeypatch.setattr(backend, "threads", 4)
    for name in NAMES:
        launch = make_launch(name)
        kernel = pto.jit(num_threads=4)(launch.kernel.function)
        assert_close(run(kernel, launch), launch.expected, launch.tolerance, name)
    test_large_grids()


def test_python_threads_run_every_program_once() -> None:
    from pypto.backends.cpu.pool import KERNEL

    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def body(first: int, last: int, thread: int, args: int) -> None:
        with lock:
            seen.append((first, last))

    import ctypes

    callback = KERNEL(body)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    PythonPool(3).run(address, 0, 103, 10, 3)
    assert sorted(seen) == [(i, min(i + 10, 103)) for i in range(0, 103, 10)]
