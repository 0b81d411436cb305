"""What a profile tells apart in a kernel, and what a checked kernel checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pypto.loc import Loc

# What a profiled kernel writes, in words of 8 bytes: an area for each thread with a head and its sites, and events.
AREA_WORDS: Final = 6
SITE_WORDS: Final = 3
EVENT_WORDS: Final = 4


def area_bytes(sites: int) -> int:
    """Bytes of the area of a thread."""
    return 8 * (AREA_WORDS + SITE_WORDS * sites)


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


def loc_of(fields: Mapping[str, Any]) -> Loc:
    outer = fields["call_site"]
    return Loc(**{**fields, "call_site": outer and loc_of(outer)})
