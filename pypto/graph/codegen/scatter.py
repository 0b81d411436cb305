"""Scatter kernels update rows at an array of indices (`x[indices] = values`, `np.add.at(x, indices, values)`).

The kernel loops over the indices in order, so that the last of equal indices wins and sums have the same order on any
number of threads. Programs split the other dimensions. The target is a copy of the old array, or the old array itself
if no later step reads it. As in numpy, an index out of range is an error before anything is written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.codegen.writer import Access, Argument, KernelText
from pypto.graph.ir.dims import ceil_div, is_fixed
from pypto.graph.ir.node import Node

Array = np.ndarray[Any, Any]
FORM: Final = "scatter"
_SYMBOLS: Final[Mapping[str, str]] = MappingProxyType({"add": "+", "subtract": "-", "multiply": "*"})
_LEAST_ROW: Final = 4  # elements of the last dimension
_COLUMNS: Final = 1024  # elements of the last dimension that a program updates at a time


def has_kernel(node: Node) -> bool:
    """Whether a scatter has a kernel: it updates rows, and its sizes are fixed and not 0.

    Numpy updates single elements, because it is five times as fast as a kernel that must keep their order.
    """
    if not (node.has("update") and node.has("indexed")) or (node.attr("how") and node.type.dtype.is_bool):
        return False
    if node.attr("axis") == len(node.shape) - 1 or not is_fixed(node.shape[-1]) or node.shape[-1] < _LEAST_ROW:
        return False
    arrays = (node, *node.inputs)
    return all(is_fixed(n) for x in arrays for n in x.shape) and all(x.type.size for x in arrays)


def scatter_text(node: Node) -> KernelText:
    """Write the kernel of a scatter, which reads indices and values and updates the array in place."""
    _, index, value = node.inputs
    axis, how, rank = node.attr("axis"), node.attr("how"), len(node.shape)
    lines: list[str] = []
    subscripts: dict[int, str] = {}
    counts: list[int] = []
    for dim in (d for d in range(rank) if d != axis):
        block = min(node.shape[dim], _COLUMNS) if dim == rank - 1 else 1
        count = ceil_div(node.shape[dim], block)
        subscripts[dim] = "0" if count == 1 else f"i{dim}"
        if count > 1:
            before = math.prod(counts)
            text = "pto.program_id(0)" + (f" // {before}" if before > 1 else "") + f" % {count}"
            lines.append(f"i{dim} = {text}" + (f" * {block}" if block > 1 else ""))
            counts.append(count)
        if block > 1:
            subscripts[dim] = f"{subscripts[dim]} : {subscripts[dim]} + {block}"
    loops = [f"k{d}" for d in range(len(index.shape))]
    body = [
        f"{'    ' * n}for {k} in range({size}):" for n, (k, size) in enumerate(zip(loops, index.shape, strict=True))
    ]
    inner = "    " * len(loops)
    before_axis, behind = [subscripts[d] for d in range(axis)], [subscripts[d] for d in range(axis + 1, rank)]
    given = ", ".join([*before_axis, *loops, *behind])
    target = ", ".join([*before_axis, "at", *behind])
    place = f"  # {node.loc.file.rpartition('/')[2]}:{node.loc.line}" if node.place is not None else ""
    body.append(f"{inner}at = a0[{', '.join(loops) or '0'}]")
    body.append(f"{inner}{update_text(how, f'out0[{target}]', f'a1[{given or 0}]')}{place}")
    source_text = "\n".join(["(a0, a1, out0):", *(f"    {line}" for line in (*lines, *body))])
    name = f"{FORM}_{hashlib.sha256(source_text.encode()).hexdigest()[:8]}"
    arguments = (
        Argument("a0", index, index.shape or (1,)),
        Argument("a1", value, value.shape or (1,)),
        Argument("out0", node, node.shape, True),
    )
    reads = tuple(Access(a.name, (None,) * len(a.shape), "read") for a in (arguments if how else arguments[:2]))
    accesses = (*reads, Access("out0", (None,) * rank, "write"))
    source = f"@pto.jit\ndef {name}{source_text}\n"
    return KernelText(name, source, arguments, (math.prod(counts),), FORM, accesses=accesses)


def update_text(how: str, target: str, value: str) -> str:
    """Print the assignment that updates some elements."""
    if how in _SYMBOLS:
        return f"{target} {_SYMBOLS[how]}= {value}"
    return f"{target} = " + (f"pto.{how}({target}, {value}, propagate_nan=True)" if how else value)


def check_indices(axis: int, size: int, index: Array) -> None:
    """Refuse indices that are out of range for an axis.

    Raises
    ------
    IndexError
        With numpy's message.
    """
    wrong = index[(index < 0) | (index >= size)]
    if wrong.size:
        raise IndexError(f"index {wrong.flat[0]} is out of bounds for axis {axis} with size {size}")
