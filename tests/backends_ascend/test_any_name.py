"""A kernel and its variables may be called whatever Python allows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.cxx import identifier, symbol
from pypto.runtime.devices import Place
from tests.conformance.sources import define
from tests.sim.device import needs_compiler

TEXT = """
def {kernel}({x}, {y}, n):
    i = pto.program_id(0)
    {t} = {x}[i : i + 64] + n
    {y}[i : i + 64] = {t} * 2
"""
# Functions of C and of C++, keywords of C++, macros, and names of the headers.
KERNELS = ("remainder", "exp", "y0", "memcpy", "index", "main", "delete", "AscendC", "LocalTensor", "AddDouble", "Add",
           "GM_ADDR", "INFINITY", "int32_t", "PIPE_V", "_Complex", "__gm__", "block", "größe")  # fmt: skip


@pytest.fixture(scope="module")
def device() -> Iterator[Place]:
    with pto.device("ascend-sim") as place:
        yield place


@needs_compiler
@pytest.mark.parametrize("name", KERNELS)
def test_any_name(name: str, device: Place) -> None:
    kernel = define(TEXT.format(kernel=name, x=name, y="std", t="this"), name=name)
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernel[1](x, y, 3)
    np.testing.assert_array_equal(y, (x + 3) * 2)


@pytest.mark.parametrize(("name", "made"), [("softmax", "softmax"), ("exp", "exp_"), ("expf", "expf_"), ("not", "not_"),
                                            ("__x", "v__x"), ("x1", "x1"), ("_X", "v_X"), ("_x", "_x")])  # fmt: skip
def test_names_change_only_where_they_must(name: str, made: str) -> None:
    assert symbol(name) == made


def test_variables_may_be_called_like_functions() -> None:
    assert [identifier(x) for x in ("exp", "index", "class", "errno")] == ["exp", "index", "class_", "errno_"]
