"""Sites of a kernel: the places that a profile times, and the places that a checked kernel checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pypto.loc import Loc

# Words of 8 bytes that a profiled kernel writes: an area for each thread, with a head and its sites; and events.
AREA_WORDS: Final = 6
SITE_WORDS: Final = 3
EVENT_WORDS: Final = 4


def area_bytes(sites: int) -> int:
    """Bytes of a thread's area in a profile."""
    return 8 * (AREA_WORDS + SITE_WORDS * sites)


@dataclass(frozen=True, slots=True)
class Site:
    """A part of a kernel that a profile times."""

    kind: str  # program, loop, branch, nest, dot, pack or sort
    parent: int  # number of the enclosing site; -1 for the program
    labels: tuple[str, ...] = ()  # of all lines that became this nest
    locs: tuple[Loc, ...] = ()
    bytes: int = 0  # of full tiles that one run loads and stores
    flops: int = 0  # of a dot

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Site:
        """From the fields as JSON gives them."""
        return Site(**{**fields, "labels": tuple(fields["labels"]), "locs": tuple(map(loc_of, fields["locs"]))})


@dataclass(frozen=True, slots=True)
class Check:
    """A place of a checked kernel that may fail."""

    kind: str  # load, store, position (an index of integers), assert, overflow or gather
    loc: Loc
    arrays: tuple[str, ...] = ()  # that an access may touch
    what: str = ""  # message of an assertion, dtype that overflows, axis of a gather, kind of a position's access

    @staticmethod
    def of(fields: Mapping[str, Any]) -> Check:
        """From the fields as JSON gives them."""
        return Check(**{**fields, "arrays": tuple(fields["arrays"]), "loc": loc_of(fields["loc"])})


def loc_of(fields: Mapping[str, Any]) -> Loc:
    """A place in the source, from its fields as JSON gives them."""
    outer = fields["call_site"]
    return Loc(**{**fields, "call_site": outer and loc_of(outer)})
