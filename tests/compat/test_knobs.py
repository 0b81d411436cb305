"""Knobs of Triton: each is obeyed, or a warning says that it has no effect."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pypto.compat.triton.compiled import CompiledKernel
from pypto.compat.triton.inert_knobs import INERT
from pypto.compat.triton.kernels import JITFunction
from pypto.compat.triton.knobs import KINDS, names

# What is obeyed: hooks, interpretation, and folders that libraries ask for.
OBEYED = {
    "runtime.interpret", "runtime.launch_enter_hook", "runtime.launch_exit_hook", "runtime.jit_cache_hook",
    "runtime.jit_post_compile_hook", "cache.home_dir", "cache.dir",
}  # fmt: skip


@pytest.fixture
def knobs(triton: ModuleType) -> Iterator[Any]:
    helpers = importlib.import_module("triton._internal_testing")
    fresh, undo = helpers._fresh_knobs_impl()
    yield fresh()
    undo()


def kernel(**options: Any) -> JITFunction:
    """A kernel that no test has compiled."""
    fn = JITFunction(importlib.import_module("tests.compat.kernels_core").expression.fn, **options)
    fn._unsafe_update_src(fn.src.replace("EXPRESSION", "a + 1"))
    return fn


def settable() -> Iterator[str]:
    """All knobs that can be assigned, as `group.name`."""
    for group, kind in KINDS.items():
        plain = {n: x for n, x in {**vars(kind), **vars(kind())}.items() if not n.startswith("_")}
        yield from (f"{group}.{n}" for n, x in plain.items() if not isinstance(x, property) and n != "get_triton_dir")


def test_each_knob_is_obeyed_or_has_no_effect() -> None:
    known = set(settable())
    inert = {knob for knob in known if knob in INERT or knob.partition(".")[0] in INERT}
    assert known - inert == OBEYED
    assert {knob for knob in INERT if "." in knob} <= known


@pytest.mark.parametrize("knob", sorted(knob for knob in settable() if knob not in OBEYED and "kernel_" not in knob))
def test_to_set_a_knob_without_an_effect_is_warned_about(
    knob: str, knobs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(knobs, "propagate_env", False)
    group, _, name = knob.partition(".")
    with pytest.warns(UserWarning, match=rf"triton\.knobs\.{group}\.{name} has no effect in pypto: ") as found:
        setattr(getattr(knobs, group), name, "other")
    assert found[0].filename == __file__


def test_hooks_that_nothing_calls_are_warned_about(knobs: Any) -> None:
    with pytest.warns(UserWarning, match="kernel_load_end_hook has no effect in pypto: kernels are loaded when"):
        knobs.runtime.kernel_load_end_hook.add(print)
    with pytest.warns(UserWarning, match=r"triton\.knobs\.runtime has no newest_hook in pypto"):
        knobs.runtime.newest_hook = print


def test_variables_of_the_environment_are_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_F32_DEFAULT", "tf32")
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "0")
    monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere")
    with pytest.warns(UserWarning, match=r"language\.fp32_default has no effect") as found:
        names()
    assert len(found) == 1


def test_hooks_of_compilations(knobs: Any) -> None:
    seen: list[Any] = []
    fn, x, z = kernel(), np.zeros(8, np.float32), np.zeros(8, np.float32)
    knobs.runtime.jit_cache_hook = lambda **told: seen.append(("before", told))
    knobs.runtime.jit_post_compile_hook = lambda **told: seen.append(("after", told, len(fn.ours.specializations)))
    for _ in range(2):
        fn[(1,)](z, x, N=8)
    assert (z == 1).all() and [part[0] for part in seen] == ["before", "after"] and seen[1][2] == 1
    told = seen[0][1]
    assert told["fn"].jit_function is fn and told["compile"]["signature"] == {
        "z": "*fp32",
        "x": "*fp32",
        "N": "constexpr",
    }
    assert told["compile"]["constants"] == {(2,): 8} and not told["is_manual_warmup"]
    assert told["repr"] == "expression(z: *fp32, x: *fp32, N: constexpr)"
    fn.warmup(np.zeros(8), x, N=8, grid=(1,))
    assert len(seen) == 4 and seen[2][1]["is_manual_warmup"] and seen[2][1]["key"] != told["key"]


def test_a_kernel_is_compiled_again_from_what_a_hook_was_told(knobs: Any) -> None:
    fn, other, texts = kernel(), kernel(), []
    knobs.runtime.jit_cache_hook = lambda **told: texts.append(told["compile"]["specialization_data"])
    first = fn.warmup(np.zeros(8, np.float32), np.zeros(8, np.float32), N=8, grid=(1,))
    assert len(fn.device_caches["cpu"][0]) == len(fn.cache[0]) == 1
    again = other.preload(texts[0])
    assert first is not None and again is not None and first.hash == again.hash
    assert [s.types for s in other.ours.specializations] == [s.types for s in fn.ours.specializations]
    fn.device_caches[0][0].clear()
    assert not fn.ours.specializations
    fn.preload(texts[0])
    assert len(texts) == 3 and texts[0] == texts[1] == texts[2]
    with pytest.raises(RuntimeError, match="this is what expression is compiled for, and not double"):
        importlib.import_module("tests.compat.kernels_core").double.preload(texts[0])


def test_a_hook_may_forbid_to_compile(knobs: Any) -> None:
    fn, z = kernel(), np.zeros(8, np.float32)
    knobs.runtime.jit_cache_hook = lambda **told: True
    assert fn.run(z, z, N=8, grid=(1,)) is None
    assert not fn.ours.specializations and not z.any()


def test_hooks_of_launches(knobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fn = kernel(launch_metadata=lambda grid, metadata, args: {"flops": grid[0] * args["N"], "by": metadata.name})
    seen: list[Any] = []
    x, z = np.zeros(8, np.float32), np.zeros(8, np.float32)
    knobs.runtime.launch_enter_hook.add(lambda told: seen.append((told.get(), z[0])))
    knobs.runtime.launch_exit_hook.add(lambda told: seen.append((told.get()["name"], z[0])))
    fn[lambda meta: (meta["N"] // 4,)](z, x, N=8)
    assert seen == [({"name": "expression", "function": 0, "stream": 0, "flops": 16, "by": "expression"}, 0.0),
                    ("expression", 1.0)]  # fmt: skip
    monkeypatch.setattr(CompiledKernel, "launch_enter_hook", lambda told: seen.append(told.data))
    monkeypatch.setattr(JITFunction, "compiled_hook", lambda **told: seen.append(told["repr"]))
    kernel()[(1,)](z, x, N=8)
    assert "stream" in seen[4] and str(seen[2]).startswith("expression(z") and len(seen) == 6


def test_a_kernel_is_interpreted_as_the_knob_says(knobs: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "propagate_env", False)
    knobs.runtime.interpret = True
    assert sys.modules["triton.knobs"].runtime is knobs.runtime and kernel().ours.options.interpret
    knobs.runtime.interpret = False
    assert not kernel().ours.options.interpret
    helper = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
    assert helper(kernel().fn).ours.options.interpret and not isinstance(kernel(), helper)
