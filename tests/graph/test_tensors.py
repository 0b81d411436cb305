"""Tensors of torch in fused functions: no copy, tensors out, and a word for what would be lost."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt
from pypto.errors import PyptoError
from pypto.errors.graph import MixedLibraries, OutsideWritten, UntrackedGradient, WrongOut
from pypto.errors.launch import UndispatchedLaunch, UnsupportedArgument

torch = pytest.importorskip("torch")
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def tensor(*shape: int, dtype: str = "float32", seed: int = 0) -> Any:
    numbers = np.random.default_rng(seed).uniform(-3, 3, shape).astype(np.float32)
    return torch.tensor(numbers).to(getattr(torch, dtype))


def scaled(x: Any, y: Any) -> Any:
    return np.exp(x) * y + 1


@pytest.mark.parametrize("dtype", FLOATS)
def test_tensors_in_and_out(dtype: str) -> None:
    fused = pto.fuse(scaled)
    for seed in range(4):  # the later calls are native
        x, y = tensor(7, 5, dtype=dtype, seed=seed), tensor(5, dtype=dtype, seed=seed + 9)
        got = fused(x, y)
        assert type(got) is torch.Tensor and got.dtype == x.dtype and got.untyped_storage().resizable()
        wanted = torch.exp(x.double()) * y.double() + 1
        torch.testing.assert_close(got.double(), wanted, rtol=4 * torch.finfo(x.dtype).eps, atol=1e-2)
    assert x.untyped_storage().resizable()


@pytest.mark.parametrize("dtype", (*INTEGERS, "bool", "complex64", "complex128"))
def test_other_dtypes(dtype: str) -> None:
    fused = pto.fuse(lambda x: (x[::2], x.T, np.where(x == x[0, 0], x, x[0, 1])))
    x = torch.arange(12).reshape(4, 3).to(getattr(torch, dtype))
    for _ in range(3):
        part, turned, chosen = fused(x)
        assert part.data_ptr() == x.data_ptr() == turned.data_ptr()
        assert torch.equal(part, x[::2]) and torch.equal(turned, x.T)
        assert torch.equal(chosen, torch.where(x == x[0, 0], x, x[0, 1])) and chosen.dtype == x.dtype


def test_float8_is_cast() -> None:
    x = torch.tensor([1.0, -2.5, 300.0]).to(torch.float8_e4m3fn)
    got = pto.fuse(lambda x: x.astype(np.float32) * 2)(x)
    assert torch.equal(got, x.float() * 2)


LAYOUTS: dict[str, Callable[[], Any]] = {
    "transposed": lambda: tensor(5, 7).T,
    "strided": lambda: tensor(14, 10)[::2, 1::2],
    "permuted": lambda: tensor(2, 3, 4).permute(2, 0, 1),
    "channels last": lambda: tensor(2, 3, 4, 5).to(memory_format=torch.channels_last),
    "expanded": lambda: tensor(5, 1).expand(5, 7),
    "no elements": lambda: tensor(0, 3),
    "no dimensions": tensor,
    "six dimensions": lambda: tensor(1, 2, 1, 2, 1, 2),
    "an offset": lambda: tensor(20)[3:],
    "half an offset": lambda: tensor(20, dtype="bfloat16")[3:],
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts(name: str) -> None:
    fused = pto.fuse(lambda x: x * 2 + 1)
    x = LAYOUTS[name]()
    for _ in range(3):
        torch.testing.assert_close(fused(x), x * 2 + 1)


@dataclass
class Batch:
    ids: Any
    scale: float
    more: dict[str, Any]


def test_nested_arguments_and_results() -> None:
    fused = pto.fuse(lambda batch, bias=None: {"sum": (batch.ids * batch.scale).sum(), "all": [batch.more["x"] + bias]})
    for n in range(4):
        batch = Batch(tensor(3, 4, seed=n), 0.5 + n, {"x": tensor(4, seed=n + 20)})
        got = fused(batch, bias=batch.more["x"])
        torch.testing.assert_close(got["sum"], (batch.ids * batch.scale).sum())
        assert got["sum"].shape == () and torch.equal(got["all"][0], 2 * batch.more["x"])


def test_one_plan_for_all_sizes() -> None:
    fused = pto.fuse(lambda x: x / x.sum(axis=1, keepdims=True), dims={"x": (pt.Dim("n", 1, 64), None)})
    tensors = [tensor(n, 8, seed=n).abs() + 1 for n in (3, 17, 3, 64, 17, 3)]
    for x in tensors:
        torch.testing.assert_close(fused(x), x / x.sum(1, keepdim=True))
    assert len(fused.versions) == 1
    with pytest.raises(PyptoError, match=r"\.contiguous\(\)"):
        fused(tensor(8, 3).T)


def test_an_update_is_seen_by_torch() -> None:
    @pto.fuse
    def step(w: Any, gradient: Any) -> None:
        w -= 0.1 * gradient

    for dtype in ("float32", "bfloat16"):
        w, gradient = tensor(8, dtype=dtype), tensor(8, dtype=dtype, seed=1)
        for _ in range(3):
            version, wanted = w._version, w - 0.1 * gradient
            step(w, gradient)
            assert w._version > version
            torch.testing.assert_close(w, wanted, rtol=2e-2 if dtype == "bfloat16" else 1e-6, atol=1e-6)
    x = torch.ones(3, requires_grad=True)
    y = (x * 1).exp()  # its backward pass needs its values
    step(y.detach(), torch.ones(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    with pytest.raises(WrongOut, match="read-only"):
        step(torch.ones(1).expand(8), torch.ones(8))


def test_out_and_donated_memory() -> None:
    x, out = tensor(64), torch.empty(64)
    fused = pto.fuse(lambda x: np.tanh(x) * 2)
    for _ in range(3):
        version = out._version
        assert fused(x, out=out) is out and out._version > version
        torch.testing.assert_close(out, torch.tanh(x) * 2)
    given = x.clone()
    got = pto.fuse(lambda x: np.tanh(x) * 2, donate=["x"])(given)
    assert got.data_ptr() == given.data_ptr() and torch.equal(got, out)


def test_a_bound_call() -> None:
    x = tensor(4)
    step = pto.fuse(lambda x: x + 1).bind(x)
    for _ in range(3):
        x += 1
        assert torch.equal(step.run(), x + 1)


class Linear:
    """A model of a program, whose attributes are tensors."""

    def __init__(self) -> None:
        self.weight, self.table = tensor(4, 3), np.arange(3, dtype=np.float32)

    def forward(self, x: Any) -> Any:
        return x @ self.weight + self.table


def test_captured_tensors_are_inputs() -> None:
    model = Linear()
    fused = pto.fuse(model.forward)
    x = tensor(2, 4, seed=3)
    for n in range(5):
        torch.testing.assert_close(fused(x), x @ model.weight + torch.from_numpy(model.table))
        model.weight = tensor(4, 3, seed=n)
    assert len(fused.versions) == 1
    model.weight = tensor(3, 4).T
    torch.testing.assert_close(fused(x), x @ model.weight + torch.from_numpy(model.table))
    same = pto.fuse(lambda w: w + model.weight)  # one tensor, as an argument and as an attribute
    for _ in range(3):
        torch.testing.assert_close(same(model.weight), model.weight * 2)


def test_a_gradient_is_never_lost() -> None:
    fused = pto.fuse(lambda x: x * 2)
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        for _ in range(4):  # native, in the end
            assert not fused(x).requires_grad
    for _ in range(2):
        with pytest.raises(UntrackedGradient, match=r"no_grad"):
            fused(x)
    with torch.inference_mode():
        assert torch.equal(fused(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(UntrackedGradient, match="tangent"):
        torch.func.jvp(fused, (torch.ones(3),), (torch.ones(3),))


REFUSED: dict[str, tuple[Callable[[Any], Any], type[PyptoError], str]] = {
    "mixed": (lambda f: f(torch.ones(3), np.ones(3, np.float32)), MixedLibraries, r"torch\.from_numpy\(y\)"),
    "meta": (lambda f: f(torch.ones(3, device="meta"), 1), UnsupportedArgument, "meta.*\n.*device='cpu'"),
    "sparse": (lambda f: f(torch.eye(3).to_sparse(), 1), UnsupportedArgument, "to_dense"),
    "conjugates": (lambda f: f(torch.ones(3, dtype=torch.complex64).conj(), 1), UnsupportedArgument, "resolve_conj"),
    "a dtype": (lambda f: f(torch.ones(3).to(torch.complex32), 1), UnsupportedArgument, "complex32"),
    "out": (lambda f: f(torch.ones(3), 1, out=np.ones(3, np.float32)), MixedLibraries, "torch"),
    "vmap": (lambda f: torch.vmap(f, (0, None))(torch.ones(3, 2), 1), UnsupportedArgument, "vmap"),
}


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_by_name(name: str) -> None:
    call, error, match = REFUSED[name]
    with pytest.raises(error, match=match):
        call(pto.fuse(lambda x, y: x * y))


def test_modes_of_torch() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils.flop_counter import FlopCounterMode

    fused = pto.fuse(lambda x: x * 2)
    x = torch.ones(3)
    for _ in range(4):
        fused(x)
    with FlopCounterMode(display=False), pytest.raises(UndispatchedLaunch, match="FlopCounterMode"):
        fused(x)
    with FakeTensorMode(), pytest.raises(UndispatchedLaunch, match="FakeTensorMode"):
        fused(torch.ones(3))


def test_under_torch_compile_it_runs_between_graphs() -> None:
    fused = pto.fuse(lambda x: np.exp(x) + 1)
    compiled = torch.compile(lambda x: fused(x * 2) + 3, backend="eager")
    for n in range(3):
        x = tensor(5, seed=n)
        torch.testing.assert_close(compiled(x), torch.exp(x * 2) + 4)


def test_functions_of_arrays_are_called_on_tensors() -> None:
    x = tensor(4, 6, dtype="bfloat16")
    torch.testing.assert_close(pt.softmax(x), torch.softmax(x, -1), rtol=1e-2, atol=1e-3)
    values, places = pt.topk(x, 2)
    assert places.dtype == torch.int64 and torch.equal(values, torch.gather(x, 1, places))
    for _ in range(3):
        torch.testing.assert_close(pt.gelu(x.float()), torch.nn.functional.gelu(x.float()), rtol=1e-5, atol=1e-6)
    with pytest.raises(MixedLibraries):
        pt.layer_norm(x, np.ones(6, np.float32))


@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_lazy_arrays_of_tensors(dtype: str) -> None:
    x = tensor(4, 6, dtype=dtype)
    lazy = pt.lazy(x)
    y = torch.softmax(lazy * 2.5, dim=-1).unsqueeze(0)
    assert y.shape == (1, 4, 6)
    got = torch.from_dlpack(y)
    assert got.dtype == x.dtype
    torch.testing.assert_close(got.float(), torch.softmax(x.float() * 2.5, -1)[None], rtol=3e-2, atol=1e-2)
    with pytest.raises(UntrackedGradient):
        pt.lazy(torch.ones(3, requires_grad=True))


def test_outside_is_left_as_it_is() -> None:
    rows = [tensor(3)]

    def pushed(rows: Any) -> Any:
        rows.append(rows[0] * 2)
        return rows[0]

    with pytest.raises(OutsideWritten):
        pto.fuse(pushed)(rows)
    assert len(rows) == 1


def test_numbers_are_weak() -> None:
    x = tensor(3, dtype="bfloat16")
    for got in (pto.fuse(lambda x: x * 2.5 + 1)(x), pto.fuse(lambda x, n: x * n)(x, math.pi)):
        assert got.dtype == torch.bfloat16
