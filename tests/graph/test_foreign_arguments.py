"""Arguments that no kernel computes with: refused by name, with the way out, and never stripped of their meaning."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors import PyptoError
from pypto.errors.frontend import OnlyAnAnnotation
from pypto.errors.graph import MixedLibraries, NeedsValue, NotTraced
from pypto.errors.launch import UnsupportedArgument, WrongArguments, WrongDecorator
from pypto.ir.types import float32
from pypto.runtime.device_arrays import DeviceArray
from tests.graph.test_outside import X


class Quantity(np.ndarray):  # type: ignore[type-arg]
    """An array with a unit, which its operations carry on."""

    unit = "m"

    def __array_finalize__(self, other: Any) -> None:
        self.unit = getattr(other, "unit", "m")


class Plain(np.ndarray):  # type: ignore[type-arg]
    """A subclass that changes nothing."""


class Lines:
    """An array of another library."""

    __array_interface__ = X.__array_interface__


def of_module(module: str, name: str, method: str) -> Any:
    """An object as another library has it."""
    return type(name, (), {"__module__": module, method: None})()


def scaled(x: Any, y: Any = 2) -> Any:
    return x * y


FOREIGN: dict[str, tuple[Callable[[], Any], str]] = {
    "dates": (lambda: np.array(["2020-01-01"], "M8[D]"), "array of times"),
    "a date": (lambda: datetime.date(2020, 1, 1), "date"),
    "texts": (lambda: np.array(["a"]), "array of texts"),
    "objects": (lambda: np.array([1, None], object), "objects of Python"),
    "records": (lambda: np.zeros(2, [("a", "f4")]), r"records \(a\)"),
    "swapped bytes": (lambda: X.astype(">f4"), "bytes swapped"),
    "a matrix": (lambda: np.matrix(X), "matrix"),
    "masked": (lambda: np.ma.masked_array(X, [1, 0, 0]), "masked array"),
    "a unit": (lambda: X.view(Quantity), "Quantity"),
    "another library": (Lines, "Lines"),
    "xarray": (lambda: of_module("xarray.core", "DataArray", "to_numpy"), "a DataArray of xarray"),
    "a date of pandas": (lambda: of_module("pandas", "Timestamp", "isoformat"), "a Timestamp of pandas"),
}


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", FOREIGN)
def test_what_is_no_array_of_a_kernel_is_named(name: str) -> None:
    make, match = FOREIGN[name]
    value = make()
    with pytest.raises(UnsupportedArgument, match=f"scaled: argument `x` is .*{match}"):
        pto.fuse(scaled)(value)
    with pytest.raises(UnsupportedArgument, match="argument `y`"):
        pto.fuse(scaled)(X, y=value)
    with pytest.raises(NotTraced, match=match):
        pto.fuse(lambda x: x * value)(X)


def test_an_array_on_a_device_is_named() -> None:
    array = DeviceArray("ascend:0", None, 0, (3,), (1,), float32)
    with pytest.raises(TypeError, match="an argument is an array on a device"):
        pto.fuse(scaled).plan(array)


@pytest.mark.torch
def test_a_tensor_of_torch_is_named() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(MixedLibraries, match="`x` is an array of numpy, and `y` one of torch"):
        pto.fuse(scaled)(X, torch.ones(3))
    outside = torch.ones(3)
    with pytest.raises(NotTraced, match="a tensor of torch in a call on arrays of numpy"):
        pto.fuse(lambda x: x + outside)(X)


class Exchanged:
    """An array of a library that has DLPack, and a namespace of the array API standard: this class."""

    device = 1, 0

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack__(self, **given: Any) -> Any:
        return self.array.__dlpack__(**given)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array_namespace__(self) -> type:
        return Exchanged

    @classmethod
    def from_dlpack(cls, array: Any) -> Exchanged:
        return cls(np.from_dlpack(array))


class Bare(Exchanged):
    """An array of a library without a namespace."""

    __array_namespace__: Any = None


def test_arrays_that_exchange_their_memory() -> None:
    fused = pto.fuse(lambda x, y: {"sum": x + y, "x": x[::2]})
    for _ in range(3):
        got = fused(Exchanged(X), Exchanged(X * 2))
        assert {type(x) for x in got.values()} == {Exchanged}
        np.testing.assert_array_equal(got["sum"].array, X * 3)
        assert np.shares_memory(got["x"].array, X)
    assert type(pto.fuse(scaled)(Bare(X))) is np.ndarray
    np.testing.assert_array_equal(pt.softmax(Exchanged(X)).array, pt.softmax(X))
    with pytest.raises(MixedLibraries, match=r"np\.asarray\(x\)"):
        fused(Exchanged(X), X)
    elsewhere = Exchanged(X)
    elsewhere.device = 2, 0
    with pytest.raises(UnsupportedArgument, match=r"on the device \(2, 0\) of DLPack"):
        fused(elsewhere, elsewhere)


def test_subclasses_that_add_nothing_are_arrays(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "x", np.float32, "w+", shape=(3,))
    mapped[:] = X
    for x in (mapped, X.view(Plain)):
        np.testing.assert_array_equal(pto.fuse(scaled)(x), X * 2)


def filled(x: Any) -> Any:
    out = np.zeros(3, np.float32)
    for n in range(3):
        out[n] = x[n] * 2
    return out


REFUSED: dict[str, tuple[Callable[[], Any], type[PyptoError], str]] = {
    "a format": (lambda: pto.fuse(lambda x: f"{x:.3f}")(X), NeedsValue, "a format"),
    "a keyword of torch": (lambda: pt.softmax(X, dim=0), PyptoError, "axis"),
    "too many arguments": (lambda: pto.fuse(scaled)(X, X, X), WrongArguments, "too many"),
    "a keyword": (lambda: pto.fuse(scaled)(X, yy=1), WrongArguments, "did you mean `y`"),
    "pto.tensor": (lambda: pto.tensor(X), OnlyAnAnnotation, "makes no array"),
    "simulate": (lambda: pto.simulate(pto.fuse(scaled)), WrongDecorator, "the fused function `scaled`"),
    "interpret": (lambda: pto.interpret(pto.fuse(scaled)), WrongDecorator, "the fused function `scaled`"),
    "vjp": (lambda: pto.vjp(pto.fuse(scaled)), WrongDecorator, "the fused function `scaled`"),
    "jit": (lambda: pto.jit(pto.fuse(scaled)), WrongDecorator, "the fused function `scaled`"),
    "no function": (lambda: pto.fuse(3), WrongDecorator, "a function on arrays"),  # type: ignore[call-overload]
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_is_a_sentence(name: str) -> None:
    call, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        call()


def test_a_misspelt_name_is_suggested() -> None:
    from pypto import library

    rows = (pt, "sofmax", "softmax"), (pto, "simulat", "simulate"), (library, "rms_nrm", "rms_norm")
    for module, name, meant in rows:
        with pytest.raises(AttributeError, match=f"did you mean {meant}"):
            getattr(module, name)


def test_an_array_that_is_filled_works_or_says_how() -> None:
    try:
        found = pto.fuse(filled)(X)
    except NeedsValue as error:
        assert "np.zeros_like(x, shape=…)" in str(error)
    else:
        np.testing.assert_array_equal(found, X * 2)


def test_a_kernel_is_no_function_on_arrays() -> None:
    @pto.jit
    def kernel(x: Any) -> None:
        x[0] = 1

    with pytest.raises(WrongDecorator, match="the kernel `kernel`"):
        pto.fuse(kernel)
    assert copy.copy(kernel) is kernel


def test_an_array_on_a_device_beside_one_of_the_host() -> None:
    fused = pto.fuse(lambda x, y: x + y, dims={"x": (pt.Dim("n", 1, 64),), "y": (pt.Dim("n", 1, 64),)})
    with pytest.raises(UnsupportedArgument, match="`x` is an array on the device"):
        fused(pto.to_device(np.ones(3, np.float32), "ascend-sim"), np.ones(3, np.float32))
