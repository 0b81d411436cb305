"""What the front end knows while it reads a function: variables, the place, and the build that it is part of.

Values from outside of a kernel become what they are in it; what may change after it is compiled is refused.
"""

from __future__ import annotations

import ast
import builtins
import enum
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import numpy as np

from pypto.errors import Diagnostic
from pypto.errors.frontend import MaybeUnassigned, TooManyOps, UndefinedName, UnknownSyntax, UnsupportedGlobal
from pypto.frontend.source import KernelSource
from pypto.frontend.spec import GONE, Capture, Facts, Owner, Unrolled, reader
from pypto.frontend.tuples import remade
from pypto.frontend.weak import WeakNumbers
from pypto.ir.builder import temporarily
from pypto.ir.core import Op, Region, Value
from pypto.ir.types import DType, Elem, PtrType, float64, from_numpy, int32, scalar
from pypto.loc import Loc
from pypto.ops.build import OpBuilder, Operand, common_dtype, weak_dtype
from pypto.ops.public import constexpr
from pypto.options import suggestion

Step = Callable[[], Any]
Handler = Callable[["Scope", Any], Any]

EXITS = SKIP, BREAK, RETURN = (".continue", ".break", ".return")
VALUE: Final = ".value"
YOU_MEAN: Final = "did you mean `{}`?"
_ARRAY = "pass it to the kernel as an argument, and load from it; one number may be a Python number instead"
_OUTSIDE = (
    (list, "a list", "a list may change after the kernel is compiled; use a tuple"),
    (dict, "a dict", "a dict may change after the kernel is compiled; use a tuple, a frozen dataclass or an enum"),
    (set, "a set", "use a tuple"),
)


@dataclass(slots=True)
class Binding:
    """What a variable holds, and the place of the assignment."""

    value: Any
    loc: Loc

    def read(self, loc: Loc) -> Any:
        """The value, or the diagnostic that says why the variable has not got one here."""
        if isinstance(self.value, Poison):
            raise self.value.reason(loc)
        return self.value


@dataclass(frozen=True, slots=True)
class Poison:
    """Stands for a variable without one value; reading it raises the diagnostic that says why."""

    reason: Callable[[Loc], Diagnostic]


class LimitedBuilder(OpBuilder):
    """A builder that stops early what would compile for minutes, and knows which numbers are weak."""

    def __init__(self, region: Region, loc: Loc, most: int, numbers: WeakNumbers, lenient: bool = False) -> None:
        super().__init__(region, loc)
        self.most, self.op_count, self.numbers, self.lenient = most, 0, numbers, lenient

    def create(self, *args: Any, **given: Any) -> Op:
        self.op_count += 1
        if self.op_count > self.most:
            raise TooManyOps(self.loc, limit=f"{self.most:,}")
        return super().create(*args, **given)

    def cast(self, v: Value, dtype: Elem) -> Value:
        precise = dtype == float64 and v.type != scalar(float64) and self.numbers.is_weak(v)
        return self.numbers.precise(self, v) if precise else super().cast(v, dtype)

    def strong(self, operands: Sequence[Operand]) -> Sequence[Operand]:
        return self.numbers.strong(operands)

    def promote(self, operands: list[Operand], floating: bool = False) -> list[Value]:
        """Values of one dtype. Under Triton's rules an int32 that the others cannot hold has its own type."""
        dtype = common_dtype(self.strong(operands))
        if self.lenient and dtype.is_int:
            low, high = dtype.integer_range
            too_large = [not isinstance(x, Value) and not low <= x <= high and weak_dtype(x) == int32 for x in operands]
            operands = [self.value(x) if large else x for x, large in zip(operands, too_large, strict=True)]
        return super().promote(operands, floating)


@dataclass(slots=True)
class Session:
    """One build; `handlers` is the table of what to do with which kind of syntax.

    `substitutes` are inlined in place of other functions. `lenient` says that the kernel comes from Triton, whatever
    functions it calls.
    """

    builder: LimitedBuilder
    facts: Facts
    handlers: Mapping[type[ast.AST], Handler]
    methods: Mapping[str, Any]
    arguments: list[Value]
    substitutes: Mapping[Any, Any]
    shapes: dict[tuple[str, int], int] = field(default_factory=dict)
    captures: dict[tuple[int, str], Capture] = field(default_factory=dict)
    hints: dict[Any, Any] = field(default_factory=dict)
    numbers: dict[Any, int] = field(default_factory=dict)
    remarks: dict[str, Diagnostic] = field(default_factory=dict)  # by place: parts of a kernel are built several times
    lenient: bool = False
    unrolled: int = 0
    loops: list[Unrolled] = field(default_factory=list)
    label: str = ""

    def capture(self, owner: Owner, name: str, loc: Loc) -> Any:
        """Record that an outside variable was read, and give what it is in a kernel."""
        read = reader(owner, name)
        value = read()
        if value is GONE:
            raise MaybeUnassigned(loc, name=name, why="the enclosing function assigns it later")
        self.captures.setdefault((id(owner), name), Capture(name, value, read))
        return captured(name, value, loc)


