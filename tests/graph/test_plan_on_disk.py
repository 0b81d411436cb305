"""Plans as text, and plans on disk: what is read back is the same, what is damaged is made anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.arrays import Dim, softmax
from pypto.compile import session
from pypto.errors.ir import IRTextError
from pypto.graph.plan import store
from pypto.graph.plan.execution_context import launches
from pypto.graph.plan.plan_text import parse_plan, plan_text
from pypto.jit.generated import kernel_of
from pypto.runtime.disk_cache.cache import Cache

RNG = np.random.default_rng(2)
X, W = RNG.standard_normal((40, 64), np.float32), RNG.standard_normal((64, 64), np.float32)
OUTSIDE = RNG.standard_normal(64, np.float32)
N = Dim("n", 1, 100)


def layer(x: Any, w: Any) -> Any:
    y = np.tanh(x @ w + OUTSIDE)
    return y - y.mean(axis=-1, keepdims=True), np.concatenate([y[1:], y[:1]])


CASES: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "a layer": (layer, {}),
    "dims": (layer, {"dims": {"x": (N, None)}}),
    "rows": (lambda x, w: softmax(x) + w[0], {}),
    "no step": (lambda x, w: (x.T, 3), {}),
    "a constant": (lambda x, w: np.ones_like(x), {}),
    "no elements": (lambda x, w: x[:0].sum(axis=0) + w[0], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_a_plan_is_printed_and_parsed(name: str) -> None:
    function, options = CASES[name]
    version, arrays, _ = pto.fuse(function, **options).version_for((X, W), {})
    plan = version.plan
    text = plan_text(plan)
    again = parse_plan(text)
    assert plan_text(again) == text
    assert (again.arena_bytes, len(again.steps)) == (plan.arena_bytes, len(plan.steps))
    sizes = {"n": 40} if options else {}
    for a, b in zip(again.run([*arrays, *plan.fixed.values()], sizes), plan.run(arrays, sizes), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("step ", "stop ", "no part of a plan"),
        ("nodes ", "nodes 999,", "no nodes of the graph"),
        ("writes ", "writes 0,", "are not its"),
        ("reads 0", "reads 3,0", "no step before"),
        ("  a0 ", "  a0 x", "no argument"),
        ("kernel product", "kernel other", "no kernel"),
        ("@pto.jit", "@pto.jit(", "no kernel"),
        ("graph @layer", "graph layer", "expected"),
    ],
)
def test_what_is_no_plan_is_refused_with_its_line(old: str, new: str, problem: str | None) -> None:
    text = plan_text(pto.fuse(layer).plan(X, W))
    assert old in text
    with pytest.raises(IRTextError, match=problem):
        parse_plan(text.replace(old, new))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cache]:
    """A disk cache of its own."""
    made = Cache(tmp_path, "rw")
    monkeypatch.setattr(session(), "cache", made)
    monkeypatch.setattr(session(), "settings", replace(session().settings, cache="rw"))
    yield made


def kept(cache: Cache, function: Callable[..., Any] = layer, **options: Any) -> tuple[Any, Any, bytes]:
    """A plan that was compiled and kept: its function's result, the key, and the bytes."""
    fused = pto.fuse(function, **options)
    plan = fused.plan(X, W)
    assert not plan.is_compiled
    wanted = fused(X, W)
    key = plan.keep.args[0]
    data = cache.get(key)
    assert data is not None
    return wanted, key, data


def equal(found: Any, wanted: Any) -> None:
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("options", [{}, {"dims": {"x": (N, None)}}], ids=["fixed", "dims"])
def test_a_plan_from_disk_runs_without_reading_a_kernel(cache: Cache, options: Any) -> None:
    wanted, _, _ = kept(cache, **options)
    kernel_of.cache_clear()
    fused = pto.fuse(layer, **options)
    plan = fused.plan(X, W)
    assert plan.is_compiled
    equal(fused(X, W), wanted)
    equal(fused(X, W), wanted)
    assert {s.reason for k in plan.kernels for s in k.kernel.specializations} >= {"its plan was on disk"}
    (version, *_) = plan.kernels[0].kernel.specializations
    assert "kernel @" in str(plan.kernels[0].kernel.inspect(*launch_of(plan))["tile-ir"])
    assert version.program.function.name == plan.kernels[0].name


def launch_of(plan: Any) -> list[Any]:
    return launches(plan, [X, W, OUTSIDE])[plan.kernels[0].kernel]


