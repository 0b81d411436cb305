"""Programs that stay, and take row after row in a loop: its turns are to a nest what programs are elsewhere.

Nests in such a loop ask for what its next turn will load, and store past the caches where all turns of all programs
move more than these hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pypto.backends.cpu.codegen.nontemporal import loaded_bytes
from pypto.backends.cpu.codegen.prefetch import loads_to_prefetch, target_level
from pypto.backends.cpu.loopir.ir import Control, Item, Nest, Scalar
from pypto.backends.cpu.techniques import is_enabled
from pypto.ir.types import int64

if TYPE_CHECKING:
    from pypto.backends.cpu.codegen.function import FunctionEmitter


def persistent_loop_context(f: FunctionEmitter, item: Control) -> dict[str, Any]:
    """What an emitter of nests knows within a loop; nothing new where other work than theirs takes its time."""
    if (
        not is_enabled(f.function, "persistent_loops")
        or f.is_large
        or f.has_cold_version
        or not is_nests_only(item.regions[0])
    ):
        return {}
    e, nests, loop = f.e, f.nests, item.op
    start, end, step = (e.convert(f.env[v], int64) for v in loop.operands[:3])
    one = e.const(1, int64)
    turns = e.binary("sdiv", e.maximum(e.sub(end, start), one), e.maximum(step, one))
    asked, kept = (
        loads_to_prefetch(f.function, (x for x in item.regions[0] if isinstance(x, Nest)), nests.computed_ops),
        f.schedule.scratch_bytes,
    )
    return {
        "loop": loop,
        "per_program_items": item.regions[0],
        "program_count": e.mul(nests.program_count, turns),
        "loads_by_nest": asked,
        "prefetch_level": target_level(asked, kept, f.target, loop),
        "bytes_loaded": loaded_bytes(loop.regions[0].ops, loop),
    }


def is_nests_only(items: list[Item]) -> bool:
    """True for nests, scalars, and control flow over these."""
    inner = [region for x in items if isinstance(x, Control) for region in x.regions]
    return all(isinstance(x, Nest | Scalar | Control) for x in items) and all(map(is_nests_only, inner))
