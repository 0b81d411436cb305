"""Torch tensors of every kind: a launch works on them, or refuses them before anything is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import RecordedArgument, UnsupportedArgument

torch = pytest.importorskip("torch")


def doubled(x, out):
    out[:] = x[:] * 2


@pytest.fixture
def kernel() -> Any:
    """A kernel that was launched on plain tensors, so that the native launcher knows it."""
    made = pto.jit(doubled)
    for _ in range(2):
        made[1](torch.ones(4), torch.zeros(4))
    return made


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


class Wrapper(torch.Tensor):
    """A tensor that is another one's: what torch calls a wrapper subclass."""

    @staticmethod
    def __new__(cls, inner: Any) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(str(function))


class Plain(torch.Tensor):
    """A subclass that changes nothing."""


def freed() -> Any:
    x = torch.ones(4)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.filterwarnings("ignore::UserWarning")
def quantized() -> Any:
    return torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "fake": (fake, r"FakeTensor.*no memory"),
    "meta": (lambda: torch.ones(4, device="meta"), "on meta.*no memory"),
    "sparse": (lambda: torch.ones(4).to_sparse(), r"sparse_coo(.|\n)*to_dense"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)]), r"nested tensor(.|\n)*values"),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(2)], layout=torch.jagged), "nested tensor",
    ),
    "negative": (lambda: torch.ones(4, dtype=torch.complex64).conj().imag, r"negatives(.|\n)*resolve_neg"),
    "conjugate": (lambda: torch.ones(4, dtype=torch.complex64).conj(), "complex64"),
    "zeros": (lambda: torch._efficientzerotensor(4), r"no memory(.|\n)*clone"),
    "functional": (lambda: torch._to_functional_tensor(torch.ones(4)), "torch traces"),
    "wrapper": (lambda: Wrapper(torch.ones(4)), "a Wrapper, which keeps its data"),
    "freed": (freed, "freed or made smaller"),
    "quantized": (quantized, r"quantized(.|\n)*int_repr"),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_before_anything_is_written(kernel: Any, kind: str) -> None:
    make, words = REFUSED[kind]
    out = torch.zeros(4)
    for _ in range(2):
        with pytest.raises(UnsupportedArgument, match=words):
            kernel[1](make(), out)
        with pytest.raises(UnsupportedArgument, match=words):
            kernel[1](torch.ones(4), make())
    assert out.tolist() == [0.0] * 4 and out._version == 0
    kernel[1](torch.ones(4), out)
    assert out.tolist() == [2.0] * 4


def test_a_storage_that_was_made_smaller() -> None:
    """Only a first look finds it, since later ones look at what may be different from call to call."""
    x, out = torch.ones(4), torch.zeros(4)
    x.untyped_storage().resize_(8)
    with pytest.raises(UnsupportedArgument, match="freed or made smaller"):
        pto.jit(doubled)[1](x, out)
    assert out.tolist() == [0.0] * 4


