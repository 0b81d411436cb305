"""Programs that stay, and take row after row in a loop: its turns are to a nest what programs are elsewhere.

Nests in such a loop ask for what its next turn will load, and store past the caches where all turns of all programs
move more than these hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.backends.cpu.loopir import Control, Item, Nest, Scalar
from pypto.backends.cpu.prefetch import asking, level
from pypto.backends.cpu.stream import loaded_bytes
from pypto.ir.types import int64

if TYPE_CHECKING:
    from pypto.backends.cpu.lower import FunctionEmitter


def turn(f: FunctionEmitter, item: Control) -> dict[str, Any]:
    """What an emitter of nests knows within a loop; nothing new where other work than theirs takes its time."""
    if f.is_large or f.has_seldom or not is_plain(item.regions[0]):
        return {}
    e, nests, loop = f.e, f.nests, item.op
    start, end, step = (e.convert(f.env[v], int64) for v in loop.operands[:3])
    one = e.const(1, int64)
    turns = e.binary("sdiv", e.maximum(e.sub(end, start), one), e.maximum(step, one))
    asked, kept = asking((x for x in item.regions[0] if isinstance(x, Nest)), nests.ops), f.schedule.scratch_bytes
    return {
        "loop": loop, "repeated": item.regions[0], "programs": e.mul(nests.programs, turns), "asking": asked,
        "asked_to": level(asked, kept, f.target, loop), "loaded": loaded_bytes(loop.regions[0].ops, loop),
    }  # fmt: skip


def is_plain(items: list[Item]) -> bool:
    """True for nests, scalars, and control flow over these."""
    inner = [region for x in items if isinstance(x, Control) for region in x.regions]
    return all(isinstance(x, Nest | Scalar | Control) for x in items) and all(map(is_plain, inner))
