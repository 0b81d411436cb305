"""Shows a lazy array as a card: its value, its node, the user's line, and the plan that computed it."""

from __future__ import annotations

from typing import Final

import numpy as np

from pypto.backends.findings import byte_text
from pypto.graph.ir.dims import hint
from pypto.graph.plan.plan import Plan
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.values.exchange import source_parts
from pypto.graph.views.page import summary
from pypto.graph.views.tensor_graph import plan_drawing
from pypto.markup import Markup, card, folded, note, tag

MOST_NUMBERS: Final = 200  # of an array that is shown as a whole


def tensor_card(tensor: Tensor, plan: Plan | None) -> Markup:
    """Returns the card of a lazy array, whose value is computed for it."""
    node = tensor.node
    parts = source_parts(node)
    return card(str(node.type), values_of(tensor), folded("how it is computed", *parts, picture_of(plan)),
                note=f"a lazy array, {byte_text(hint(node.type.nbytes))}")  # fmt: skip


def values_of(tensor: Tensor) -> Markup:
    """Returns the numbers of a lazy array as numpy prints them; of a large one, those at the edges."""
    array = np.asarray(tensor)
    edge = 3 if array.ndim < 3 else 2
    return tag("pre", np.array2string(array, threshold=MOST_NUMBERS, edgeitems=edge, max_line_width=110))


def picture_of(plan: Plan | None) -> Markup:
    """Returns a picture of the plan that computed a lazy array."""
    if plan is None:
        return note("It was given.")
    return Markup(note(summary(plan)) + tag("div", Markup(plan_drawing(plan).inner_svg), class_="drawing"))