def test_under_a_fake_mode(kernel: Any) -> None:
    """A launch is an operator there, which has no memory to write to; without its mode, a FakeTensor is refused."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    x, out = torch.ones(4), torch.zeros(4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        made = torch.empty(4)
        kernel[1](x, made)
        kernel[1](x, out)
    with pytest.raises(UnsupportedArgument, match="FakeTensor"):
        kernel[1](x, made)
    assert out.tolist() == [0.0] * 4  # as `torch.mul(x, 2, out=out)` has it


@pytest.mark.parametrize(
    ("transform", "words"), [("vmap", "inside of torch.vmap"), ("grad", "a transform of torch.func")]
)
def test_transforms_of_functions(kernel: Any, transform: str, words: str) -> None:
    out = torch.zeros(4)

    def function(x: Any) -> Any:
        kernel[1](x, out)
        return x.sum()

    call = {
        "vmap": lambda x: torch.vmap(function)(x[None]),
        "grad": torch.func.grad(function),
    }[transform]
    with pytest.raises(UnsupportedArgument, match=words):
        call(torch.ones(4))
    assert out.tolist() == [0.0] * 4


class Doubled(torch.autograd.Function):
    """The way out that the refusals name."""

    kernel: Any = None

    @staticmethod
    def forward(x: Any) -> Any:
        out = torch.empty_like(x)
        Doubled.kernel[1](x, out)
        return out

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2

    @staticmethod
    def vmap(info: Any, in_dims: Any, x: Any) -> Any:
        flat = x.movedim(in_dims[0], 0).contiguous().reshape(-1)
        return Doubled.apply(flat).reshape(info.batch_size, -1), 0


def test_transforms_work_through_a_function_of_autograd(kernel: Any) -> None:
    Doubled.kernel = kernel
    x = torch.arange(4.0)
    assert torch.func.grad(lambda x: Doubled.apply(x).sum())(x).tolist() == [2.0] * 4
    assert torch.equal(torch.vmap(Doubled.apply)(x.reshape(2, 2)), x.reshape(2, 2) * 2)


@pytest.mark.parametrize("place", ["whole", "view", "through the base"])
def test_a_backward_pass_finds_out_about_writes(kernel: Any, place: str) -> None:
    x = torch.ones(4, requires_grad=True)
    memory = torch.ones(8)
    saved = memory[:4]
    loss = (x * saved).sum()
    kernel[1](torch.ones(4), {"whole": saved, "view": memory[:4], "through the base": memory[4:]}[place])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_what_is_read_only_is_not_noted(kernel: Any) -> None:
    x, out = torch.ones(4), torch.zeros(4)
    for n in range(3):
        kernel[1](x, out)
        assert (x._version, out._version) == (0, n + 1)
    kernel[0](x, out)
    kernel.bind(x, out, grid=1)()
    assert x._version == 0 and out._version >= 4


@pytest.mark.parametrize("how", ["interpreter", "checked"])
def test_writes_are_noted_in_every_mode(kernel: Any, how: str) -> None:
    x, out = torch.ones(4), torch.zeros(4)
    with getattr(pto, how)():
        kernel[1](x, out)
    assert (x._version, out._version) == (0, 1) and out.tolist() == [2.0] * 4


def leaf() -> Any:
    return torch.zeros(4, requires_grad=True)


RECORDED: dict[str, Callable[[], Any]] = {
    "leaf": leaf, "parameter": lambda: torch.nn.Parameter(torch.zeros(4)), "result": lambda: leaf() * 1,
    "view": lambda: leaf()[:],
}  # fmt: skip


@pytest.mark.parametrize("kind", RECORDED)
def test_what_requires_grad_is_not_written_behind_autograds_back(kernel: Any, kind: str) -> None:
    out = RECORDED[kind]()
    for _ in range(2):
        with pytest.raises(RecordedArgument, match=r"`out`, a tensor that requires grad(.|\n)*no_grad"):
            kernel[1](torch.ones(4), out)
        with pto.interpreter(), pytest.raises(RecordedArgument):
            kernel[1](torch.ones(4), out)
    assert out.tolist() == [0.0] * 4
    for _ in range(2):
        with torch.no_grad():
            kernel[1](torch.ones(4), out)
        kernel[1](torch.ones(4), out.detach())
        assert out.tolist() == [2.0] * 4
        with pytest.raises(RecordedArgument):
            kernel[1](torch.ones(4), out)


def test_what_requires_grad_is_read(kernel: Any) -> None:
    for _ in range(2):
        out = torch.zeros(4)
        kernel[1](torch.nn.Parameter(torch.ones(4)), out)
        assert out.tolist() == [2.0] * 4 and not out.requires_grad


def test_views_of_plain_tensors_are_written_with_gradients_on(kernel: Any) -> None:
    memory = torch.zeros(12)
    for _ in range(3):
        kernel[1](torch.ones(4), memory[4:8])
    assert memory.tolist() == [0.0] * 4 + [2.0] * 4 + [0.0] * 4


def test_inference_mode(kernel: Any) -> None:
    usual = torch.zeros(4)
    with torch.inference_mode():
        x, out = torch.ones(4), torch.zeros(4)
        for _ in range(3):
            kernel[1](x, out)
            kernel[1](x, usual)
    kernel[1](x, out)
    assert out.tolist() == usual.tolist() == [2.0] * 4 and usual._version == 3


def test_subclasses_that_change_nothing(kernel: Any) -> None:
    x, out = torch.ones(4).as_subclass(Plain), torch.zeros(4).as_subclass(Plain)
    for n in range(3):
        kernel[1](x, out)
        assert out.as_subclass(torch.Tensor).tolist() == [2.0] * 4 and out._version == n + 1


def test_negatives_that_were_resolved(kernel: Any) -> None:
    x, out = torch.tensor([1 + 2j, 3 - 4j, 0j, 1j]).conj().imag, torch.zeros(4)
    kernel[1](x.resolve_neg(), out)
    assert torch.equal(out, x * 2)


def test_tensors_without_axes_are_arrays(kernel: Any) -> None:
    @pto.jit
    def scaled(x, scale, out):
        out[:] = x[:] * pto.load(scale)

    for make in (torch.tensor, np.array):
        out = np.zeros(4, np.float32)
        scaled[1](np.ones(4, np.float32), make(3.0), out)
        assert out.tolist() == [3.0] * 4


@pytest.mark.parametrize("make", [torch.tensor, np.array], ids=["torch", "numpy"])
def test_tensors_without_axes_are_no_numbers(make: Any) -> None:
    @pto.jit
    def filled(out, value: pto.float32, COUNT: pto.constexpr):
        out[0:COUNT] = value

    out = torch.zeros(4)
    with pytest.raises(UnsupportedArgument, match=r"`value` is an array of f(32|64), annotated f32(.|\n)*item"):
        filled[1](out, make(3.0), 4)
    with pytest.raises(UnsupportedArgument, match=r"`COUNT` is a (tensor, and a constant|ndarray, which has no hash)"):
        filled[1](out, 1.0, make(4))
    filled[1](out, make(3.0).item(), 4)
    assert out.tolist() == [3.0] * 4


def test_many_axes(kernel: Any) -> None:
    """More axes than torch keeps the sizes of in a tensor's object."""

    @pto.jit
    def first(x, out):
        out[0] = pto.load(x + x.strides[6] * 1 + x.strides[0] * 1)

    x = torch.arange(2.0**7).reshape(2, 2, 2, 2, 2, 2, 2)
    for held in (x, x.permute(6, 5, 4, 3, 2, 1, 0), x):
        out = torch.zeros(1)
        first[1](held, out)
        assert out.item() == held[1, 0, 0, 0, 0, 0, 1]


