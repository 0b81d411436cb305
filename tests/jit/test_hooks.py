"""What stands around a launch: hooks, heuristics, warm-up, and pointers that are no arrays."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors import Diagnostic, OptionError


@pto.jit
def scale(x, out, n, BLOCK: pto.constexpr, EVEN: pto.constexpr = False):
    i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    t = pto.load(x + i) if EVEN else pto.load(x + i, mask=i < n)
    pto.store(out + i, t * n, mask=i < n)


def test_hooks_see_the_arguments() -> None:
    kernel, seen = pto.jit(scale.function), []
    kernel.add_pre_run_hook(lambda *args, **given: seen.append(("before", args[1][0], given)))
    kernel.add_post_run_hook(lambda *args, **given: seen.append(("after", args[1][0], given)))
    x = np.ones(4, np.float32)
    for run in (kernel[1], lambda *a, **k: kernel.run(*a, grid=(1,), **k)):
        run(x, np.zeros(4, np.float32), 4, BLOCK=4)
    with pto.interpreter():
        kernel[1](x, np.zeros(4, np.float32), 4, BLOCK=4)
    assert seen == [("before", 0, {"BLOCK": 4}), ("after", 4, {"BLOCK": 4})] * 3


def test_heuristics_compute_parameters() -> None:
    rules = {"BLOCK": lambda a: 4 if a["n"] > 2 else 2, "EVEN": lambda a: a["n"] % a["BLOCK"] == 0}
    kernel = pto.heuristics(rules)(pto.jit(scale.function))
    x, grids = np.ones(8, np.float32), []

    def grid(meta: Any) -> tuple[int]:
        grids.append((meta["BLOCK"], meta["EVEN"]))
        return (pto.cdiv(meta["n"], meta["BLOCK"]),)

    for n in (8, 7, 2):
        out = np.zeros(8, np.float32)
        kernel[grid](x, out, n)
        assert out.tolist() == [n] * n + [0] * (8 - n)
    assert grids == [(4, True), (4, False), (2, True)]
    assert len(kernel.specializations) == 3 and kernel.arg_names[-1] == "EVEN"
    assert dict(kernel.warmup(pto.float32, pto.float32, 8, grid=(1,)).types)["BLOCK"] == "4"
    assert kernel.run(x, out, n=8, grid=(2,), warmup=False) is None and out.sum() == 64


THREE = pto.constexpr(3)


def test_heuristics_stack_and_see_defaults() -> None:
    @pto.heuristics({"B": lambda args: args["A"] + 1})
    @pto.heuristics({"C": lambda args: args["B"] + args["A"]})
    @pto.jit
    def kernel(out, A: pto.constexpr = THREE, B: pto.constexpr = 0, C: pto.constexpr = 0):
        out[0] = A * 100 + B * 10 + C

    out = np.zeros(1, np.int32)
    kernel[1](out)
    assert out[0] == 347


def test_a_kernel_with_heuristics_is_called_by_others() -> None:
    @pto.heuristics({"K": lambda args: 5})
    @pto.jit
    def inner(x, K: pto.constexpr = 2):
        return x * K

    @pto.jit
    def outer(out, n):
        out[0] = inner(n)

    out = np.zeros(1, np.int32)
    outer[1](out, 3)
    assert out[0] == 6


def test_warm_up_compiles_and_runs_nothing() -> None:
    kernel, x = pto.jit(scale.function), np.ones(4, np.float32)
    for dtype in (pto.float32, np.dtype("float32"), np.float32):
        made = kernel.warmup(dtype, dtype, 4, BLOCK=4, grid=(1,))
        assert dict(made.types)["x"] == "array<f32, 1>"
    out = np.zeros(4, np.float32)
    kernel.run(x, out, 4, BLOCK=4, grid=(1,), warmup=True)
    assert out.sum() == 0 and len(kernel.specializations) == 1
    kernel[1](x, out, 4, BLOCK=4)
    assert out.sum() == 16 and len(kernel.specializations) == 1


def test_values_that_are_not_specialized_on() -> None:
    @pto.jit(do_not_specialize=["s", 3])
    def kernel(x, out, s, t):
        i = pto.arange(0, 4)
        pto.store(out + i, pto.load(x + i * s * t))

    x, out = np.arange(16, dtype=np.float32), np.zeros(4, np.float32)
    for s, t in ((1, 1), (2, 1), (1, 3)):
        kernel[1](x, out, s, t)
        assert out.tolist() == [0, s * t, 2 * s * t, 3 * s * t]
    assert len(kernel.specializations) == 1
    assert pto.interpret(kernel).opaque == {"s", "t"}


def test_options_of_other_compilers() -> None:
    made = pto.jit(
        do_not_specialize_on_alignment=["x"], noinline=True, debug=True, repr=str, launch_metadata=print, version=1
    )(scale.function)
    assert made.fn is scale.function and made.arg_names == ["x", "out", "n", "BLOCK", "EVEN"]
    with pytest.raises(OptionError):
        pto.jit(inline=True)(scale.function)


class Address:
    """An object that tells an address and a dtype."""

    def __init__(self, array: Any, dtype: Any) -> None:
        self.array, self.dtype = array, dtype

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)


class Strided(Address):
    @property
    def shape(self) -> Any:
        return self.array.shape

    def stride(self) -> Any:
        return tuple(s // self.array.itemsize for s in self.array.strides)


@pytest.mark.parametrize("wrap", [Address, Strided])
def test_pointers_that_are_no_arrays(wrap: Any) -> None:
    x, out = np.ones(4, np.float32), np.zeros(4, np.int32)
    for n in (1, 3):
        scale[1](wrap(x, np.int32), wrap(out, pto.int32), n, BLOCK=4)
        np.testing.assert_array_equal(out[:n], x.view(np.int32)[:n] * n)
    with pytest.raises(Diagnostic, match="a pointer to words"):
        scale[1](wrap(x, "words"), wrap(out, "words"), 4, BLOCK=4)


@pytest.mark.parametrize("wrap", [Address, Strided])
def test_a_pointer_may_move_and_is_not_kept(wrap: Any) -> None:
    """A second launch reads the address anew, and no plan of launches holds the object."""
    kernel = pto.jit(scale.function)
    x, out = wrap(np.ones(4, np.float32), pto.float32), wrap(np.zeros(4, np.float32), pto.float32)
    for n in (1, 2, 3):
        out.array = np.zeros(4, np.float32)
        kernel[1](x, out, 4, BLOCK=4)
        assert out.array.tolist() == [4.0] * 4, n
    alive = weakref.ref(out)
    del out
    gc.collect()
    assert alive() is None


class Quiet(np.ndarray[Any, Any]):
    """An array whose text, which takes long to make, nobody may ask for."""

    def __repr__(self) -> str:
        raise AssertionError("somebody made a text of an array")

    __str__ = __repr__


def test_nobody_makes_a_text_of_an_array_that_is_compiled_for() -> None:
    x = np.zeros(8, np.float32).view(Quiet)
    kernel = pto.jit(scale.function)
    warm, compiled = kernel.warmup(x, x.copy(), 8, BLOCK=4, grid=(2,)), kernel.compile(x, x.copy(), 8, BLOCK=4)
    assert dict(warm.types)["x"] == dict(compiled.types)["x"]
