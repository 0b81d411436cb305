"""Rows of several launches replay them as one launch list: bit-equal, on memory that no other call sees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library
from pypto.errors.library import OverlappingOperands, UnstoredNaN
from pypto.library.call_cache import CACHE_BYTES, MOST, WAIT, CheckedCall
from pypto.library.checking import Checked, compared
from pypto.library.row import Operator
from pypto.runtime.acl import Memory
from pypto.runtime.device_arrays import DeviceArray
from pypto.runtime.launches import BoundLaunches

RNG = np.random.default_rng(5)
SEVERAL = ("rms_norm_backward",)
SLOW = (
    "attention_int8_cache", "block_sparse_attention", "compressor", "gated_delta_sequence", "grouped_matmul",
    "hyper_connections", "indexer_prolog", "indexer_prolog_v4", "lightning_indexer", "mla_prolog", "mla_prolog_quant",
    "mla_prolog_v4", "mla_prolog_v4_quant", "mx_matmul", "paged_attention", "permute_tokens",
    "window_attention",
)  # fmt: skip
X, G, DY = RNG.standard_normal((3, 40), np.float32), np.ones(40, np.float32), RNG.standard_normal((3, 40), np.float32)


def fresh(name: str) -> Operator:
    """Returns a row that no call has met."""
    return replace(library.rows[name])


def the_call(row: Operator) -> CheckedCall:
    """Returns the only call that a row keeps."""
    (call,) = row.call_cache.calls.values()
    return call


def bytes_of(results: Mapping[str, Any]) -> dict[str, bytes]:
    return {name: np.ascontiguousarray(x).tobytes() for name, x in results.items()}


def replayed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Notes for every native replay whether it made the launches."""
    seen: list[bool] = []
    replay = BoundLaunches.replay

    def noted(self: BoundLaunches, arrays: Any) -> bool:
        seen.append(replay(self, arrays))
        return seen[-1]

    monkeypatch.setattr(BoundLaunches, "replay", noted)
    return seen


@pytest.mark.parametrize("name", (*SEVERAL, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)))
def test_several_launches_become_one_list(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, seen = fresh(name), replayed(monkeypatch)
    first, second = (row.sample(np.random.default_rng(n)) for n in (1, 2))
    expected = bytes_of(row.results(first)), bytes_of(row.results(second))
    for _ in range(WAIT + 1):
        row.results(first)
    seen.clear()
    assert (bytes_of(row.results(second)), bytes_of(row.results(first))) == (expected[1], expected[0])
    recording = the_call(row).recording
    assert recording is not None and len(recording.launches.steps) > 1 and seen == [True, True]


def test_results_belong_to_their_call() -> None:
    row = fresh("rms_norm_backward")
    calls = [(X * n, G, DY) for n in range(WAIT + 6)]
    results = [row(*given) for given in calls]
    for given, found in zip(calls, results, strict=True):
        for one, other in zip(library.rows["rms_norm_backward"](*given), found, strict=True):
            assert np.array_equal(one, other)
    assert len({x.ctypes.data for pair in results for x in pair}) == 2 * len(calls)


def test_threads_have_memory_of_their_own() -> None:
    row = fresh("rms_norm_backward")
    samples = [row.sample(np.random.default_rng(n)) for n in range(8)]
    expected = [bytes_of(row.results(sample)) for sample in samples]

    def calls(number: int) -> bool:
        return all(bytes_of(row.results(samples[number])) == expected[number] for _ in range(30))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(calls, range(8)))
    assert the_call(row).recording is not None


def test_a_list_serves_the_numbers_that_it_holds() -> None:
    row, eps = fresh("rms_norm_backward"), [1e-6] * (WAIT + 4) + [0.5, 1e-6, 0.0, -0.0] * 8
    for value in eps:
        found, expected = row(X, G, DY, eps=value), fresh("rms_norm_backward")(X, G, DY, eps=value)
        assert all(map(np.array_equal, found, expected))
    assert the_call(row).recorder is None  # numbers that change in every call


def test_large_memory_between_launches_is_not_kept() -> None:
    row = fresh("rms_norm_backward")
    x, g, dy = (np.ones(shape, np.float32) for shape in ((2, 2048), (2048,), (2, 2048)))
    for _ in range(WAIT + 4):
        row(x, g, dy)
    recording = the_call(row).recording
    assert recording is not None and recording.launches.arena.nbytes == row.call_cache.nbytes == 0
    for _ in range(WAIT + 1):
        row(X, G, DY)
    assert 0 < row.call_cache.nbytes <= CACHE_BYTES


