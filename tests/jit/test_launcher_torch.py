"""Torch tensors in the native launcher."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.compile import session
from tests.jit.counting import Counted, counted

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    session().launcher is None or not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"),
    reason="tensors go through Python here",
)
DTYPES = [
    "float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64", "uint8", "uint16", "bool",
    "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


@pytest.fixture
def kernel(path: str) -> Counted:
    if path == "python":
        pytest.skip("about native launches")

    def copy_rows(x, out):
        i, j = pto.program_id(0), pto.arange(0, 4)
        pto.store(out + i * out.strides[0] + j, pto.load(x + i * x.strides[0] + j * x.strides[1]))

    return counted(copy_rows)


@pytest.mark.parametrize("name", DTYPES)
def test_a_second_launch_does_not_go_through_python(kernel: Counted, name: str) -> None:
    x = torch.tensor([[0, 1, 1, 0], [1, 0, 1, 1]]).to(getattr(torch, name))
    for _ in range(4):
        out = torch.zeros_like(x)
        kernel[2](x, out)
        assert torch.equal(out.view(torch.uint8), x.view(torch.uint8))
    assert kernel.calls == 1


LAYOUTS: dict[str, Any] = {
    "transposed": lambda x: x.T.contiguous().T, "every second": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "repeated": lambda x: x[:1].expand(2, 4), "part": lambda x: torch.nn.functional.pad(x, (1, 2))[:, 1:5],
    "parameter": torch.nn.Parameter, "with a gradient": lambda x: x.clone().requires_grad_(),
    "of a result": lambda x: x.clone().requires_grad_() * 1, "detached": lambda x: x.clone().requires_grad_().detach(),
}  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(kernel: Counted, layout: str) -> None:
    x = torch.arange(8, dtype=torch.float32).reshape(2, 4)
    kernel[2](x, torch.zeros_like(x))
    kernel[2](x, torch.zeros_like(x))
    source = LAYOUTS[layout](x)
    for _ in range(3):
        out = torch.zeros(2, 4)
        kernel[2](source, out)
        assert torch.equal(out, source.detach())
    assert kernel.calls <= 2


def test_what_is_refused_stays_refused(kernel: Counted) -> None:
    x, out = torch.ones(2, 4), torch.zeros(2, 4)
    for _ in range(3):
        kernel[2](x, out)
    for bad, words in ((x.to_sparse(), "sparse_coo"), (x.to("meta"), "on meta"), (x.to(torch.complex64), "complex64")):
        with pytest.raises(TypeError, match=words):
            kernel[2](bad, out)
        with pytest.raises(TypeError, match=words):
            kernel[2](x, bad)
    assert torch.equal(out, x)


def test_overlap_and_neighbours(kernel: Counted) -> None:
    memory = torch.zeros(24)
    kernel[2](memory[:8].view(2, 4), memory[8:16].view(2, 4))
    kernel[2](memory[:8].view(2, 4), memory[16:].view(2, 4))
    assert kernel.calls == 1
    kernel[2](memory[:8].view(2, 4), memory[7:15].view(2, 4))
    assert kernel.calls == 2
    assert [s.noalias for s in kernel.kernel.specializations] == [True, False]


def test_tensors_and_arrays_meet(kernel: Counted) -> None:
    x, out = np.ones((2, 4), np.float32), np.zeros((2, 4), np.float32)
    for _ in range(2):
        for a, b in ((x, out), (torch.from_numpy(x), out), (x, torch.from_numpy(out))):
            out[:] = 0
            kernel[2](a, b)
            assert out.min() == 1
    assert kernel.calls == 3
    kernel[2](torch.from_numpy(out), out)
    assert kernel.calls == 4 and len(kernel.kernel.specializations) == 2


def test_empty_and_single(path: str) -> None:
    def sizes(x, out):
        out[0] = x.ndim * 10

    kernel = counted(sizes)
    for _ in range(2):
        for x in (torch.zeros(()), torch.zeros(0), torch.zeros(0, 3), torch.zeros(1, 1, 1)):
            out = torch.zeros(1)
            kernel[1](x, out)
            assert out[0] == x.ndim * 10


def test_a_resized_tensor_is_read_anew(kernel: Counted) -> None:
    x, out = torch.ones(2, 4), torch.zeros(2, 4)
    step = kernel.kernel.bind(x, out, grid=2)
    step()
    step()
    x.set_(torch.full((2, 4), 7.0))
    step()
    assert kernel.calls == 1 and out.min() == 7
