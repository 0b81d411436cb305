"""Arrays, pointers, loads and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pypto.ir.core import Op, Value
from pypto.ir.types import ArrayType, PtrType, TileType, Type, int1, int64, scalar
from pypto.ops import dims
from pypto.ops.adjoint import BY_SWEEP
from pypto.ops.row import STRUCTURAL, Effect, OpRow, Param
from pypto.ops.rules import BoundArguments, tile

if TYPE_CHECKING:
    from pypto.ops.build import OpBuilder

UNBOUNDED: Final = 2**62  # extent of a dimension in which every element exists


def array(t: Type) -> ArrayType:
    if not isinstance(t, ArrayType):
        raise TypeError(f"needs an array, not {t}")
    return t


def infer_array_ptr(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    return (scalar(array(types[0]).pointer),)


def infer_array_dim(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    if not 0 <= attrs["dim"] < array(types[0]).ndim:
        raise TypeError(f"{types[0]} has no dimension {attrs['dim']}")
    return (scalar(int64),)


def infer_addptr(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    base, offset = tile(types[0]), tile(types[1])
    if not base.is_ptr or offset.is_ptr or not offset.dtype.is_int or base.shape != offset.shape:
        raise TypeError(f"takes pointers and integer offsets of one shape, not {base} and {offset}")
    return (base,)


def pointee(t: Type) -> TileType:
    """What a tile of pointers points at."""
    source = tile(t)
    if not isinstance(source.elem, PtrType):
        raise TypeError(f"needs pointers, not {source}; write `array + offsets`")
    return source.with_elem(source.elem.pointee)


def check_writable(pointer: Type) -> None:
    elem = tile(pointer).elem
    if isinstance(elem, PtrType) and elem.const:
        raise TypeError(f"Cannot store to a constant pointer ({elem}): the argument is annotated const")


def check_mask(mask: Type, shape: tuple[int, ...]) -> None:
    if tile(mask) != TileType(shape, int1):
        raise TypeError(f"the mask must be bools of shape {shape}, not {mask}")


def infer_load(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    result = pointee(types[0])
    if len(types) > 1:
        check_mask(types[1], result.shape)
    if len(types) > 2 and types[2] != result:
        raise TypeError(f"`other` must be {result}, not {types[2]}")
    return (result,)


def infer_store(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    target = pointee(types[0])
    check_writable(types[0])
    if types[1] != target:
        raise TypeError(f"the value must be {target}, not {types[1]}")
    if len(types) > 2:
        check_mask(types[2], target.shape)
    return ()


def bind_load(b: OpBuilder, pointer: Value, mask: Any, other: Any, **hints: Any) -> BoundArguments:
    if mask is None:
        return [pointer], {}
    values = [pointer, b.cast(b.value(mask), int1)]
    if other is not None:
        values.append(b.element(other, pointee(pointer.type).dtype))
    return b.align(values), {}


def bind_store(b: OpBuilder, pointer: Value, value: Any, mask: Any, **hints: Any) -> BoundArguments:
    values = [pointer, b.element(value, pointee(pointer.type).dtype)] + (
        [] if mask is None else [b.cast(b.value(mask), int1)]
    )
    # The pointer decides the shape: a value or mask that is larger is a mistake, not a wider store.
    return [pointer, *(b.broadcast(v, pointer.shape) for v in values[1:])], {}


@dataclass(frozen=True, slots=True)
class Access:
    """Operands of `tile_load` and `tile_store` under their names.

    Element ``i`` along dimension ``d`` is at ``base + Σ (offsets[d] + i[d]) * strides[d]`` (in elements), and exists
    when ``0 <= offsets[d] + i[d] < extents[d]`` for every ``d`` and `mask` holds. `base` is a pointer, or a tile of
    pointers that broadcasts to the shape (rows of a gather).
    """

    shape: tuple[int, ...]
    base: Value
    offsets: tuple[Value, ...]
    strides: tuple[Value, ...]
    extents: tuple[Value, ...]
    value: Value | None
    mask: Value | None
    other: Value | None

    @staticmethod
    def of(op: Op) -> Access:
        shape: Any = op.attrs["shape"]
        n = len(shape)
        optional = list(op.operands[1 + 3 * n :])
        value = optional.pop(0) if op.name == "tile_store" else None
        mask = optional.pop(0) if op.attrs["masked"] else None
        other = optional.pop(0) if optional else None
        parts = op.operands[1 : 1 + n], op.operands[1 + n : 1 + 2 * n], op.operands[1 + 2 * n : 1 + 3 * n]
        return Access(shape, op.operands[0], *parts, value, mask, other)

    @property
    def operands(self) -> tuple[Value, ...]:
        """In the order that the op has them."""
        optional = (self.value, self.mask, self.other)
        return (self.base, *self.offsets, *self.strides, *self.extents, *(v for v in optional if v is not None))


def access_dims(op: Op) -> dims.DimRelation:
    """Pointers, the mask and what stands for missing elements have the dimensions of the value."""
    access = Access.of(op)
    value = op.results[0] if op.results else access.value
    assert value is not None
    parts = (v for v in (access.base, access.mask, access.other) if v is not None)
    return dims.DimRelation(tuple(pair for v in parts for pair in dims.same_dims(v, value)))


def infer_access(types: Sequence[Type], attrs: Mapping[str, Any]) -> TileType:
    shape = attrs["shape"]
    n = len(shape)
    if len(types) < 1 + 3 * n:
        raise TypeError(f"an access of {n} dimensions takes {1 + 3 * n} operands or more, not {len(types)}")
    base = pointee(types[0])
    if base.shape and (len(base.shape) != n or any(m not in (1, k) for m, k in zip(base.shape, shape, strict=True))):
        raise TypeError(f"pointers of shape {base.shape} do not broadcast to {shape}")
    if any(t != scalar(int64) for t in types[1 : 1 + 3 * n]):
        raise TypeError("offsets, strides and extents must be i64")
    return base.with_shape(shape)


def infer_tile_load(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    result = infer_access(types, attrs)
    optional = list(types[1 + 3 * len(result.shape) :])
    if attrs["masked"]:
        check_mask(optional.pop(0), result.shape)
    if optional and optional != [result]:
        raise TypeError(f"`other` must be {result}, not {optional[0]}")
    return (result,)


def infer_tile_store(types: Sequence[Type], attrs: Mapping[str, Any]) -> tuple[Type, ...]:
    target = infer_access(types, attrs)
    check_writable(types[0])
    optional = list(types[1 + 3 * len(target.shape) :])
    if not optional or optional[0] != target:
        raise TypeError(f"the value must be {target}, not {optional[0] if optional else 'missing'}")
    if attrs["masked"]:
        check_mask(optional[1], target.shape)
    return ()


_BLOCK = tuple(
    Param(name, "any", None, "of block pointers: see `make_block_ptr`") for name in ("boundary_check", "padding_option")
)
_HINTS = tuple(
    Param(name, "any", None, "accepted; has no meaning on a CPU")
    for name in ("cache_modifier", "eviction_policy", "volatile")
)
_ARRAY = Param("array", doc="an array argument")
_DIM = Param("dim", "int")
_VARIADIC = frozenset({"variadic"})

ROWS = (
    OpRow(
        "array_ptr",
        params=(_ARRAY,),
        infer=infer_array_ptr,
        reference=None,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.free,
        doc="Address of the first element.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "array_shape",
        params=(_ARRAY, _DIM),
        infer=infer_array_dim,
        reference=None,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.free,
        doc="Size of a dimension.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "array_stride",
        params=(_ARRAY, _DIM),
        infer=infer_array_dim,
        reference=None,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.free,
        doc="Stride of a dimension, in elements.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "addptr",
        params=(Param("pointer"), Param("offset")),
        infer=infer_addptr,
        reference=None,
        lane_rule=STRUCTURAL,
        public=False,
        dims=dims.elementwise,
        traits=frozenset({"additive", "indexable"}),
        doc="Pointers moved by a number of elements.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "load",
        params=(
            Param(
                "pointer",
                doc="where to read: pointers, an array plus integers, or a block pointer; an array has a form of its own",
            ),
            Param("mask", default=None, doc="which elements exist; all without"),
            Param("other", default=None, doc="what the others are; 0 without"),
            *_BLOCK,
            *_HINTS,
        ),
        infer=infer_load,
        reference=None,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_load,
        effect=Effect.READ,
        dims=dims.elementwise,
        attrs=(),
        doc="Elements at the pointers. Where the mask is false no memory is touched and the result is `other`, or 0.",
        example="load(x + offsets, mask=offsets < n, other=0.0)",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "store",
        params=(
            Param(
                "pointer",
                doc="where to write: pointers, an array plus integers, or a block pointer; an array has a form of its own",
            ),
            Param("value", doc="what is written; it is cast and broadcast"),
            Param("mask", default=None, doc="which elements are written; all without"),
            _BLOCK[0],
            *_HINTS[:2],
        ),
        infer=infer_store,
        reference=None,
        lane_rule=STRUCTURAL,
        bind_arguments=bind_store,
        effect=Effect.WRITE,
        dims=dims.elementwise,
        attrs=(),
        doc="Writes the value's elements at the pointers, where the mask holds.",
        example="store(y + offsets, value, mask=offsets < n)",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "tile_load",
        params=(Param("base"), Param("shape", "shape"), Param("masked", "bool")),
        infer=infer_tile_load,
        reference=None,
        lane_rule=STRUCTURAL,
        effect=Effect.READ,
        traits=_VARIADIC | {"zero_preserving", "indexable"},
        options=("element",),
        public=False,
        dims=access_dims,
        doc="A structured load, see `Access`. Elements that do not exist are `other`, or 0; an `element` must exist.",
        adjoint=BY_SWEEP,
    ),
    OpRow(
        "tile_store",
        params=(Param("base"), Param("shape", "shape"), Param("masked", "bool")),
        infer=infer_tile_store,
        reference=None,
        lane_rule=STRUCTURAL,
        effect=Effect.WRITE,
        traits=_VARIADIC,
        options=("element", "atomic"),  # `atomic` joins with what is there: atomics in bulk on Ascend
        public=False,
        dims=access_dims,
        doc="A structured store, see `Access`. Elements that do not exist are not written; an `element` must exist.",
        adjoint=BY_SWEEP,
    ),
)
