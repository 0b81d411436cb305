"""Python's operators as rows of the op table; between constants they are Python's own."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Final

from pypto.errors import Diagnostic
from pypto.errors.frontend import ConstantFailed, NoOperator
from pypto.errors.language import OpTypeError
from pypto.frontend.flow import as_truth, choose
from pypto.frontend.scope import Scope
from pypto.frontend.values import as_pointer, describe, has_values, is_array, is_number, load_first
from pypto.ir.core import Value
from pypto.ir.types import int1, int64
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE

# Symbol, what Python computes, row.
# fmt: off
OPERATORS: Final[Mapping[type[ast.AST], tuple[str, Callable[..., Any], str]]] = MappingProxyType({
    ast.Add: ("+", operator.add, "add"), ast.Sub: ("-", operator.sub, "sub"), ast.Mult: ("*", operator.mul, "mul"),
    ast.Div: ("/", operator.truediv, "div"), ast.FloorDiv: ("//", operator.floordiv, "floordiv"),
    ast.Mod: ("%", operator.mod, "rem"), ast.Pow: ("**", operator.pow, "pow"),
    ast.MatMult: ("@", operator.matmul, "dot"),
    ast.BitAnd: ("&", operator.and_, "and_"), ast.BitOr: ("|", operator.or_, "or_"),
    ast.BitXor: ("^", operator.xor, "xor"), ast.LShift: ("<<", operator.lshift, "shl"),
    ast.RShift: (">>", operator.rshift, "shr"), ast.USub: ("-", operator.neg, "neg"), ast.UAdd: ("+", operator.pos, ""),
    ast.Invert: ("~", operator.invert, "not_"), ast.Lt: ("<", operator.lt, "lt"), ast.LtE: ("<=", operator.le, "le"),
    ast.Gt: (">", operator.gt, "gt"), ast.GtE: (">=", operator.ge, "ge"), ast.Eq: ("==", operator.eq, "eq"),
    ast.NotEq: ("!=", operator.ne, "ne"), ast.Is: ("is", operator.is_, ""), ast.IsNot: ("is not", operator.is_not, ""),
    ast.In: ("in", lambda a, b: a in b, ""), ast.NotIn: ("not in", lambda a, b: a not in b, ""),
})
# fmt: on


# What arithmetic of two bools is in Triton, where they are integers of one bit.
_OF_BITS: Final[Mapping[str, str]] = MappingProxyType({"add": "xor", "sub": "xor", "mul": "and_"})


def constant_result(scope: Scope, node: ast.AST, fn: Callable[..., Any], *args: Any) -> Any:
    """What Python itself computes."""
    try:
        return fn(*args)
    except (ArithmeticError, AttributeError, TypeError, ValueError, LookupError) as error:
        raise ConstantFailed(scope.loc(node), problem=f"{type(error).__name__}: {error}") from None


def run_row(scope: Scope, node: ast.AST, name: str, /, **arguments: Any) -> Any:
    """Prepare the arguments as the row says, and append the op."""
    row, b = TABLE[name], scope.at(node)
    try:
        prepared = row.bind_arguments(b, **arguments) if row.bind_arguments else plain(b, row.params, arguments)
    except TypeError as error:
        if isinstance(error, Diagnostic):
            raise
        raise OpTypeError(b.loc, op=name, problem=str(error)) from None
    if isinstance(prepared, Value):
        return prepared
    operands, attrs = prepared
    results = b.op(name, *operands, **attrs).results
    return results[0] if len(results) == 1 else tuple(results) or None


def plain(b: OpBuilder, params: tuple[Any, ...], arguments: dict[str, Any]) -> tuple[list[Value], dict[str, Any]]:
    """Operands and attributes of a row without a rule for them."""
    operands = [b.value(arguments[p.name]) for p in params if p.is_operand and arguments[p.name] is not None]
    return operands, {p.name: arguments[p.name] for p in params if not p.is_operand}


def run_binary(scope: Scope, node: ast.BinOp) -> Any:
    return operate(scope, node, node.op, scope.eval(node.left), scope.eval(node.right))


def operate(scope: Scope, node: ast.AST, kind: ast.AST, x: Any, *others: Any) -> Any:
    """An operator on one or two values."""
    symbol, python, row = OPERATORS[type(kind)]
    if scope.source.lenient and others and is_tuple_of_pointer(x) and not isinstance(others[0], tuple):
        return (operate(scope, node, kind, x[0], *others),)  # `block = array + index,`, and `block += step` later
    if not any(isinstance(v, Value) for v in (x, *others)):
        return constant_result(scope, node, python, x, *others)
    if None in (x, *others) and symbol in ("is", "is not", "==", "!="):
        return symbol in ("is not", "!=")
    if not all(isinstance(v, Value) or is_number(v) for v in (x, *others)):
        text = "text is known at compile time: print values beside it, as in `print('i', i)`"
        way = text if isinstance(x, str) else "operands are tiles, scalars and numbers"
        raise no_operator(scope, node, symbol, way, x, *others)
    if any(is_pointer(v) for v in (x, *others)):
        return pointer_arithmetic(scope, node, symbol, x, *others)
    return run_operator(scope, node, symbol, row, x, *others)


def run_operator(scope: Scope, node: ast.AST, symbol: str, row: str, x: Any, *others: Any) -> Any:
    if symbol == "+" and not others:
        return x
    if not row:
        raise no_operator(scope, node, symbol, "compare numbers with `==`, `<`, …", x, *others)
    if scope.source.lenient and all(isinstance(v, Value) and v.tile.elem == int1 for v in (x, *others)):
        row = _OF_BITS.get(row, row)
    if row == "mul":
        x, others = one_if_known(scope, node, x), (one_if_known(scope, node, others[0]),)
    params = TABLE[row].params
    values = [x, *others, *(p.default for p in params[1 + len(others) :])]
    arguments = {p.name: v for p, v in zip(params, values, strict=True)}
    try:
        result = run_row(scope, node, row, **arguments)
    except OpTypeError as error:  # in the words of the source
        if error.fields["op"] != row:
            raise
        raise OpTypeError(error.loc, op=f"`{symbol}`", problem=error.fields["problem"]) from None
    scope.builder.numbers.note(result, row, arguments)
    return result


def no_operator(scope: Scope, node: ast.AST, symbol: str, way: str, x: Any, *others: Any) -> NoOperator:
    b = describe(others[0]) if any(y is not None for y in others) else "nothing else"
    return NoOperator(scope.loc(node), symbol=symbol, a=describe(x), b=b, way=way)


def is_pointer(x: Any) -> bool:
    return is_array(x) or (isinstance(x, Value) and x.tile.is_ptr)


def is_tuple_of_pointer(x: Any) -> bool:
    """Whether a trailing comma made a tuple of a pointer, which Triton takes as the pointer."""
    return isinstance(x, tuple) and len(x) == 1 and is_pointer(x[0])


def pointer_arithmetic(scope: Scope, node: ast.AST, symbol: str, x: Any, y: Any = None) -> Value:
    way = way_out(symbol, x, y)
    if is_pointer(y) and symbol == "+":
        x, y = y, x
    offsets = isinstance(y, int) or (isinstance(y, Value) and not is_pointer(y) and not y.dtype.is_float)
    if symbol not in ("+", "-") or not is_pointer(x) or not offsets:
        raise no_operator(scope, node, symbol, way, x, y)
    b = scope.at(node)
    # Offsets are widened before they are scaled, so that no product of indices wraps at 2**31.
    offset = b.cast(b.value(y, int64), int64)
    base, offset = b.align([as_pointer(b, x), b.emit("neg", offset) if symbol == "-" else offset])
    return b.emit("addptr", base, offset)


def way_out(symbol: str, x: Any, y: Any) -> str:
    """What to write in place of arithmetic that neither offsets nor elements have."""
    arrays = [v for v in (x, y) if is_array(v)]
    offsets = "offsets are integers, so divide with `//`, or cast with `.to(pto.int64)`"
    if not arrays:
        return offsets
    elements = f"to compute with the elements, {load_first(*arrays)}"
    is_offset = symbol in ("+", "-") and any(is_tile(v) and not is_pointer(v) for v in (x, y))
    return f"{elements}; {offsets}" if is_offset else elements


def one_if_known(scope: Scope, node: ast.AST, x: Any) -> Any:
    """An integer argument that is 1 at launch, when it is multiplied: the stride of a contiguous dimension."""
    if x not in scope.session.arguments or not x.dtype.is_int or not scope.session.facts.equals_one(x.hint):
        return x
    return scope.at(node).constant(1, x.dtype)


def run_unary(scope: Scope, node: ast.UnaryOp) -> Any:
    x = scope.eval(node.operand)
    if isinstance(node.op, ast.Not) and scope.source.lenient and is_tile(x):
        return run_row(scope, node, "eq", x=x, y=0)
    if isinstance(node.op, ast.Not):
        value = as_truth(scope, x, node.operand, "`not`", "use `~` to invert a tile of bools")
        return scope.at(node).emit("not_", value) if isinstance(value, Value) else not value
    return operate(scope, node, node.op, x)


def run_compare(scope: Scope, node: ast.Compare) -> Any:
    """A chain is the conjunction of its links; what is false at compile time ends it."""
    left = scope.eval(node.left)
    result: Any = True
    for kind, right_node in zip(node.ops, node.comparators, strict=True):
        right = scope.eval(right_node)
        link = operate(scope, node, kind, left, right)
        if not isinstance(link, Value) and not link:
            return link
        if isinstance(result, Value):
            link = run_row(scope, node, "and_", x=result, y=link) if isinstance(link, Value) else result
        left, result = right, link
    return result


def run_bool(scope: Scope, node: ast.BoolOp) -> Any:
    return short_circuit(scope, node, node.values)


def operand_text(node: ast.expr) -> str:
    """An operand of `&` as it has to be written: comparisons bind weaker than `&` does."""
    return f"({ast.unparse(node)})" if isinstance(node, ast.Compare | ast.BoolOp | ast.IfExp) else ast.unparse(node)


def short_circuit(scope: Scope, node: ast.BoolOp, values: list[ast.expr]) -> Any:
    is_and = isinstance(node.op, ast.And)
    word, sign = ("and", " & ") if is_and else ("or", " | ")
    where, way = f"`{word}`", f"on tiles, write `{sign.join(map(operand_text, values))}`"
    first = scope.eval(values[0])
    if scope.source.lenient and is_tile(first):
        others = [scope.at(node).cast(scope.at(node).value(scope.eval(v)), int1) for v in values[1:]]
        mask, row = scope.at(node).cast(first, int1), "and_" if is_and else "or_"
        return reduce(lambda x, y: run_row(scope, node, row, x=x, y=y), others, mask)
    truth = as_truth(scope, first, values[0], where, way)
    if len(values) == 1:
        return truth if has_values(first) else first
    remaining = partial(short_circuit, scope, node, values[1:])
    if not isinstance(truth, Value):
        return remaining() if truth == is_and else first

    def decided() -> Any:
        x = remaining()
        return scope.at(node).value(x if isinstance(x, Value) else bool(x), int1)

    return choose(scope, node, truth, decided if is_and else lambda: True, (lambda: False) if is_and else decided)


def is_tile(x: Any) -> bool:
    return isinstance(x, Value) and not is_array(x) and bool(x.shape)


def run_ternary(scope: Scope, node: ast.IfExp) -> Any:
    value = scope.eval(node.test)
    condition = as_truth(scope, value, node.test, "`… if … else …`", "use `pto.where(condition, x, y)` on tiles")
    then, orelse = partial(scope.eval, node.body), partial(scope.eval, node.orelse)
    if isinstance(condition, Value):
        return choose(scope, node, condition, then, orelse)
    return (then if condition else orelse)()
