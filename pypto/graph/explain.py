"""Explanations of a plan: what each kernel computes, and why each stored array is stored."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pypto.graph.ir.dims import hint
from pypto.graph.ir.guards import Asked
from pypto.graph.ir.node import Node
from pypto.graph.plan.horizontal_fusion import ends_of, overlap_text

if TYPE_CHECKING:
    from pypto.graph.plan.plan import Plan
    from pypto.graph.plan.schedule import Step


def plan_text(plan: Plan) -> str:
    """The steps of a plan, its arrays with their places, and the merges that were refused."""
    total = sum(hint(n.type.nbytes) for n in plan.graph.live() if n.op not in ("input", "constant"))
    lines = [
        f"plan of {plan.graph.name}: {len(plan.steps)} steps, {len(plan.kernels)} kernels, "
        f"arena {plan.arena_bytes:,} bytes of {total:,}",
    ]
    lines += [f"  where {asked}, asked at {asked.place.loc()}" for asked in guards_of(plan)]
    for number, step in enumerate(plan.steps):
        lines += step_lines(plan, number, step)
    return "\n".join(lines) + "\n"


def guards_of(plan: Plan) -> tuple[Asked, ...]:
    """What the function asked about dimensions by name: the plan is for sizes of which that holds."""
    return tuple(plan.graph.guards.asked) if plan.graph.guards else ()


def step_lines(plan: Plan, number: int, step: Step) -> list[str]:
    what = step.kernel.name if step.kernel else f"{step.nodes[-1].op}, moved by numpy"
    lines = [f"{number:3} {what} {list(step.grid)}: {len(step.nodes)} ops, {places(step.nodes)}"]
    start, end = ends_of(plan.waves)[number]
    if end > start:
        lines.append(f"      {overlap_text(step, [n for n in range(start, end + 1) if n != number])}")
    again = made_before(plan, number, step)
    if again:
        lines.append(f"      computes again {', '.join(f'%{n.number}' for n in again)}: to store them is more to move")
    for node in step.writes:
        at = f"arena at {plan.offsets[node]}" if node in plan.offsets else "a result"
        lines.append(f"      stores %{node.number} {node.type}, {at}{reason(plan, node)}")
    return lines


def made_before(plan: Plan, number: int, step: Step) -> list[Node]:
    """What a step computes although an earlier one has, but for what is a part of that."""
    before = {n for s in plan.steps[:number] for n in s.nodes}
    again = [n for n in step.nodes if n in before]
    parts = {x for n in again for x in n.inputs}
    return [n for n in again if n not in parts]


def reason(plan: Plan, node: Node) -> str:
    """Why an array is stored for those that read it."""
    found = plan.reasons.get(node)
    return f": {'; '.join(found)}" if found else ""


def places(nodes: tuple[Node, ...]) -> str:
    """The lines of the user that some nodes come from."""
    found: dict[str, list[int]] = {}
    for node in nodes:
        if node.place is not None:
            found.setdefault(Path(node.loc.file).name, []).append(node.loc.line)
    return ", ".join(f"{file}:{span_text(min(lines), max(lines))}" for file, lines in found.items())


def span_text(first: int, last: int) -> str:
    """Lines from one to another.

    Examples
    --------
    >>> span_text(3, 7), span_text(3, 3)
    ('3-7', '3')
    """
    return str(first) if first == last else f"{first}-{last}"


def explain(function: Callable[..., Any], *args: object, **kwargs: object) -> str:
    """What becomes of a function on arrays for arguments like these; one that is not fused is as it would be.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> print(explain(pto.fuse(lambda x: np.exp(x) + 1), np.zeros(8, np.float32)).splitlines()[0])
    plan of lambda: 1 steps, 1 kernels, arena 0 bytes of 64
    """
    from pypto.graph.fuse import Fused

    return str((function if isinstance(function, Fused) else Fused(function)).plan(*args, **kwargs))
