"""Type rules and argument preparation that many rows share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pypto.ir.core import Attr, Value
from pypto.ir.types import PtrType, TileType, Type, int1, int32

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

BoundArguments = tuple[list[Value], dict[str, Any]]


def tile(t: Type) -> TileType:
    if not isinstance(t, TileType):
        raise TypeError(f"needs a tile or scalar, not {t}; load from the array first, for instance `x[row, :]`")
    return t


def same(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    """All operands have one type, and so has the result."""
    first = tile(types[0])
    for t in types[1:]:
        if t != first:
            raise TypeError(f"operands are {first} and {t}; they must have one type")
    check_number(first)
    return (first,)


def same_kind(kinds: tuple[str, ...]) -> Callable[[Sequence[Type], Mapping[str, Attr]], tuple[Type, ...]]:
    """Like `same`, for dtypes of the given kinds alone."""

    def infer(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
        (result,) = same(types, attrs)
        assert isinstance(result, TileType)
        if result.dtype.kind not in kinds:
            raise TypeError(f"invalid operands of type {result.dtype}; it takes {' or '.join(kinds)}")
        return (result,)

    return infer


def comparison(types: Sequence[Type], attrs: Mapping[str, Attr]) -> tuple[Type, ...]:
    first = tile(types[0])
    if tile(types[1]) != first:
        raise TypeError(f"operands are {first} and {types[1]}; they must have one type")
    return (first.with_elem(int1),)


def promoted(floating: bool = False, arithmetic: bool = False) -> Callable[..., BoundArguments]:
    """Operands promoted and broadcast together; `arithmetic` counts bools as int32."""

    def bind(b: OpBuilder, **arguments: Any) -> BoundArguments:
        operands = [x for x in arguments.values() if isinstance(x, Value | int | float)]
        values = b.promote(operands, floating)
        if arithmetic and values[0].dtype.is_bool:
            values = [b.cast(v, int32) for v in values]
        return values, {}

    return bind


def reduced_shape(shape: tuple[int, ...], axes: tuple[int, ...], keep_dims: bool) -> tuple[int, ...]:
    if keep_dims:
        return tuple(1 if d in axes else n for d, n in enumerate(shape))
    return tuple(n for d, n in enumerate(shape) if d not in axes)


def reduction_infer(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    source = tile(types[0])
    check_axes(source, attrs["axes"])
    return (source.with_shape(reduced_shape(source.shape, attrs["axes"], attrs["keep_dims"])),)


def check_number(source: TileType) -> None:
    """Refuses pointers, and types that are there to be stored."""
    if isinstance(source.elem, PtrType):
        raise TypeError(f"has no meaning for pointers ({source})")
    if source.elem.kind == "bits":
        raise TypeError(f"does not compute with {source.elem!r}; cast it first, for instance `.to(pto.float16)`")


def check_axes(source: TileType, axes: tuple[int, ...]) -> None:
    check_number(source)
    for axis in axes:
        if not 0 <= axis < len(source.shape):
            raise TypeError(f"axis {axis} is out of range for {source}, which has {len(source.shape)} dimensions")


def normal_axes(shape: tuple[int, ...], axis: int | tuple[int, ...] | None) -> tuple[int, ...]:
    """Axes from 0, sorted; None is all of them. Out-of-range ones are left for the type rule to name."""
    if axis is None:
        return tuple(range(len(shape)))
    axes = (axis,) if isinstance(axis, int) else axis
    return tuple(sorted({a + len(shape) if -len(shape) <= a < 0 else a for a in axes}))
