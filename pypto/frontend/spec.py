"""What the front end is told about arguments, what it asks about them, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CellType
from typing import Any, Final, Protocol

from pypto.errors import Diagnostic
from pypto.ir.core import Function
from pypto.ir.types import Type
from pypto.loc import Loc
from pypto.ops.target import TargetConstants


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """A value that the kernel is compiled for."""

    value: object


ArgSpec = Type | ConstSpec | tuple[Any, ...]  # an argument of this type, none, or one per leaf of a tuple of these


class Facts(Protocol):
    """Facts of a launch. Each one that is asked for becomes a guard of the compiled kernel."""

    def target(self) -> TargetConstants:
        """Facts of the machine that the kernel is built for: they are constants, and no guards."""

    def shape(self, arg: str, dim: int) -> int | None:
        """Size of a dimension, or None where it stays a run-time value."""

    def require_shape(self, arg: str, dim: int) -> int:
        """Size of a dimension that a tile's extent depends on; raises when the author declared it dynamic."""

    def stride(self, arg: str, dim: int) -> int | None:
        """Stride in elements where it is 0 or 1, else None."""

    def equals_one(self, arg: str) -> bool:
        """Whether an integer argument is 1."""

    def is_weak(self, arg: str) -> bool:
        """Whether a number is a Python float of which nothing states the type."""


Owner = dict[str, Any] | CellType
GONE: Final = object()


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """A global or closure variable that the kernel was built with; the build holds while `read()` gives `value`."""

    name: str
    value: object
    read: Callable[[], object]


def reader(owner: Owner, name: str) -> Callable[[], object]:
    """Gives what a global or closure variable holds, or GONE."""
    return partial(owner.get, name, GONE) if isinstance(owner, dict) else partial(content, owner)


def content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return GONE


@dataclass(frozen=True, slots=True)
class Unrolled:
    """A loop at compile time: where it stands, how it is written, and how many operations it became."""

    loc: Loc
    text: str
    iterations: int
    ops: int


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel as Tile IR, with the outside values that went into it, and warnings to its author."""

    function: Function
    captures: tuple[Capture, ...]
    remarks: tuple[Diagnostic, ...] = ()
    unrolled: tuple[Unrolled, ...] = ()
