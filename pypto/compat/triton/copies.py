"""Copies that torch makes, in a compiled graph, of tensors that a user's kernel writes: of their elements alone.

A graph is functional: where a kernel writes a tensor whose old value is read later, torch has the kernel write a copy.
Its own copy, `clone_preserve_strides`, reads all memory from the start of the storage to the last element, through
`as_strided`. In a graph of Inductor, a view such as ``z[::2, 1:5]`` may be computed into a buffer of its own, which has
no such memory, so that the numbers are wrong without a word. The copy here reads the elements of the view, and puts
them where the strides say, since a kernel is told the strides of the view.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any, Final

WRAP: Final = "torch._higher_order_ops.triton_kernel_wrap"
_COPY: Final = "clone_preserve_strides"


def copied(x: Any) -> Any:
    """A copy of a tensor's elements with its strides; what lies between them is 0."""
    if x.is_contiguous():
        return x.clone()
    sizes, strides, once = x.size(), x.stride(), x
    for axis, stride in enumerate(strides):
        once = once.narrow(axis, 0, 1) if stride == 0 else once  # an expanded axis has its elements once in memory
    length = 1 + sum((n - 1) * stride for n, stride in zip(sizes, strides, strict=True))
    return x.new_zeros(length).as_strided_scatter(once, once.size(), strides, 0).as_strided(sizes, strides, 0)


def copy_elements_alone() -> None:
    """Has torch copy by `copied` what kernels write, in this process, once it has loaded the module that copies."""
    module: Any = sys.modules.get(WRAP)
    if hasattr(module, _COPY):
        setattr(module, _COPY, copied)
    elif module is not None:
        text = f"{WRAP} has no {_COPY}, so torch's own copies of views that kernels write may be wrong in a graph"
        warnings.warn(f"{text}: have kernels write whole tensors", stacklevel=2)
