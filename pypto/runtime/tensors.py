"""Torch tensors as arguments: which of them a kernel can work on, and what autograd is told of a launch.

Torch is never loaded from here: whoever has a tensor has loaded it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

Reason = tuple[str, str]  # what the tensor is, and what to pass in its place
_PLACES: Final = ("cpu", "npu")


def is_tensor(kind: type) -> bool:
    """Whether a type is torch's, which is asked without loading it."""
    if kind.__module__.partition(".")[0] == "torch":
        return hasattr(kind, "data_ptr")
    torch = sys.modules.get("torch")
    return torch is not None and issubclass(kind, getattr(torch, "Tensor", ()))


def is_traced() -> bool:
    """Whether this runs symbolically, in a function that torch.compile traces."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)  # a module that is just being loaded has none yet
    return compiler is not None and bool(compiler.is_dynamo_compiling())


def tracing_test() -> Callable[[], bool]:
    """Return the fastest function that does what `is_traced` does, while no other library is loaded."""
    compiler = getattr(sys.modules.get("torch"), "compiler", None)
    return bool if compiler is None else compiler.is_dynamo_compiling  # `bool()` is False


def has_mode() -> bool:
    """Whether torch's dispatcher has a mode, which is to see what happens to tensors."""
    library = getattr(sys.modules.get("torch"), "_C", None)
    return library is not None and bool(library._len_torch_dispatch_stack())


def is_dispatched(values: Iterable[Any]) -> bool:
    """Whether some values are tensors, and a mode is to see what happens to them."""
    return has_mode() and any(is_tensor(type(x)) for x in values)


def is_dispatched_to(values: Iterable[Any]) -> bool:
    """Whether torch's dispatcher is to see a call: a mode or a transform is active, or a subclass decides itself."""
    torch = sys.modules["torch"]
    if torch._C._len_torch_dispatch_stack() or torch._C._are_functorch_transforms_active():
        return True
    if torch.autograd.forward_ad._current_level >= 0:  # tangents, which the operator refuses to lose
        return True
    plain = torch.Tensor
    kinds = {kind for x in values if issubclass(kind := type(x), plain) and kind is not plain}
    return any(kind.__torch_dispatch__ is not plain.__torch_dispatch__ for kind in kinds)


def profiled_torch() -> Any:
    """Returns torch, if the program has loaded it with its profiler."""
    torch = sys.modules.get("torch")
    return torch if "torch.autograd.profiler" in sys.modules and hasattr(torch, "nn") else None


def span(name: str) -> AbstractContextManager[Any]:
    """Returns a range for a running profiler of torch; where none runs, a context that does nothing."""
    torch = profiled_torch()
    if torch is None or not torch.autograd._profiler_enabled():
        return nullcontext()
    scope: AbstractContextManager[Any] = torch.autograd.profiler.record_function(name)
    return scope


def is_observed(args: tuple[Any, ...], given: Mapping[str, Any]) -> bool:
    """Whether torch is to see a call on tensors: its dispatcher, or autograd, which records one of them."""
    torch = sys.modules.get("torch")
    kind = getattr(torch, "Tensor", None)
    if torch is None or kind is None:
        return False
    tensors = [x for x in (*args, *given.values()) if isinstance(x, kind)]
    if not tensors:
        return False
    return (torch.is_grad_enabled() and torch._C._any_requires_grad(*tensors)) or is_dispatched_to(tensors)


@contextmanager
def unseen() -> Iterator[None]:
    """Let no mode of torch see what is done, as trials that leave nothing behind."""
    hidden = sys.modules["torch"].utils._python_dispatch._disable_current_modes() if has_mode() else nullcontext()
    with hidden:
        yield


def active_mode() -> str:
    """The name of the mode that the dispatcher asks first."""
    library = sys.modules["torch"]._C
    return type(library._get_dispatch_stack_at(library._len_torch_dispatch_stack() - 1)).__name__


def why_not(tensor: Any) -> Reason | None:
    """Why a kernel cannot read or write the memory of a tensor; None where it can.

    Parameters
    ----------
    tensor : torch.Tensor
        Of any layout, device and subclass.

    Returns
    -------
    (str, str) or None
        What the tensor is, and what to pass in its place.
    """
    return next((reason for check in _CHECKS if (reason := check(tensor)) is not None), None)


def fake(tensor: Any) -> Reason | None:
    module = sys.modules.get("torch._subclasses.fake_tensor")
    if module is None or not isinstance(tensor, module.FakeTensor):
        return None
    way = "launch on real tensors; to trace through a launch, use torch.compile, or put it into a torch.library op"
    return "a FakeTensor, which has a shape and no memory", way


