"""Joins of branches on values: both sides of an `if` statement run in one trace, and `where` chooses what they leave.

This is legal only if the sides have no effect but on variables and arrays, and if no step of them can fail. Both
bindings of a variable must have one shape and type. What is not joined is traced once for each way (`branches`).
"""

from __future__ import annotations

from collections import Counter
from types import CodeType
from typing import Any, Final

import numpy as np

from pypto.errors import Diagnostic
from pypto.graph.capture.branch_statements import BranchStatement
from pypto.graph.ir.node import Node
from pypto.graph.tracing.arguments import leaves, mapped
from pypto.graph.tracing.concrete import ConcreteArray
from pypto.graph.tracing.tensor import Tensor
from pypto.graph.tracing.ufuncs import truth
from pypto.graph.tracing.values.branches import Merge, may_fail
from pypto.graph.tracing.values.storage import Storage

Variables = dict[str, Any]
_WIDE: Final = frozenset(map(np.dtype, (np.float64, np.int64, np.uint64, np.bool_)))  # a number of Python keeps these


class NotJoined(Exception):
    """The sides of a branch are not joined."""


def join(graph: Any, statement: BranchStatement, condition: Tensor, given: Variables, outer: Variables) -> Any:
    """Return the variables that a branch assigns after both of its sides, or None if they are not joined."""
    try:
        joining = Joining(graph, statement, condition, given)
        for side in statement.sides:
            joining.run(side, outer)
        return joining.results()
    except NotJoined:
        return None


class Joining:
    """The sides of one branch: their variables, and what arrays hold after them.

    Parameters
    ----------
    graph : TracedGraph
    statement : BranchStatement
    condition : Tensor
    given : dict of str to Any
        The function's variables.
    """

    def __init__(self, graph: Any, statement: BranchStatement, condition: Tensor, given: Variables) -> None:
        self.graph = graph
        self.statement = statement
        self.condition = condition
        self.given = given
        self.arrays = {id(x): x for x in (*arrays_of(list(given.values())), *graph.tensors.values())}.values()
        written = [x for x in self.arrays if statement.writes or not isinstance(x, ConcreteArray)]
        self.storages = list(dict.fromkeys(x.storage for x in written))
        for storage in self.storages:
            _ = storage.node  # a concrete array becomes one of the graph
        self.sides: list[Variables] = []
        self.nodes: list[dict[int, Node]] = []  # of the tensors among the variables, by their `id`
        self.written: list[dict[Storage, Node]] = []

    def run(self, side: CodeType, outer: Variables) -> None:
        """Run a side; what it writes is noted and taken back."""
        before = [(storage, state(storage)) for storage in self.storages]
        count = len(self.graph.nodes)
        variables = dict(self.given)
        try:
            exec(side, outer, variables)
            self.sides.append({name: variables[name] for name in self.statement.live if name in variables})
            self.nodes.append({id(x): x.node for x in arrays_of(self.sides[-1])})
            self.written.append({storage: storage.node for storage in self.storages})
        except Diagnostic:
            raise
        except Exception as error:
            raise NotJoined from error
        finally:
            for storage, values in before:
                for name, value in values.items():
                    setattr(storage, name, value)
        if any(map(may_fail, self.graph.nodes[count:])):
            raise NotJoined

    def results(self) -> Variables:
        """Choose between the sides for each variable, and for each array that one of them writes."""
        merge = Merge(self.graph, NotJoined, [])
        chosen = truth(self.graph, self.condition.reshape(()))
        yes, no = self.sides
        if yes.keys() != no.keys():
            raise NotJoined
        names = [n for n in yes if not (yes[n] is no[n] and yes[n] is self.given.get(n))]
        self.check(names)
        new = {n: merge.joined(chosen, *(self.fixed(number, n) for number in (0, 1))) for n in names}
        nodes = {}
        for storage in self.storages:
            pair = [written[storage] for written in self.written]
            if any(node is not storage.node for node in pair):
                nodes[storage] = merge.chosen(chosen, *(Tensor.fresh(self.graph, x) for x in pair)).node
        for storage, node in nodes.items():
            storage.replace(node)
        self.share(new)
        return new

    def check(self, names: list[str]) -> None:
        """Refuse numbers of Python whose weak promotion a choice would lose, and changed containers.

        Raises
        ------
        NotJoined
        """
        is_wide = all(node.type.dtype.numpy in _WIDE for node in self.graph.inputs)
        for name in names:
            parts = [[x for _, x in leaves(side[name])] for side in self.sides]
            if len(parts[0]) != len(parts[1]) or any(isinstance(side[name], list | dict) for side in self.sides):
                raise NotJoined
            for pair in zip(*parts, strict=True):
                weak = [x for x in pair if type(x) in (int, float, bool)]
                others = [x for x in pair if type(x) not in (int, float, bool)]
                is_same = len(weak) == 2 and type(weak[0]) is type(weak[1]) and weak[0] == weak[1]
                is_kept = is_wide and len(others) == 1 and getattr(others[0], "dtype", None) in _WIDE
                if weak and not is_same and not is_kept:
                    raise NotJoined

    def fixed(self, number: int, name: str) -> Any:
        """Return a variable after a side, with tensors of what its arrays attributes there."""

        def fix(path: str, x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            return Tensor.fresh(self.graph, self.nodes[number][id(x)]).marked(x.is_array)

        return mapped(self.sides[number][name], fix)

    def share(self, new: Variables) -> None:
        """Say that a chosen array may be a view of an array that was there at the branch, or of another variable."""
        for side in self.sides:
            counts = Counter({x.storage for x in self.arrays})
            for name in new:
                counts.update({x.storage for x in arrays_of(side[name])})
            for name in new:
                aliased = [x for x in arrays_of(side[name]) if not x.is_number and counts[x.storage] > 1]
                for x in (*aliased, *(arrays_of(new[name]) if aliased else ())):
                    x.storage.share()


def arrays_of(value: Any) -> list[Tensor]:
    return [x for _, x in leaves(value) if isinstance(x, Tensor)]


def state(storage: Storage) -> dict[str, Any]:
    """Return the attributes of a storage."""
    names = [name for kind in type(storage).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = {name: getattr(storage, name, None) for name in names if name not in ("graph", "node")}
    return attributes if "_node" in attributes else {**attributes, "node": storage.node}
