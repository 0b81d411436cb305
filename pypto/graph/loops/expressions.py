"""Expressions of a loop: each becomes a number, an array, a constant of Python or a tuple of them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.graph.loops import masks
from pypto.graph.loops.arrays import Elementwise, Picked, View, broadcast
from pypto.graph.loops.indexing import check_picked, indexed
from pypto.graph.loops.masks import Masked
from pypto.graph.loops.numbers import Bounds, NotCompiled, Number, cast, joined, known, linear_form, storage_type
from pypto.graph.loops.promotion import COMPARISONS, PYTHON, resolved, template
from pypto.graph.loops.store import copied
from pypto.graph.loops.writer import Writer


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of Python that is neither number nor array: a module, a function, a type, a text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Method:
    """A method of an array."""

    owner: Any
    name: str


@dataclass(frozen=True, slots=True)
class Counted:
    """`range` with bounds of the kernel."""

    start: Number
    stop: Number
    step: int


@dataclass(frozen=True, slots=True)
class Iteration:
    """What a loop runs over: how many values, and a function that writes one of them by its number."""

    size: Number
    item: Callable[[Number], Any]


UNARY: Final = MappingProxyType({ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"})
# fmt: off
BINARY: Final[Mapping[Any, str]] = MappingProxyType({
    ast.Add: "add", ast.Sub: "subtract", ast.Mult: "multiply", ast.Div: "divide", ast.FloorDiv: "floor_divide",
    ast.Mod: "remainder", ast.Pow: "power", ast.BitAnd: "bitwise_and", ast.BitOr: "bitwise_or",
    ast.BitXor: "bitwise_xor", ast.LShift: "left_shift", ast.RShift: "right_shift",
    ast.Lt: "less", ast.LtE: "less_equal", ast.Gt: "greater", ast.GtE: "greater_equal",
    ast.Eq: "equal", ast.NotEq: "not_equal",
})
# fmt: on
ARRAYS: Final = ("View", "Filled", "Counting", "Elementwise", "Permuted", "Picked", "Reduced")


def is_array(x: Any) -> bool:
    return type(x).__name__ in ARRAYS


class Expressions:
    """Evaluates the expressions of a loop, and writes what they compute.

    Parameters
    ----------
    w : Writer
    env : dict
        What the names of the function stand for.
    outer : mapping
        What other names stand for: the globals of the function.
    enter : callable
        Converts a value of the traced function, by its name.
    """

    def __init__(self, w: Writer, env: dict[str, Any], outer: Mapping[str, Any], enter: Callable[[str, Any], Any]):
        self.w = w
        self.env = env
        self.outer = outer
        self.enter = enter
        self.calls: list[Any] = []  # functions whose bodies are written

    def attribute(self, x: Any, name: str) -> Any:
        """Return an attribute of an array."""
        raise NotImplementedError

    def product(self, a: Any, b: Any) -> Any:
        """Return a product of matrices or vectors."""
        raise NotImplementedError

    def call(self, function: Any, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Return the result of a call."""
        raise NotImplementedError

    def inline(self, function: FunctionType, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Write the body of a Python function in place of its call."""
        raise NotImplementedError

    def assume(self, test: ast.expr, answer: bool) -> None:
        """Tighten the bounds of symbols by a condition that holds, or that does not."""
        raise NotImplementedError

    def eval(self, node: ast.expr) -> Any:
        """Evaluate an expression."""
        handler = getattr(self, f"on_{type(node).__name__}", None)
        if handler is None:
            raise NotCompiled(f"`{ast.unparse(node)}`")
        return handler(node)

    def value_of(self, name: str, value: Any) -> Any:
        """Convert a value of Python."""
        if isinstance(value, bool | int | float | np.generic) and not getattr(type(value), "stands_in", False):
            return known(value)
        if isinstance(value, Number | Constant | Method | Counted | Masked) or is_array(value):
            return value
        if type(value) is tuple and all(isinstance(x, Number) or is_array(x) for x in value):
            return value
        return self.enter(name, value)

    # --- leaves ------------------------------------------------------------------------------------------------------

    def on_Constant(self, node: ast.Constant) -> Any:
        return self.value_of("", node.value) if isinstance(node.value, int | float) else Constant(node.value)

    def on_Name(self, node: ast.Name) -> Any:
        name = node.id
        if name in self.env:
            self.env[name] = value = self.value_of(name, self.env[name])
            return value
        if name in self.outer:
            return self.value_of(name, self.outer[name])
        if hasattr(builtins, name):
            return Constant(getattr(builtins, name))
        raise NotCompiled(f"`{name}` has no value before the loop")

    def on_Tuple(self, node: ast.Tuple | ast.List) -> Any:
        return tuple(self.eval(x) for x in node.elts)

    on_List = on_Tuple

    def on_Attribute(self, node: ast.Attribute) -> Any:
        owner = self.eval(node.value)
        if isinstance(owner, Constant):
            return self.value_of(f"{ast.unparse(node)}", getattr(owner.value, node.attr))
        if isinstance(owner, Masked):
            return masks.count(self, owner) if node.attr == "size" else Method(owner, node.attr)
        if is_array(owner):
            return self.attribute(owner, node.attr)
        raise NotCompiled(f"`{ast.unparse(node)}`")

    # --- operators ---------------------------------------------------------------------------------------------------

    def on_BinOp(self, node: ast.BinOp) -> Any:
        if isinstance(node.op, ast.MatMult):
            return self.product(self.eval(node.left), self.eval(node.right))
        return self.apply(BINARY[type(node.op)], self.eval(node.left), self.eval(node.right))

    def on_UnaryOp(self, node: ast.UnaryOp) -> Any:
        operand = self.eval(node.operand)
        if isinstance(node.op, ast.Not):
            return self.logical("logical_not", self.truth(operand))
        return self.apply(UNARY[type(node.op)], operand)

    def on_Compare(self, node: ast.Compare) -> Any:
        result, left = None, self.eval(node.left)
        with self.w.scope():
            for op, each in zip(node.ops, node.comparators, strict=True):
                if result is not None:
                    self.suppose(self.truth(result), True)
                right = self.eval(each)
                answer = self.compared(node, op, left, right)
                if result is not None:
                    answer = self.logical("logical_and", self.truth(result), self.truth(answer))
                result, left = answer, right
        return result

    def compared(self, node: ast.Compare, op: ast.cmpop, left: Any, right: Any) -> Any:
        """Return the result of one comparison."""
        if isinstance(op, ast.Is | ast.IsNot):
            return known(self.is_identical(left, right) is isinstance(op, ast.Is))
        if type(op) not in BINARY:
            raise NotCompiled(f"`{ast.unparse(node)}`")
        return self.apply(BINARY[type(op)], left, right)

    def is_identical(self, a: Any, b: Any) -> bool:
        """Whether two values are one object, which is known if one of them is None."""
        none = [isinstance(x, Constant) and x.value is None for x in (a, b)]
        if not any(none):
            raise NotCompiled("`is`")
        return all(none)

    def on_BoolOp(self, node: ast.BoolOp) -> Any:
        name, ends = ("logical_and", False) if isinstance(node.op, ast.And) else ("logical_or", True)
        result: Any = None
        with self.w.scope():
            for each in node.values:
                if result is not None and result.is_known and bool(result.value) is ends:
                    break
                value = self.w.stored(self.truth(self.eval(each)))
                result = value if result is None or result.is_known else self.logical(name, result, value)
                self.suppose(value, not ends, each)
        return result

    def suppose(self, condition: Number, answer: bool, test: ast.expr | None = None) -> None:
        """Note that Python evaluates what follows only where a condition holds, or where it does not."""
        if condition.is_known:
            return
        text = self.w.stored(condition).text
        self.w.under.append(text if answer else f"({text} == False)")
        if test is not None:
            self.assume(test, answer)

    def logical(self, name: str, *operands: Number) -> Number:
        answer: Number = self.apply(name, *operands)
        return Number(answer.text, bool, None, answer.value)

    def truth(self, value: Any) -> Number:
        """Return whether a number is not zero."""
        if not isinstance(value, Number):
            raise NotCompiled("a condition that is no number")
        if value.is_known:
            return known(bool(value.value))
        if storage_type(value.kind) == np.bool_:
            return value
        answer: Number = self.apply("not_equal", value, known(0))
        return answer

    def on_IfExp(self, node: ast.IfExp) -> Any:
        condition = self.truth(self.eval(node.test))
        if condition.is_known:
            return self.eval(node.body if condition.value else node.orelse)
        condition = self.w.stored(condition)
        ends = []
        for answer, each in ((True, node.body), (False, node.orelse)):
            with self.w.scope():
                self.suppose(condition, answer, node.test)
                value = self.eval(each)
                ends.append(self.w.stored(value) if isinstance(value, Number) else value)
        return self.choose(condition, *ends)

    def choose(self, condition: Number, yes: Any, no: Any) -> Any:
        """Return one of two numbers, or of two tuples of numbers."""
        if isinstance(yes, tuple) and isinstance(no, tuple) and len(yes) == len(no):
            return tuple(self.choose(condition, a, b) for a, b in zip(yes, no, strict=True))
        if not (isinstance(yes, Number) and isinstance(no, Number)):
            raise NotCompiled("a choice between arrays")
        kind = joined(yes, no)
        text = f"pto.where({condition.text}, {self.w.typed(yes, kind)}, {self.w.typed(no, kind)})"
        return Number(self.w.variable("v", text), kind)

    # --- operations --------------------------------------------------------------------------------------------------

    def apply(self, name: str, *operands: Any) -> Any:
        """Return the result of a ufunc on numbers and arrays."""
        if any(isinstance(x, Masked) for x in operands):
            return masks.apply(self, name, operands)
        if not all(isinstance(x, Number) or is_array(x) for x in operands):
            raise NotCompiled(f"np.{name} of what is neither number nor array")
        if name == "power" and operands[1:] and (simple := self.simple_power(*operands)) is not None:
            return simple
        if all(isinstance(x, Number) for x in operands):
            return self.apply_numbers(name, operands)
        kinds, result = resolved(name, self.kinds_of(name, operands))
        template(name, kinds, False)
        extents = broadcast([x for x in operands if is_array(x)])
        rows = tuple(
            self.w.stored(self.w.fitting(x, storage_type(kind))) if isinstance(x, Number) else x
            for x, kind in zip(operands, kinds, strict=True)
        )
        return Elementwise(name, kinds, rows, extents, storage_type(result))

    def simple_power(self, base: Any, exponent: Any) -> Any:
        """Return a power whose exponent is a small number, without a logarithm."""
        if not (isinstance(exponent, Number) and exponent.is_known and exponent.kind is int):
            return None
        is_whole = storage_type(base.kind if isinstance(base, Number) else base.dtype).kind in "biu"
        if exponent.value == 2 or (is_whole and 1 < exponent.value < 8):
            result = base
            for _ in range(exponent.value - 1):
                result = self.apply("multiply", result, base)
            return result
        return None

    def kinds_of(self, name: str, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the types of operands; an integer of Python is compared by its value, whatever the other's type."""
        kinds = [x.kind if isinstance(x, Number) else x.dtype for x in operands]
        if name in COMPARISONS and any(isinstance(k, np.dtype) and k.kind in "iu" and k.itemsize < 8 for k in kinds):
            return tuple(np.dtype(np.int64) if k is int else k for k in kinds)
        return tuple(kinds)

    def apply_numbers(self, name: str, operands: Sequence[Number]) -> Number:
        kinds, result = resolved(name, self.kinds_of(name, operands))
        if all(x.is_known for x in operands):
            return self.folded(name, operands)
        texts = [cast(self.w.fitting(x, storage_type(k)), k) for x, k in zip(operands, kinds, strict=True)]
        is_positive = all(self.w.range_of(x)[0] >= 0 for x in operands)
        text = template(name, kinds, is_positive).format(*texts)
        linear = linear_form(name, operands) if result in (int, np.dtype(np.int64)) else None
        if linear is not None and not linear.terms:
            return known(linear.constant) if result is int else known(np.int64(linear.constant))
        if linear is None and result is int and (bounds := self.bounds_of(name, operands)) is not None:
            return self.w.index(text, bounds)
        return Number(text if linear is not None else self.w.variable("v", text), result, linear)

    def bounds_of(self, name: str, operands: Sequence[Number]) -> Bounds | None:
        """Return the bounds of a remainder, quotient, mask or shift by a known integer that is not negative."""
        number, by = operands[0], operands[-1].value
        if name == "bitwise_and" and by is None:
            number, by = operands[1], operands[0].value
        if by is None or by < (name in ("remainder", "floor_divide")):
            return None
        low, high = self.w.range_of(number)
        if name in ("bitwise_and", "remainder"):
            return 0, by if name == "bitwise_and" else by - 1
        if name in ("floor_divide", "right_shift") and low >= 0:
            return low // (by if name == "floor_divide" else 2**by), high
        return None

    def folded(self, name: str, operands: Sequence[Number]) -> Number:
        """Compute an operation on known numbers as Python or numpy does."""
        values = [x.value if isinstance(x.kind, type) else x.kind.type(x.value) for x in operands]
        of_python = all(isinstance(x.kind, type) for x in operands) and name in PYTHON
        with np.errstate(all="ignore"):
            try:
                value = (PYTHON[name] if of_python else getattr(np, name))(*values)
            except ArithmeticError as error:
                raise NotCompiled(str(error)) from None
        if isinstance(value, complex):
            raise NotCompiled("a complex number")
        return known(value)

    # --- subscripts and calls ----------------------------------------------------------------------------------------

    def on_Subscript(self, node: ast.Subscript) -> Any:
        owner = self.eval(node.value)
        if is_array(owner):
            return self.loaded(self.part(owner, node.slice))
        if isinstance(owner, tuple):
            at = self.eval(node.slice)
            if isinstance(at, Number) and at.is_known:
                return owner[at.value]
        if isinstance(owner, Constant) and isinstance(owner.value, tuple | list | dict):
            at = self.eval(node.slice)
            if isinstance(at, Number | Constant) and at.value is not None:
                return self.value_of(ast.unparse(node), owner.value[at.value])
        raise NotCompiled(f"`{ast.unparse(node)}`")

    def loaded(self, x: Any) -> Any:
        """Return an array, or the number that an array without dimensions holds."""
        if isinstance(x, Number | Masked) or x.extents:
            return x
        return Number(x.element(self.w, ()), x.dtype)

    def part(self, owner: Any, key: ast.expr) -> Any:
        """Return the part of an array that a key shows; a number is a view without dimensions."""
        parts = [self.key(x) for x in (key.elts if isinstance(key, ast.Tuple) else [key])]
        self.w.at(key)
        if not isinstance(owner, View):
            owner = copied(self.w, owner)
        if parts and is_array(parts[0]):
            if len(parts) == 1 and parts[0].dtype == np.bool_:
                return masks.picked(self.w, owner, parts[0])
            if len(parts) == 1 and parts[0].dtype.kind in "iu":
                check_picked(self.w, parts[0], owner.extents[0])
                return Picked(owner, parts[0])
        if any(is_array(x) for x in parts):
            raise NotCompiled(f"`{ast.unparse(key)}` as an index")
        return indexed(self.w, owner, parts)

    def key(self, node: ast.expr) -> Any:
        """Return a part of a key: a number, None, an ellipsis, an array, or a slice of three parts."""
        if isinstance(node, ast.Slice):
            return slice(*(None if x is None else self.eval(x) for x in (node.lower, node.upper, node.step)))
        value = self.eval(node)
        if isinstance(value, Constant) and value.value in (None, Ellipsis):
            return value.value
        if (isinstance(value, Number) and storage_type(value.kind).kind in "iu") or is_array(value):
            return value
        raise NotCompiled(f"`{ast.unparse(node)}` as an index")

    def on_Call(self, node: ast.Call) -> Any:
        if any(isinstance(x, ast.Starred) for x in node.args) or any(k.arg is None for k in node.keywords):
            raise NotCompiled(f"`{ast.unparse(node)}`")
        function = self.eval(node.func)
        args = [self.eval(x) for x in node.args]
        return self.call(function, args, {str(k.arg): self.eval(k.value) for k in node.keywords})
