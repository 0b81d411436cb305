"""Reads the text that `printer` writes. `//` starts a comment.

A name stands for one value in the whole function. The parser checks the form alone; whether the IR is valid is for
`verify`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeVar

from pypto.errors.ir import IRTextError
from pypto.ir.core import Attr, Function, Op, ProgramMap, Region, Value
from pypto.ir.types import DTYPE_BY_NAME, ArrayType, DType, Elem, PtrType, TileType, Type, scalar
from pypto.loc import UNKNOWN, Loc

_STRING = r'"(?:[^"\\]|\\.)*"'
_TOKEN: Final = re.compile(
    rf"""(?P<skip>\s+|//[^\n]*)
    |(?P<span>{_STRING}:\d+:\d+-\d+:\d+)
    |(?P<string>{_STRING})
    |(?P<value>%\w+)
    |(?P<float>-inf\b|-?\d+(?:\.\d+(?:e[+-]?\d+)?|e[+-]?\d+))
    |(?P<int>-?\d+)
    |(?P<type>(?:tile|array|ptr)<[^<>]*(?:<[^<>]*>)?>)
    |(?P<word>[^\W\d]\w*)
    |(?P<mark>[@{{}}()\[\]=,:*+])""",
    re.VERBOSE,
)
_SPAN: Final = re.compile(rf"({_STRING}):(\d+):(\d+)-(\d+):(\d+)")
_WORDS: Final[Mapping[str, Attr]] = MappingProxyType({
    "none": None, "true": True, "false": False, "nan": float("nan"), "inf": float("inf"), **DTYPE_BY_NAME,
})  # fmt: skip
_READ: Final[Mapping[str, Callable[[str], Attr]]] = MappingProxyType({
    "int": int, "float": float, "string": json.loads, "word": _WORDS.__getitem__,
    "type": lambda text: _elem(text),  # noqa: PLW0108  # it is defined below
})  # fmt: skip
T = TypeVar("T")


def parse_function(text: str) -> Function:
    """The function that a text describes.

    Raises
    ------
    IRTextError
        With the line, when the text is no Tile IR.

    Examples
    --------
    >>> parse_function("kernel @f(%n: i32) { yield }").args[0].hint
    'n'
    """
    parser = Parser(tokenize(text))
    function = parser.function()
    if parser.peek().kind != "end":
        parser.fail("the kernel ends here, but the text goes on")
    return function


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    tokens = []
    position, line = 0, 1
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise IRTextError(line=line, problem=f"{text[position]!r} has no meaning here")
        if token.lastgroup != "skip":
            tokens.append(Token(token.lastgroup or "", token.group(), line))
        line += token.group().count("\n")
        position = token.end()
    return [*tokens, Token("end", "the end of the text", line), Token("end", "", line)]


class Parser:
    """Reads tokens one by one; the text of a Tensor graph is read with it too."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.values: dict[str, Value] = {}

    def fail(self, problem: str) -> NoReturn:
        raise IRTextError(line=self.peek().line, problem=problem)

    def peek(self, ahead: int = 0) -> Token:
        return self.tokens[min(self.position + ahead, len(self.tokens) - 1)]

    def at(self, text: str) -> bool:
        return self.peek().text == text and self.peek().kind in ("mark", "word")

    def accept(self, text: str) -> bool:
        self.position += (has_text := self.at(text))
        return has_text

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected `{text}`, not `{self.peek().text}`")

    def take(self, *kinds: str) -> str:
        token = self.peek()
        if token.kind not in kinds:
            self.fail(f"expected a {' or '.join(kinds)}, not `{token.text}`")
        self.position += 1
        return token.text

    def name(self) -> str:
        """A word, or a string where the name is no word."""
        return str(json.loads(self.take("string"))) if self.peek().kind == "string" else self.take("word", "string")

    def function(self) -> Function:
        self.expect("kernel")
        self.expect("@")
        name = self.name()
        args = self.parenthesised()
        attrs = self.attrs() if self.accept("attributes") else {}
        programs = self.programs() if self.accept("programs") else ProgramMap()
        loc = self.loc()
        self.expect("{")
        return Function(name, Region(args, self.ops()), attrs, loc, programs)

    def programs(self) -> ProgramMap:
        """The fields of a program map that are not as usual."""
        attributes: dict[str, Any] = self.attrs()
        unknown = attributes.keys() - {field.name for field in fields(ProgramMap)}
        if unknown:
            self.fail(f"a program map has no `{min(unknown)}`")
        return ProgramMap(**attributes)

    def parenthesised(self) -> list[Value]:
        self.expect("(")
        return self.listed(")", self.definition)

    def values_by(self, read: Callable[[], Value]) -> list[Value]:
        """Values with commas between them, possibly none."""
        values = []
        while self.peek().kind == "value":
            values.append(read())
            if not self.accept(","):
                break
        return values

    def listed(self, close: str, read: Callable[[], T]) -> list[T]:
        """What stands between brackets, with commas."""
        items = []
        while not self.accept(close):
            items.append(read())
            if not self.at(close):
                self.expect(",")
        return items

    def definition(self) -> Value:
        name = self.take("value")[1:]
        if name in self.values:
            self.fail(f"%{name} is already defined; every value needs a name of its own")
        self.expect(":")
        self.values[name] = Value(self.type(), "" if name.isdecimal() else name)
        return self.values[name]

    def type(self) -> Type:
        text = self.take("type", "word")
        try:
            return parse_type(text)
        except ValueError:
            self.position -= 1
            self.fail(f"`{text}` is no type")

    def ops(self) -> list[Op]:
        """Ops up to the brace that closes their region."""
        ops = []
        while not self.accept("}"):
            ops.append(self.op())
        return ops

    def op(self) -> Op:
        results = tuple(self.values_by(self.definition))
        if results:
            self.expect("=")
        line = self.peek().line
        name = self.take("word")
        operands = tuple(self.values_by(self.operand)) if self.peek().line == line else ()  # an op ends with its line
        attrs = self.attrs() if self.at("{") and self.peek(2).text == "=" else {}
        regions = []
        while self.accept("{"):
            regions.append(self.region())
        op = Op(name, operands, attrs, results, tuple(regions), self.loc())
        for value in results:
            value.op = op
        return op

    def operand(self) -> Value:
        name = self.peek().text[1:]
        if name not in self.values:
            self.fail(f"%{name} is not defined before this line")
        self.position += 1
        return self.values[name]

    def region(self) -> Region:
        return Region(self.parenthesised() if self.at("(") else [], self.ops())

    def attrs(self) -> dict[str, Attr]:
        self.expect("{")
        return dict(self.listed("}", self.entry))

    def entry(self) -> tuple[str, Attr]:
        name = self.take("word")
        self.expect("=")
        return name, self.attr()

    def attr(self) -> Attr:
        if self.accept("["):
            return tuple(self.listed("]", self.attr))
        token = self.peek()
        if token.kind == "word" and token.text not in _WORDS:
            self.fail(f"`{token.text}` is no attribute value")
        return _READ[token.kind](self.take(*_READ))

    def loc(self) -> Loc:
        if not (self.at("loc") and self.peek(1).text == "("):
            return UNKNOWN
        self.position += 2
        label = self.accept("label") and json.loads(self.take("string"))
        loc = self.span()
        self.expect(")")
        return replace(loc, label=label) if label else loc

    def span(self) -> Loc:
        match = _SPAN.fullmatch(self.take("span"))
        assert match is not None
        line, col, end_line, end_col = map(int, match.groups()[1:])
        function = self.name() if self.accept("in") else ""
        call_site = self.span() if self.accept("at") else None
        return Loc(json.loads(match[1]), line, col, end_line, end_col, function, call_site)


def parse_type(text: str) -> Type:
    """A type from its text; `ValueError` when there is no such type."""
    if match := re.fullmatch(r"array<(const )?(\w+), (\d+)>", text):
        return ArrayType(_dtype(match[2]), int(match[3]), match[1] is not None)
    if match := re.fullmatch(r"tile<((?:\d+x)+)(.+)>", text):
        return TileType(tuple(map(int, match[1].split("x")[:-1])), _elem(match[2]))
    return scalar(_elem(text))


def _elem(text: str) -> Elem:
    match = re.fullmatch(r"ptr<(const )?(\w+)>", text)
    return PtrType(_dtype(match[2]), match[1] is not None) if match else _dtype(text)


def _dtype(text: str) -> DType:
    if text not in DTYPE_BY_NAME:
        raise ValueError(f"{text} is no dtype")
    return DTYPE_BY_NAME[text]
