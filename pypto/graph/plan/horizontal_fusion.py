"""Horizontal fusion: list scheduling of independent steps into waves, each of which is one launch.

A launch with few programs leaves threads idle. Independent launches become one launch whose grid is the union of
theirs, such as the projections of an attention layer or the branches of a network. A step joins the first wave after
the steps that it reads from. The live range of an array covers its whole wave, so that steps of a wave share no
memory. If that makes the arena much larger, steps join only recent waves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pypto.graph.codegen.scatter import FORM as SCATTER
from pypto.graph.ir.dims import hint
from pypto.graph.ir.node import Node
from pypto.graph.plan.schedule import Step
from pypto.ops.table import REDUCTIONS, TABLE

MOST_MEMBERS: Final = 16
MOST_WORK: Final = 100_000.0  # nanoseconds of a step that fills the threads by itself
MOST_GROWTH: Final = 1.125  # of the arena
SMALL_ARENA: Final = 1 << 20  # bytes that an arena may have anyway
WINDOWS: Final = (1 << 30, 4, 1)  # waves behind the last one that a step may join
_LANES: Final = 16.0  # operations in a nanosecond, on one thread
_PRODUCTS: Final = 32.0
_BYTES: Final = 8.0
_FUNCTION: Final = 10  # operations of what is not exact: an exponential
_UNKNOWN: Final = 4


@dataclass(frozen=True, slots=True)
class Waves:
    """Steps in their new order; `sizes` has the wave's size at its first step, and 0 at the others."""

    steps: tuple[Step, ...]
    sizes: tuple[int, ...]


def alone(steps: Sequence[Step]) -> Waves:
    """Return waves of one step each."""
    return Waves(tuple(steps), (1,) * len(steps))


def waves_of(steps: Sequence[Step], threads: int, window: int) -> Waves:
    """List scheduling: put each step into the first open wave after its operands, or into a new wave."""
    waves: list[list[Step]] = []
    number: dict[Node, int] = {}  # of the wave that writes an array
    is_open: list[bool] = []
    for step in steps:
        joins = leaves_idle(step, threads)
        after = max((number[n] + 1 for n in step.reads if n in number), default=0)
        first = max(after, len(waves) - window)
        fitting = (n for n in range(first, len(waves)) if is_open[n] and len(waves[n]) < MOST_MEMBERS)
        at = next(fitting, len(waves)) if joins else len(waves)
        if at == len(waves):
            waves.append([])
            is_open.append(joins)
        waves[at].append(step)
        number.update(dict.fromkeys(step.writes, at))
    sizes = (size for wave in waves for size in (len(wave), *(0,) * (len(wave) - 1)))
    return Waves(tuple(step for wave in waves for step in wave), tuple(sizes))


def ends_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last step of each step's wave.

    Examples
    --------
    >>> ends_of([1, 2, 0, 1])
    [(0, 0), (1, 2), (1, 2), (3, 3)]
    """
    ends: list[tuple[int, int]] = []
    for number, size in enumerate(sizes):
        ends += [(number, number + size - 1)] * size
    return ends


def leaves_idle(step: Step, threads: int) -> bool:
    """Whether a launch has too few programs, or too little work, for all threads."""
    if step.kernel is None or step.kernel.form == SCATTER or threads < 2:
        return False
    return programs(step) < threads or work(step) < MOST_WORK


def programs(step: Step) -> int:
    """Return the number of programs of a launch for the hints of named dimensions."""
    return math.prod(map(hint, step.grid))


def work(step: Step) -> float:
    """Estimate the nanoseconds of a step on one thread: the larger of computation and memory traffic."""
    moved = sum(hint(n.type.nbytes) for n in (*step.reads, *step.writes))
    return max(moved / _BYTES, sum(map(operations, step.nodes)))


def operations(node: Node) -> float:
    """Estimate the nanoseconds that the operations of a node take."""
    if node.is_movement:
        return 0.0
    if node.is_product:
        return hint(node.type.size) * hint(node.inputs[0].shape[-1]) / _PRODUCTS
    row = TABLE.get(node.op)
    elements = hint(node.inputs[0].type.size if node.op in REDUCTIONS else node.type.size)
    each = _UNKNOWN if row is None else _FUNCTION if any(row.ulp.values()) else row.cost
    return elements * each / _LANES


def overlap_text(step: Step, others: Sequence[int]) -> str:
    """Explain why a step overlaps some others."""
    count = programs(step)
    amount = f"{count} program{'' if count == 1 else 's'}, about {max(1, round(work(step) / 1000))} µs of work"
    return f"overlaps {', '.join(map(str, others))}: none reads what another stores, and {amount} fill no threads"


def check_wave(steps: Sequence[Step]) -> str:
    """Return the reason why steps may not form a wave, or an empty string."""
    if any(s.kernel is None or s.kernel.form == SCATTER for s in steps):
        return "a step that overlaps others launches a kernel and nothing else"
    written = {n for s in steps for n in s.writes}
    if any(n in written for s in steps for n in s.reads):
        return "a step that overlaps others reads what one of them stores"
    return ""
