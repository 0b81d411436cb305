"""The op row: all facts about one op, stated once. Every stage and backend reads them here."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final, Literal

import numpy as np

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import DType, Type
from pypto.ops.adjoint import Adjoint
from pypto.ops.dims import DimRelation, DimRule, elementwise, unknown


class Effect(enum.Enum):
    """What an op does to memory or the world."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class Structural:
    """The backend lowers the op with code of its own, which it finds by the op's name: control flow, memory, products."""


@dataclass(frozen=True, slots=True)
class Search(Structural):
    """An op that gives the index of the best element: `better` compares a better element with another one."""

    better: Literal["gt", "lt"]


@dataclass(frozen=True, slots=True)
class Unsupported:
    """The backend refuses the op; `reason` says why, and what to write instead."""

    reason: str


LaneRule = Callable[..., Any]  # (emitter, op, *lanes) -> lanes


@dataclass(frozen=True, slots=True)
class Reduction:
    """Lane rule of a reduction: its neutral element and the combination of two partial results.

    An extreme says by `better` how a better element compares with another one, as a `Search` does.
    """

    identity: Callable[[DType], float | int]  # the neutral element in a dtype
    combine: LaneRule  # (emitter, lanes, lanes) -> lanes
    tile_op: str  # the elementwise op, with default arguments, that combines tiles
    better: Literal["gt", "lt"] | None = None


STRUCTURAL: Final = Structural()
REQUIRED: Final = "<required>"

Reference = Callable[..., Any]  # (op, *numpy arrays) -> array, or a tuple of them
Check = Callable[[Op], None]
Infer = Callable[[Sequence[Type], Mapping[str, Attr]], tuple[Type, ...]]
# (builder, **arguments) -> operands and attributes, or the result itself if the call becomes several ops
BindArguments = Callable[..., tuple[list[Any], dict[str, Any]] | Value]


@dataclass(frozen=True, slots=True)
class Param:
    """A parameter of an op, in the order of its public signature.

    `kind` is ``tile`` for an operand; ``int``, ``bool``, ``str``, ``dtype``, ``shape``, ``axis`` or ``any`` for an
    attribute, which must be known at compile time.
    """

    name: str
    kind: str = "tile"
    default: Any = REQUIRED
    doc: str = ""

    @property
    def is_operand(self) -> bool:
        return self.kind == "tile"


@dataclass(frozen=True)
class OpRow:
    """One op.

    Parameters
    ----------
    name : str
        Name in the IR, and in the language when `public`.
    params : tuple of Param
        Operands and attributes in the order of the public signature.
    infer : callable
        Type rule: operand types and attributes to result types. Raises `TypeError` with a sentence when they do not fit.
    reference : callable or None
        Reference semantics in numpy: ``(op, *arrays)`` to the result, which is then cast to the result's dtype. None for
        control flow and memory, which the interpreter handles by name.
    lane_rule : callable, Reduction, Structural or Unsupported
        Target-independent lowering of a chunk: ``(emitter, op, *lanes)`` to lanes. All backends share it; each has its own
        `Emitter`.
    bind_arguments : callable
        From the arguments of the public call to operands and attributes (promotion, broadcast, defaults).
    check : callable
        Verifier rule for what the type rule does not see (regions, attribute values). Raises `TypeError` with a sentence.
    attrs : tuple of str
        Names of the attributes in the IR, if they differ from the attribute parameters of the public call.
    options : tuple of str
        Names of attributes that may be absent.
    dims : callable
        Relation of the dimensions of results and operands, see `pypto.ops.dims`. Without it an elementwise op has that of
        its trait, and of other ops nothing is known.
    traits : frozenset of str
        Properties that passes and backends ask for:
        ``elementwise``; ``reduction``, ``arg_reduction`` (gives an index) and ``scan``;
        ``movement`` (moves or repeats elements and computes nothing);
        ``zero_preserving`` (an element is 0 where those that it comes from are);
        ``exact_in_narrow`` (in a format of 16 or 8 bits it rounds nothing);
        ``additive`` (a sum of the operands, each with a sign);
        ``overflowing`` (arithmetic whose integers wrap around where they do not fit);
        ``magnitude`` (no result has a sign);
        ``width_preserving`` (integers need no more bits than those that they come from);
        ``indexable`` (an element of the result can be computed alone, from its index);
        ``commutative``, ``variadic``, ``declared``, ``terminator``, ``control``, ``uniform``.
    adjoint : AdjointRule, NoAdjoint or BySweep
        From the gradient of the result to those of the operands, see `pypto.ops.adjoint`; or why there is none.
    kink : str
        A sentence on the gradient where the function has no derivative, as at a tie. It is torch's where torch has one.
    cost : int
        Simple instructions of one lane: 0 where nothing is computed. What has an `ulp` costs about 10.
    ulp : mapping from dtype name to float
        Largest error of the lane rule against float64; 0 if it is exact.
    domain : (float, float)
        Range that the generated tests sample operands from.
    """

    name: str
    _: KW_ONLY
    params: tuple[Param, ...]
    infer: Infer
    reference: Reference | None
    lane_rule: LaneRule | Reduction | Structural | Unsupported
    bind_arguments: BindArguments | None = None
    effect: Effect = Effect.PURE
    adjoint: Adjoint | None = None  # no row leaves it so
    kink: str = ""
    dims: DimRule | None = None
    check: Check | None = None
    attrs: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    cost: int = 1
    ulp: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    domain: tuple[float, float] = (-10.0, 10.0)
    dtypes: str = "all"  # what the generated tests try: "all", "float", "int", "bool" or "number"
    doc: str = ""
    example: str = ""
    public: bool = True

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the op has in the IR."""
        return tuple(p.name for p in self.params if not p.is_operand) if self.attrs is None else self.attrs

    @cached_property
    def operand_counts(self) -> tuple[int, int]:
        """How many operands the op has at least and at most, where it is not ``variadic``."""
        operands = [p for p in self.params if p.is_operand]
        return sum(p.default is not None for p in operands), len(operands)

    @property
    def elementwise(self) -> bool:
        return "elementwise" in self.traits

    def dim_relation(self, op: Op) -> DimRelation:
        """How the dimensions of an op's results come from those of its operands."""
        rule = self.dims or (elementwise if self.elementwise else unknown)
        return rule(op)


def numpy_op(fn: Callable[..., Any]) -> Reference:
    """Reference of an op that is a numpy function of its operands alone."""

    def reference(op: Op, *args: np.ndarray[Any, Any]) -> Any:
        with np.errstate(all="ignore"):
            return fn(*args)

    return reference
