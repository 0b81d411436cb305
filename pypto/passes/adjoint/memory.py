"""Memory in reverse: a store becomes a load of the gradient, a load adds to the gradient of its array.

The gradient of an array is accessed as the array is: by the same offsets within the array's own shape, or, through
pointers, at the same distance from the first element. The partial gradient of a block of programs is one row of a
matrix.

    %t = tile_load %px, %r, …         tile_store %pdx, %r, …, %g_t
    tile_store %py, %r, …, %v    ->   %g_v = tile_load %pdy, %r, …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import ArrayType, TileType, int64
from pypto.ops.adjoint import Expression, gradient_dtype
from pypto.ops.adjoint_tiles import positions
from pypto.ops.build import OpBuilder
from pypto.ops.memory import Access
from pypto.passes.adjoint.ownership import Accumulation
from pypto.passes.memory_effects import accessed_array

Primal = Mapping[Value, Value]  # what a value of the forward kernel is in the derived one


@dataclass(frozen=True)
class GradientArray:
    """The gradient of an array in a derived kernel.

    `array` is its argument. With a `row`, the argument is a matrix, one of whose rows has the elements of this block.
    What the load `first` contributes is stored before anything is added; see `Ownership`.
    """

    array: Value
    accumulation: Accumulation
    row: Value | None = None
    first: Op | None = None


@dataclass
class GradientMemory:
    """Builds the accesses of gradients. `stored` are gradients of arrays that the kernel stores, `loaded` of others.

    `carried` are sums of the gradients of loads at one place, which a loop over programs carries in a tile.
    """

    builder: OpBuilder
    stored: Mapping[Value, GradientArray]
    loaded: Mapping[Value, GradientArray]
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
        if op.name == "load":
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
        if not is_native(access):
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
        mask: Value | None = operands[1 + 3 * n] if attrs["masked"] else None
        for d in range(n):
            offset, stride, extent = (operands[1 + k * n + d] for k in range(3))
            line = positions(b, full, d).cast(int64)
            index = Expression(b, b.broadcast(offset, full)) + line
            inside = (index >= 0).op("and_", index < Expression(b, b.broadcast(extent, full)))
            mask = inside.value if mask is None else b.emit("and_", mask, inside.value)
            pointer = b.emit("addptr", pointer, (index * Expression(b, b.broadcast(stride, full))).value)
        assert mask is not None
        if full != shape:
            pointer, mask = (b.emit("reshape", v, shape=shape) for v in (pointer, mask))
        return pointer, (mask,)


def is_native(access: Access) -> bool:
    """Whether the dimensions of an access are those of its array, as a slice has them."""
    op = access.base.op
    if op is None or op.name != "array_ptr":
        return False
    kind = op.operands[0].type
    return isinstance(kind, ArrayType) and kind.ndim == len(access.shape) and isinstance(access.base.type, TileType)


def masks(op: Op, primal: Primal) -> tuple[Value, ...]:
    """The mask of a load, store or atomic op through pointers, where it has one."""
    place = 1 if op.name == "load" else 2
    return tuple(primal[v] for v in op.operands[place : place + 1])
