"""Which argument of a kernel has to be a constant, where something has to be known at compile time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pypto.errors.frontend import NotConstant, SliceExtent
from pypto.frontend.source import KernelSource
from pypto.frontend.values import source_of, tile_type
from pypto.ir.core import Value
from pypto.ops.row import Effect
from pypto.ops.table import TABLE


def annotated(error: NotConstant | SliceExtent, kernel: KernelSource, arguments: Sequence[Value]) -> None:
    """Let a diagnostic name the arguments that it comes from, and show their parameters.

    It does so where constants in place of these arguments are enough. A value that depends on the program, on memory
    or on a loop as well stays what it is at run time.
    """
    needed = leaves(error.fields.pop("needed", ()))
    if not needed or not all(v in arguments and is_number(v) for v in needed):
        return
    node = kernel.node.args
    parameters = {a.arg: kernel.loc(a) for a in (*node.posonlyargs, *node.args, *node.kwonlyargs)}
    names = [source_of(v) for v in needed]
    kinds = " and ".join(f"`{name}` is a run-time {v.dtype.public}" for name, v in zip(names, needed, strict=True))
    ways = ", ".join(f"`{name}: pto.constexpr`" for name in names)
    error.fields["problem"] = f"{kinds}; annotate {'it' if len(names) == 1 else 'them'}: {ways}"
    places = dict.fromkeys(name.partition("[")[0] for name in names)
    error.others = (*error.others, *(("the parameter", parameters[p]) for p in places if p in parameters))


def is_number(x: Any) -> bool:
    """Whether an argument is a number: no array, and no pointer."""
    type = tile_type(x)
    return type is not None and not type.shape and not type.is_ptr


def leaves(values: Iterable[Any]) -> list[Any]:
    """What values are computed from by pure ops: arguments, and whatever else no op makes of others."""
    sources: dict[Any, None] = {}
    waiting = list(values)
    while waiting:
        value = waiting.pop()
        if value in sources:
            continue
        op = value.op if isinstance(value, Value) else None
        if op is not None and op.operands and not op.regions and TABLE[op.name].effect is Effect.PURE:
            waiting += reversed(op.operands)
        elif op is None or op.name != "constant":
            sources[value] = None
    return list(sources)
