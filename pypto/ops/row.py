"""The row: everything that is known of an op, once."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.ir.core import Attr, Op, Value
from pypto.ir.types import DType, Type


class Effect(enum.Enum):
    """What an op does to memory or the world."""

    PURE = "pure"
    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"
    SYNC = "sync"


@dataclass(frozen=True, slots=True)
class Structural:
    """A cell whose lowering is no few lines: it lives in the backend, under the op's name."""


@dataclass(frozen=True, slots=True)
class Unsupported:
    """A cell that says why there is no lowering, and what to write instead."""

    reason: str


@dataclass(frozen=True, slots=True)
class Shared:
    """An Ascend cell that runs the CPU's rule, on vector instructions.

    `narrow` are the floats of 16 and 8 bits that the rule takes as they are ("*": all); others come as float32.
    """

    narrow: str = ""


@dataclass(frozen=True, slots=True)
class Direct:
    """An Ascend cell that is one instruction where operands have some dtypes and `when` holds; else the rule is shared.

    `mode` is the instruction's, `ulp` the error that its documentation states for float32 where that is more than the
    row's, and `narrow` as for `Shared`.
    """

    name: str
    dtypes: str
    mode: str = ""
    ulp: float = 0.0
    when: Callable[[Op], bool] | None = None
    narrow: str = ""


@dataclass(frozen=True, slots=True)
class OnScalars:
    """An Ascend cell that runs the CPU's rule on the scalar unit, element by element, with float64 of integer operations.

    It is slow, and right where sums of two float32 have not digits enough.
    """


CpuRule = Callable[..., Any]  # (emitter, op, *lanes) -> lanes; a `Reduction` where the op is one


@dataclass(frozen=True, slots=True)
class Reduction:
    """CPU cell of a reduction: the value that changes nothing, and how two partial results join."""

    identity: Callable[[DType], float | int]
    combine: CpuRule


STRUCTURAL: Final = Structural()
SHARED: Final = Shared()
AscendCell = Direct | Shared | OnScalars | Structural | Unsupported
REQUIRED: Final = "<required>"

Meaning = Callable[..., Any]  # (op, *numpy arrays) -> array, or a tuple of them
Check = Callable[[Op], None]
Infer = Callable[[Sequence[Type], Mapping[str, Attr]], tuple[Type, ...]]
# (builder, **arguments) -> operands and attributes; or the result itself, where more than one op makes it
Prepare = Callable[..., tuple[list[Any], dict[str, Any]] | Value]


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
    meaning : callable or None
        What the op means, in numpy: ``(op, *arrays)`` to the result, which is then cast to the result's dtype.
    cpu : callable, Structural or Unsupported
        Lowering of a chunk: ``(emitter, op, *lanes)`` to lanes.
    ascend : Direct, Shared, OnScalars, Structural or Unsupported
        Lowering of a chunk on Ascend: an instruction, or the CPU's rule.
    prepare : callable
        From the arguments of the public call to operands and attributes (promotion, broadcast, defaults).
    check : callable
        Rules of the op that its type rule cannot see (regions, attribute values). Raises `TypeError` with a sentence.
    attrs : tuple of str
        Names of the attributes in the IR, where `prepare` makes others than the parameters of the public call.
    options : tuple of str
        Names of attributes that an op need not have.
    ulp : mapping from dtype name to float
        Largest error of the CPU rule against float64, 0 where it is exact.
    domain : (float, float)
        Range that the generated tests sample operands from.
    """

    name: str
    params: tuple[Param, ...]
    infer: Infer
    meaning: Meaning | None
    cpu: CpuRule | Reduction | Structural | Unsupported
    ascend: AscendCell
    prepare: Prepare | None = None
    effect: Effect = Effect.PURE
    check: Check | None = None
    attrs: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    traits: frozenset[str] = frozenset()
    ulp: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    domain: tuple[float, float] = (-10.0, 10.0)
    dtypes: str = "all"  # what the generated tests try: "all", "float", "int", "bool" or "number"
    doc: str = ""
    example: str = ""
    public: bool = True

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that the op has in the IR."""
        return tuple(p.name for p in self.params if not p.is_operand) if self.attrs is None else self.attrs

    @property
    def elementwise(self) -> bool:
        return "elementwise" in self.traits


def numpy_op(fn: Callable[..., Any]) -> Meaning:
    """Meaning of an op that is a numpy function of its operands alone."""

    def meaning(op: Op, *args: np.ndarray[Any, Any]) -> Any:
        with np.errstate(all="ignore"):
            return fn(*args)

    return meaning
