"""The Tensor graph: hash-consed ops on whole arrays, each with the line of the user's function.

A node is a row of the op table on an array type, or one of the few nodes of `node_table` that have no row. Each node
stands behind its inputs. The text of a graph, which `parser` reads, has the form::

    graph @scale(%0: f32[4, 8], %1: f32[8]) {
      %2: f32[4, 8] = mul %0, %1
      %3: f32[4] = sum %2 {axes = [1], keep_dims = false}
      return %3
    }

Named dimensions follow the graph's name: name, least and greatest size, and hint. Sizes are then polynomials::

    graph @double dims [n 1 64 16] (%0: f32[n, 3]) {
      %1: f32[3*n] = reshape %0 {shape = [3*n]}
      return %1
    }

Comparisons of named sizes that a function makes while it is traced are answered for the hints; the answers are the
guards of the graph.
"""

from __future__ import annotations

import linecache
import sys
import sysconfig
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from pypto.errors.graph import WrongShapes
from pypto.graph.ir.dims import Dim, Sizes, decided, hint, is_fixed, relation, unasked, value_of
from pypto.graph.ir.locations import PLACE
from pypto.graph.ir.movements import MOVEMENTS
from pypto.graph.ir.node_table import NODES
from pypto.graph.ir.type_rules import infer
from pypto.graph.ir.types import TensorType
from pypto.ir.printer import attr_text, loc_text
from pypto.loc import UNKNOWN, Caller, Loc
from pypto.ops.table import TABLE

T = TypeVar("T")
TRAITS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {name: frozenset(row.traits) for rows in (MOVEMENTS, TABLE, NODES) for name, row in rows.items()}
)
_ROOMS: Final = ("graph", "arrays", "jit", "runtime")  # of ours that a call goes through
_OURS: Final = (*(str(Path(__file__).parents[2] / room) for room in _ROOMS), str(Path(np.__file__).parent))
_STANDARD: Final = ("<frozen ", sysconfig.get_paths()["stdlib"])


def here() -> Caller | Loc:
    """Return the innermost call outside of this package, numpy and the standard library, or the line of `placed`."""
    known = PLACE.get()
    if known is not None:
        return known
    frame = sys._getframe(1)
    while is_ours(frame.f_code.co_filename) and frame.f_back is not None:
        frame = frame.f_back
    return Caller.of(frame)


@lru_cache(maxsize=1024)
def is_ours(file: str) -> bool:
    """Whether a file belongs to the graph compiler, the array functions, numpy or the standard library."""
    return file.startswith(_OURS) or (file.startswith(_STANDARD) and "site-packages" not in file)


def checked(what: str, make: Callable[[], T]) -> T:
    """Return the result of `make`, and turn the TypeError of a type rule into an error at the user's line."""
    try:
        return make()
    except TypeError as error:
        if type(error) is not TypeError:
            raise
        raise WrongShapes(here().loc(), what=what, problem=str(error)) from None


@dataclass(frozen=True, slots=True)
class Guard:
    """A guard: a comparison of sizes, and the answer for which the plan is valid."""

    difference: Any  # of the two sides, a Size
    relation: str
    answer: bool
    place: Caller | Loc

    def holds(self, sizes: Sizes) -> bool:
        return relation(value_of(self.difference, sizes), self.relation) is self.answer

    def __str__(self) -> str:
        word = self.relation if self.answer else {"==": "!=", "<": ">=", "<=": ">"}[self.relation]
        return f"{self.difference} {word} 0"


@dataclass(slots=True)
class Guards:
    """The guards that a traced function's comparisons of sizes made."""

    answered: list[Guard] = field(default_factory=list)

    def answer(self, difference: Any, word: str) -> bool:
        """Answer a comparison, and record it as a guard if the ranges of the dims do not decide it."""
        known = decided(difference, word)
        if known is not None:
            return known
        answer, plain = relation(hint(difference), word), unasked(difference)
        if not any(a.difference == plain and a.relation == word for a in self.answered):
            self.answered.append(Guard(plain, word, answer, here()))
        return answer

    def hold(self, sizes: Sizes) -> bool:
        return all(a.holds(sizes) for a in self.answered)


