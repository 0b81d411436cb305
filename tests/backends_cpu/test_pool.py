"""Threads of a launch: results do not depend on them, and no launch leaves them in disorder."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.base import Locality
from pypto.backends.cpu.runtime.pool import (
    KERNEL,
    NativePool,
    PythonPool,
    default_threads,
    granted,
    is_native,
    pool_object,
)
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
THREADS = (
    MANY
    + """
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
)
FORK = (
    MANY
    + """
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
)


@pytest.fixture
def threads_as_before() -> Iterator[None]:
    """The setting of the process, back as it was."""
    before = session().threads
    yield
    session().threads = before


def outputs(name: str, threads: int) -> dict[str, Any]:
    launch = make_launch(name)
    return run(pto.jit(num_threads=threads)(launch.kernel.function), launch)


@pytest.mark.parametrize("name", NAMES)
def test_results_do_not_depend_on_the_number_of_threads(name: str) -> None:
    alone = outputs(name, 1)
    for threads in (2, 3, 64):
        for output, array in outputs(name, threads).items():
            assert array.tobytes() == alone[output].tobytes(), f"{output} with {threads} threads"


def test_setting_for_the_process(threads_as_before: None) -> None:
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
    monkeypatch.setattr(backend, "runner", PythonPool())
    monkeypatch.setattr(backend, "threads", 4)
    for name in NAMES:
        launch = make_launch(name)
        kernel = pto.jit(num_threads=4)(launch.kernel.function)
        assert_close(run(kernel, launch), launch.expected, launch.tolerance, name)
    test_large_grids()


def test_python_threads_run_every_program_once() -> None:
    seen: list[tuple[int, int]] = []
    lock = threading.Lock()

    def body(first: int, last: int, thread: int, args: int) -> None:
        with lock:
            seen.append((first, last))

    callback = KERNEL(body)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    PythonPool().run(address, 0, 103, 3, least=1)
    assert sorted(seen) == [(i, min(i + 4, 103)) for i in range(0, 103, 4)]


@pytest.fixture(scope="module")
def five() -> NativePool:
    if not is_native():
        pytest.skip("the pool in LLVM IR is for Linux")
    backend = session().backend(KernelOptions())
    return NativePool(backend.engine, 5, pool_object(backend.engine))


@pytest.mark.parametrize("programs", [1, 2, 3, 7, 31, 64, 100, 1001])
@pytest.mark.parametrize("least", [1, 5, 10**6])
def test_native_threads_run_every_program_once(five: NativePool, programs: int, least: int) -> None:
    seen: list[tuple[int, int, int]] = []
    callback = KERNEL(lambda first, last, thread, args: seen.append((first, last, thread)))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    for threads in (1, 2, 3, 5):
        seen.clear()
        five.run(address, 0, programs, threads, least)
        assert [n for first, last, _ in sorted(seen) for n in range(first, last)] == list(range(programs))
        assert {thread for *_, thread in seen} <= set(range(threads))
        sizes = [last - first for first, last, _ in sorted(seen)]
        if threads == 1:
            assert sizes == [programs]
            continue
        assert max(sizes) <= max(1, programs // (8 * threads))
        assert sizes[len(sizes) // 2] <= min(sizes[0], sizes[-1]) or len(sizes) < 3, "small chunks lie in the middle"


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("group", [1, 3])
def test_polled_launches_run_every_program_once(five: NativePool, threads: int, group: int) -> None:
    """In stretches, of which the first is one group."""
    seen: list[tuple[int, int]] = []
    callback = KERNEL(lambda first, last, thread, args: seen.append((first, last)))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    for programs in (1, 2, 3, 10, 1001):
        seen.clear()
        five.run(address, 0, programs, threads, 1, Locality("programs", group), polled=True)
        assert [n for first, last in sorted(seen) for n in range(first, last)] == list(range(programs))
    assert min(last - first for first, last in seen[:-1]) >= group or threads > 1
    assert threads > 1 or (seen[0] == (0, group) and len(seen) > 3)


@pytest.mark.parametrize("group", [1, 7])
def test_two_threads_meet_in_the_middle(five: NativePool, group: int) -> None:
    """Each has the same end of the grid in every launch, and finds in its own caches what it left there."""
    seen: list[tuple[int, int]] = []
    callback = KERNEL(lambda first, last, thread, args: seen.append((thread, first)))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    for programs in (2, 9, 100, 1000):
        for _ in range(20):
            seen.clear()
            five.run(address, 0, programs, 2, 1, Locality("programs", group))
            near, far = ([first for thread, first in seen if thread == n] for n in (0, 1))
            assert max(near, default=-1) < min(far, default=programs)
            assert near == sorted(near) and far == sorted(far, reverse=True)


@pytest.mark.parametrize("programs", [1, 2, 7, 24, 32, 33, 64, 96, 1000])
@pytest.mark.parametrize("group", [4, 16, 40])
def test_groups_stay_together(five: NativePool, programs: int, group: int) -> None:
    """Every program runs once; cuts lie between groups where there are enough, and all parts are alike elsewhere."""
    seen: list[tuple[int, int]] = []
    callback = KERNEL(lambda first, last, thread, args: seen.append((first, last)))
    address = ctypes.cast(callback, ctypes.c_void_p).value
    grid, one = ctypes.c_int64(group), ctypes.c_int64(1)
    wide, narrow = ctypes.addressof(grid), ctypes.addressof(one)
    cases = [
        (Locality("programs", group), 0),
        (Locality("row"), wide),
        (Locality("row", 3), wide),
        (Locality("row", group), narrow),
    ]
    for threads in (1, 2, 5):
        for locality, args in cases:
            seen.clear()
            five.run(address, args, programs, threads, 1, locality)
            assert [n for first, last in sorted(seen) for n in range(first, last)] == list(range(programs))
            sizes = [last - first for first, last in sorted(seen)]
            whole = programs // group >= 4 * threads or programs % (group * threads) == 0
            assert all(first % group == 0 for first, _ in seen) if whole else max(sizes[:-1], default=0) <= sizes[0]


@pytest.mark.parametrize(("programs", "strips", "together"), [(64, 4, 32), (64, 5, 8), (72, 4, 1), (640, 4, 32)])
def test_rows_of_the_grid_stay_together(five: NativePool, programs: int, strips: int, together: int) -> None:
    """So many rows of 8 programs, where both threads get as many, or one row, or parts of one size."""
    seen: list[tuple[int, int]] = []
    callback = KERNEL(lambda first, last, thread, args: seen.append((first, last)))
    address, grid = ctypes.cast(callback, ctypes.c_void_p).value, ctypes.c_int64(8)
    five.run(address, ctypes.addressof(grid), programs, 2, 1, Locality("rows", strips))
    assert [n for first, last in sorted(seen) for n in range(first, last)] == list(range(programs))
    assert all(first % together == 0 for first, _ in seen)


GROUPS = {
    "none": ("", {}, None),
    "version 2": ("0::/", {"cpu.max": "150000 100000"}, 2),
    "no limit": ("0::/", {"cpu.max": "max 100000"}, None),
    "nested": ("0::/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}, 1),
    "a path of the host": ("0::/docker/1234", {"cpu.max": "50000 100000"}, 1),
    "version 1": ("3:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "250000", "cpu/cpu.cfs_period_us": "100000"}, 3),
    "version 1, no limit": ("3:cpu:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
    "others": ("2:cpuset:/\n1:name=systemd:/x:y\nwords", {"cpu/cpu.cfs_quota_us": "1000"}, None),
    "damaged": ("0::/", {"cpu.max": "much"}, None),
    "no period": ("0::/", {"cpu.max": "100000 0"}, None),
}


@pytest.mark.parametrize("name", GROUPS)
def test_what_control_groups_grant(name: str, tmp_path: Path) -> None:
    text, files, cpus = GROUPS[name]
    contents = {"proc/self/cgroup": text, **{f"sys/fs/cgroup/{file}": words for file, words in files.items()}}
    for file, words in contents.items() if text else ():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(words + "\n", encoding="ascii")
    assert list(granted(tmp_path)) == ([] if cpus is None else [cpus])
    assert default_threads(tmp_path) == min([default_threads(tmp_path / "nowhere"), *([cpus] if cpus else [])])


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no affinity")
def test_the_affinity_is_respected(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    text = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    script.write_text(f"{text}import pypto\nprint(pypto.get_num_threads())\n", encoding="utf-8")
    assert python(script, PYPTO_NUM_THREADS="0") == "1\n"


def test_beside_the_threads_of_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((256, 256)).astype(np.float32)
    expected = x @ x

    def multiply() -> bool:
        t = torch.from_numpy(x)
        return all(np.allclose((t @ t).numpy(), expected, atol=1e-3) for _ in range(20))

    def launch() -> bool:
        rows = [np.zeros_like(x) for _ in range(20)]
        for y in rows:
            networks.softmax_native[256](x, y)
        return all(np.allclose(y.sum(1), 1, atol=1e-5) for y in rows)

    assert multiply() and launch() and multiply()
    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(lambda work: work(), (multiply, launch) * 4))


LAUNCHING_FORK = """
import os, threading, warnings
import numpy as np
import pypto as pto
warnings.simplefilter("ignore")

@pto.jit
def double(x, y, BLOCK: pto.constexpr):
    i = pto.program_id(0) * BLOCK
    y[i : i + BLOCK] = x[i : i + BLOCK] * 2

x = np.arange(1_000_000, dtype=np.float32)
going = True

def work():
    y = np.empty_like(x)
    while going:
        double[1000](x, y, 1000)

def check():
    y = np.empty_like(x)
    for _ in range(3):
        y[:] = 0
        double[1000](x, y, 1000)
        assert (y == 2 * x).all()

check()
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    child = os.fork()
    if child == 0:
        check()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
going = False
thread.join()
check()
print("done")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_fork_while_another_thread_launches(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(LAUNCHING_FORK, encoding="utf-8")
    assert python(script, PYPTO_NUM_THREADS="3") == "done\n"
