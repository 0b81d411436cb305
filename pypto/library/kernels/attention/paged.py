# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Scatters rows into paged caches, in which the pages of a sequence lie anywhere."""

from __future__ import annotations

import pypto as pto

INDICES = 1024


@pto.jit
def is_last_write(index: pto.dynamic, t, BLOCK: pto.constexpr):
    """Says whether no later token writes to the row of token t. Row numbers fit into 32 bits."""
    mine, count = index[t].to(pto.int32), index.shape[0]
    later = pto.zeros((), pto.float32)
    for j in range(t // BLOCK * BLOCK, count, BLOCK):
        tokens = j + pto.arange(0, BLOCK)
        same = (pto.load(index, j, BLOCK).to(pto.int32) == mine) & (tokens > t) & (tokens < count)
        later += pto.sum(same.to(pto.float32))
    return later == 0


@pto.jit
def scatter_update_kernel(cache, index: pto.dynamic, rows, BLOCK: pto.constexpr):
    t = pto.program_id(0)
    if is_last_write(index, t, BLOCK):
        cache[index[t], :] = rows[t, :]


def scatter_update(cache, index, rows):
    """Sets cache[index[t]] = rows[t]; the last token that names a row writes it, and no other does."""
    scatter_update_kernel[(rows.shape[0],)](cache, index, rows, BLOCK=INDICES)
