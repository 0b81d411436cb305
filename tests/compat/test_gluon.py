"""`triton.experimental.gluon` can be imported and decorates; a launch says why there is none."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import pytest


def test_kernels_are_defined_and_not_launched(triton: ModuleType) -> None:
    gluon = importlib.import_module("triton.experimental.gluon")
    gl = importlib.import_module("triton.experimental.gluon.language")

    SIZE = gl.constexpr(4)

    def copy(x: Any, SIZE: Any = SIZE) -> None:
        """Copies."""

    kernel = gluon.jit(copy)
    assert (kernel.__name__, kernel.__doc__) == ("copy", "Copies.")
    assert isinstance(gluon.jit(noinline=True)(copy), gluon.GluonJITFunction)
    for use in (lambda: kernel[(1,)], kernel, lambda: gl.BlockedLayout([1], [32], [4], [0])):
        with pytest.raises(NotImplementedError, match="Gluon kernels are written for the layouts of one GPU"):
            use()


def test_decorators_find_the_parameters(triton: ModuleType) -> None:
    """Packages tune Gluon's kernels beside those under `triton.jit`, and choose later."""
    gluon = importlib.import_module("triton.experimental.gluon")

    def scale(x: Any, n: Any, BLOCK: Any) -> None:
        """Scales."""

    tuned = triton.autotune([triton.Config({"BLOCK": 4})], key=["n"])(gluon.jit(scale))
    assert tuned.arg_names == ["x", "n", "BLOCK"]
    with pytest.raises(NotImplementedError, match="Gluon kernels are written for the layouts of one GPU"):
        tuned[(1,)](None, 3)


@pytest.mark.parametrize("name", ["language.nvidia.hopper", "language.amd.cdna3", "nvidia.blackwell", "language.extra"])
def test_modules_of_gpus(triton: ModuleType, name: str) -> None:
    assert importlib.import_module(f"triton.experimental.gluon.{name}").__spec__ is not None


def test_the_languages_share_values(triton: ModuleType) -> None:
    gl = importlib.import_module("triton.experimental.gluon.language")
    assert gl.int32 is triton.language.int32
    assert gl.constexpr is triton.language.constexpr