Attrs = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """One array of the graph: an op, its inputs and attributes.

    Parameters
    ----------
    number : int
        Its position in the graph.
    op : str
        Name of a row of the op table, or of `node_table`.
    inputs : tuple of Node
    attrs : tuple of (name, value)
        Sorted by name.
    type : TensorType
    place : Caller or Loc or None
        The user's call that made it.
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
        """Return the value of an attribute."""
        return dict(self.attrs)[name]

    def has(self, *traits: str) -> bool:
        """Whether the row of the op has one of some traits."""
        return not TRAITS[self.op].isdisjoint(traits)

    @property
    def is_input(self) -> bool:
        return self.op == "input"

    @property
    def is_constant(self) -> bool:
        return self.op == "constant"

    @property
    def is_number(self) -> bool:
        """Whether it is one number, known now or when a plan runs."""
        return self.is_constant or self.op == "extent"

    @property
    def is_source(self) -> bool:
        """Whether nothing computes it."""
        return self.is_input or self.is_number

    @property
    def is_product(self) -> bool:
        return self.op == "dot"

    @property
    def is_reshape(self) -> bool:
        return self.op == "reshape"

    @property
    def is_call(self) -> bool:
        return self.op == "call"

    @property
    def is_elementwise(self) -> bool:
        return self.has("elementwise")

    @property
    def is_movement(self) -> bool:
        return self.op in MOVEMENTS

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def loc(self) -> Loc:
        """The location of the user's line."""
        return self.place.loc() if isinstance(self.place, Caller) else self.place or UNKNOWN


def moved_from(node: Node, stored: Container[Node] = ()) -> tuple[Node, list[Node]]:
    """The array in memory that a node is or shows, and the movements that lead from it to the node, first to last."""
    path: list[Node] = []
    while node.is_movement and node not in stored:
        path.append(node)
        node = node.inputs[0]
    return node, path[::-1]


def base_of(node: Node, stored: Container[Node] = ()) -> Node:
    """The array in memory that a node is, or is a view of."""
    return moved_from(node, stored)[0]


