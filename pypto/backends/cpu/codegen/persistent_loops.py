"""Persistent loops: in a program that takes row after row in a loop, an iteration counts as a program does elsewhere.

A persistent (grid-stride) kernel launches few programs that loop over all rows. Its nests prefetch what the next
iteration loads, and store past the caches where all iterations of all programs move more bytes than these hold. Legal
for any loop, since only prefetches and kinds of stores depend on it; done for loops of nests alone, since other ops
take most of an iteration's time where there are some.

for row in range(pid, rows, num_programs): y[row] = f(x[row]) emits, in each iteration, prefetch x[row + num_programs];
y[row] = f(x[row])
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
    """The fields of `NestEmitter` that differ within a loop, with their values; none for other loops."""
    if (
        not is_enabled(f.function, "persistent_loops")
        or f.is_large
        or f.has_cold_version
        or not is_nests_only(item.regions[0])
    ):
        return {}
    e = f.e
    loop = item.op
    start, end, step = (e.convert(f.env[v], int64) for v in loop.operands[:3])
    one = e.const(1, int64)
    iterations = e.binary("sdiv", e.maximum(e.sub(end, start), one), e.maximum(step, one))
    nests = (x for x in item.regions[0] if isinstance(x, Nest))
    loads = loads_to_prefetch(f.function, nests, f.nests.computed_ops)
    return {
        "loop": loop,
        "per_program_items": item.regions[0],
        "program_count": e.mul(f.nests.program_count, iterations),
        "loads_by_nest": loads,
        "prefetch_level": target_level(loads, f.schedule.scratch_bytes, f.target, loop),
        "bytes_loaded": loaded_bytes(loop.regions[0].ops, loop),
    }


def is_nests_only(items: list[Item]) -> bool:
    """Whether items are nests, scalars, and control flow of these."""
    inner = [region for x in items if isinstance(x, Control) for region in x.regions]
    return all(isinstance(x, Nest | Scalar | Control) for x in items) and all(map(is_nests_only, inner))
