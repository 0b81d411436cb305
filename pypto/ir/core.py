"""Values, ops, regions and functions of Tile IR.

Passes never edit an op in place: they build a new function (see `rewrite`), so that an op, once made, stays true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pypto.ir.types import DType, Elem, TileType, Type
from pypto.loc import UNKNOWN, Loc

Attr = int | float | bool | str | None | Elem | tuple[Any, ...]


@dataclass(eq=False, slots=True)
class Value:
    """An SSA value: a result of an op, or an argument of a region or function."""

    type: Type
    hint: str = ""
    op: Op | None = None

    @property
    def tile(self) -> TileType:
        """The type, where it is a tile or scalar."""
        if not isinstance(self.type, TileType):
            raise TypeError(f"{self.type} is no tile")
        return self.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tile.shape

    @property
    def dtype(self) -> DType:
        return self.tile.dtype


@dataclass(eq=False, slots=True)
class Op:
    """One op. `results` are made with it; `regions` hold the bodies of control flow."""

    name: str
    operands: tuple[Value, ...]
    attrs: dict[str, Any]  # of type Attr; what an op's attributes are is its row's business
    results: tuple[Value, ...]
    regions: tuple[Region, ...] = ()
    loc: Loc = UNKNOWN

    @property
    def result(self) -> Value:
        """The only result."""
        (value,) = self.results
        return value


@dataclass(eq=False, slots=True)
class Region:
    """A single block: arguments, then ops; the last one is the terminator."""

    args: list[Value] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)

    @property
    def terminator(self) -> Op:
        return self.ops[-1]

    @property
    def body(self) -> list[Op]:
        """The ops before the terminator."""
        return self.ops[:-1]


@dataclass(frozen=True, slots=True)
class ProgramMap:
    """Which programs of the grid one run of a function's body does the work of.

    A coarsened body covers up to `factor` programs that follow one another along `axis`, and up to `second_factor`
    along the second axis. `program_id` is then the first of them, and `num_programs` of such an axis the end of those
    that are covered. With `has_coarsened_version`, the body covers single programs, and another version of the kernel
    covers several. With `has_cold_version`, the body is one `if`, whose first region most programs run.

    Axis n of the body is axis `order[n]` of the launch's grid. Axis 0 of the body runs fastest.
    """

    axis: int = 0
    factor: int = 1
    second_factor: int = 1
    has_coarsened_version: bool = False
    has_cold_version: bool = False
    order: tuple[int, ...] = (0, 1, 2)

    @property
    def is_coarsened(self) -> bool:
        return self.factor > 1 or self.second_factor > 1


@dataclass(eq=False, slots=True)
class Function:
    """A kernel: its arguments (those of its body region), and facts that hold for every launch of this specialization.

    An argument's name is its `hint`. `attrs` are facts such as ``noalias = True``: written arrays overlap no other.
    `programs` says which programs of the grid the body covers.
    """

    name: str
    body: Region
    attrs: dict[str, Attr] = field(default_factory=dict)
    loc: Loc = UNKNOWN
    programs: ProgramMap = ProgramMap()

    @property
    def args(self) -> list[Value]:
        return self.body.args

    def walk(self) -> Iterator[Op]:
        """Every op, outer before inner, in program order."""
        yield from walk(self.body)

    def op_names(self) -> frozenset[str]:
        """Names of all ops."""
        return frozenset(op.name for op in self.walk())


def walk(region: Region) -> Iterator[Op]:
    for op in region.ops:
        yield op
        for inner in op.regions:
            yield from walk(inner)


def make_op(
    name: str,
    operands: tuple[Value, ...],
    attrs: dict[str, Attr],
    types: tuple[Type, ...],
    regions: tuple[Region, ...] = (),
    loc: Loc = UNKNOWN,
) -> Op:
    """An op with fresh results of the given types."""
    op = Op(name, operands, attrs, (), regions, loc)
    op.results = tuple([Value(t, "", op) for t in types])
    return op
