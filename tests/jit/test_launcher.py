"""The native launcher: which launches it makes, that it steps aside for all others, and that nobody can tell."""

from __future__ import annotations

import gc
import linecache
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.backends.cpu.runtime.launcher import native
from pypto.compile import session
from pypto.errors.frontend import UndefinedName
from pypto.errors.interp import OutOfBounds
from pypto.errors.launch import ReadOnlyArgument
from pypto.runtime.mode import mode
from tests.jit import counting
from tests.jit.counting import Counted, add, arrays, counted, uncollected

pytestmark = pytest.mark.skipif(session().launcher is None, reason="launches go through Python here")


@pytest.fixture
def kernel(path: str) -> Counted:
    if path == "python":
        pytest.skip("about native launches")
    return counted(add)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((3,), {}), ((1,), {}), ((2**40,), {}), ((-5,), {}), ((3, 0.5), {}), ((3, 0.5, False), {}),
    ((3,), {"K": 8}), ((), {"n": 3, "MODE": "minus"}), ((), {"MODE": "plus", "K": 2, "scale": -0.0}),
    ((True,), {}), ((3, 2), {}), ((3,), {"num_warps": 4, "K": 2, "num_stages": 1}),
    ((3, 2, 1, 4, "none"), {}), ((), {"flag": False, "n": -(2**40)}),
]  # fmt: skip


@pytest.mark.parametrize(("args", "given_"), CALLS)
def test_a_second_launch_does_not_go_through_python(kernel: Counted, args: Any, given_: Any) -> None:
    x, out = arrays()
    kernel[2](x, out, *args, **given_)
    first = out.copy()
    assert kernel.calls == 1
    for _ in range(3):
        out[:] = 0
        kernel[2](x, out, *args, **given_)
        np.testing.assert_array_equal(out, first)
    assert kernel.calls == 1


def test_what_no_version_depends_on_may_differ(kernel: Counted) -> None:
    kernel[2](*arrays(8), 5, 0.5)
    for size in (8, 9, 100):
        for n, scale in ((2, 2.0), (7, 1e300), (2**31 - 1, float("nan"))):
            x, out = arrays(size)
            kernel[2](x, out, n, scale)
            with np.errstate(over="ignore", invalid="ignore"):
                expected = np.where(np.arange(8) < n, np.float32(scale) * x[:8] + 1, 0)
            np.testing.assert_array_equal(out[:8], expected.astype(np.float32))
    assert kernel.calls == 1


