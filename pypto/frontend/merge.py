"""Where two paths meet: one value per variable, and the ops that bring it about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from pypto.errors.frontend import MaybeUnassigned, TypeClash
from pypto.frontend.scope import BREAK, RETURN, SKIP, VALUE, Binding, Poison
from pypto.frontend.tuples import alike, leaves, rebuild, same
from pypto.frontend.values import array_type, as_pointer, describe, is_array, is_number, tile_type
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import TileType, scalar
from pypto.ops.build import Number, OpBuilder, join_dtypes, merge_shapes, rank, weak_dtype
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

RESULT: Final = ".result"  # of an expression that is built as branches
UNDEF: Final = object()  # what a path brings where nothing will read it
ABSENT: Final[Mapping[str, Any]] = MappingProxyType({SKIP: False, BREAK: False, RETURN: False, VALUE: UNDEF})

# What is wrong with values that are no variables.
_CLASHES: Final[Mapping[str, str]] = MappingProxyType({
    VALUE: "Return type mismatch", RESULT: "Ternary expression with dynamic condition has inconsistent type",
})  # fmt: skip

Kind = TileType | Number | None


class NoJoin(Exception):
    """Two values have no common type."""


@dataclass(slots=True)
class Path:
    """One path: its ops, and the variables at its end."""

    region: Region
    vars: dict[str, Binding]

    def ends_with(self, way: str) -> bool:
        """Whether the path leaves this way for certain."""
        return way in self.vars and self.vars[way].value is True

    def brings(self, name: str, other: Binding | None) -> Any:
        """The value of a variable at the end of the path; `other` is what the other path has."""
        binding = self.vars.get(name)
        if name in ABSENT:
            return binding.value if binding else ABSENT[name]
        if self.ends_with(RETURN):
            return UNDEF
        value = binding.value if binding else unassigned(name, other)
        return UNDEF if isinstance(value, Poison) and self.ends_with(SKIP) else value


@dataclass(slots=True)
class Merge:
    """Two arms on their way to one set of variables."""

    builder: OpBuilder
    condition: Value
    arms: tuple[Path, Path]
    yields: tuple[list[Value], list[Value]] = field(default_factory=lambda: ([], []))
    results: list[Value] = field(default_factory=list)

    def variable(self, name: str) -> Binding | None:
        """What a variable is behind both arms, or None where nothing will read it."""
        a, b = (arm.vars.get(name) for arm in self.arms)
        if a and b and a.value is b.value:
            return a
        last = b or a
        assert last
        x, y = self.arms[0].brings(name, b), self.arms[1].brings(name, a)
        if x is y is UNDEF:
            return None
        poison = next((s for s in (x, y) if isinstance(s, Poison)), None)
        try:
            return Binding(poison or self.value(x, y, promote=name == RESULT), last.loc)
        except NoJoin:
            assert a and b
            return Binding(clashing(name, a, b), last.loc)

    def value(self, a: Any, b: Any, promote: bool) -> Any:
        """What two values become, leaf by leaf."""
        like = b if a is UNDEF else a
        if b is not UNDEF and not alike(like, b):
            raise NoJoin
        pairs = ([UNDEF for _ in leaves(like)] if x is UNDEF else leaves(x) for x in (a, b))
        return rebuild(like, iter([self.leaf(x, y, promote) for x, y in zip(*pairs, strict=True)]))

    def leaf(self, a: Any, b: Any, promote: bool) -> Any:
        if same(a, b):
            return a
        if a is UNDEF or b is UNDEF:
            known = b if a is UNDEF else a
            return self.result(a, b, known.type) if tile_type(known) else known
        if isinstance(a, bool) and isinstance(b, bool):
            return self.condition if a else self.builder.emit("not_", self.condition)
        return self.result(a, b, join(kind(a), kind(b), promote))

    def result(self, a: Any, b: Any, type: TileType) -> Value:
        """A result of the op that is to be made, and what the arms yield for it."""
        for arm, values, x in zip(self.arms, self.yields, (a, b), strict=True):
            with self.builder.inside(arm.region):
                values.append(conform(self.builder, x, type))
        self.results.append(Value(type))
        return self.results[-1]

    def finish(self, select: bool) -> None:
        """Make the results, by an `if` or without one. `select`: compute both arms, where they are cheap."""
        b, regions = self.builder, (self.arms[0].region, self.arms[1].region)
        ops = [op for region in regions for op in region.ops]
        eager = select and len(ops) <= 32 and all(map(is_cheap, ops)) and not any(r.shape for r in self.results)
        if eager or not (ops or self.results):
            b.region.ops += ops
            for result, x, y in zip(self.results, *self.yields, strict=True):
                set_results(b.op("where", self.condition, x, y), result)
            return
        for region, values in zip(regions, self.yields, strict=True):
            with b.inside(region):
                b.op("yield", *values)
        set_results(b.create("if", (self.condition,), {}, (), regions), *self.results)


def set_results(op: Op, *results: Value) -> None:
    """Let results that are in use already be those of the op."""
    op.results = results
    for v in results:
        v.op = op


def is_cheap(op: Op) -> bool:
    """Whether running an op needlessly does no harm and costs little."""
    return not op.regions and TABLE[op.name].effect is Effect.PURE and not any(r.shape for r in op.results)


def kind(x: Any) -> Kind:
    """What `join` goes by: a Python number itself, the type of a tile, an array's pointer type, None for all else."""
    return x if is_number(x) else scalar(array_type(x).pointer) if is_array(x) else tile_type(x)


def join(a: Kind, b: Kind, promote: bool) -> TileType:
    """The type that both become: a number gives way to a tile where it can; tiles have to agree, or are promoted."""
    if a is None or b is None:
        raise NoJoin
    x, y = (t if isinstance(t, TileType) else scalar(weak_dtype(t)) for t in (a, b))
    if (x is a) != (y is b):
        number, tile = (y, x) if x is a else (x, y)
        if not tile.is_ptr and rank(number.dtype)[0] <= rank(tile.dtype)[0]:
            return tile
    if x == y:
        return x
    shape, numbers = merge_shapes(x.shape, y.shape), x is not a and y is not b
    if shape is None or x.is_ptr or y.is_ptr or not (promote or numbers):
        raise NoJoin
    return TileType(shape, join_dtypes(x.dtype, y.dtype))


def conform(b: OpBuilder, x: Any, type: TileType) -> Value:
    """`x` in a type that it can have."""
    if x is UNDEF:
        return b.create("undef", (), {}, (type,)).result
    if not isinstance(x, Value):
        return b.constant(x, type.dtype, type.shape)
    x = as_pointer(b, x)
    return x if x.type == type else b.broadcast(b.cast(x, type.dtype), type.shape)


def clashing(name: str, a: Binding, b: Binding, way: str = "cast or broadcast one of them, or use two names") -> Poison:
    if isinstance(b.value, Poison):
        return b.value
    what = _CLASHES.get(name, f"Mismatched type for {name}")
    fields = {"what": what, "a": describe(a.value), "b": describe(b.value), "way": way}
    return Poison(lambda use: TypeClash(b.loc, ((f"{fields['a']} here", a.loc), ("used here", use)), **fields))


def unassigned(name: str, known: Binding | None, why: str = "it is assigned on some paths only") -> Poison:
    """For a variable that another path assigns, if any does so well."""
    assert known is not None
    if isinstance(known.value, Poison):
        return known.value
    return Poison(lambda use: MaybeUnassigned(use, (("assigned here", known.loc),), name=name, why=why))
