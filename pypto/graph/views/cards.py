"""Shows a fused function in a notebook's cell: its signature, the types of its versions, and its last plan."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

from pypto.backends.findings import byte_text
from pypto.debug.cards import signature_of
from pypto.graph.plan.plan_cache import Planned, Version
from pypto.graph.views.execution import execution_drawing
from pypto.graph.views.page import summary
from pypto.graph.views.words import shortened
from pypto.markup import Markup, card, folded, note, table, tag
from pypto.markup.colours import coloured

MOST_ARGUMENTS = 4  # of a plan that are named


def fused_card(fused: Planned) -> Markup:
    """Returns the card of a fused function: its signature, docstring, and the plans of its versions."""
    function = fused.function
    doc = inspect.getdoc(function)
    parts = [tag("pre", doc) if doc else Markup("")]
    versions = fused.versions
    if versions:
        parts.append(table(("traced for", "steps", "kernels", "arena", "compiled"), rows(versions), (1, 2, 3)))
        last = versions[-1].plan
        drawn = Markup(execution_drawing(last).inner_svg)
        parts.append(folded(f"the last plan: {summary(last)}", tag("div", drawn, class_="drawing")))
    else:
        parts.append(note("Not traced yet: the first call does it. `plan(…)` shows what becomes of the function."))
    return card(tag("code", coloured(head_of(function))), *parts, note="a function on arrays, as fused kernels")


def head_of(function: Any) -> str:
    """Returns the signature of a function as text, and its name where the signature is not known."""
    try:
        return signature_of(function)
    except (AttributeError, TypeError, ValueError):
        return str(getattr(function, "__name__", function))


def rows(versions: list[Version]) -> Iterator[tuple[object, ...]]:
    for version in versions:
        plan = version.plan
        compiled = "yes" if plan.is_compiled else "with the first call"
        yield arguments(version), len(plan.steps), len(plan.kernels), byte_text(plan.arena_bytes), compiled


def arguments(version: Version) -> str:
    """Returns the names and types of the arrays for which a plan is valid, as text."""
    inputs = version.traced.graph.inputs
    named = [f"{shortened(str(node.attr('name')))}: {node.type}" for node in inputs[:MOST_ARGUMENTS]]
    more = len(inputs) - len(named)
    return ", ".join([*named, *([f"and {more} more"] if more else ())]) or "no arrays"