def test_another_line_type_or_layout_is_another_entry(cache: Cache) -> None:
    _, key, _ = kept(cache)
    for given in ((X.astype(np.float64), W), (np.asfortranarray(X), W), (X[:7], W)):
        plan = pto.fuse(layer).plan(*given)
        assert not plan.is_compiled
        assert plan.keep.args[0].digest != key.digest


def damaged(data: bytes) -> Iterator[bytes]:
    """Entries that someone else made, or that were cut."""
    end = 8 + int.from_bytes(data[:8], "little")
    head = json.loads(data[8:end])

    def framed(changed: Any) -> bytes:
        text = json.dumps(changed).encode()
        return len(text).to_bytes(8, "little") + text + data[end:]

    yield b""
    yield data[: end // 2]
    yield b"\xff" * 64
    yield framed([])
    yield framed({**head, "steps": ""})
    yield framed({**head, "steps": head["steps"].replace("reads 0", "reads 1")})
    yield framed({**head, "steps": head["steps"].replace("[40, 64]", "[40, 65]")})
    yield framed({**head, "kernels": head["kernels"][1:]})
    yield framed({**head, "kernels": [{**k, "types": k["types"][1:]} for k in head["kernels"]]})
    yield framed({**head, "kernels": [{**k, "guard": [["one", "a0", 0, True]]} for k in head["kernels"]]})
    yield framed({**head, "kernels": [{**k, "guard": [["shape", "zz", 0, 1]]} for k in head["kernels"]]})
    yield framed({**head, "kernels": [{**k, "bytes": 5} for k in head["kernels"]]})


def test_a_damaged_entry_is_made_anew(cache: Cache) -> None:
    wanted, key, data = kept(cache)
    for entry in damaged(data):
        cache.put(key, entry)
        fused = pto.fuse(layer)
        equal(fused(X, W), wanted)
        assert cache.get(key) == data


def test_what_was_not_compiled_here_is_not_kept(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    with pto.interpreter():
        assert pto.fuse(layer).plan(X, W).keep is None
    monkeypatch.setattr(store, "package_files", lambda: "")  # the package was edited since it was imported
    assert pto.fuse(layer).plan(X, W).keep is None


def whitened(x: Any, w: Any) -> Any:
    lower = np.linalg.cholesky(x.T @ x + 50 * np.eye(64))
    values, vectors = np.linalg.eigh(lower @ lower.T)
    return np.tanh(vectors * values), np.linalg.inv(lower) @ w, np.linalg.inv(w)


def test_plans_with_steps_of_numpy_are_kept(cache: Cache) -> None:
    wanted, _, _ = kept(cache, whitened)
    kernel_of.cache_clear()
    fused = pto.fuse(whitened)
    plan = fused.plan(X, W)
    assert plan.is_compiled
    assert [s.nodes[-1].op for s in plan.steps if s.kernel is None].count("call") == 5
    equal(fused(X, W), wanted)
    assert {s.reason for k in plan.kernels for s in k.kernel.specializations} == {"its plan was on disk"}


def test_which_results_are_of_one_function_is_told_apart(cache: Cache) -> None:
    def one(x: Any, w: Any) -> Any:
        q, r = np.linalg.qr(w)
        return q @ r * 2, r

    def two(x: Any, w: Any) -> Any:
        return np.linalg.qr(w)[0] @ np.linalg.qr(w * 1)[1] * 2, np.linalg.qr(w)[1]

    for function in (one, two, one, two):
        found = pto.fuse(function)(X, W)
        for a, b in zip(found, function(X, W), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_plan_without_kernels_is_kept(cache: Cache) -> None:
    wanted, _, _ = kept(cache, lambda x, w: (np.linalg.inv(w),))
    fused = pto.fuse(lambda x, w: (np.linalg.inv(w),))
    assert fused.plan(X, W).kernels == ()
    equal(fused(X, W), wanted)


SCRIPT = """
import numpy as np, pypto as pto
f = pto.fuse(lambda x: np.linalg.inv(np.exp(x) @ x.T + np.eye(30)))
x = np.ones((30, 20), np.float32)
print(f.plan(x).is_compiled, float(f(x)[0, 0]))
"""


def test_a_second_process_finds_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(SCRIPT, encoding="utf-8")
    env = {**os.environ, "PYPTO_CACHE_DIR": str(tmp_path / "cache"), "PYPTO_CACHE": "rw"}
    runs = [subprocess.run([sys.executable, path], env=env, capture_output=True, text=True, check=True) for _ in "ab"]
    first, second = (run.stdout.split() for run in runs)
    assert (first[0], second[0], first[1]) == ("False", "True", second[1])
