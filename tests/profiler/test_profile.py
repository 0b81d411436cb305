"""What a profile says of kernels: every run is counted, times add up, results stay, and nothing is lost in silence."""

from __future__ import annotations

import contextvars
import dataclasses
import json
import threading
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic, OptionError
from pypto.profiler import Profile
from tests.conformance.processes import python
from tests.conformance.running import assert_close, make_launch, quick_part, run
from tests.profiler.kernels import add, attention, rows

SIZE = 1000


@pytest.fixture
def arrays() -> list[Any]:
    x, y = np.arange(2 * SIZE, dtype=np.float32).reshape(2, SIZE)
    return [x, y, np.zeros(SIZE, np.float32)]


def attend(launches: int = 1, block: int = 32) -> Profile:
    q, k, v = np.random.default_rng(0).standard_normal((3, 96, 32)).astype(np.float32)
    out = np.zeros_like(q)
    with pto.profile() as prof:
        for _ in range(launches):
            attention[96 // block](q, k, v, out, BM=block, BN=32)
    s = q @ k.T
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(out, p / p.sum(1, keepdims=True) @ v, rtol=1e-4, atol=1e-4)
    return prof


def test_rows_by_label_and_line() -> None:
    found = {(row.level, row.label): row for row in attend().rows}
    assert {label for level, label in found if level == "label"} == {
        "attention", "attention/qk", "attention/softmax", "attention/pv"}  # fmt: skip
    assert found["kernel", ""].runs == 3
    assert found["line", "attention/qk"].runs == 9
    assert found["line", "attention/qk"].flops == 9 * 2 * 32**3
    assert found["line", "attention/pv"].source == "acc = pto.dot(p, v[j : j + BN, :], acc * scale[:, None])"
    assert found["line", "attention/pv"].file.endswith("kernels.py")


def test_lines_that_were_fused_are_all_named() -> None:
    lines = [row.lines for row in attend(block=16).rows if row.label == "attention/softmax" and row.level == "line"]
    assert max(map(len, lines)) > 2


def test_times_add_up() -> None:
    found = attend(2).rows
    whole = found[0]
    assert sum(row.share for row in found if row.level == "line") == pytest.approx(1)
    assert sum(row.total_ns for row in found if row.level == "line") == pytest.approx(whole.total_ns)
    inner = sum(row.total_ns for row in found if row.label == "attention" and row.level == "line")
    inner += sum(row.total_ns for row in found if row.label.startswith("attention/") and row.level == "label")
    assert inner == pytest.approx(next(row.total_ns for row in found if row.label == "attention"))
    assert 0 < (whole.min_ns or 0) <= (whole.median_ns or 0) <= whole.total_ns


def test_a_program_takes_no_longer_than_its_launch() -> None:
    prof = attend()
    assert sum(launch.wall_ns * launch.threads for launch in prof.launches) >= prof.rows[0].total_ns > 0


def test_bytes_are_those_of_whole_tiles(arrays: list[Any]) -> None:
    with pto.profile() as prof:
        add[4](*arrays, BLOCK=250)
    assert next(row.bytes for row in prof.rows if row.level == "line" and row.label == "sum") == 3 * 4 * SIZE


@pytest.mark.parametrize("threads", [1, 2])
def test_no_run_is_lost_on_any_number_of_threads(threads: int) -> None:
    kernel = pto.jit(num_threads=threads)(add.function)
    x = np.ones(1 << 18, np.float32)
    out = np.zeros_like(x)
    with pto.profile(limit=100) as prof:
        for _ in range(5):
            kernel[256](x, x, out, BLOCK=1024)
    assert (out == 2).all()
    assert [row.runs for row in prof.rows if row.label == "sum"] == [5 * 256, 5 * 256]
    kept = sum(len(events) for launch in prof.launches for events in launch.events)
    assert kept + prof.dropped["events"] == 5 * 256 * 2
    assert kept <= 100


def test_beyond_the_limit_it_is_said(arrays: list[Any]) -> None:
    with pto.profile(limit=3) as prof:
        for _ in range(10):
            add[5](*arrays, BLOCK=200)
    assert len(prof.launches) == 3
    assert prof.dropped["launches"] == 7
    assert prof.rows[0].runs == 50
    assert "beyond the limit of 3" in str(prof)
    assert "7 launches" in prof._repr_html_()


def test_labels_in_one_loop_are_told_apart() -> None:
    x = np.random.default_rng(0).random((8, 100), np.float32)
    out = np.zeros_like(x)
    with pto.profile() as prof:
        rows[2](x, out, 0, BLOCK=4)
    shifted = x - x.max(1, keepdims=True)
    np.testing.assert_allclose(out, shifted / shifted.sum(1, keepdims=True), rtol=1e-4)
    assert {row.label for row in prof.rows if row.level == "label"} == {"shift", "shift + norm"}


def test_an_unprofiled_kernel_is_as_before(arrays: list[Any]) -> None:
    kernel = pto.jit(add.function)
    with pto.profile():
        kernel[4](*arrays, BLOCK=250)
    assert kernel.specializations == []
    kernel[4](*arrays, BLOCK=250)
    (made,) = kernel.specializations
    assert made.program.artifact.sites == ()


@pytest.mark.parametrize("name", quick_part(3))
def test_results_stay(name: str) -> None:
    launch = make_launch(name)
    with pto.profile() as prof:
        found = run(launch.kernel, launch)
    assert_close(found, launch.expected, launch.tolerance, f"{name} under a profile")
    assert prof.problems == []
    assert sum(row.share for row in prof.rows if row.level == "line") == pytest.approx(1)
    assert json.loads(json.dumps([dataclasses.asdict(row) for row in prof.rows]))


def test_lines_are_right_after_the_source_moved(arrays: list[Any]) -> None:
    def lines(kernel: Any) -> tuple[int, ...]:
        with pto.profile() as prof:
            kernel[1](*arrays[:2])
        return next(row.lines for row in prof.rows if row.lines)

    @pto.jit
    def twice(x, y):
        y[:] = x[:] * 2

    first = lines(twice)

    @pto.jit
    def twice(x, y):
        y[:] = x[:] * 2

    assert lines(twice)[0] > first[0]


def test_blocks_in_blocks(arrays: list[Any]) -> None:
    with pto.profile() as outer:
        add[4](*arrays, BLOCK=250)
        with pto.profile() as inner:
            add[4](*arrays, BLOCK=250)
        add[4](*arrays, BLOCK=250)
    add[4](*arrays, BLOCK=250)
    assert (len(inner.launches), len(outer.launches)) == (1, 3)
    assert (inner.rows[0].runs, outer.rows[0].runs) == (4, 12)


def test_a_profile_goes_on_but_not_inside_itself(arrays: list[Any]) -> None:
    prof = pto.profile()
    for _ in range(2):
        with prof:
            add[4](*arrays, BLOCK=250)
    assert len(prof.launches) == 2
    with prof, pytest.raises(RuntimeError, match="open already"):
        prof.__enter__()


def test_errors_in_the_block_are_the_users_own(arrays: list[Any]) -> None:
    def failing() -> str:
        with pytest.raises(Diagnostic) as caught:
            add[4](*arrays[:2], "no array", BLOCK=250)
        return str(caught.value)

    with pytest.raises(ZeroDivisionError), pto.profile() as prof:
        add[4](*arrays, BLOCK=250)
        said = failing()
        raise ZeroDivisionError
    assert failing() == said
    assert len(prof.launches) == 1 and prof.problems == []
    add[4](*arrays, BLOCK=250)
    assert len(prof.launches) == 1


@pytest.mark.parametrize("place", ["clock.clock", "recording.Recording.begin", "recording.Recording.kept_events"])
def test_its_own_failure_fails_no_call(place: str, arrays: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError("no clock here")

    monkeypatch.setattr(f"pypto.profiler.{place}", fail)
    with pto.profile() as prof:
        add[4](*arrays, BLOCK=250)
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])
    assert prof.problems == ["add: no clock here"]
    assert "not timed inside: add: no clock here" in str(prof)


