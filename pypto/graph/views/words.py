"""Words of all views: how steps, arrays and places are called."""

from __future__ import annotations

from typing import Final

from pypto.graph.ir.node import Node, line_of, shown, source_of
from pypto.graph.plan.schedule import Step

MOST_CHARACTERS: Final = 30


def form_of(step: Step) -> str:
    """What a step is coloured by."""
    return step.kernel.form if step.kernel else "numpy"


def step_name(step: Step) -> str:
    """The kernel that a step launches, or what numpy does in it."""
    return step.kernel.name if step.kernel else f"{step.nodes[-1].op} by numpy"


def step_id(number: int) -> str:
    """The name of a step's box or frame."""
    return f"step{number}"


def step_title(number: int, step: Step) -> str:
    return f"{number}  {step_name(step)}"


def grid_text(step: Step) -> str:
    """How many programs a step has, by axes of the grid."""
    return f"grid {' by '.join(map(str, step.grid))}" if step.kernel else ""


def tip_of(node: Node) -> str:
    """A node as the Tensor graph is printed, and below it the user's line."""
    operands = ", ".join(f"%{x.number}" for x in node.inputs)
    line = " ".join(filter(None, (f"%{node.number}: {node.type} =", node.op, operands, shown(dict(node.attrs)))))
    where = line_of(node)
    return f"{line}\n{where}  {source_of(node)}".rstrip() if where else line


def shortened(text: str, most: int = MOST_CHARACTERS) -> str:
    """A long name with its middle left out.

    Examples
    --------
    >>> shortened("weights.layers.0.attention_norm.weight", 24)
    'weights.lay…_norm.weight'
    """
    if len(text) <= most:
        return text
    front = (most - 1) // 2
    return f"{text[:front]}…{text[len(text) - (most - 1 - front) :]}"
