"""The facts about a call that its plan depends on: argument structure, types and layouts of arrays, constants."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from pypto.graph.capture.kinds import is_array, is_number, is_plain
from pypto.graph.ir.node import key_of
from pypto.graph.tracing.argument_paths import Shapes
from pypto.graph.tracing.pytree import children

Array = np.ndarray[Any, Any]
NO_SHAPES: Final[Shapes] = {}


class TracedArgument(TypeError):
    """An argument is no array of numpy, but one of a function that is being traced, or a lazy one."""

    def __init__(self) -> None:
        super().__init__("an argument is an array of a traced function, or a lazy one: pass `np.asarray(…)` of it")


def collect(tree: Any, arrays: dict[int, Array], others: list[Any], facts: list[Any], shapes: Shapes) -> None:
    """Arrays by their first place, what is compared by each plan itself, and facts in order.

    Facts are the form of the tree, types and layouts of arrays, and plain values but for numbers.
    """
    if is_array(tree):
        if id(tree) in arrays:
            facts.append(list(arrays).index(id(tree)))
        else:
            arrays[id(tree)] = tree
            shape = shapes.get(id(tree))
            facts.append((tree.shape, tree.dtype, tree.strides) if shape is None else (shape, tree.dtype))
        return
    if getattr(type(tree), "stands_in", False):
        raise TracedArgument
    found = children(tree)
    if found is not None:
        facts.append((found[0], tuple(name for name, _ in found[1])))
        for _, x in found[1]:
            collect(x, arrays, others, facts, shapes)
    elif is_plain(tree) and not is_number(tree):
        facts.append(key_of(tree))
    else:
        others.append(tree)
        facts.append(type(tree))
