"""Lines of the user's program that another front end knows, for nodes that no call of the user makes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from pypto.loc import Loc

PLACE: Final[ContextVar[Loc | None]] = ContextVar("PLACE", default=None)


@contextmanager
def placed(loc: Loc | None) -> Iterator[None]:
    """Give nodes a line that another front end knows."""
    token = PLACE.set(loc)
    try:
        yield
    finally:
        PLACE.reset(token)