@pytest.mark.parametrize("outside", [True, False])
def test_in_the_interpreter_launches_are_timed(outside: bool, arrays: list[Any]) -> None:
    blocks = (pto.interpreter(), prof := pto.profile())
    first, second = blocks if outside else blocks[::-1]
    with first, second:
        add[4](*arrays, BLOCK=250)
    np.testing.assert_array_equal(arrays[2], arrays[0] + arrays[1])
    (row,) = (row for row in prof.rows if row.level == "kernel")
    assert (row.runs, row.min_ns, row.kind) == (4, None, "whole launch")
    assert row.total_ns == prof.launches[0].wall_ns


def test_other_threads_are_not_watched_but_copied_contexts_are(arrays: list[Any]) -> None:
    def work() -> None:
        add[4](arrays[0], arrays[1], np.zeros(SIZE, np.float32), BLOCK=250)

    with pto.profile() as prof:
        known = [contextvars.copy_context() for _ in range(4)]
        threads = [threading.Thread(target=context.run, args=(work,)) for context in known]
        threads.append(threading.Thread(target=contextvars.Context().run, args=(work,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(prof.launches) == 4
    assert prof.rows[0].runs == 16


FORK = """
import os, warnings
import numpy as np, pypto as pto
from tests.profiler.kernels import add
warnings.simplefilter("ignore", DeprecationWarning)
x, out = np.ones(1 << 18, np.float32), np.zeros(1 << 18, np.float32)
with pto.profile() as prof:
    add[256](x, x, out, BLOCK=1024)
    prof._lock.acquire()  # as if another thread were just writing
    child = os.fork()
    if not child:
        add[256](x, x, out, BLOCK=1024)
        os._exit(0 if len(prof.launches) == 2 and prof.problems == [] and (out == 2).all() else 1)
    prof._lock.release()
    status = os.waitpid(child, 0)[1]
print(status, len(prof.launches))
"""


def test_a_forked_child_goes_on(tmp_path: Any) -> None:
    (tmp_path / "fork.py").write_text(FORK, encoding="utf-8")
    assert python(tmp_path / "fork.py", seconds=60).split() == ["0", "1"]


def test_only_a_profile_compiles_for_it(arrays: list[Any]) -> None:
    with pytest.raises(OptionError, match="no option `profile`"):
        pto.jit(profile=True)
    with pytest.raises(RuntimeError, match="under a profile alone"):
        add.profiled[4](*arrays, BLOCK=250)


def test_no_programs_and_no_launches(arrays: list[Any]) -> None:
    with pto.profile() as prof:
        pass
    assert prof.rows == ()
    assert "operator, kernel" in str(prof)
    with prof:
        add[0](*arrays, BLOCK=250)
    assert [row.runs for row in prof.rows if row.level == "kernel"] == [0]
    assert str(prof) and prof._repr_html_()


def test_trials_of_a_tuner_are_not_watched(arrays: list[Any]) -> None:
    from pypto.tuning import Config, autotune

    tuned = autotune([Config({"BLOCK": 250}), Config({"BLOCK": 500})], key=[])(add)
    with pto.profile() as prof:
        tuned[lambda meta: (SIZE // meta["BLOCK"],)](*arrays)
    assert len(prof.launches) == 1


def test_hooks_are_called(arrays: list[Any]) -> None:
    kernel = pto.jit(add.function)
    called = []
    kernel.add_pre_run_hook(lambda *_, **__: called.append("before"))
    kernel.add_post_run_hook(lambda *_, **__: called.append("after"))
    with pto.profile():
        kernel[4](*arrays, BLOCK=250)
    assert called == ["before", "after"]