def test_the_memory_of_calls_that_are_forgotten_is_released() -> None:
    row = fresh("rms_norm_backward")
    for rows in range(1, MOST + 4):
        for _ in range(WAIT + 1 if rows < 4 else 1):
            row(np.ones((rows, 8), np.float32), np.ones(8, np.float32), np.ones((rows, 8), np.float32))
    assert len(row.call_cache.calls) == MOST and row.call_cache.nbytes == 0


def test_one_array_may_be_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    row, seen, x = fresh("layer_norm"), replayed(monkeypatch), X.reshape(1, 3, 40)
    for _ in range(WAIT + 4):
        row(x, G, DY[0])
    seen.clear()
    assert np.array_equal(row(x, G, G)[0], library.rows["layer_norm"](X, G, G)) and seen == [True]


@pytest.mark.parametrize("calls", [0, 1, WAIT + 3])
def test_updated_arrays_that_overlap_are_refused(calls: int) -> None:
    row = fresh("adamw")
    memory = np.arange(30, dtype=np.float32)
    w, m, g, v = memory[:10], memory[8:18], np.ones(10, np.float32), np.ones(10, np.float32)
    for _ in range(calls):
        row(w.copy(), g, m.copy(), v)
    before = memory.copy(), v.copy()
    with pytest.raises(OverlappingOperands, match="updates `m` and `w`"):
        row(w, g, m, v)
    assert np.array_equal(memory, before[0]) and np.array_equal(v, before[1])
    row(memory[:20:2], g, memory[1:20:2], v)  # elements between each other


def test_an_argument_that_overlaps_an_updated_one_is_read_as_always(monkeypatch: pytest.MonkeyPatch) -> None:
    row, seen = fresh("adamw"), replayed(monkeypatch)
    given = [RNG.random(64, np.float32) for _ in range(4)]
    for _ in range(WAIT + 3):
        row(*(x.copy() for x in given))
    seen.clear()
    w, m, v = (given[n].copy() for n in (0, 2, 3))
    expected = [x.copy() for x in (w, m, v)]
    fresh("adamw")(expected[0], expected[0], *expected[1:])
    row(w, w, m, v)
    assert all(map(np.array_equal, (w, m, v), expected)) and seen == [False]


@pytest.mark.slow
def test_a_row_that_reads_elements_is_not_recorded() -> None:
    row = fresh("quantize_static")
    values = row.sample(np.random.default_rng(1))
    for _ in range(WAIT + 4):
        row(**values)
    assert the_call(row).recording is None
    with pytest.raises(UnstoredNaN):
        row(**values | {"x": np.full_like(values["x"], np.nan)})


ON_DEVICE = ("rms_norm_backward", "adamw", "grouped_matmul", "lightning_indexer", "window_attention")


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_DEVICE)
def test_lists_on_a_device_replay_in_its_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row, place = fresh(name), pto.device("ascend-sim")
    first, second = (row.sample(np.random.default_rng(n)) for n in (1, 2))
    on_cpu = library.rows[name].results(second)
    runs: list[int] = []
    run = BoundLaunches.run

    def counted(self: BoundLaunches, arrays: Any) -> Any:
        runs.append(len(self.steps))
        return run(self, arrays)

    monkeypatch.setattr(BoundLaunches, "run", counted)
    with place:
        for values in (first,) * (WAIT + 1) + (second, first):
            given = {k: place.array(x) if isinstance(x, np.ndarray) else x for k, x in values.items()}
            launch, copy = Counted(place.launch), Counted(Memory.write)
            with monkeypatch.context() as patch:
                patch.setattr(place, "launch", launch)
                patch.setattr(Memory, "write", copy)
                results = row(**given)
            assert copy.calls == 0
            outputs = [spec.name for spec in row.signature.outputs]
            found = dict(zip(outputs, (results,) if len(outputs) == 1 else results or (), strict=True))
            found |= {effect: given[effect] for effect in row.effects}
            assert all(isinstance(x, DeviceArray) and x.device is place for x in found.values())
            if values is second:
                compared(Checked(name, "ascend-sim", "", "small", "", {}), row, on_host(found), on_cpu)
    recording = the_call(row).recording
    assert recording is not None and recording.launches.memory is place
    assert runs == [len(recording.launches.steps)] * 2 and launch.calls == runs[0]


@pytest.mark.slow
def test_a_list_whose_memory_a_fault_has_taken_is_bound_anew() -> None:
    row, place = fresh("rms_norm_backward"), pto.device("ascend-sim")
    with place:
        for calls in (WAIT + 2, 2):
            for _ in range(calls):
                _, dg = row(*map(place.array, (X, G, DY)))
            np.testing.assert_allclose(dg.numpy(), library.rows[row.name](X, G, DY)[1], rtol=1e-4)
            place.acl.close()


class Counted:
    """Counts the calls of a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self.function(*args)


def on_host(arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x.numpy() for name, x in arrays.items()}
