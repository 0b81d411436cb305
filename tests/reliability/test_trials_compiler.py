"""Trials 34 to 39: what may happen to the compiler. Errors are bounded and placed, and the process goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.runtime.engine import Engine
from pypto.backends.cpu.target import host_target
from pypto.compile import compile_program
from pypto.errors import CompilerBug, Diagnostic
from pypto.errors.frontend import TooDeep
from pypto.errors.ir import InvalidIR
from pypto.ir.parser import parse_function
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from tests.patience import limit
from tests.reliability import jobs
from tests.reliability.jobs import write_kernels

posix = pytest.mark.skipif(os.name != "posix", reason="signals, forks and limits are POSIX")


@pto.jit
def grown(x: Any, out: Any, BLOCK: pto.constexpr) -> None:
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    pto.store(out + i, pto.load(x + i) + 1)


def works(block: int = 8) -> None:
    """The process still compiles and launches."""
    x, out = np.arange(2 * block, dtype=np.float32), np.zeros(2 * block, np.float32)
    grown[2](x, out, BLOCK=block)
    np.testing.assert_array_equal(out, x + 1)


def python(code: str, *arguments: object, folder: Path | None = None, **environment: str) -> str:
    """What a program prints that must end well."""
    path = os.pathsep.join(map(str, (jobs.ROOT, *([folder] if folder else []))))
    env = {**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=limit(120), check=False, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- 34: what LLVM or the verifier refuses ---


@pytest.mark.parametrize(
    "text",
    [
        "define void @k() { ret i32 0 }",
        "define void @k() {\n  %a = add i32 %a, %b\n  ret void\n}",
        "declare void @nobody_has_this()\ndefine void @k() {\n  call void @nobody_has_this()\n  ret void\n}",
        "not LLVM IR at all",
    ],
)
def test_trial_34_what_llvm_refuses_is_an_exception(text: str) -> None:
    engine = Engine(host_target())
    with pytest.raises(CompilerBug):
        engine.load(engine.compile(text), "k")
    works()


@pytest.mark.parametrize(
    "line",
    ["%1: f32 = add %0, %0", "%1: tile<4xi32> = add %0, %0", "%1: i32 = nothing %0", "store %0, %0"],
)
def test_trial_34_invalid_ir_is_an_exception(line: str) -> None:
    text = f"kernel @k() {{\n  %0: i32 = program_id {{axis = 0}}\n  {line}\n}}\n"
    with pytest.raises((InvalidIR, Diagnostic)):
        verify(parse_function(text), TABLE)
    works()


# --- 35: too much of everything ---


def kernel_from(tmp_path: Path, body: str, name: str = "k") -> Any:
    """A kernel from source text of its own."""
    path = tmp_path / f"{name}.py"
    path.write_text(f"import pypto as pto\n\n\n{body}", encoding="utf-8")
    space: dict[str, Any] = {}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
    return space[name]


def added(terms: int) -> str:
    """A sum of so many terms, which is nested as deep on its left side."""
    return f"@pto.jit\ndef k(x):\n    x[0] = {' + '.join(['x[0]'] * terms)}\n"


def test_trial_35_deep_nesting_is_bounded(tmp_path: Path) -> None:
    """What Python itself refuses never reaches us; below that it works, or is an error with a place."""
    x = np.ones(1, np.float32)
    kernel_from(tmp_path, added(150))[1](x)
    assert x[0] == 150
    with pytest.raises(RecursionError):
        kernel_from(tmp_path, added(10_000))
    try:
        kernel_from(tmp_path, added(2_500))[1](x)
        assert x[0] == 150 * 2_500
    except TooDeep as error:
        assert error.loc is not None
        assert error.loc.file.endswith("k.py")
    works()


def test_trial_35_recursion_is_an_error_with_a_place(tmp_path: Path) -> None:
    text = "@pto.jit\ndef f(x):\n    return f(x) + 1\n\n\n@pto.jit\ndef k(x):\n    x[0] = f(x[0])\n"
    kernel = kernel_from(tmp_path, text)
    with pytest.raises(Diagnostic) as caught:
        kernel[1](np.ones(1, np.float32))
    assert caught.value.loc is not None
    works()


@pytest.mark.slow
def test_trial_35_five_thousand_lines(tmp_path: Path) -> None:
    lines = "\n".join(f"    a = a * {1 + n % 3} - x[{n % 7}]" for n in range(5000))
    head = "@pto.jit(max_ops=100_000)\ndef k(x, out):\n    a = x[0] * 0\n"
    kernel = kernel_from(tmp_path, f"{head}{lines}\n    out[0] = a\n")
    x = np.zeros(7, np.float32)
    out = np.ones(1, np.float32)
    kernel[1](x, out)
    assert out[0] == 0


@pytest.mark.parametrize(
    "loop", ["for i in pto.static_range(10**9):\n        a += i", "while pto.constexpr(True):\n        a += 1"]
)
def test_trial_35_endless_loops_at_compile_time_end(tmp_path: Path, loop: str) -> None:
    kernel = kernel_from(tmp_path, f"@pto.jit\ndef k(x):\n    a = 0\n    {loop}\n    x[0] = a\n")
    with pytest.raises(Diagnostic) as caught:
        kernel[1](np.ones(1, np.float32))
    assert caught.value.loc is not None
    works()


# --- 36: sources that are not there, or not as they were ---


def test_trial_36_exec_without_a_source_says_so() -> None:
    space: dict[str, Any] = {"pto": pto}
    exec("@pto.jit\ndef k(x):\n    x[0] = 1\n", space)
    with pytest.raises(Diagnostic, match="the source of k"):
        space["k"][1](np.zeros(1, np.float32))


def test_trial_36_a_kernel_in_a_zip_works(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "kernels.zip", "w") as file:
        file.writestr("zipped.py", "import pypto as pto\n\n\n@pto.jit\ndef k(x):\n    x[0] = 5\n")
    said = python("""
        import sys, numpy as np
        sys.path.insert(0, sys.argv[1])
        from zipped import k
        x = np.zeros(1, np.float32)
        k[1](x)
        print(x[0])
    """, tmp_path / "kernels.zip")  # fmt: skip
    assert said == "5.0\n"


def test_trial_36_a_cell_that_is_run_again_is_the_new_code() -> None:
    """As a notebook does it: every run has lines of its own, under a name of its own."""
    import linecache

    x = np.zeros(1, np.float32)
    for run, value in enumerate((3, 4, 5)):
        text = f"@pto.jit\ndef cell(x):\n    x[0] = {value}\n"
        name = f"<cell {run}>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space: dict[str, Any] = {"pto": pto}
        exec(compile(text, name, "exec"), space)
        space["cell"][1](x)
        assert x[0] == value


# --- 37: interrupts at every stage ---

STAGES = (
    "pypto.frontend.build.build", "pypto.passes.manager.run_unverified", "pypto.passes.optimize",
    "pypto.backends.cpu.codegen.function.lower", "pypto.backends.cpu.runtime.engine.Engine.compile",
    "pypto.runtime.disk_cache.cache.Cache.get_or_make", "pypto.runtime.disk_cache.store.Store.write",
    "pypto.backends.cpu.runtime.engine.Engine.load", )  # fmt: skip


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A session with a disk cache of its own, so that every stage runs."""
    from pypto.compile import session

    monkeypatch.setenv("PYPTO_CACHE_DIR", str(tmp_path / "cache"))
    session.cache_clear()
    yield
    session.cache_clear()


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("after", [False, True])
def test_trial_37_an_interrupt_at_any_stage_leaves_no_trace(
    stage: str, after: bool, own_cache: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, _, name = stage.rpartition(".")
    holder, original = find(place, name)
    fresh = pto.jit(grown.function)
    x, out = np.arange(16, dtype=np.float32), np.zeros(16, np.float32)

    def interrupted(*args: Any, **given: Any) -> Any:
        if after:
            original(*args, **given)
        raise KeyboardInterrupt

    ours = [m for n, m in list(sys.modules.items()) if n.startswith("pypto") and m]
    users = [m for m in ours if vars(m).get(name) is original] or [holder]
    with monkeypatch.context() as patch:
        for user in users:
            patch.setattr(user, name, interrupted)
        with pytest.raises(KeyboardInterrupt):
            fresh[2](x, out, BLOCK=8)
    fresh[2](x, out, BLOCK=8)
    np.testing.assert_array_equal(out, x + 1)
    works(4)


def find(place: str, name: str) -> tuple[Any, Any]:
    """What holds a function, and the function."""
    import importlib

    try:
        holder: Any = importlib.import_module(place)
    except ModuleNotFoundError:
        module, _, kind = place.rpartition(".")
        holder = getattr(importlib.import_module(module), kind)
    return holder, getattr(holder, name)


TERMINATED = """
    import sys, numpy as np
    print("ready", flush=True)
    import kernels
    for n in range(40):
        x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
        kernels.scaled[1000 // (16 + n) + 1](x, out, 1000, BLOCK=16 + n)
"""


@posix
@pytest.mark.parametrize("wait", [0.1, *(pytest.param(0.15 * n, marks=pytest.mark.slow) for n in range(2, 12))])
def test_trial_37_a_terminated_process_leaves_no_lock(tmp_path: Path, wait: float) -> None:
    folder = write_kernels(tmp_path / "job")
    env = {**os.environ, "PYTHONPATH": f"{jobs.ROOT}{os.pathsep}{folder}", "PYPTO_CACHE_DIR": str(folder / "cache")}
    job = subprocess.Popen([sys.executable, "-c", textwrap.dedent(TERMINATED)], env=env, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL, text=True)  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "ready\n"
    time.sleep(wait)
    job.send_signal(signal.SIGTERM)
    job.communicate(timeout=limit(60))
    said = jobs.run(folder, 3)
    assert said.right
    assert said.warnings == []


# --- 38: threads and forks ---


@posix
def test_trial_38_thirty_two_threads_and_a_fork() -> None:
    failures: list[BaseException] = []
    kernels = [pto.jit(grown.function) for _ in range(4)]

    def job(n: int) -> None:
        try:
            for turn in range(6):
                block = 4 + (n + turn) % 5
                x, out = np.arange(2 * block, dtype=np.float32), np.zeros(2 * block, np.float32)
                kernels[n % 4][2](x, out, BLOCK=block)
                np.testing.assert_array_equal(out, x + 1)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=job, args=(n,)) for n in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=limit(60))
    assert not failures
    assert not any(thread.is_alive() for thread in threads)


