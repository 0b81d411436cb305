"""Kernels as torch's compiler writes them, with its helpers."""

# mypy: ignore-errors

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")
TEXT = """
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

@triton.jit
def pointwise(in_ptr0, in_ptr1, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xnumel = 100
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = (xindex % 10)
    x1 = xindex // 10
    tmp0 = tl.load(in_ptr0 + (x1 + 10*x0), xmask, eviction_policy='evict_last')
    tmp1 = tl.load(in_ptr1 + (x0), xmask, eviction_policy='evict_last').to(tl.float32)
    tmp2 = tmp0 + tmp1
    tmp3 = tl.full([1], 0, tl.int32)
    tmp4 = triton_helpers.maximum(tmp3, tmp2)
    tmp5 = libdevice.rsqrt(tmp4 + 1.0) * tl_math.exp(-tmp4) + tl.sigmoid(tmp2)
    tl.store(out_ptr0 + (xindex), tmp5, xmask)

@triton.jit
def reduction(in_ptr0, out_ptr0, out_ptr1, xnumel, rnumel, XBLOCK: tl.constexpr, RBLOCK: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rbase = tl.arange(0, RBLOCK)[None, :]
    _tmp2 = tl.full([XBLOCK, RBLOCK], float("-inf"), tl.float32)
    _tmp3 = tl.full([XBLOCK, RBLOCK], 0, tl.float32)
    for roffset in range(0, rnumel, RBLOCK):
        rindex = roffset + rbase
        rmask = rindex < rnumel
        tmp0 = tl.load(in_ptr0 + (rindex + rnumel*xindex), rmask & xmask, eviction_policy='evict_first', other=0.0)
        tmp1 = tl.broadcast_to(tmp0, [XBLOCK, RBLOCK])
        _tmp2 = tl.where(rmask & xmask, triton_helpers.maximum(_tmp2, tmp1), _tmp2)
        _tmp3 = tl.where(rmask & xmask, _tmp3 + tmp1, _tmp3)
    tl.store(out_ptr0 + (xindex), triton_helpers.max2(_tmp2, 1)[:, None], xmask)
    tl.store(out_ptr1 + (xindex), tl.sum(_tmp3, 1)[:, None], xmask)

@triton.jit
def persistent(in_ptr0, out_ptr0, out_ptr1, out_ptr2, xnumel, XBLOCK: tl.constexpr, R: tl.constexpr):
    xindex = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    rindex = tl.arange(0, R)[None, :]
    tmp0 = tl.load(in_ptr0 + (rindex + R*xindex), xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R])
    _, tmp2 = triton_helpers.max_with_index(tmp1, tl.broadcast_to(rindex, tmp1.shape), 1)
    mean, m2, _w = triton_helpers.welford(tmp1, tl.zeros_like(tmp1), tl.full(tmp1.shape, 1.0, tl.float32), 1)
    tl.store(out_ptr0 + (xindex), tmp2[:, None], xmask)
    tl.store(out_ptr1 + (xindex), mean[:, None], xmask)
    tl.store(out_ptr2 + (xindex), (m2 / R)[:, None], xmask)
"""


@pytest.fixture(scope="module")
def helpers(triton: ModuleType) -> Iterator[ModuleType]:
    """torch's helpers, imported while `triton` is pypto: once they were without any, they would stay so."""
    runtime = importlib.import_module("torch._inductor.runtime")
    before = dict(sys.modules)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("triton_compat", "triton_helpers"):
            patch.delitem(sys.modules, f"{runtime.__name__}.{name}", raising=False)
            patch.delattr(runtime, name, raising=False)
        yield importlib.import_module(f"{runtime.__name__}.triton_helpers")
    for name in [name for name in sys.modules if name.startswith("torch._inductor") and name not in before]:
        del sys.modules[name]  # what has met this `triton` is nothing for other tests
        parent, _, own = name.rpartition(".")
        if hasattr(sys.modules.get(parent), own):
            delattr(sys.modules[parent], own)
    for asked in vars(importlib.import_module("torch.utils._triton")).values():
        if hasattr(asked, "cache_clear"):
            asked.cache_clear()  # whether there is a `triton`


@pytest.fixture(scope="module")
def kernels(helpers: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("inductor") / "generated.py"
    path.write_text(TEXT, encoding="utf-8")
    names: dict[str, Any] = {"__name__": "generated"}
    exec(compile(TEXT, str(path), "exec"), names)
    return names


def test_pointwise(kernels: dict[str, Any]) -> None:
    x, y, out = torch.randn(10, 10), torch.randn(10, dtype=torch.bfloat16), torch.empty(100)
    kernels["pointwise"][(1,)](x, y, out, 100, XBLOCK=128)
    t = (x.T + y.float()).double().reshape(100)
    r = t.clamp(min=0)
    torch.testing.assert_close(out.double(), (r + 1).rsqrt() * (-r).exp() + t.sigmoid(), atol=1e-6, rtol=1e-5)


def test_reduction(kernels: dict[str, Any]) -> None:
    x, most, total = torch.randn(7, 100), torch.empty(7), torch.empty(7)
    kernels["reduction"][(2,)](x, most, total, 7, 100, XBLOCK=4, RBLOCK=32)
    torch.testing.assert_close(most, x.max(1).values)
    torch.testing.assert_close(total, x.sum(1), atol=1e-5, rtol=1e-5)


def test_persistent_reduction(kernels: dict[str, Any]) -> None:
    x, index, mean, variance = torch.randn(5, 32), torch.empty(5, dtype=torch.int64), torch.empty(5), torch.empty(5)
    kernels["persistent"][(1,)](x, index, mean, variance, 5, XBLOCK=8, R=32)
    assert torch.equal(index, x.argmax(1))
    torch.testing.assert_close(mean, x.mean(1))
    torch.testing.assert_close(variance, x.var(1, correction=0))
