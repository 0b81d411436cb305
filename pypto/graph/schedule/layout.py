"""The memory layout of a graph's arrays: inputs as they come, stored arrays in C order, movements as views."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pypto.graph.ir.movements import strides_of
from pypto.graph.ir.node import Node
from pypto.graph.ir.strides import contiguous

Strides = tuple[int, ...] | None


@dataclass(slots=True)
class Layouts:
    """The memory layout of every node, as strides in elements; a movement that is no view has none.

    Parameters
    ----------
    given : mapping from Node to tuple of int
        The strides of the inputs.
    updates : mapping from Node to Node
        The inputs in C order that the function updates, with their new values.
    """

    given: Mapping[Node, tuple[int, ...]]
    updates: Mapping[Node, Node] = field(default_factory=dict)
    known: dict[Node, Strides] = field(default_factory=dict)

    def strides(self, node: Node) -> tuple[int, ...]:
        """Return the strides of the array that a kernel reads for a node."""
        strides = self._of(node)
        return contiguous(node.shape) if strides is None else strides

    def is_view(self, node: Node) -> bool:
        """Whether a movement is a view of its source, so that it needs no copy."""
        return self._of(node) is not None

    def _of(self, node: Node) -> Strides:
        if node not in self.known:
            self.known[node] = self._compute(node)
        return self.known[node]

    def _compute(self, node: Node) -> Strides:
        if node in self.given:
            return self.given[node]
        if not node.is_movement:
            return contiguous(node.shape)
        source = node.inputs[0]
        return strides_of(node.op, source.shape, self.strides(source), dict(node.attrs))