@dataclass(eq=False, slots=True)
class Graph:
    """A function on arrays, as a graph of nodes.

    Parameters
    ----------
    name : str
        The name of the traced function.
    dims : tuple of Dim
        The named dimensions of its sizes.
    guards : Guards, optional
        The guards on these dimensions.

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
        """Add an argument."""
        node = self.append("input", (), {"name": name}, type, place)
        self.inputs.append(node)
        return node

    def constant(self, value: float | int | bool, type: TensorType, place: Caller | Loc | None = None) -> Node:
        """Return the constant array of a type that has one number in every element."""
        kind = bool if type.dtype.is_bool else float if type.dtype.is_float else int
        return self.add("constant", place=place, type=type, value=kind(value))

    def add(
        self, op: str, *inputs: Node, place: Caller | Loc | None = None, type: TensorType | None = None, **attrs: Any
    ) -> Node:
        """Add the node of an op: return a new node, an equal existing one, or an equivalent simpler one.

        Raises
        ------
        TypeError
            With the reason, when the inputs do not fit the op.
        """
        if self.guards is not None:
            attrs = {name: unasked(value) for name, value in attrs.items()}
            type = None if type is None else TensorType(unasked(type.shape), type.dtype)
        key = consed_by(op, inputs, attrs, type)
        known = self.known.get(key)
        if known is None:
            result_type = infer(op, [x.type for x in inputs], attrs) if type is None else type
            folded = self.simplified(op, inputs, attrs, result_type, place)
            known = self.append(op, inputs, attrs, result_type, place) if folded is None else folded
            self.known[key] = known
        return known

    def simplified(
        self, op: str, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType, place: Any
    ) -> Node | None:
        """Return an equivalent simpler node; this class simplifies nothing, see `SimplifiedGraph`."""
        return None

    def find(self, op: str, inputs: tuple[Node, ...], attrs: dict[str, Any]) -> Node | None:
        """Look up the node of an op that was already added, or return None."""
        return self.known.get(consed_by(op, inputs, attrs))

    def append(
        self, op: str, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType, place: Caller | Loc | None
    ) -> Node:
        """Append a new node without simplification and without checks."""
        self.nodes.append(Node(len(self.nodes), op, inputs, tuple(sorted(attrs.items())), type, place))
        return self.nodes[-1]

    def computed(self, node: Node) -> Any:
        """Return the array of a node if the graph can compute it now, otherwise None."""
        return None

    def live(self) -> list[Node]:
        """Return the nodes that the outputs depend on, and all inputs, in order."""
        needed = set(self.inputs)
        stack = list(self.outputs)
        while stack:
            node = stack.pop()
            if node not in needed:
                needed.add(node)
                stack += node.inputs
        return [node for node in self.nodes if node in needed]

    def op_names(self) -> frozenset[str]:
        """Return the names of all ops that the outputs depend on."""
        return frozenset(node.op for node in self.live())

    def __iter__(self) -> Iterator[Node]:
        return iter(self.live())

    def __str__(self) -> str:
        return text(self)


def consed_by(op: str, inputs: tuple[Node, ...], attrs: dict[str, Any], type: TensorType | None = None) -> Any:
    """Return the hash-consing key of a node; it includes the type only for nodes without operands."""
    rows = tuple([(name, key_of(attrs[name])) for name in sorted(attrs)]) if attrs else ()
    return op, inputs, rows, None if inputs else type


def key_of(value: Any) -> Any:
    """Return a key that distinguishes attributes: 0.0 from -0.0, and 1 from 1.0 and True; NaN equals itself."""
    if type(value) is tuple:
        return tuple([x if type(x) is int else key_of(x) for x in value])
    return type(value), repr(value) if isinstance(value, float) else value


# --- text ---------------------------------------------------------------------------------------------------------


def text(graph: Graph, locations: bool = False) -> str:
    """Print a graph, with the user's source location after every node if requested."""
    nodes = graph.live()
    names = {node: f"%{number}" for number, node in enumerate(sorted_inputs_first(graph, nodes))}
    head = ", ".join(f"{names[x]}: {x.type}" for x in graph.inputs)
    dims = ", ".join(f"{d.name} {d.low} {d.high} {d.hint}" for d in graph.dims)
    lines = [f"graph @{graph.name}{f' dims [{dims}] ' if dims else ''}({head}) {{"]
    for node in nodes:
        if not node.is_input:
            operands = ", ".join(names[x] for x in node.inputs)
            body = " ".join(filter(None, (node.op, operands, shown(dict(node.attrs)))))
            place = f" {loc_text(node.loc)}" if locations and node.loc != UNKNOWN else ""
            lines.append(f"  {names[node]}: {node.type} = {body}{place}")
    results = ", ".join(names[x] for x in graph.outputs)
    return "\n".join([*lines, f"  return {results}".rstrip(), "}"]) + "\n"


def sorted_inputs_first(graph: Graph, nodes: list[Node]) -> list[Node]:
    return [*graph.inputs, *(node for node in nodes if not node.is_input)]


def shown(attrs: dict[str, Any]) -> str:
    """Print an attribute; a user's function is printed by its name."""
    plain = {name: getattr(value, "__qualname__", value) if callable(value) else value for name, value in attrs.items()}
    return f"{{{', '.join(f'{name} = {value_text(plain[name])}' for name in sorted(plain))}}}" if plain else ""


def value_text(value: Any) -> str:
    """Print the value of an attribute, which may contain dynamic sizes."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return attr_text(value) if is_fixed(value) else str(value)


def definition(node: Node) -> str:
    """Print a node's line of the graph's text."""
    if node.is_input:
        return f"input {node.attr('name')}"
    operands = ", ".join(f"%{x.number}" for x in node.inputs)
    return " ".join(filter(None, (f"%{node.number} =", node.op, operands, shown(dict(node.attrs)))))


def line_of(node: Node) -> str:
    """Return the user's file and line of a node for a page."""
    return f"{Path(node.loc.file).name}:{node.loc.line}" if node.place is not None else ""


def source_of(node: Node) -> str:
    """Return the text of the user's line."""
    return linecache.getline(node.loc.file, node.loc.line).strip() if node.place is not None else ""