CHANGES: dict[str, Callable[[Any, Any], tuple[Any, ...]]] = {
    "dtype": lambda x, out: (x.astype(np.float64), out.astype(np.float64)),
    "axes": lambda x, out: (x.reshape(2, 4), out),
    "size of an integer": lambda x, out: (x, out, 2**31),
    "kind of a number": lambda x, out: (x, out, 3.0),
    "constant": lambda x, out: (x, out, 3, 1.0, True, 2),
    "equal constant of another type": lambda x, out: (x, out, 3, 1.0, True, 4, True),
    "numpy scalar": lambda x, out: (x, out, np.int32(3)),
    "overlap": lambda x, out: (x, x),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_differs_is_seen(kernel: Counted, change: str) -> None:
    x, out = arrays()
    kernel[2](x, out)
    kernel[2](*CHANGES[change](x, out))
    assert kernel.calls == 2


def test_overlap_by_a_single_byte(kernel: Counted) -> None:
    memory = np.zeros(64, np.uint8)
    x, apart = memory[:32].view(np.float32), memory[32:].view(np.float32)
    kernel[2](x, apart)
    kernel[2](x, apart)
    assert kernel.calls == 1
    kernel[2](x, memory[31:63].view(np.float32))
    assert kernel.calls == 2
    assert [s.noalias for s in kernel.kernel.specializations] == [True, False]
    kernel[2](x, apart)
    kernel[2](memory[32:].view(np.float32), x)
    kernel[2](x, memory[31:63].view(np.float32))
    assert kernel.calls == 2


def test_strides_that_are_no_multiples_are_refused(kernel: Counted) -> None:
    x, out = arrays()
    kernel[2](x, out)
    odd = np.lib.stride_tricks.as_strided(np.zeros(64, np.uint8).view(np.float32), (8,), (5,))
    with pytest.raises(TypeError, match="no multiples of its itemsize"):
        kernel[2](odd, out)


def test_read_only_results_are_refused(kernel: Counted) -> None:
    x, out = arrays()
    kernel[2](x, out)
    out.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        kernel[2](x, out)
    assert kernel.calls == 2
    x.flags.writeable = False
    kernel[2](x, np.zeros_like(x))
    assert kernel.calls == 2


def test_captured_variables_are_looked_at(kernel: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    x, out = arrays()
    kernel[2](x, out)
    monkeypatch.setattr(counting, "BIAS", 100)
    kernel[2](x, out)
    assert kernel.calls == 2 and out[1] == 101
    kernel[2](x, out)
    assert kernel.calls == 2
    monkeypatch.setattr(counting, "BIAS", 1)
    kernel[2](x, out)
    assert kernel.calls == 2 and out[1] == 2
    monkeypatch.delattr(counting, "BIAS")
    with pytest.raises(UndefinedName):
        kernel[2](x, out)


def test_captured_cells_are_looked_at(path: str) -> None:
    factor = 2

    def scaled(out):
        out[0] = factor

    kernel, out = counted(scaled), np.zeros(1, np.int32)
    for factor in (2, 2, 7, 7, 2):
        kernel[1](out)
        assert out[0] == factor
    assert path == "python" or kernel.calls == 2


def test_it_steps_aside_for_hooks_and_the_interpreter(kernel: Counted) -> None:
    x, out = arrays()
    kernel[2](x, out)
    with pto.interpreter():
        kernel[2](x, out)
    assert kernel.calls == 2
    kernel[2](x, out)
    assert kernel.calls == 2
    with mode(), mode():
        kernel[2](x, out)
    assert kernel.calls == 3
    kernel[2](x, out)
    seen: list[Any] = []
    kernel.kernel.add_pre_run_hook(lambda *args, **_: seen.append("before"))
    kernel.kernel.add_post_run_hook(lambda *args, **_: seen.append("after"))
    kernel[2](x, out)
    assert kernel.calls == 4 and seen == ["before", "after"]
    kernel.kernel.pre_run_hooks.clear()
    kernel.kernel.post_run_hooks.clear()
    kernel[2](x, out)
    assert kernel.calls == 4


def test_reference_counts_stay(kernel: Counted) -> None:
    x, out = arrays()
    grid, word, big = (int("2"),), "".join(["pl", "us"]), int("1000000")  # of our own: constants are shared with others

    def shape(meta: Any) -> Any:
        return grid

    held = [x, out, grid, word, big, shape, x.dtype, x.shape]
    step = kernel.kernel.bind(x, out, big, grid=grid)

    def all_kinds() -> None:
        kernel[grid](x, out, big, MODE=word)
        kernel[shape](x, out, n=big)
        kernel[(2,)](x, out)
        step()
        for bad in ((x,), (x, out, 2**64)):
            with pytest.raises((TypeError, OverflowError)):
                kernel[grid](*bad)

    with uncollected():
        for _ in range(5):
            all_kinds()
        before = [sys.getrefcount(thing) for thing in held]
        for _ in range(50):
            all_kinds()
        after = [sys.getrefcount(thing) for thing in held]
    assert [b - a for a, b in zip(before, after, strict=True)] == [0] * len(held)


def test_kernels_can_be_forgotten(kernel: Counted) -> None:
    made = pto.jit(add)
    x, out = arrays()
    for _ in range(3):
        made[(2,)](x, out)
    gone = weakref.ref(made)
    del made
    gc.collect()
    assert gone() is None


def test_the_grid_goes_straight_to_native_code(path: str) -> None:
    made, other = pto.jit(add), pto.jit(add)
    x, out = arrays()
    made[2](x, out)
    other[2](x, out)
    assert type(made).__getitem__ is made.table.subscript is not other.table.subscript
    assert isinstance(made, type(other).__mro__[1]) and not isinstance(made, type(other))
    assert repr(type(made)) == repr(type(pto.jit(add)))


def test_kernels_made_of_a_launched_one_are_their_own(path: str) -> None:
    made = pto.jit(add)
    x, out = arrays()
    made[2](x, out)
    checked = made.checked
    assert checked is not made
    assert type(checked) is type(pto.jit(add))
    checked[2](x, out)
    assert made.specializations != checked.specializations
    interpreted = pto.interpret(made)
    assert type(interpreted) is made.kind
    with pytest.raises(OutOfBounds):
        interpreted[2](x[:3], out, 8)


def test_launches_outlive_the_name_of_the_kernel(path: str) -> None:
    made = pto.jit(add)
    x, out = arrays()
    made[2](x, out)
    launch, step = made[2], made.bind(x, out, grid=2)
    del made
    gc.collect()
    for call in (lambda: launch(x, out), step):
        out[:] = 0
        call()
        assert out[1] == 2


def test_bound_launches(path: str) -> None:
    made = counted(add)
    out = np.zeros(8, np.float32)
    step = made.kernel.bind(np.ones(8, np.float32), out, scale=3.0, grid=(2,))
    gc.collect()
    for _ in range(3):
        out[:] = 0
        assert step() is None
        assert out[:2].tolist() == [4, 4]
    assert path == "python" or made.calls == 1
    out.flags.writeable = False
    with pytest.raises(ReadOnlyArgument):
        step()
    with pytest.raises(TypeError, match="no parameter `y`"):
        made.kernel.bind(out, out, y=1, grid=1)
    with pytest.raises(TypeError):
        step(1)


def test_bound_launches_of_other_kernels(path: str) -> None:
    @pto.jit
    def total(out, *terms):
        s = 0
        for t in pto.static_range(len(terms)):
            s += terms[t]
        out[0] = s

    out = np.zeros(1, np.int32)
    for _ in range(3):
        total.bind(out, 1, 2, 3, grid=1)()
        assert out[0] == 6
    step = pto.interpret(total).bind(out, 4, 5, grid=1)
    step()
    assert out[0] == 9


def test_many_versions(path: str) -> None:
    kernel = counted(add)
    x, out = arrays(512)
    for _ in range(3):
        for k in (1, 2, 4, 8, 16, 32, 64, 128, 256):
            for sign in ("plus", "minus"):
                out[:] = 0
                kernel[2](x, out, 512, K=k, MODE=sign)
                np.testing.assert_array_equal(out[: 2 * k], x[: 2 * k] + (sign == "plus"))
    assert path == "python" or kernel.calls == 18


def test_a_full_table_is_no_error(kernel: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_ENTRIES", 2)
    x, out = arrays()
    for _ in range(2):
        for n in (4, 2, 8, 1):
            kernel[1](x, out, 8, K=n)
            assert out[n - 1] == n
    assert kernel.calls == 6


def test_more_parameters_than_fit(path: str) -> None:
    names = [f"a{n}" for n in range(native.PARAMETERS + 1)]
    source = f"def wide(out, {', '.join(names)}):\n    out[0] = {' + '.join(names)}\n"
    linecache.cache["<wide>"] = (len(source), None, source.splitlines(True), "<wide>")
    space: dict[str, Any] = {"pto": pto}
    exec(compile(source, "<wide>", "exec"), space)
    kernel, out = pto.jit(space["wide"]), np.zeros(1, np.int32)
    for _ in range(3):
        kernel[1](out, *range(len(names)))
        assert out[0] == sum(range(len(names)))
    assert kernel.table is None


@pto.jit
def sorted_rows(x, out):
    i = pto.program_id(0)
    out[i, :] = pto.sort(x[i, :])


def test_scratch_memory_is_not_shared_by_threads(path: str) -> None:
    rng = np.random.default_rng(0)
    wrong: list[Any] = []

    def work(seed: int) -> None:
        x = rng.permuted(np.arange(8 * 256, dtype=np.float32).reshape(8, 256), axis=1)
        for _ in range(30):
            out = np.zeros_like(x)
            sorted_rows[8](x, out)
            if not (out == np.sort(x, axis=1)).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_long_launches_let_other_threads_run(path: str) -> None:
    @pto.jit(num_threads=1)
    def wait(flag, n):
        i = 0
        while (pto.atomic_add(flag, 0) == 0) & (i < n):
            i += 1
        flag[1] = i

    flag = np.zeros(2, np.int64)
    wait[1](flag, 1)
    wait[1](flag, 1)
    timer = threading.Timer(0.05, lambda: flag.__setitem__(0, 1))
    timer.start()
    wait[1](flag, 2**31 - 1)
    timer.join()
    assert 1 < flag[1] < 2**31 - 1


def test_unknown_interpreters_launch_through_python(monkeypatch: pytest.MonkeyPatch) -> None:
    backend, made = session().backend(pto.jit(add).options), session()
    assert native.is_supported()
    for name, value in (("objects_as_expected", lambda: False), ("array_as_expected", lambda _: False)):
        with monkeypatch.context() as patch:
            patch.setattr(native, name, value)
            assert native.make_launcher(backend.engine, made.stored, made.shared, (), print) is None


SCRIPT = """
import numpy as np, pypto as pto
@pto.jit
def double(x, out):
    out[:] = x[:] * 2
x, out = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
for _ in range(3):
    double[(1,)](x, out)
double.bind(out, x, grid=1)()
print(double.table is None, out.tolist(), x.tolist(), len(double.specializations))
"""


@pytest.mark.parametrize("setting", ["native", "python"])
def test_the_setting_of_the_process(path: str, setting: str, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYPTO_LAUNCHER": setting}
    ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout == f"{setting == 'python'} [0.0, 2.0, 4.0, 6.0] [0.0, 4.0, 8.0, 12.0] 1\n"
