"""A kernel and its variables may be called whatever Python allows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

import pypto as pto
from pypto.backends.ascend.blockir.reserved import identifier, symbol
from pypto.runtime.places import Place
from tests.conformance.sources import define
from tests.sim.device import needs_compiler

slow = partial(pytest.param, marks=pytest.mark.slow)
TEXT = """
def {kernel}({x}, {y}, n):
    i = pto.program_id(0)
    {t} = {x}[i : i + 64] + n
    {y}[i : i + 64] = {t} * 2
"""
# Functions of C and of C++, keywords of C++, macros, and names of the headers: of each kind one is quick.
KERNELS = ("remainder", "main", "delete", "LocalTensor", "AddDouble", "INFINITY", "__gm__", "größe", "run",
           *map(slow, ("exp", "y0", "memcpy", "index", "AscendC", "Add", "GM_ADDR", "int32_t", "PIPE_V", "_Complex",
                       "block", "args", "take", "place")))  # fmt: skip


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


PRODUCT = """
def kernel({a}, {b}, {c}, {n}):
    acc = pto.zeros((16, 16), pto.float32)
    for k in range(0, {n}, 16):
        acc += pto.dot({a}[0:16, k : k + 16], {b}[k : k + 16, 0:16])
    more = pto.dot({a}[0:16, 0:16], {b}[16:32, 0:16])
    {c}[0:16, :] = acc{beside}
    {c}[16:32, :] = more
"""


@pytest.mark.covering(quick=1, slow=2)
@needs_compiler
@pytest.mark.parametrize("beside", ["", " + 1.0"])
@pytest.mark.parametrize("names", [
    ("a1", "b1", "sums", "step"), ("b2", "a2", "sums_2", "part"), ("a1_2", "b1_1", "c", "n"),
])  # fmt: skip
def test_arrays_may_be_called_as_buffers_of_products_are(names: tuple[str, ...], beside: str, device: Place) -> None:
    kernel = define(PRODUCT.format(**dict(zip("abcn", names, strict=True)), beside=beside))
    a, b = (np.random.default_rng(i).integers(-3, 3, (32, 32)).astype(np.float16) for i in range(2))
    c = np.zeros((32, 16), np.float32)
    kernel[1](a, b, c, 32)
    np.testing.assert_array_equal(c[:16], a[:16].astype(np.float32) @ b[:, :16] + bool(beside))
    np.testing.assert_array_equal(c[16:], a[:16, :16].astype(np.float32) @ b[16:, :16])


@pytest.mark.parametrize(("name", "made"), [("softmax", "softmax"), ("exp", "exp_"), ("expf", "expf_"), ("not", "not_"),
                                            ("__x", "v__x"), ("x1", "x1"), ("_X", "v_X"), ("_x", "_x"),
                                            ("größe", "gru00f6u00dfe"), ("<lambda>", "lambda"),
                                            ("大", "u5927")])  # fmt: skip
def test_names_change_only_where_they_must(name: str, made: str) -> None:
    assert symbol(name) == made


def test_variables_may_be_called_like_functions() -> None:
    names = {"exp": "exp", "index": "index", "class": "class_", "errno": "errno_", "t.0": "t_0"}
    assert {name: identifier(name) for name in names} == names