def transformed(tensor: Any) -> Reason | None:
    """A wrapper that torch.func or functionalization puts around a tensor."""
    torch = sys.modules["torch"]
    functorch = torch._C._functorch
    if functorch.is_batchedtensor(tensor):
        way = "put the launch into a torch.autograd.Function with a `vmap` method"
        return "a tensor inside of torch.vmap", way
    if functorch.is_functorch_wrapped_tensor(tensor):
        way = "put the launch into a torch.autograd.Function with `setup_context` and `backward`"
        return "a tensor inside of a transform of torch.func", way
    if torch._is_functional_tensor(tensor):
        return "a tensor that torch traces", "put the launch into a torch.library op, or use torch.compile"
    return None


def nested(tensor: Any) -> Reason | None:
    if not tensor.is_nested:
        return None
    return "a nested tensor", "pass its `.values()`, and its `.offsets()` as another argument"


def dispatched(tensor: Any) -> Reason | None:
    """A subclass that decides itself what operations on it do, as DTensor does."""
    plain = sys.modules["torch"].Tensor
    if type(tensor).__torch_dispatch__ is plain.__torch_dispatch__:
        return None
    name = type(tensor).__name__
    return f"a {name}, which keeps its data in its own way", "pass the plain tensors that it is made of"


def scattered(tensor: Any) -> Reason | None:
    """A sparse tensor, or one in a library's own format."""
    layout = tensor.layout
    if layout == sys.modules["torch"].strided:
        return None
    parts = ", or its indices and values as arguments of their own" if "sparse" in str(layout) else ""
    return f"a {layout} tensor of {tensor.dtype}", f"pass `.to_dense()` of it{parts}"


def elsewhere(tensor: Any) -> Reason | None:
    kind = tensor.device.type
    if kind in _PLACES:
        return None
    if kind == "meta":
        return "a tensor on meta, which has a shape and no memory", "make one: `torch.empty_like(x, device='cpu')`"
    return f"a tensor on {tensor.device}", "move it first: `.cpu()`"


def coded(tensor: Any) -> Reason | None:
    """A tensor whose memory holds something else than its elements."""
    if tensor.is_quantized:
        way = "pass `.int_repr()` of it with its scale and zero point, or `.dequantize()`"
        return f"a quantized tensor of {tensor.dtype}", way
    if tensor.is_neg():
        way = "pass `.resolve_neg()` of it, which is a copy"
        return "a view whose elements are the negatives of what is in memory, as `.conj().imag` makes one", way
    return None


def absent(tensor: Any) -> Reason | None:
    """A tensor of which some elements, or all, are not in memory."""
    if not tensor.numel():
        return None
    if tensor._is_zerotensor():
        return "a tensor of zeros that has no memory", "pass `.clone()` of it"
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    if tensor.data_ptr() and tensor.untyped_storage().nbytes() >= needed:
        return None
    return "a tensor whose storage was freed or made smaller", "give it memory before the launch"


# In this order, since what a wrapper says of its device and layout is about something else.
_CHECKS: Final[tuple[Callable[[Any], Reason | None], ...]] = (
    fake, transformed, nested, dispatched, scattered, elsewhere, coded, absent,
)  # fmt: skip


def npu_of(value: Any) -> str:
    """The name of the NPU that a tensor is on; empty where it is on none."""
    place = getattr(value, "device", None)
    return f"ascend:{getattr(place, 'index', 0) or 0}" if getattr(place, "type", "") == "npu" else ""


def is_recorded(tensor: Any) -> bool:
    """Whether autograd would have to know how a write to a tensor is differentiated, which a launch does not tell."""
    return bool(tensor.requires_grad) and bool(sys.modules["torch"].is_grad_enabled())


def is_autograds(owner: Any) -> bool:
    """Whether an array that cannot be written is one that autograd records, and not one that is read-only."""
    return is_tensor(type(owner)) or getattr(getattr(owner, "flags", None), "recorded", False)


def note_written(written: Iterable[str], infos: Mapping[str, Any]) -> None:
    """Tell torch's autograd which tensors a launch writes, of arguments of which these are known."""
    owners = (getattr(infos[arg], "owner", None) for arg in sorted(written))
    tensors = [owner for owner in owners if is_tensor(type(owner))]
    if tensors:
        note_writes(tensors)


def note_writes(tensors: Iterable[Any]) -> None:
    """Tell autograd that tensors are written: a backward pass that needs their old elements raises."""
    sys.modules["torch"].autograd.graph.increment_version(tensors)