def test_a_lazy_clone_is_written_alone(kernel: Any) -> None:
    """A tensor that shares its memory until somebody writes to it."""
    x = torch.zeros(4)
    clone = torch._lazy_clone(x)
    for held in (clone, torch._lazy_clone(x)):
        kernel[1](torch.ones(4), held)
        assert held.tolist() == [2.0] * 4 and x.tolist() == [0.0] * 4
    out = torch.ones(4)
    kernel[1](torch._lazy_clone(x), out)
    assert out.tolist() == [0.0] * 4


def test_types_are_told_apart(kernel: Any) -> None:
    """The same place in memory, sizes and strides, and another type."""

    @pto.jit
    def copied(x, out):
        out[:] = x[:]

    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    for _ in range(2):
        for dtype in (torch.float32, torch.int32, torch.uint32):
            held, out = x.view(dtype), torch.zeros(4, dtype=torch.float64)
            copied[1](held, out)
            assert torch.equal(out, held.to(torch.float64))


def test_what_was_read_and_is_refused_later(kernel: Any) -> None:
    x, out = torch.ones(4), torch.zeros(4)
    kernel[1](x, out)
    x.untyped_storage().resize_(0)
    with pytest.raises(UnsupportedArgument, match="freed"):
        kernel[1](x, out)
    x.untyped_storage().resize_(16)
    x.fill_(3.0)
    kernel[1](x, out)
    assert out.tolist() == [6.0] * 4
