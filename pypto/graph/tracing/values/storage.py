"""Storages: the memory of traced arrays, of which tensors are views."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from pypto.errors.graph import NotTraced
from pypto.graph.ir.node import Node, here

SCOPE: Final[ContextVar[Any]] = ContextVar("scope", default=None)  # the mapping by `vmap` that is traced now, if any
_HERE: Final = object()


class Storage:
    """The memory of a traced array: the node that it holds at this point of the function."""

    __slots__ = ("blank", "node", "scope", "shared")

    def __init__(self, node: Node, scope: Any = _HERE) -> None:
        self.node = node
        self.scope = SCOPE.get() if scope is _HERE else scope  # the mapping whose function may update it
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

    def hold(self, node: Node) -> None:
        """Hold a new node, as all views of it do then."""
        self.node = node

    def replace(self, node: Node) -> None:
        """Hold the node of an update."""
        self.check_scope()
        self.hold(node)

    def check_scope(self) -> None:
        """Refuse an update by a function that `vmap` maps of an array that all elements share.

        Raises
        ------
        NotTraced
        """
        if self.scope is not SCOPE.get():
            raise NotTraced(
                here().loc(), what="this update", way="return the new value from the mapped function",
                problem="`vmap` computes all elements together, and they share this array",
            )  # fmt: skip