FORKED = """
    import os, threading, warnings, numpy as np
    warnings.simplefilter("ignore", DeprecationWarning)
    import kernels
    def launch(n):
        x, out = np.arange(1 << 20, dtype=np.float32), np.zeros(1 << 20, np.float32)
        kernels.scaled[(1 << 20) // n + 1](x, out, 1 << 20, BLOCK=n)
        assert (out == x * 6).all()
    threads = [threading.Thread(target=launch, args=(1024 + n,)) for n in range(8)]
    [t.start() for t in threads]; [t.join() for t in threads]
    child = os.fork()
    if child == 0:
        launch(1024); launch(555)
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    launch(2048)
"""


@posix
def test_trial_38_a_fork_after_threads_launches(tmp_path: Path) -> None:
    assert python(FORKED, folder=write_kernels(tmp_path / "job")) == "7\n"


# --- 39: too little memory ---

LIMITED = """
    import resource, numpy as np
    import kernels, pypto as pto
    x, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    kernels.scaled[63](x, out, 1000, BLOCK=16)

    @pto.jit
    def hungry(x, out, N: pto.constexpr):
        i = pto.arange(0, N)
        out[0] = pto.sum(pto.sort(pto.load(x + i % 7)), 0)

    import linecache
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (256 << 20),) * 2)
    try:
        hungry[1](x, out, N=1 << 27)
    except (MemoryError, pto.errors.PyptoError) as error:
        print(type(error).__name__)
    kernels.scaled[40](x, out, 1000, BLOCK=25)
    print(bool((out == x * 6).all()))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of address space are Linux's")
def test_trial_39_too_little_memory_is_an_exception(tmp_path: Path) -> None:
    folder = write_kernels(tmp_path / "job")
    script = folder / "limited.py"
    script.write_text("import pypto.errors\n" + textwrap.dedent(LIMITED), encoding="utf-8")
    said = python("import runpy, sys; runpy.run_path(sys.argv[1])", script, folder=folder, PYPTO_NUM_THREADS="1")
    assert said.split() == ["MemoryError", "True"]


def test_trials_34_to_39_use_the_compiler_itself() -> None:
    """What these trials patch and call is what a launch goes through."""
    assert compile_program.__module__ == "pypto.compile"
    for stage in STAGES:
        place, _, name = stage.rpartition(".")
        assert callable(find(place, name)[1])
