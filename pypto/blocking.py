"""How matrix products are blocked for registers and caches, by the names of BLIS and Goto, and prefetch distances."""

from __future__ import annotations

import sys
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Final

from pypto.errors.launch import WrongBlocking
from pypto.loc import Caller

Overrides = tuple[tuple[str, int], ...]


def round_up(n: int, unit: int) -> int:
    """The least multiple of `unit` that is not below `n`."""
    return -(-n // unit) * unit


@dataclass(frozen=True, slots=True, repr=False)
class Blocking:
    """Sizes of the tiles of a matrix product, and how far ahead it prefetches; 0 lets the compiler choose.

    The CPU backend fills in all fields for each product; `pypto.debug.explain` shows them. Given to `pto.jit`, or as
    `blocking` of a `pto.Config`, the fields that are set hold for all products of the kernel. Ascend chips ignore it.

    Parameters
    ----------
    mr : int
        Rows of the register tile, which the micro-kernel keeps in registers.
    nr : int
        Columns of the register tile and of a micro-panel of B; one, two or four registers of them.
    kc : int
        Numbers along K in one step of the loop that adds up a product, at most; a multiple of 16, 32 of bfloat16 in
        words, and 64 of bytes.
    mc : int
        Rows of C that one program computes where neighbouring programs are coarsened, at most.
    nc : int
        Columns of C that one program computes where neighbouring programs are coarsened, at most.
    k_unroll : int
        Steps of K in one round of the micro-kernel's loop, at most: 1, 2, 4 or 8.
    panel_prefetch : int
        Bytes of a micro-panel from what is multiplied to what is prefetched; a multiple of 64.
    pack_prefetch : int
        Rows of B from what is packed to what is prefetched.
    skinny_rows : int
        Rows of A up to which B is read row by row, without packing.
    panel_cache : int
        Bytes of packed panels of B that a thread keeps for the programs after this one, at most.
    stream_prefetch : int
        Bytes of a stream from memory from what is read to what is prefetched, in all loops; a multiple of 64.

    Raises
    ------
    WrongBlocking
        When a field is no whole number of 0 or more, or not of the form that is given above. What depends on the
        machine is found when a product is compiled.

    Examples
    --------
    >>> import pypto as pto
    >>> pto.Blocking(mr=4, kc=256)
    Blocking(mr=4, kc=256)
    """

    mr: int = 0
    nr: int = 0
    kc: int = 0
    mc: int = 0
    nc: int = 0
    k_unroll: int = 0
    panel_prefetch: int = 0
    pack_prefetch: int = 0
    skinny_rows: int = 0
    panel_cache: int = 0
    stream_prefetch: int = 0

    def __post_init__(self) -> None:
        for field in fields(self):
            value, unit = getattr(self, field.name), _UNITS.get(field.name, 1)
            wanted = "a whole number of 0 or more" if unit == 1 else f"a multiple of {unit}, or 0"
            is_legal = type(value) is int and value >= 0 and value % unit == 0
            if field.name == "k_unroll":
                is_legal, wanted = is_legal and value in (0, 1, 2, 4, 8), "1, 2, 4 or 8, or 0"
            if not is_legal:
                place = Caller.of(sys._getframe(2)).loc()
                raise WrongBlocking(place, field=field.name, value=value, problem=f"it is {wanted}", way=_WAY)

    @property
    def overrides(self) -> Overrides:
        """The fields that are set, by name."""
        return tuple((field.name, value) for field in fields(self) if (value := getattr(self, field.name)))

    def __repr__(self) -> str:
        return f"Blocking({', '.join(f'{name}={value}' for name, value in self.overrides)})"


_UNITS: Final = MappingProxyType({"panel_prefetch": 64, "stream_prefetch": 64})
_WAY: Final = "leave the field out to let the compiler choose"
AUTO: Final = Blocking()
