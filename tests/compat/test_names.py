"""Every public name of Triton is there, and compiles in a kernel or says why not."""

from __future__ import annotations

import importlib
import linecache
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import pypto as pto
from docs.triton_names import names
from pypto.compat.triton.lang import NOT_OF_TRITON
from pypto.compat.triton.tree import contents
from pypto.errors import Diagnostic
from pypto.ops.public import Refused
from tests.compat.names import TYPES, USES

TREE = contents()["triton.language"]
LANGUAGE = [n for m, n, _ in names() if m == "triton.language" and not isinstance(TREE.get(n), Refused | ModuleType)]
REFUSED = [n for m, n, _ in names() if m == "triton.language" and isinstance(TREE.get(n), Refused)]

pytestmark = pytest.mark.usefixtures("triton")

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def combine(a, b):
    return a + b

@triton.constexpr_function
def half(n):
    return n // 2

@triton.jit
def loop(k):
    total = 0
    for i in tl.range(0, k, num_stages=3, warp_specialize=True):
        total += i
    return total

@triton.jit
def unrolled(t):
    for i in tl.static_range(3):
        t = t + i
    return t

@triton.jit
def kernel(x, y, k):
    o = tl.arange(0, 64)
    p, q = x + o, y + o
    t, n = tl.load(p), tl.load(q)
    u, m, w = t + 1, tl.reshape(t, (8, 8)), n.to(tl.uint32)
    e = tl.zeros((32, 32), tl.float8e4nv)
    b = tl.make_block_ptr(x, (8, 8), (8, 1), (0, 0), (8, 8), (1, 0))
    d = tl.make_tensor_descriptor(x, [8, 8], [8, 1], [8, 8])
    result = {use}
"""


def compiled(use: str) -> Any:
    file, text = f"<use of {use}>", KERNEL.format(use=use)
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "uses"}
    exec(compile(text, file, "exec"), names)
    kernel = names["kernel"]
    return kernel.warmup(np.float32, np.int32, 7, grid=(1,))


@pytest.mark.filterwarnings("ignore::pypto.errors.launch.BusyWaiting")  # of what polls
@pytest.mark.parametrize("name", [n for n in LANGUAGE if n not in TYPES and n not in REFUSED])
def test_language(name: str) -> None:
    assert compiled(USES[name]).program is not None


@pytest.mark.parametrize(
    "use", [*(f"tl.{n}(t)" for n in REFUSED), USES["inline_asm_elementwise"].replace("tanh.approx", "prmt")]
)
def test_refused_says_why(use: str) -> None:
    with pytest.raises(Diagnostic, match=r"(?s)cannot be used in a kernel.*help: "):
        compiled(use)


def test_modules_have() -> None:
    lost = [f"{module}.{name}" for module, name, _ in names() if not hasattr(importlib.import_module(module), name)]
    assert lost == []


def test_names_that_triton_has_not_are_not_served() -> None:
    """Files define `relu` and `mean` themselves, and some ask with `hasattr` whether they have to."""
    assert len(NOT_OF_TRITON) == 8
    assert all(hasattr(pto, name) and name not in TREE for name in NOT_OF_TRITON)


def test_an_autotuner_of_a_package_finds_the_imports_of_tritons_own(triton: ModuleType) -> None:
    module = triton.runtime.autotuner
    assert module.JITFunction is triton.JITFunction
    assert module.knobs is triton.knobs
    assert module.get_cache_manager(module.triton_key()) is not None
