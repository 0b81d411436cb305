"""Loads of a chunk that come before its stores.

A load waits for a store before it whose address it seems to share; addresses are compared by their last bits at first,
in which arrays of one alignment agree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pypto.backends.cpu.crosswise import stored
from pypto.backends.cpu.loopir import Stmt
from pypto.backends.cpu.memory import Chunk
from pypto.backends.cpu.pull import Leaf

if TYPE_CHECKING:
    from pypto.backends.cpu.nest import NestEmitter


def load_first(nest: NestEmitter, body: list[Stmt], at: Chunk) -> None:
    """Emit what a chunk loads, where several statements store."""
    if sum(s.kind == "store" for s in body) < 2:
        return
    seen = set[Leaf]()
    for v, index in [leaf for s in body for source in stored(s) for leaf in nest.crossing.leaves(*source, seen)]:
        if v.op is not None and v.op.name == "tile_load" and not nest.changes(v):
            nest.value(v, index, at)
