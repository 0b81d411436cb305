"""Software float64 for the scalar unit, which computes on 64-bit integers alone: the functions of `doubles.h`."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from pypto.ir.types import DType, float64, uint64

_HEAD: Final = re.compile(r"^(?:struct|union) (\w+)|^__aicore__ inline (\w+) (\w+)\(([^)]*)\)", re.MULTILINE)
_WORD: Final = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Part:
    """A function or type of the header: its text, the C++ types that it takes and gives, and the parts it needs."""

    text: str
    takes: tuple[str, ...] = ()
    gives: str = ""
    needs: frozenset[str] = frozenset()


@functools.cache
def parts() -> Mapping[str, Part]:
    """The parts of the header by name, in order; a part needs only earlier ones."""
    text = Path(__file__).with_name("softfloat64.h").read_text(encoding="utf-8")
    found: dict[str, Part] = {}
    for piece in text.split("\n\n")[1:]:
        head = _HEAD.search(piece)
        assert head is not None
        takes = tuple(x.rsplit(" ", 1)[0] for x in (head[4] or "").split(", ") if x)
        needs = frozenset(found) & frozenset(_WORD.findall(piece))
        found[head[1] or head[3]] = Part(piece.strip(), takes, head[2] or "", needs)
    return MappingProxyType(found)


def texts_of(names: Iterable[str]) -> list[str]:
    """The text of some parts and of all that they need."""
    known, wanted = parts(), set(names)
    for name in reversed(tuple(known)):
        wanted |= known[name].needs if name in wanted else frozenset()
    return [part.text for name, part in known.items() if name in wanted]


def code(value: float) -> int:
    """The bits of a float64.

    Examples
    --------
    >>> hex(code(1.0))
    '0x3ff0000000000000'
    """
    return int.from_bytes(struct.pack("<d", value), "little")


def stored(dtype: DType) -> DType:
    """The dtype of a number in memory and registers of the chip: an integer for float64."""
    return uint64 if dtype == float64 else dtype


def number(value: float | int | bool, dtype: DType) -> float | int | bool:
    """A constant as Block IR has it."""
    return code(value) if dtype == float64 else value


def zero(dtype: DType) -> float | int | bool:
    """The zero of a dtype as Block IR has it."""
    return False if dtype.is_bool else 0.0 if dtype.is_float and dtype != float64 else 0
