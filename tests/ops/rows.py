"""How each row of the op table is tried: operand types, attributes and the text of a call, all read from the row."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import pytest

from pypto.errors import Diagnostic
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import DTYPES, DType, TileType, float32, int32, int64
from pypto.language import libdevice
from pypto.ops.build import OpBuilder
from pypto.ops.row import REQUIRED, OpRow, Param
from pypto.ops.table import ROWS
from tests.conftest import LEVELS

Shape = tuple[int, ...]
SIZE: Final = 701  # of one-dimensional tiles: no multiple of any number of lanes
# Rows that the language writes as operators.
SYMBOLS: Final = MappingProxyType({
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "rem": "%", "and_": "&", "or_": "|", "xor": "^",
    "shl": "<<", "shr": ">>", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "neg": "-", "not_": "~",
})  # fmt: skip

Operand = Shape | TileType  # a shape stands for a tile of the dtype that is tried

# Rows whose attributes or operands must fit each other, with some that do.
FITTING: Final[Mapping[str, tuple[tuple[tuple[Operand, ...], dict[str, Any]], ...]]] = MappingProxyType({
    "broadcast_to": ((((1, 7),), {"shape": (5, 7)}), (((5, 1),), {"shape": (5, 7)}), (((7,),), {"shape": (2, 5, 7)}),
                     (((1, 5, 1),), {"shape": (3, 5, 17)})),
    "reshape": ((((6, 35),), {"shape": (10, 21)}), (((210,),), {"shape": (2, 7, 15)}), (((2, 7, 3),), {"shape": (-1,)}),
                (((7, 9),), {"shape": (1, 7, 1, 9)})),
    "permute": ((((5, 19),), {"dims": None}), (((5, 19),), {"dims": (1, 0)}), (((3, 5, 7),), {"dims": None}),
                (((3, 5, 17),), {"dims": (2, 0, 1)}), (((3, 5, 17),), {"dims": (1, 0, -1)})),
    "dot": ((((5, 9), (9, 7)), {}), (((33, 17), (17, 50)), {}), (((1, 1), (1, 1)), {}), (((3, 5, 9), (3, 9, 21)), {})),
    "histogram": ((((67,),), {"num_bins": 7}), (((5, 9),), {"num_bins": 300}), (((1,),), {"num_bins": 1})),
    "gather": ((((9, 17), TileType((5, 17), int32)), {"axis": 0}), (((9, 17), TileType((9, 40), int64)), {"axis": -1}),
               (((67,), TileType((33,), int32)), {"axis": 0}), (((3, 5, 17), TileType((2, 8, 9), int32)), {"axis": 1})),
})  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One way to call an op: operand types, and its attributes by name."""

    row: OpRow
    types: tuple[TileType, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    @property
    def op(self) -> Op:
        """The op that the call makes, as the row prepares it. Raises where the op does not take these types."""
        operands = [Value(t, f"x{i}") for i, t in enumerate(self.types)]
        b = OpBuilder(Region(operands))
        given = dict(zip((p.name for p in self.row.params if p.is_operand), operands, strict=False))
        arguments = {p.name: given.get(p.name, p.default) for p in self.row.params} | dict(self.attrs)
        if self.row.bind_arguments:
            made = self.row.bind_arguments(b, **arguments)
            if isinstance(made, Value):
                assert made.op is not None
                return made.op
            return b.op(self.row.name, *made[0], **made[1])
        return b.op(self.row.name, *operands, **{name: arguments[name] for name in self.row.attributes})

    @property
    def is_accepted(self) -> bool:
        try:
            return bool(self.op.results)
        except (TypeError, Diagnostic):
            return False

    def text(self, *operands: str) -> str:
        """The call in the language: by name, or by the operator that stands for a row without one."""
        if self.row.name in SYMBOLS:
            return SYMBOLS[self.row.name].join(operands if len(operands) > 1 else ("", *operands))
        attrs = [f"{name}={value!r}" for name, value in self.attrs]
        return f"{home(self.row)}.{name_of(self.row)}({', '.join([*operands, *attrs])})"

    def __str__(self) -> str:
        return f"{self.text(*(str(t) for t in self.types))}"


def home(row: OpRow) -> str:
    """The module that has the op's name in the language."""
    return "pto" if row.public else "pto.language.libdevice"


def is_hidden(row: OpRow) -> bool:
    """Whether the op has its name in `libdevice` alone."""
    return not row.public and getattr(getattr(libdevice, name_of(row), None), "row", None) is row


def name_of(row: OpRow) -> str:
    """The op's name in the language; where float64 has a function of its own, that of the other types."""
    narrow = f"narrow_{row.name}"
    return narrow if hasattr(libdevice, narrow) else row.name


def operands_of(row: OpRow) -> list[Param]:
    """The operands that a call must give."""
    return [p for p in row.params if p.is_operand and p.default is REQUIRED]


def choices(p: Param, rank: int) -> list[Any]:
    """Values of an attribute to try."""
    if p.name == "axis":
        several = [(0, rank - 1), None] if p.kind == "axis" and rank > 1 else []
        return [*range(rank), -1, *several]
    if p.kind == "bool":
        return [False, True]
    if p.kind in ("dtype", "elem"):
        return list(DTYPES) if p.default is REQUIRED else [None, int64, float32]
    return [p.default]


def combinations(row: OpRow, rank: int) -> Iterator[tuple[tuple[str, Any], ...]]:
    """Every value of every attribute at least once; those without meaning (hints) stay at their defaults."""
    attrs = [p for p in row.params if not p.is_operand and p.kind in ("axis", "bool", "dtype", "elem", "int")]
    tried = [choices(p, rank) for p in attrs]
    for i in range(max(map(len, tried), default=1)):
        yield tuple((p.name, values[i % len(values)]) for p, values in zip(attrs, tried, strict=True))


def calls(row: OpRow, dtype: DType, shape: Shape | None = None) -> list[Call]:
    """All that is tried of a row with operands of one dtype, as far as the row accepts it."""
    if row.name in FITTING:
        made = [Call(row, tuple(typed(x, dtype) for x in operands), tuple(attrs.items()))
                for operands, attrs in FITTING[row.name]]  # fmt: skip
    else:
        shape = shape or ((SIZE,) if row.elementwise else (5, 9, 19))
        types = (TileType(shape, dtype),) * len(operands_of(row))
        made = [Call(row, types, attrs) for attrs in combinations(row, len(shape))]
    return [call for call in made if call.is_accepted]


def typed(x: Operand, dtype: DType) -> TileType:
    return x if isinstance(x, TileType) else TileType(x, dtype)


def takes(row: OpRow) -> tuple[DType, ...]:
    """The dtypes that a row accepts."""
    return tuple(d for d in DTYPES if calls(row, d))


# Rows that compute; the others are control flow, memory, or what only the frame of a kernel gives meaning to.
COMPUTING: Final = tuple(
    row
    for row in ROWS
    if row.reference is not None and (row.public or row.name in SYMBOLS or is_hidden(row)) and row.name != "arange"
)
ELEMENTWISE: Final = tuple(row for row in COMPUTING if row.elementwise)
AXES: Final = tuple(row for row in COMPUTING if not row.elementwise and row.name not in FITTING)

QUICK: Final = ("i1", "i8", "i32", "u64", "f16", "f32")


def at_levels(
    pairs: list[tuple[OpRow, DType]], levels: tuple[str, ...] = LEVELS, slow: Collection[tuple[OpRow, DType]] = ()
) -> Any:
    """Tests of rows and dtypes on the feature levels; on lower ones not every dtype is quick enough for each run."""
    made = []
    for row, dtype in pairs:
        for level in levels:
            is_slow = (level and dtype.mnemonic not in QUICK) or (row, dtype) in slow
            marks = [pytest.mark.slow] if is_slow else []
            made.append(pytest.param(row, dtype, level, marks=marks, id=f"{row.name}-{dtype}-{level or 'host'}"))
    return pytest.mark.parametrize(("row", "dtype", "level"), made, indirect=["level"])
