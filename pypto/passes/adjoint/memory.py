"""Memory in reverse: a store becomes a load of the gradient, a load adds to the gradient of its array.

The gradient of an array is accessed as the array is: by the same offsets within the array's own shape, or, through
pointers, at the same distance from the first element. The partial gradient of a block of programs is one row of a
matrix.

    %t = tile_load %px, %r, …         tile_store %pdx, %r, …, %g_t
    tile_store %py, %r, …, %v    ->   %g_v = tile_load %pdy, %r, …
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import ArrayType, TileType, int64
from pypto.ops.adjoint import Expression, gradient_dtype
from pypto.ops.adjoint_tiles import positions
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.passes.adjoint.ownership import Accumulation
from pypto.passes.analysis.memory_effects import accessed_array

Primal = Mapping[Value, Value]  # what a value of the forward kernel is in the derived one


@dataclass(frozen=True)
class GradientArray:
    """The gradient of an array in a derived kernel.

    `array` is its argument. With a `row`, the argument is a matrix, one of whose rows has the elements of this block.
    What the load `first` contributes is stored before anything is added; see `Ownership`. The gradient of a result that
    `is_consumed` is set to 0 when it is read: what is left is that of elements which are not stored.
    """

    array: Value
    accumulation: Accumulation
    row: Value | None = None
    first: Op | None = None
    is_consumed: bool = False


@dataclass
class GradientMemory:
    """Builds the accesses of gradients. `stored` are gradients of arrays that the kernel stores, `loaded` of others.

    `carried` are sums of the gradients of loads at one place, which a loop over programs carries in a tile.
    """

    builder: OpBuilder
    stored: Mapping[Value, GradientArray]
    loaded: Mapping[Value, GradientArray]
    facts: frozenset[tuple[str, str, int, int]] = frozenset()  # sizes and strides of arrays that are numbers in the IR
    carried: dict[Op, Value] = field(default_factory=dict)
    contributing: set[Op] = field(default_factory=set)  # the loads that have added to a gradient
    deferred: dict[Value, list[tuple[Op, Value, Primal]]] = field(default_factory=dict)

    def incoming(self, op: Op, primal: Primal) -> Value | None:
        """The gradient of what an op stores; None for an array without one."""
        array = accessed_array(op)
        gradient = self.stored.get(array) if array is not None else None
        if gradient is None:
            return None
        v = self.read(op, gradient, primal)
        if gradient.is_consumed:
            self.write(op, gradient, self.builder.constant(0, v.dtype, v.shape), primal)
        return self.builder.cast(v, gradient_dtype(v.dtype))

    def contribute(self, op: Op, g: Value, primal: Primal) -> None:
        """Add the gradient of what an op loads to that of its array."""
        array = accessed_array(op)
        gradient = self.loaded.get(array) if array is not None else None
        if array is None or gradient is None:
            return
        self.contributing.add(op)
        if op in self.carried:
            self.carried[op] = self.builder.emit("add", self.carried[op], g)
            return
        waiting = self.deferred.setdefault(gradient.array, [])
        if gradient.first is op:
            self.accumulate(op, replace(gradient, accumulation=Accumulation.STORE), g, primal)
            self.loaded = {**self.loaded, array: replace(gradient, first=None)}
            for later in waiting:
                self.accumulate(later[0], gradient, *later[1:])
        elif gradient.first is not None:
            waiting.append((op, g, primal))
        else:
            self.accumulate(op, gradient, g, primal)

    def accumulate(self, op: Op, gradient: GradientArray, g: Value, primal: Primal) -> None:
        """Store the gradient of what an op loads, or add it to what is there."""
        elem = gradient.array.type
        assert isinstance(elem, ArrayType)
        if gradient.accumulation is Accumulation.ATOMIC:
            self.add_atomically(op, gradient, self.builder.cast(g, elem.elem), primal)
            return
        if gradient.accumulation is Accumulation.ADD:
            before = self.builder.cast(self.read(op, gradient, primal), g.dtype)
            g = self.builder.emit("add", before, g)
        self.write(op, gradient, self.builder.cast(g, elem.elem), primal)

    # --- accesses -------------------------------------------------------------------------------------------------

    def read(self, op: Op, gradient: GradientArray, primal: Primal) -> Value:
        if op.name in ("tile_load", "tile_store"):
            operands, attrs = self.place(op, gradient, primal)
            tile = self.builder.op("tile_load", *operands, **attrs).result
            return (
                self.builder.emit("reshape", tile, shape=op.attrs["shape"]) if tile.shape != op.attrs["shape"] else tile
            )
        pointer = self.rebased(op.operands[0], gradient, primal)
        return self.builder.emit("load", pointer, *masks(op, primal))

    def write(self, op: Op, gradient: GradientArray, v: Value, primal: Primal) -> None:
        if op.name in ("load", "store"):
            self.builder.op("store", self.rebased(op.operands[0], gradient, primal), v, *masks(op, primal))
            return
        operands, attrs = self.place(op, gradient, primal)
        n = len(attrs["shape"])  # type: ignore[arg-type]
        if v.shape != attrs["shape"]:
            v = self.builder.emit("reshape", v, shape=attrs["shape"])
        self.builder.op("tile_store", *operands[: 1 + 3 * n], v, *operands[1 + 3 * n :], **attrs)

    def place(self, op: Op, gradient: GradientArray, primal: Primal) -> tuple[tuple[Value, ...], dict[str, Attr]]:
        """The operands of a structured access of the gradient, and its attributes."""
        access = Access.of(op)
        shape = access.shape
        mask: tuple[Value, ...] = () if access.mask is None else (primal[access.mask],)
        attrs: dict[str, Attr] = {"masked": bool(mask), "shape": shape}
        offsets = [primal[v] for v in access.offsets]
        if not is_native(access, self.facts):
            base = self.rebased(access.base, gradient, primal)
            strides, extents = ([primal[v] for v in values] for values in (access.strides, access.extents))
            return (base, *offsets, *strides, *extents, *mask), attrs
        lead = 0 if gradient.row is None else 1
        dims = range(lead, lead + len(shape))
        b, array = self.builder, gradient.array
        if gradient.row is not None:
            offsets = [gradient.row, *offsets]
            attrs["shape"] = shape = (1, *shape)
            mask = tuple(b.emit("reshape", v, shape=shape) for v in mask)
            dims = range(len(shape))
        strides = [b.emit("array_stride", array, dim=d) for d in dims]
        extents = [b.emit("array_shape", array, dim=d) for d in dims]
        return (b.emit("array_ptr", array), *offsets, *strides, *extents, *mask), attrs

    def rebased(self, pointer: Value, gradient: GradientArray, primal: Primal) -> Value:
        """Pointers into the gradient, as far from its first element as pointers are from that of their array."""
        op = pointer.op
        assert op is not None
        if op.name != "array_ptr":
            base = self.rebased(op.operands[0], gradient, primal)
            more = tuple(primal[v] for v in op.operands[1:])
            return self.builder.op(op.name, base, *more, **op.attrs).result
        b, array = self.builder, gradient.array
        base = b.emit("array_ptr", array)
        if gradient.row is None:
            return base
        return b.emit("addptr", base, b.emit("mul", gradient.row, b.emit("array_stride", array, dim=0)))

    def add_atomically(self, op: Op, gradient: GradientArray, g: Value, primal: Primal) -> None:
        """Add elements whose addresses may be equal. One program adds them one by one, in order."""
        b = self.builder
        if op.name == "load":
            pointer = self.rebased(op.operands[0], gradient, primal)
            mask = masks(op, primal)
        else:
            pointer, mask = self.pointers(op, gradient, primal)
        attrs: dict[str, Attr] = {"kind": "add", "sem": "acq_rel", "scope": "gpu"}
        b.create("atomic_add", (pointer, g, *mask), attrs, (g.type,))

    def pointers(self, op: Op, gradient: GradientArray, primal: Primal) -> tuple[Value, tuple[Value, ...]]:
        """A structured access as pointers and a mask."""
        b, (operands, attrs) = self.builder, self.place(op, gradient, primal)
        shape: tuple[int, ...] = op.attrs["shape"]
        full: tuple[int, ...] = attrs["shape"]  # type: ignore[assignment]
        n = len(full)
        pointer = b.broadcast(operands[0], full)
        offsets, strides, extents = (operands[1 + k * n : 1 + (k + 1) * n] for k in range(3))
        indices = self.indices(offsets, full)
        mask = self.inside(indices, extents, operands[1 + 3 * n] if attrs["masked"] else None)
        for index, stride in zip(indices, strides, strict=True):
            pointer = b.emit("addptr", pointer, (index * Expression(b, b.broadcast(stride, full))).value)
        if full != shape:
            pointer, mask = (b.emit("reshape", v, shape=shape) for v in (pointer, mask))
        return pointer, (mask,)

    def indices(self, offsets: Sequence[Value], shape: tuple[int, ...]) -> list[Expression]:
        """The indices of an access along each dimension, for all its elements."""
        b = self.builder
        lines = [positions(b, shape, d).cast(int64) for d in range(len(shape))]
        return [Expression(b, b.broadcast(v, shape)) + line for v, line in zip(offsets, lines, strict=True)]

    def inside(self, indices: Sequence[Expression], extents: Sequence[Value], mask: Value | None) -> Value:
        """Which elements of an access exist."""
        b = self.builder
        for index, extent in zip(indices, extents, strict=True):
            exists = (index >= 0).op("and_", index < Expression(b, b.broadcast(extent, index.shape)))
            mask = exists.value if mask is None else b.emit("and_", mask, exists.value)
        assert mask is not None
        return mask

    def loaded_elements(self, op: Op, primal: Primal) -> Value:
        """Which elements of a load are in its array; others are what its `other` is."""
        if op.name == "load":
            return primal[op.operands[1]]
        access = Access.of(op)
        offsets, extents = ([primal[v] for v in values] for values in (access.offsets, access.extents))
        mask = None if access.mask is None else primal[access.mask]
        return self.inside(self.indices(offsets, access.shape), extents, mask)


def is_native(access: Access, facts: Collection[tuple[str, str, int, int]]) -> bool:
    """Whether the dimensions of an access are those of its array, with their strides and sizes, as a slice has them.

    `facts` are sizes and strides of arrays that the IR has as numbers.
    """
    op = access.base.op
    if op is None or op.name != "array_ptr" or not isinstance(access.base.type, TileType):
        return False
    array = op.operands[0]
    if not isinstance(array.type, ArrayType) or array.type.ndim != len(access.shape):
        return False
    numbers = (("array_stride", access.strides), ("array_shape", access.extents))
    return all(is_of(v, name, array, d, facts) for name, values in numbers for d, v in enumerate(values))


def is_of(v: Value, name: str, array: Value, d: int, facts: Collection[tuple[str, str, int, int]]) -> bool:
    """Whether a value is the size or stride of an array along a dimension."""
    if v.op is None:
        return False
    if v.op.name == name:
        return v.op.operands[0] is array and v.op.attrs["dim"] == d
    return v.op.name == "constant" and (name, array.hint, d, v.op.attrs["value"]) in facts


def masks(op: Op, primal: Primal) -> tuple[Value, ...]:
    """The mask of a load, store or atomic op through pointers, where it has one."""
    place = 1 if op.name == "load" else 2
    return tuple(primal[v] for v in op.operands[place : place + 1])
