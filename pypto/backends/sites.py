"""What a profile tells apart in a kernel, what a checked kernel checks, and what a kernel prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pypto.ir.types import DTYPE_BY_NAME
from pypto.loc import Loc

PRINTS_HEAD: Final = 64  # bytes of a launch's print buffer before the first program's; see `backends.cpu.prints`


@dataclass(frozen=True, slots=True)
class Site:
    """A stretch of a kernel whose time is taken when it is profiled.

    `kind` is ``program``, ``loop``, ``branch``, ``nest``, ``dot``, ``pack`` or ``sort``; `parent` is the number of the
    site around it, -1 for the program. What several lines or labels became one loop nest names them all. `bytes` are
    those of whole tiles that one run loads and stores, `flops` those of a dot.
    """

    kind: str
    parent: int
    labels: tuple[str, ...] = ()
    locs: tuple[Loc, ...] = ()
    bytes: int = 0
    flops: int = 0

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Site:
        """From what `asdict` gives, after a way through JSON."""
        return Site(**{**fields, "labels": tuple(fields["labels"]), "locs": tuple(map(loc_of, fields["locs"]))})


@dataclass(frozen=True, slots=True)
class Check:
    """A place of a checked kernel that may fail.

    `kind` is ``load``, ``store``, ``position`` (an index that must name an element), ``assert``, ``overflow`` or
    ``gather``; `arrays` are those that an access may touch; `what` is an assertion's message, the dtype that overflows,
    where a gather picks, or what the index is for.
    """

    kind: str
    loc: Loc
    arrays: tuple[str, ...] = ()
    what: str = ""

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Check:
        """From what `asdict` gives, after a way through JSON."""
        return Check(**{**fields, "arrays": tuple(fields["arrays"]), "loc": loc_of(fields["loc"])})


@dataclass(frozen=True, slots=True)
class Print:
    """A print of a kernel: the text before its values, and of each value the dtype's name and the shape."""

    prefix: str
    hex: bool
    values: tuple[tuple[str, tuple[int, ...]], ...] = ()

    @property
    def bytes(self) -> int:
        """Of a record: its number, and its values in whole words."""
        return 8 + sum(value_bytes(*value) for value in self.values)

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Print:
        """From what `asdict` gives, after a way through JSON."""
        return Print(**{**fields, "values": tuple((dtype, tuple(shape)) for dtype, shape in fields["values"])})


def value_bytes(dtype: str, shape: tuple[int, ...]) -> int:
    """Bytes that a value takes in a record: whole words."""
    return -(-DTYPE_BY_NAME[dtype].itemsize * math.prod(shape) // 8) * 8


def loc_of(fields: Mapping[str, Any]) -> Loc:
    outer = fields["call_site"]
    return Loc(**{**fields, "call_site": outer and loc_of(outer)})
