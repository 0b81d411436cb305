"""Names steps, arrays and places; all views use these names."""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Node, line_of, shown, source_of
from pypto.graph.plan.schedule import Step

MOST_CHARACTERS: Final = 30


def form_of(step: Step) -> str:
    """Returns the form of a step's kernel, which decides its colour."""
    return step.kernel.form if step.kernel else "numpy"


def step_name(step: Step) -> str:
    """Returns the name of the kernel that a step launches, or of the operation that numpy does."""
    return step.kernel.name if step.kernel else f"{step.nodes[-1].op} by numpy"


def step_id(number: int) -> str:
    """Returns the name of a step's box or frame."""
    return f"step{number}"


def step_title(number: int, step: Step) -> str:
    return f"{number}  {step_name(step)}"


def grid_text(step: Step) -> str:
    """Returns the grid of a step, as text."""
    return f"grid {' by '.join(map(str, step.grid))}" if step.kernel else ""


def tip_of(node: Node) -> str:
    """Returns a node as the Tensor graph is printed, and below it the user's line."""
    operands = ", ".join(f"%{x.number}" for x in node.inputs)
    line = " ".join(filter(None, (f"%{node.number}: {node.type} =", node.op, operands, shown(dict(node.attrs)))))
    where = line_of(node)
    return f"{line}\n{where}  {source_of(node)}".rstrip() if where else line


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """Shortens a long name by its middle.

    Examples
    --------
    >>> shortened("weights.layers.0.attention_norm.weight", 24)
    'weights.lay…_norm.weight'
    """
    if len(text) <= most:
        return text
    front = (most - 1) // 2
    return f"{text[:front]}…{text[len(text) - (most - 1 - front) :]}"