@dataclass(slots=True)
class Scope:
    """One function while it is read: the kernel itself, or a function inlined into it.

    Control flow keeps its state in `vars` as well: `.continue`, `.break` and `.return` tell whether the rest of the
    block, of the loop and of the function is skipped (absent: it is not; True: it is; a run-time value: it depends).
    Each of them is set where the next one is. `.value` is what is returned. `remaining_steps` are those of
    the current block.
    """

    session: Session
    source: KernelSource
    call_site: Loc | None = None
    parent: Scope | None = None
    depth: int = 0
    vars: dict[str, Binding] = field(default_factory=dict)
    remaining_steps: deque[Step] = field(default_factory=deque)

    @property
    def builder(self) -> LimitedBuilder:
        return self.session.builder

    def loc(self, node: ast.AST) -> Loc:
        loc, label = self.source.loc(node, self.call_site), self.session.label
        return replace(loc, label=label) if label else loc

    def at(self, node: ast.AST) -> OpBuilder:
        """The builder, stamping the place of this node."""
        self.builder.loc = self.loc(node)
        return self.builder

    def eval(self, node: ast.AST) -> Any:
        """Execute a statement, or give the value of an expression: an `ir.Value` at run time, else a Python object."""
        handler = self.session.handlers.get(type(node))
        if handler is None:
            raise UnknownSyntax(self.loc(node), what=f"this syntax ({type(node).__name__})", way="")
        return handler(self, node)

    def steps(self, statements: Iterable[ast.stmt]) -> list[Step]:
        return [partial(self.eval, s) for s in statements]

    def assign(self, name: str, value: Any, loc: Loc) -> None:
        if isinstance(value, Value) and not value.hint:
            value.hint = name
        self.vars[name] = Binding(value, loc)

    @contextmanager
    def inside(self, region: Region, variables: dict[str, Binding]) -> Iterator[dict[str, Binding]]:
        """Build into a region with variables of its own for the length of a `with` block."""
        with temporarily(self, vars=variables), self.builder.inside(region):
            yield variables

    def lookup(self, node: ast.Name) -> Any:
        """The value of a name: variable, variable of an enclosing function, closure, global or builtin."""
        scope: Scope | None = self
        while scope is not None:
            if node.id in scope.vars:
                return scope.vars[node.id].read(self.loc(node))
            scope = scope.parent
        return self.outside(node)

    def outside(self, node: ast.Name) -> Any:
        function, name = self.source.function, node.id
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        variables = function.__globals__
        if self.source.library and name in variables:
            return variables[name]
        if name in cells or name in variables:
            return self.session.capture(cells.get(name, variables), name, self.loc(node))
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise UndefinedName(self.loc(node), name=name, way=suggestion(name, [*self.vars, *cells, *variables], YOU_MEAN))


def captured(name: str, value: Any, loc: Loc) -> Any:
    """What an outside value is in a kernel."""
    if isinstance(value, constexpr):
        return captured(name, value.value, loc)
    if isinstance(value, tuple):
        return remade(value, [captured(name, x, loc) for x in value])
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return from_numpy(np.dtype(value)) or value
    for kind, what, way in _OUTSIDE:
        if isinstance(value, kind):
            raise UnsupportedGlobal(loc, name=name, what=what, way=way)
    if hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__"):
        raise UnsupportedGlobal(loc, name=name, what="an array", way=_ARRAY)
    return value


def has_plain_fields(x: Any) -> bool:
    """Whether attributes of a constant cannot change: enums, dtypes, frozen dataclasses."""
    if isinstance(x, enum.Enum | DType | PtrType):
        return True
    if isinstance(x, type):
        return issubclass(x, enum.Enum)
    params: Any = getattr(x, "__dataclass_params__", None)
    return params is not None and bool(params.frozen)
