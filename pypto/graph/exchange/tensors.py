"""Tensors of torch: numpy views of their memory, and results in memory of torch.

A numpy array over a tensor's memory has the tensor at the end of its chain of bases. So a result that lies in the
memory of a tensor leaves as that tensor, or as a view of it. torch is not imported here: who has a tensor has done so.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

from pypto.graph.exchange.libraries import Refuse
from pypto.graph.ir.types import COMPLEX
from pypto.ir.types import DTYPES, FLOAT8, int1
from pypto.runtime.places import HostDevice
from pypto.runtime.tensors import elsewhere, note_writes, why_not

Array = np.ndarray[Any, Any]


class Torch:
    """The row of torch."""

    name = "torch"

    def __init__(self) -> None:
        self.memory: HostDevice = memory()

    def enter(self, array: Any, refuse: Refuse) -> Array:
        """Return a numpy view of a tensor's memory, or refuse the tensor."""
        reason = why_not(array) or conjugated(array)
        if reason is None and not array.is_cpu:
            reason = elsewhere(array) or (f"a tensor on {array.device}", "move it first: `.cpu()`")
        dtype = numpy_types().get(array.dtype)
        if reason is None and dtype is None:
            reason = f"a tensor of {array.dtype}", "convert it first: `.to(torch.float32)`"
        if reason is not None or dtype is None:
            refuse(*(reason or ("", "")))
        view = numpy_view(array.detach() if array.requires_grad else array, dtype)
        if any(step == 0 and size > 1 for size, step in zip(view.shape, view.strides, strict=True)):
            view.setflags(write=False)  # `expand`: several elements are one in memory
        return view

    def leave(self, array: Array) -> Any:
        """Return a result as a tensor, over the same memory unless a stride is negative, which torch has not."""
        owner: Any = array
        while isinstance(owner, np.ndarray):
            owner = owner.base
        dtype = torch_type(array.dtype)
        if type(owner) is TensorMemory and owner.tensor.dtype == dtype:
            return part_of(owner.tensor, array)
        if any(step < 0 for step in array.strides):
            array = array.copy()
        return tensor_over(array, dtype)

    def note_writes(self, arrays: Iterable[Any]) -> None:
        """Tell autograd that a call wrote to these tensors."""
        written = [x for x in arrays if not x.is_inference()]
        if written:
            note_writes(written)


class Memory(HostDevice):
    """The host, with results in tensors: numpy sees them through a view."""

    def empty(self, shape: int | tuple[int, ...], dtype: Any = np.float32) -> Any:
        """Return a numpy view of a new tensor."""
        numpy_type = np.dtype(dtype)
        return numpy_view(torch().empty(shape, dtype=torch_type(numpy_type)), numpy_type)


@lru_cache(maxsize=1)
def memory() -> Memory:
    return Memory("cpu")


def torch() -> Any:
    return sys.modules["torch"]


@lru_cache(maxsize=1)
def numpy_types() -> dict[Any, Any]:
    """The numpy dtypes of torch's."""
    types = (d for d in (*DTYPES, *FLOAT8, *COMPLEX) if d is not int1)  # torch's int1 is another type
    rows = {d.public: np.dtype(d.numpy) for d in types} | {"bool": np.dtype(np.bool_)}
    return {getattr(torch(), name): dtype for name, dtype in rows.items() if hasattr(torch(), name)}


@lru_cache(maxsize=64)
def torch_type(dtype: np.dtype[Any]) -> Any:
    """Return torch's dtype for one of numpy."""
    return next(x for x, known in numpy_types().items() if known == dtype)


class TensorMemory:
    """A tensor as the owner of the memory of a numpy array.

    `Tensor.numpy` would do as well, but it forbids torch to resize the tensor from then on.
    """

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: Any, dtype: np.dtype[Any]) -> None:
        size = dtype.itemsize
        self.tensor = tensor
        self.__array_interface__ = {
            "version": 3,
            "typestr": dtype.str if dtype.isbuiltin == 1 else f"|u{size}" if size == 1 else f"<u{size}",
            "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()),
            "data": (tensor.data_ptr(), False),
        }


def numpy_view(tensor: Any, dtype: np.dtype[Any]) -> Array:
    """Return a tensor's memory as an array of numpy."""
    if not tensor.numel():
        return np.empty(tuple(tensor.shape), dtype)
    return np.asarray(TensorMemory(tensor, dtype)).view(dtype)


def tensor_over(array: Array, dtype: Any) -> Any:
    """Return a tensor over the memory of an array of numpy."""
    if not array.flags.writeable:
        array = array.copy()
    if array.dtype.isbuiltin == 1:
        return torch().from_numpy(array)
    return torch().from_numpy(array.view(np.int8 if array.itemsize == 1 else np.int16)).view(dtype)


def part_of(owner: Any, array: Array) -> Any:
    """Return the view of a tensor that an array in its memory shows, or the tensor itself."""
    size = owner.element_size()
    steps = tuple(s // size for s in array.strides)
    offset, remainder = divmod(array.__array_interface__["data"][0] - owner.data_ptr(), size)
    if remainder or any(step < 0 for step in steps) or any(s % size for s in array.strides):
        return tensor_over(array.copy(), owner.dtype)
    if array.shape == tuple(owner.shape) and steps == owner.stride() and not offset:
        return owner
    return owner.as_strided(array.shape, steps, owner.storage_offset() + (offset if array.size else 0))


def conjugated(tensor: Any) -> tuple[str, str] | None:
    """Refuse a view whose elements are the conjugates of what is in memory."""
    if tensor.is_complex() and tensor.is_conj():
        return "a view whose elements are the conjugates of what is in memory", "pass `.resolve_conj()` of it"
    return None
