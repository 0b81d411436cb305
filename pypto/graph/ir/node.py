"""The Tensor graph: hash-consed ops on whole arrays, each with the line of the user's function.

A node is a row of the op table on an array type, or one of the few nodes of `node_table` that have no row. Each node
stands behind its inputs. `Graph.add` folds constants and movements.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pypto.graph.ir.dims import Dim, unasked
from pypto.graph.ir.guards import Guards
from pypto.graph.ir.type_rules import infer
from pypto.graph.ir.types import TensorType
from pypto.graph.rewrite.simplify import fold
from pypto.loc import UNKNOWN, Caller, Loc

Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One array of the graph: an op, its inputs and attributes.

    Parameters
    ----------
    number : int
        Its place in the graph.
    op : str
        Name of a row of the op table, or of `node_table`.
    inputs : tuple of Node
    attrs : tuple of (name, value)
        Sorted by name.
    type : TensorType
    place : Caller or Loc or None
        The user's call that asked for it.
    """

    number: int
    op: str
    inputs: tuple[Node, ...]
    attrs: Attrs
    type: TensorType
    place: Caller | Loc | None = None

    def __repr__(self) -> str:
        return f"<%{self.number} = {self.op}: {self.type}>"

    def attr(self, name: str) -> Any:
        """The value of an attribute."""
        return dict(self.attrs)[name]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def loc(self) -> Loc:
        """The user's line."""
        return self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN


@dataclass(eq=False, slots=True)
class Graph:
    """A function on arrays, as a graph of nodes.

    Parameters
    ----------
    name : str
        Of the function that was traced.
    dims : tuple of Dim
        Dimensions by name, in whose terms sizes are.
    guards : Guards, optional
        What the function asked about them.

    Examples
    --------
    >>> from pypto.ir.types import float32
    >>> graph = Graph("double")
    >>> x = graph.input("x", TensorType((4,), float32))
    >>> graph.outputs.append(graph.add("add", x, x))
    >>> graph.add("add", x, x) is graph.outputs[0]
    True
    """

    is_lazy: ClassVar[bool] = False  # whether its arrays can be computed at any time

    name: str
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Node] = field(default_factory=list)
    outputs: list[Node] = field(default_factory=list)
    known: dict[Any, Node] = field(default_factory=dict)  # what ops on some inputs were found to be
    dims: tuple[Dim, ...] = ()
    guards: Guards | None = None

    def input(self, name: str, type: TensorType, place: Caller | Loc | None = None) -> Node:
        """A further argument."""
        node = self.append("input", (), {"name": name}, type, place)
        self.inputs.append(node)
        return node

    def constant(self, value: float | int | bool, type: TensorType, place: Caller | Loc | None = None) -> Node:
        """A number in every element of an array of a type."""
        kind = bool if type.dtype.is_bool else float if type.dtype.is_float else int
        return self.add("constant", place=place, type=type, value=kind(value))

    def add(
        self, op: str, *inputs: Node, place: Caller | Loc | None = None, type: TensorType | None = None, **attrs: Any
    ) -> Node:
        """The node of an op on some inputs: a new one, one that is there, or what it folds to.

        Raises
        ------
        TypeError
            With a sentence, when the inputs do not fit the op.
        """
        if self.guards is not None:
            attrs = {name: unasked(value) for name, value in attrs.items()}
            type = None if type is None else TensorType(unasked(type.shape), type.dtype)
        key = consed_by(op, inputs, attrs, type)
        known = self.known.get(key)
        if known is None:
            found = infer(op, [x.type for x in inputs], attrs) if type is None else type
            folded = fold(self, op, inputs, attrs, found, place)
            known = self.append(op, inputs, attrs, found, place) if folded is None else folded
            self.known[key] = known
        return known

    def find(self, op: str, inputs: tuple[Node, ...], attrs: dict[str, Any]) -> Node | None:
        """What an op on some inputs was found to be, where somebody asked for it."""
        return self.known.get(consed_by(op, inputs, attrs))

    def append(
        self, op: str, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType, place: Caller | Loc | None
    ) -> Node:
        """A new node as it is: nothing is folded, and nothing is checked."""
        self.nodes.append(Node(len(self.nodes), op, inputs, tuple(sorted(attrs.items())), type, place))
        return self.nodes[-1]

    def computed(self, node: Node) -> Any:
        """The array of a node, where it can be told now; None while a function is traced."""
        return None

    def live(self) -> list[Node]:
        """The nodes that outputs need, and all inputs, in order."""
        needed = set(self.inputs)
        stack = list(self.outputs)
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack += node.inputs
        return [node for node in self.nodes if node in needed]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.live())

    def __str__(self) -> str:
        from pypto.graph.ir.printer import text

        return text(self)


def consed_by(op: str, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType | None = None) -> Any:
    """What nodes that are one are equal by. Only those without operands have the type that they are given."""
    rows = tuple([(name, key_of(attrs[name])) for name in sorted(attrs)]) if attrs else ()
    return op, inputs, rows, None if inputs else type


def key_of(value: Any) -> Any:
    """What tells attributes apart: 0.0 and -0.0, 1 and 1.0 and True are not the same, and NaN is itself."""
    if type(value) is tuple:
        return tuple([x if type(x) is int else key_of(x) for x in value])
    return type(value), repr(value) if isinstance(value, float) else value
