"""The memory of a traced array, which its views share."""

from __future__ import annotations

from pypto.graph.ir.node import Node


class Storage:
    """The memory of a traced array: the node that it holds at this point of the function."""

    __slots__ = ("blank", "node", "shared")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.blank: Node | None = None  # what it holds while its content is arbitrary, as that of `np.empty_like`
        self.shared = False  # whether something may or may not be a view of it

    def clear(self) -> None:
        """Say that its content is arbitrary."""
        self.blank = self.node

    def share(self) -> None:
        """Say that numpy may or may not have a view of it elsewhere, so that an update is refused."""
        self.shared = True

    def begin(self, node: Node) -> None:
        """Hold what it held before the function ran."""
        self.node, self.blank, self.shared = node, None, False

    def replace(self, node: Node) -> None:
        """Hold a new node, as all views of it do then."""
        self.node = node
