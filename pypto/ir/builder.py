"""Appends ops to a region, with the location that is current."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pypto.ir.core import Attr, Op, Region, Value, make_op
from pypto.ir.types import Type
from pypto.loc import UNKNOWN, Loc


@contextmanager
def temporarily(owner: Any, **attributes: Any) -> Iterator[None]:
    """Set attributes of an object for the length of a `with` block."""
    before = {name: getattr(owner, name) for name in attributes}
    try:
        for name, value in attributes.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(owner, name, value)


class Builder:
    """Insertion point at the end of a region.

    `loc` is stamped on every op that is made while it is set.
    """

    def __init__(self, region: Region, loc: Loc = UNKNOWN) -> None:
        self.region = region
        self.loc = loc

    def create(
        self,
        name: str,
        operands: tuple[Value, ...] = (),
        attrs: dict[str, Attr] | None = None,
        types: tuple[Type, ...] = (),
        regions: tuple[Region, ...] = (),
    ) -> Op:
        op = make_op(name, operands, attrs or {}, types, regions, self.loc)
        self.region.ops.append(op)
        return op

    @contextmanager
    def inside(self, region: Region) -> Iterator[Region]:
        """Build into another region for the length of a `with` block."""
        with temporarily(self, region=region):
            yield region

    @contextmanager
    def at(self, loc: Loc) -> Iterator[None]:
        """Stamp another location for the length of a `with` block."""
        with temporarily(self, loc=loc):
            yield
