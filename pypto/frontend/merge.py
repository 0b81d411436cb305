"""Where paths meet: one type per variable, and the ops that bring it about."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pypto.errors.frontend import MaybeUnassigned, TypeClash
from pypto.frontend.scope import Binding, Poison, Scope
from pypto.frontend.values import describe, is_number, leaves, rebuild, same
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import TileType, scalar
from pypto.loc import Loc
from pypto.ops.build import OpBuilder, join_dtypes, merge_shapes, rank, weak_dtype
from pypto.ops.row import Effect
from pypto.ops.table import TABLE

EXITS = (".break", ".continue", ".return")
VALUE = ".value"  # what the function returns
RESULT = ".result"  # of an expression that is built as branches


@dataclass(slots=True)
class Arm:
    """One path: its ops and the variables at its end. `returned` and `left` say why nothing after it runs."""

    region: Region
    vars: dict[str, Binding]

    @property
    def returned(self) -> bool:
        return is_true(self.vars, ".return")

    @property
    def left(self) -> bool:
        return any(is_true(self.vars, name) for name in EXITS)


@dataclass(frozen=True, slots=True)
class Slot:
    """A result of the op that is to be made."""

    index: int


@dataclass(slots=True)
class Merge:
    """Two arms on their way to one set of variables."""

    builder: OpBuilder
    condition: Value
    arms: tuple[Arm, Arm]
    yields: tuple[list[Value], list[Value]] = field(default_factory=lambda: ([], []))
    merged: dict[str, Binding] = field(default_factory=dict)

    def slot(self, a: Any, b: Any, type: TileType) -> Slot:
        for arm, values, x in zip(self.arms, self.yields, (a, b), strict=True):
            with self.builder.inside(arm.region):
                values.append(conform(self.builder, x, type))
        return Slot(len(self.yields[0]) - 1)

    def leaf(self, a: Any, b: Any, promote: bool) -> Any:
        """What two leaves become."""
        if same(a, b):
            return a
        if a is UNDEF or b is UNDEF:
            known = b if a is UNDEF else a
            is_tile = isinstance(known, Value) and isinstance(known.type, TileType)
            return self.slot(a, b, known.type) if is_tile else known
        if isinstance(a, bool) and isinstance(b, bool):
            return self.condition if a else self.builder.emit("not_", self.condition)
        type = join(a, b, promote)
        return CLASH if type is None else self.slot(a, b, type)

    def structure(self, a: Any, b: Any, promote: bool) -> Any:
        if isinstance(a, tuple) and b is UNDEF:
            b = (UNDEF,) * len(a)
        if isinstance(b, tuple) and a is UNDEF:
            a = (UNDEF,) * len(b)
        if not isinstance(a, tuple) and not isinstance(b, tuple):
            return self.leaf(a, b, promote)
        if not isinstance(a, tuple) or not isinstance(b, tuple) or len(a) != len(b):
            return CLASH
        items = tuple(self.structure(x, y, promote) for x, y in zip(a, b, strict=True))
        return CLASH if any(i is CLASH for i in items) else items

    def variable(self, name: str) -> None:
        a, b = (arm.vars.get(name) for arm in self.arms)
        if a and b and a.value is b.value:
            self.merged[name] = a
            return
        values = [self.side(name, arm, x) for arm, x in zip(self.arms, (a, b), strict=True)]
        last = next(x for x in (b, a) if x)
        poison = next((v for v in values if isinstance(v, Poison)), None)
        if values[0] is values[1] is UNDEF:
            poison = last.value
        value = poison or self.structure(values[0], values[1], name == RESULT)
        if value is CLASH:
            assert a and b
            value = clashing(name, a, b)
        self.merged[name] = Binding(value, last.loc)

    def side(self, name: str, arm: Arm, binding: Binding | None) -> Any:
        """The value that an arm brings; UNDEF where nothing will read it."""
        if name in EXITS:
            return binding.value if binding else False
        if name == VALUE:
            return binding.value if binding else UNDEF
        other = self.arms[self.arms[0] is arm].vars.get(name)
        if arm.returned and other is not None and not isinstance(other.value, Poison):
            return UNDEF
        if binding is None:
            assert other is not None
            poison = other.value if isinstance(other.value, Poison) else unassigned(name, other.loc)
            return UNDEF if arm.left else poison
        return UNDEF if isinstance(binding.value, Poison) and arm.left else binding.value


class Mark(enum.Enum):
    """What a merge can find in the place of a value."""

    UNDEF = "brought by a path after which the variable is not read"
    CLASH = "two values without a common type"


UNDEF, CLASH = Mark.UNDEF, Mark.CLASH


def is_true(variables: dict[str, Binding], name: str) -> bool:
    return name in variables and variables[name].value is True


def join(a: Any, b: Any, promote: bool = False) -> TileType | None:
    """The type that both become: a Python number gives way to a tile; two tiles have to agree, or are promoted."""
    if is_number(a) and is_number(b):
        return scalar(join_dtypes(weak_dtype(a), weak_dtype(b)))
    if is_number(a):
        a, b = b, a
    if not isinstance(a, Value) or not isinstance(a.type, TileType):
        return None
    if is_number(b):
        return weakly(a.type, b)
    if not isinstance(b, Value) or not isinstance(b.type, TileType):
        return None
    if a.type == b.type:
        return a.type
    return join_types(a.type, b.type) if promote else None


def weakly(type: TileType, number: bool | int | float) -> TileType | None:
    """`type`, where a Python number can stand for it."""
    return type if not type.is_ptr and rank(weak_dtype(number))[0] <= rank(type.dtype)[0] else None


def join_types(a: TileType, b: TileType) -> TileType | None:
    """Promoted and broadcast."""
    shape = merge_shapes(a.shape, b.shape)
    if shape is None or a.is_ptr or b.is_ptr:
        return None
    return TileType(shape, join_dtypes(a.dtype, b.dtype))


def conform(b: OpBuilder, x: Any, type: TileType) -> Value:
    """`x` in a type that it can have."""
    if x is UNDEF:
        return b.create("undef", (), {}, (type,)).result
    if not isinstance(x, Value):
        return b.constant(x, type.dtype, type.shape)
    return x if x.type == type else b.broadcast(b.cast(x, type.dtype), type.shape)


def clashing(name: str, a: Binding, b: Binding) -> Poison:
    shown = {VALUE: "the returned value", RESULT: "the result"}.get(name, f"`{name}`")
    fields = {"name": shown, "a": describe(a.value), "b": describe(b.value)}
    return Poison(lambda use: TypeClash(b.loc, ((f"{fields['a']} here", a.loc), ("used here", use)), **fields))


def unassigned(name: str, assigned: Loc, why: str = "it is assigned on some paths only") -> Poison:
    return Poison(lambda use: MaybeUnassigned(use, (("assigned here", assigned),), name=name, why=why))


def build_arm(scope: Scope, variables: dict[str, Binding], build: Callable[[], None]) -> Arm:
    region = Region()
    with scope.builder.inside(region), scope.variables(dict(variables)) as ends:
        build()
        return Arm(region, ends)


def merge(scope: Scope, condition: Value, arms: tuple[Arm, Arm], select: bool = False) -> None:
    """End both arms, make the `if`, and set the variables. `select`: compute cheap scalars of both."""
    state = Merge(scope.builder, condition, arms)
    over = all(arm.returned for arm in arms)
    for name in dict.fromkeys([*arms[0].vars, *arms[1].vars]):
        if over and not name.startswith("."):
            continue  # nothing reads it any more; what it was before the branches is as good as anything
        if select or read_later(scope, name):
            state.variable(name)
        elif arms[0].vars.get(name) is not arms[1].vars.get(name):
            scope.vars.pop(name, None)
    results = finish(state, select)
    for name, binding in state.merged.items():
        items = iter([results[x.index] if isinstance(x, Slot) else x for x in leaves(binding.value)])
        scope.vars[name] = Binding(rebuild(binding.value, items), binding.loc)


def finish(state: Merge, select: bool) -> list[Value]:
    """What is yielded, behind the `if` or without one."""
    b, condition, arms, yields = state.builder, state.condition, state.arms, state.yields
    eager = select and all(not v.shape for v in yields[0]) and all(is_pure(arm.region) for arm in arms)
    if eager or not (arms[0].region.ops or arms[1].region.ops or yields[0]):
        for arm in arms:
            b.region.ops += arm.region.ops
        return [x if x is y else b.emit("where", condition, x, y) for x, y in zip(*yields, strict=True)]
    for arm, values in zip(arms, yields, strict=True):
        with b.inside(arm.region):
            b.op("yield", *values)
    types = tuple(v.type for v in yields[0])
    return list(b.create("if", (condition,), {}, types, (arms[0].region, arms[1].region)).results)


def is_pure(region: Region) -> bool:
    """Whether running these ops needlessly does no harm and costs little."""
    return len(region.ops) <= 16 and all(cheap(op) for op in region.ops)


def cheap(op: Op) -> bool:
    scalars = all(isinstance(r.type, TileType) and not r.shape for r in op.results)
    return scalars and not op.regions and TABLE[op.name].effect is Effect.PURE


def read_later(scope: Scope, name: str) -> bool:
    """Whether anything after the current statement can read the variable."""
    return bool(scope.rest) or any(scope.pending) or name in scope.live_out
