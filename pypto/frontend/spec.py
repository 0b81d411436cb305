"""What the front end is told about arguments, what it asks about them, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import CellType
from typing import Any, Protocol

from pypto.ir.core import Function
from pypto.ir.types import DType


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """An array argument."""

    elem: DType
    ndim: int


@dataclass(frozen=True, slots=True)
class ScalarSpec:
    """A number that is given at launch."""

    dtype: DType


@dataclass(frozen=True, slots=True)
class ConstSpec:
    """A value that the kernel is compiled for."""

    value: object


ArgSpec = ArraySpec | ScalarSpec | ConstSpec


class Facts(Protocol):
    """Facts of a launch. Each one that is asked for becomes a guard of the compiled kernel."""

    def shape(self, arg: str, dim: int) -> int | None:
        """Size of a dimension, or None where it stays a run-time value."""

    def require_shape(self, arg: str, dim: int) -> int:
        """Size of a dimension that a tile's extent depends on; raises when the author declared it dynamic."""

    def stride(self, arg: str, dim: int) -> int | None:
        """Stride in elements where it is 0 or 1, else None."""

    def equals_one(self, arg: str) -> bool:
        """Whether an integer argument is 1."""


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """A global or closure variable that the kernel was built with; the build holds while `current` is `value`."""

    owner: dict[str, Any] | CellType
    name: str
    value: object

    @property
    def current(self) -> object:
        """What the variable holds now, or the capture itself when it is gone."""
        if isinstance(self.owner, dict):
            return self.owner.get(self.name, self)
        try:
            return self.owner.cell_contents
        except ValueError:
            return self


@dataclass(frozen=True, slots=True)
class Built:
    """A kernel as Tile IR, with the outside values that went into it."""

    function: Function
    captures: tuple[Capture, ...]


Args = Mapping[str, ArgSpec]
