"""The parser of Tensor graphs: reads the text that `node` prints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pypto.errors.ir import IRTextError
from pypto.graph.ir.dims import Dim, size_of
from pypto.graph.ir.node import Graph, Node
from pypto.graph.ir.types import COMPLEX, TensorType
from pypto.ir.parser import Parser, Token, tokenize
from pypto.ir.types import DTYPE_BY_NAME
from pypto.loc import UNKNOWN


def parse_graph(text: str) -> Graph:
    """Parse a graph; only the syntax is checked, see `verify`.

    Raises
    ------
    IRTextError
        With the line, when the text is no graph.

    Examples
    --------
    >>> print(parse_graph("graph @f(%0: f32[2]) { return %0 }"), end="")
    graph @f(%0: f32[2]) {
      return %0
    }
    """
    reader = _Reader(tokenize(text))
    graph = reader.graph()
    if reader.peek().kind != "end":
        reader.fail("the graph ends here, but the text goes on")
    return graph


def parse_size(text: str, dims: Iterable[Dim]) -> tuple[int, ...]:
    """Parse sizes over dims, separated by commas.

    Raises
    ------
    IRTextError
        When the text is no list of sizes.
    """
    reader = _Reader([*tokenize(text)[:-2], Token("mark", "]", 1), Token("end", "", 1)])
    reader.dims = {dim.name: dim for dim in dims}
    return tuple(reader.listed("]", reader.size))


class _Reader(Parser):
    dims: dict[str, Dim]

    def graph(self) -> Graph:
        self.expect("graph")
        self.expect("@")
        graph, self.nodes = Graph(self.name()), dict[str, Node]()
        self.dims = {}
        if self.accept("dims"):
            self.expect("[")
            self.dims = {dim.name: dim for dim in self.listed("]", self.dim)}
            graph.dims = tuple(self.dims.values())
        self.expect("(")
        for name, type in self.listed(")", self.named_type):
            self.nodes[name] = graph.input(name, type)
        self.expect("{")
        while not self.accept("return"):
            self.node(graph)
        graph.outputs += self.operands()
        self.expect("}")
        return graph

    def named_type(self) -> tuple[str, TensorType]:
        name = self.take("value")[1:]
        if name in self.nodes:
            self.fail(f"%{name} is already defined; every value needs a name of its own")
        self.expect(":")
        dtype = self.take("word")
        element = DTYPE_BY_NAME.get(dtype) or next((d for d in COMPLEX if str(d) == dtype), None)
        if element is None:
            self.fail(f"`{dtype}` is no element type")
        self.expect("[")
        shape = tuple(self.listed("]", self.size))
        return name, TensorType(shape, element)

    def dim(self) -> Dim:
        name = self.take("word")
        low, high, hint = (int(self.take("int")) for _ in range(3))
        try:
            return Dim(name, low, high, hint)
        except ValueError as error:
            self.fail(str(error))

    def size(self) -> int:
        """Parse a number or a polynomial over the dims."""
        total = self.term()
        while self.accept("+"):
            total = total + self.term()
        return total

    def term(self) -> int:
        total = self.factor()
        while self.accept("*"):
            total = total * self.factor()
        return total

    def factor(self) -> int:
        if self.peek().kind == "int":
            return int(self.take("int"))
        name = self.take("word")
        if name == "floor":
            self.expect("(")
            inner = self.size()
            self.expect(",")
            by = int(self.take("int"))
            self.expect(")")
            return inner // by if by > 0 else self.fail("a size is divided by a positive number")
        if name not in self.dims:
            self.fail(f"`{name}` is no dimension of this graph")
        return size_of(self.dims[name])

    def attr(self) -> Any:
        token = self.peek()
        is_size = token.kind == "word" and (token.text == "floor" or token.text in self.dims)
        if is_size or (token.kind == "int" and self.peek(1).text in ("*", "+")):
            return self.size()
        return super().attr()

    def node(self, graph: Graph) -> None:
        name, type = self.named_type()
        self.expect("=")
        line = self.peek().line
        op = self.take("word")
        inputs = self.operands() if self.peek().line == line else []
        attrs = self.attrs() if self.at("{") else {}
        loc = self.loc()
        place = None if loc == UNKNOWN else loc
        self.nodes[name] = graph.append(op, tuple(inputs), attrs, type, place)

    def operands(self) -> list[Node]:
        operands = []
        while self.peek().kind == "value":
            name = self.take("value")[1:]
            if name not in self.nodes:
                raise IRTextError(line=self.peek().line, problem=f"%{name} is not defined before this line")
            operands.append(self.nodes[name])
            if not self.accept(","):
                break
        return operands
