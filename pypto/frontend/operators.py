"""Python's operators as rows of the op table; between constants they are Python's own."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.errors.frontend import ConstantFailed, NoOperator
from pypto.errors.language import OpTypeError
from pypto.frontend.flow import as_truth, choose
from pypto.frontend.scope import Scope
from pypto.frontend.values import describe, has_values, is_array, is_number
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE

Symbol = tuple[str, Callable[..., Any], str]

# fmt: off
BINARY: Final[Mapping[type[ast.operator], Symbol]] = MappingProxyType({
    ast.Add: ("+", operator.add, "add"), ast.Sub: ("-", operator.sub, "sub"), ast.Mult: ("*", operator.mul, "mul"),
    ast.Div: ("/", operator.truediv, "div"), ast.FloorDiv: ("//", operator.floordiv, "floordiv"),
    ast.Mod: ("%", operator.mod, "rem"), ast.Pow: ("**", operator.pow, "pow"),
    ast.MatMult: ("@", operator.matmul, "dot"), ast.BitAnd: ("&", operator.and_, "and_"),
    ast.BitOr: ("|", operator.or_, "or_"), ast.BitXor: ("^", operator.xor, "xor"),
    ast.LShift: ("<<", operator.lshift, "shl"), ast.RShift: (">>", operator.rshift, "shr"),
})
COMPARE: Final[Mapping[type[ast.cmpop], Symbol]] = MappingProxyType({
    ast.Lt: ("<", operator.lt, "lt"), ast.LtE: ("<=", operator.le, "le"), ast.Gt: (">", operator.gt, "gt"),
    ast.GtE: (">=", operator.ge, "ge"), ast.Eq: ("==", operator.eq, "eq"), ast.NotEq: ("!=", operator.ne, "ne"),
    ast.Is: ("is", operator.is_, ""), ast.IsNot: ("is not", operator.is_not, ""),
    ast.In: ("in", lambda a, b: a in b, ""), ast.NotIn: ("not in", lambda a, b: a not in b, ""),
})
UNARY: Final[Mapping[type[ast.unaryop], Symbol]] = MappingProxyType({
    ast.USub: ("-", operator.neg, "neg"), ast.UAdd: ("+", operator.pos, ""),
    ast.Invert: ("~", operator.invert, "not_"),
})
# fmt: on


def constant_result(scope: Scope, node: ast.AST, fn: Callable[..., Any], *args: Any) -> Any:
    """What Python itself computes."""
    try:
        return fn(*args)
    except (ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise ConstantFailed(scope.loc(node), problem=f"{type(error).__name__}: {error}") from None


def run_row(scope: Scope, node: ast.AST, name: str, arguments: dict[str, Any]) -> Any:
    """Prepare the arguments as the row says, and append the op."""
    row, b = TABLE[name], scope.at(node)
    try:
        operands, attrs = row.prepare(b, **arguments) if row.prepare else plain(b, row.params, arguments)
    except TypeError as error:
        if isinstance(error, Diagnostic):
            raise
        raise OpTypeError(b.loc, op=name, problem=str(error)) from None
    results = b.op(name, *operands, **attrs).results
    return results[0] if len(results) == 1 else tuple(results) or None


def plain(b: OpBuilder, params: tuple[Any, ...], arguments: dict[str, Any]) -> tuple[list[Value], dict[str, Any]]:
    """Operands and attributes of a row without a rule for them."""
    operands = [b.value(arguments[p.name]) for p in params if p.is_operand and arguments[p.name] is not None]
    return operands, {p.name: arguments[p.name] for p in params if not p.is_operand}


def run_binary(scope: Scope, node: ast.BinOp) -> Any:
    return binary(scope, node, node.op, scope.eval(node.left), scope.eval(node.right))


def binary(scope: Scope, node: ast.AST, kind: ast.operator, x: Any, y: Any) -> Any:
    symbol, python, row = BINARY[type(kind)]
    if not isinstance(x, Value) and not isinstance(y, Value):
        return constant_result(scope, node, python, x, y)
    require_numbers(scope, node, symbol, x, y)
    if is_pointer(x) or is_pointer(y):
        return pointer_arithmetic(scope, node, symbol, x, y)
    if row == "mul":
        x, y = one_if_known(scope, node, x), one_if_known(scope, node, y)
    if row == "pow" and isinstance(y, int) and y == 2:
        row, y = "mul", x
    if row not in TABLE:
        way = "use `pto.exp` and `pto.log`"
        raise NoOperator(scope.loc(node), symbol=symbol, a=describe(x), b=describe(y), way=way)
    extra = {p.name: p.default for p in TABLE[row].params[2:]}
    return run_row(scope, node, row, {"x": x, "y": y, **extra})


def require_numbers(scope: Scope, node: ast.AST, symbol: str, *operands: Any) -> None:
    for x in operands:
        if not isinstance(x, Value) and not is_number(x):
            a, b = (describe(o) for o in operands)
            raise NoOperator(scope.loc(node), symbol=symbol, a=a, b=b, way="operands are tiles, scalars and numbers")


def is_pointer(x: Any) -> bool:
    return is_array(x) or (isinstance(x, Value) and x.tile.is_ptr)


def as_pointer(b: OpBuilder, x: Any) -> Any:
    """An array is the address of its first element where a pointer is wanted."""
    return b.emit("array_ptr", x) if is_array(x) else x


def pointer_arithmetic(scope: Scope, node: ast.AST, symbol: str, x: Any, y: Any) -> Value:
    if is_pointer(y) and symbol == "+":
        x, y = y, x
    offsets = isinstance(y, int) or (isinstance(y, Value) and not is_pointer(y) and (y.dtype.is_int or y.dtype.is_bool))
    if symbol not in ("+", "-") or not is_pointer(x) or not offsets:
        load = "load first: `x[i:i + BLOCK]`, or `pto.load(x + offsets)`"
        way = load if is_array(x) else "pointers take `+` and `-` with integers"
        raise NoOperator(scope.loc(node), symbol=symbol, a=describe(x), b=describe(y), way=way)
    b = scope.at(node)
    # Offsets are widened before they are scaled, so that no product of indices wraps at 2**31.
    offset = b.cast(b.value(y, int64), int64)
    base, offset = b.align([as_pointer(b, x), b.emit("neg", offset) if symbol == "-" else offset])
    return b.emit("addptr", base, offset)


def one_if_known(scope: Scope, node: ast.AST, x: Any) -> Any:
    """An integer argument that is 1 at launch, when it is multiplied: the stride of a contiguous dimension."""
    name = scope.session.arguments.get(x) if isinstance(x, Value) else None
    if name is None or not x.dtype.is_int or not scope.session.facts.equals_one(name):
        return x
    return scope.at(node).constant(1, x.dtype)


def run_unary(scope: Scope, node: ast.UnaryOp) -> Any:
    x = scope.eval(node.operand)
    if isinstance(node.op, ast.Not):
        value = as_truth(scope, x, node.operand, "`not`", "use `~` to invert a tile of bools")
        return scope.at(node).emit("not_", value) if isinstance(value, Value) else not value
    symbol, python, row = UNARY[type(node.op)]
    if not isinstance(x, Value):
        return constant_result(scope, node, python, x)
    if is_pointer(x):
        way = "load first, for instance `x[row, :]`"
        raise NoOperator(scope.loc(node), symbol=symbol, a=describe(x), b="nothing else", way=way)
    return run_row(scope, node, row, {"x": x}) if row else x


def run_compare(scope: Scope, node: ast.Compare) -> Any:
    """A chain is the conjunction of its links."""
    left, result = scope.eval(node.left), None
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = scope.eval(right_node)
        link = compare(scope, node, kind, left, right)
        if not isinstance(link, Value) and not link:
            return link
        result = link if result is None or result is True else conjunction(scope, node, result, link)
        left = right
    return result


def conjunction(scope: Scope, node: ast.AST, a: Any, b: Any) -> Any:
    return run_row(scope, node, "and_", {"x": a, "y": b}) if isinstance(b, Value) else a


def compare(scope: Scope, node: ast.AST, kind: ast.cmpop, x: Any, y: Any) -> Any:
    symbol, python, row = COMPARE[type(kind)]
    if not isinstance(x, Value) and not isinstance(y, Value):
        return constant_result(scope, node, python, x, y)
    if None in (x, y) and symbol in ("is", "is not", "==", "!="):
        return symbol in ("is not", "!=")
    require_numbers(scope, node, symbol, x, y)
    if not row or is_pointer(x) or is_pointer(y):
        way = "compare numbers with `==`, `<`, …"
        raise NoOperator(scope.loc(node), symbol=symbol, a=describe(x), b=describe(y), way=way)
    return run_row(scope, node, row, {"x": x, "y": y})


def run_bool(scope: Scope, node: ast.BoolOp) -> Any:
    is_and = isinstance(node.op, ast.And)
    where, way = ("`and`", "use `&` on tiles") if is_and else ("`or`", "use `|` on tiles")
    return short_circuit(scope, node, node.values, is_and, where, way)


def short_circuit(scope: Scope, node: ast.BoolOp, values: list[ast.expr], is_and: bool, where: str, way: str) -> Any:
    first = scope.eval(values[0])
    if len(values) == 1:
        return first if not has_values(first) else as_truth(scope, first, values[0], where, way)
    if not has_values(first):
        return short_circuit(scope, node, values[1:], is_and, where, way) if bool(first) == is_and else first
    condition = as_truth(scope, first, values[0], where, way)

    def rest() -> Any:
        x = short_circuit(scope, node, values[1:], is_and, where, way)
        return scope.at(node).value(x if isinstance(x, Value) else bool(x), int1)

    return choose(scope, node, condition, rest if is_and else lambda: True, (lambda: False) if is_and else rest)


def run_ternary(scope: Scope, node: ast.IfExp) -> Any:
    value = scope.eval(node.test)
    condition = as_truth(scope, value, node.test, "`… if … else …`", "use `pto.where(condition, x, y)` on tiles")
    if not isinstance(condition, Value):
        return scope.eval(node.body if condition else node.orelse)
    return choose(scope, node, condition, lambda: scope.eval(node.body), lambda: scope.eval(node.orelse))
