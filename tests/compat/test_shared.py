"""Shared libraries of kernels, as AOTInductor calls them."""

from __future__ import annotations

import ctypes
import importlib
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from pypto.compat.triton.compiler import ASTSource, compile
from pypto.compat.triton.kernels import JITFunction
from pypto.errors.aot import NotAhead

needs_cc = pytest.mark.skipif(shutil.which("cc") is None or sys.platform != "linux", reason="needs a C compiler")


@pytest.fixture(scope="module")
def kernels(triton: ModuleType) -> Any:
    return importlib.import_module("tests.compat.kernels_core")


@needs_cc
def test_a_library_is_called_as_torch_calls_it(kernels: Any, tmp_path: Path) -> None:
    signature = {"x": "*fp32", "args": "*fp32", "int": "i32", "step": "fp64", "status": "i1", "BLOCK": "constexpr"}
    compiled = compile(ASTSource(kernels.double, signature, {"BLOCK": 16}))
    assert compiled.asm["so"] is compiled.asm["launcher.so"]
    (tmp_path / "kernel.so").write_bytes(compiled.asm["so"])
    library = ctypes.CDLL(str(tmp_path / "kernel.so"))
    x, out = np.arange(40, dtype=np.float32), np.zeros(40, np.float32)
    n, factor, flag = ctypes.c_int64(37), ctypes.c_float(0.5), ctypes.c_bool(True)
    for target in (out, x):
        wanted = np.where(np.arange(40) < 37, x * 0.5 + 1, target)
        places = [x.ctypes.data, target.ctypes.data, *(ctypes.addressof(number) for number in (n, factor, flag)), None]
        entry = ctypes.cast(getattr(library, compiled.metadata.name), ctypes.c_void_p)
        library.run_from_nativert(3, 1, 1, 1, (ctypes.c_void_p * 6)(*places), entry)
        library.run_from_nativert(3, 0, 1, 1, None, entry)
        np.testing.assert_array_equal(target, wanted)


def test_arguments_that_c_cannot_pass_are_refused(kernels: Any) -> None:
    source = ASTSource(JITFunction(kernels.double.fn), {"x": "*fp32"}, {})
    example = importlib.import_module("pypto.compat.triton.shared").example
    with pytest.raises(
        NotAhead, match=r"double cannot be compiled ahead of time: its argument `x` is of the type \*ptr<k>"
    ):
        example("double", "x", source, {"x": "*ptr<k>"})
