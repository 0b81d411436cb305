"""Diagnostics of the front end: what a kernel's text can get wrong."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class UnknownSyntax(Diagnostic):
    code = "E201"
    template = "{what} cannot be used in a kernel"
    hint = "{way}"


class NoSource(Diagnostic, TypeError):
    code = "E202"
    template = "the source of {name} in {file} is not available: {reason}"
    hint = "define the kernel in a file, a notebook cell or a REPL that keeps its inputs"


class UndefinedName(Diagnostic, NameError):
    code = "E203"
    template = "the name `{name}` is not defined"
    hint = "{way}"


class MaybeUnassigned(Diagnostic, NameError):
    code = "E204"
    template = "`{name}` may be unassigned here: {why}"
    hint = "assign it before, so that it has a value on every path"


class TypeClash(Diagnostic, TypeError):
    code = "E205"
    template = "{what}: {a} on one path and {b} on another; a variable has one type where paths meet"
    hint = "{way}"


class NotConstant(Diagnostic, TypeError):
    code = "E206"
    template = "{what} must be known at compile time, but is a run-time {type}"
    hint = "use a literal, a `pto.constexpr` parameter, or a value computed from these alone"


class NoOperator(Diagnostic, TypeError):
    code = "E207"
    template = "`{symbol}` does not take {a} and {b}"
    hint = "{way}"


class ConstantFailed(Diagnostic, ValueError):
    code = "E208"
    template = "the constant expression fails: {problem}"


class TileCondition(Diagnostic, TypeError):
    code = "E209"
    template = "{where} needs one truth value, but this is {type}"
    hint = "{way}"


class MissingArgument(Diagnostic, TypeError):
    code = "E210"
    template = "{function} misses its argument `{name}`"
    hint = "its signature is {signature}"


class UnknownArgument(Diagnostic, TypeError):
    code = "E211"
    template = "{function} has no argument `{name}`"
    hint = "{way}"


class SurplusArgument(Diagnostic, TypeError):
    code = "E212"
    template = "{function} is given {given} positional arguments, but its limit is {most}"
    hint = "its signature is {signature}"


class RepeatedArgument(Diagnostic, TypeError):
    code = "E213"
    template = "{function} is given its argument `{name}` twice"


class WrongArgument(Diagnostic, TypeError):
    code = "E214"
    template = "{function}: `{name}` must be {wanted}, not {given}"
    hint = "{way}"


class NotCallable(Diagnostic, TypeError):
    code = "E215"
    template = "{what} cannot be called in a kernel"
    hint = "{way}"


class NoAttribute(Diagnostic, AttributeError):
    code = "E216"
    template = "{what} has no attribute `{name}` in a kernel"
    hint = "{way}"


class NotIterable(Diagnostic, TypeError):
    code = "E217"
    template = "cannot iterate over {what}"
    hint = "iterate over `range(...)`, `pto.static_range(...)` or a tuple"


class UnpackMismatch(Diagnostic, ValueError):
    code = "E218"
    template = "cannot unpack {given} into {wanted}"


class TooManyIterations(Diagnostic, ValueError):
    code = "E219"
    template = "unrolling makes more than {limit} iterations"
    hint = "use `range`, which makes a loop, in place of a tuple or `pto.static_range`"


class TooManyOps(Diagnostic, ValueError):
    code = "E239"
    template = "the kernel becomes more than {limit} operations"
    hint = "use `pto.range`, which makes a loop, where one is unrolled; or allow more: `@pto.jit(max_ops=...)`"


class TooDeep(Diagnostic, RecursionError):
    code = "E220"
    template = "calls are nested more than {limit} deep in `{function}`"
    hint = "recursion must end at compile time: let it depend on constants alone"


class SliceExtent(Diagnostic, TypeError):
    code = "E221"
    template = "the extent of a slice must be known at compile time, but {bound} does not simplify to a constant"
    hint = "write the upper bound as the lower one plus a constant, for instance `i:i + BLOCK`"


class IndexCount(Diagnostic, IndexError):
    code = "E222"
    template = "{given} indices, but {what} takes {ndim}"


class BadIndex(Diagnostic, TypeError):
    code = "E223"
    template = "{what} cannot be indexed with {index}"
    hint = "{way}"


class NegativePosition(Diagnostic, IndexError):
    code = "E224"
    template = "{position} is no position of an array: positions start at 0 and do not wrap around"
    hint = "count from the end with the shape, for instance `x.shape[0] - 1`"


class EmptySlice(Diagnostic, ValueError):
    code = "E225"
    template = "the slice has {extent} elements; a tile has at least one"


class StoreShape(Diagnostic, TypeError):
    code = "E226"
    template = "a value of shape {value} does not fit into a slice of shape {target}"
    hint = "sizes of the value must be equal to those of the slice, or 1"


class AssertionFailed(Diagnostic, AssertionError):
    code = "E227"
    template = "assertion failed{message}"


class ReturnInKernel(Diagnostic, TypeError):
    code = "E228"
    template = "a kernel returns nothing, but this returns {what}"
    hint = "store the result into an array argument"


class ReturnOnSomePaths(Diagnostic, TypeError):
    code = "E229"
    template = "`{function}` returns a value on some paths only"
    hint = "end every path with a `return` of one type"


class UnsupportedGlobal(Diagnostic, TypeError):
    code = "E230"
    template = "`{name}` is {what}, which a kernel cannot read from outside"
    hint = "{way}"


class ZeroStep(Diagnostic, ValueError):
    code = "E231"
    template = "the step of a range must not be 0"


class LoopBound(Diagnostic, TypeError):
    code = "E232"
    template = "{what} of a range must be an integer, not {given}"


class EndlessLoop(Diagnostic, ValueError):
    code = "E233"
    template = "this loop never ends: its condition is always true, and nothing in it breaks or returns"


class RuntimeFormat(Diagnostic, TypeError):
    code = "E234"
    template = "an f-string holds constants only, but `{text}` is a run-time {type}"
    hint = 'print run-time values as arguments of their own: `print("x", x)`'


class HostFunction(Diagnostic, TypeError):
    code = "E235"
    template = "{function} is a function of the host and takes constants only, but `{text}` is a run-time {type}"
    hint = "{way}"


class OutsideKernel(Diagnostic, RuntimeError):
    code = "E236"
    template = "pto.{name} can be called inside a kernel only"
    hint = "put the call into a function under `@pto.jit` and launch it as `kernel[grid](...)`"


class AssignTarget(Diagnostic, TypeError):
    code = "E237"
    template = "cannot assign to {what}"
    hint = "{way}"


class RangeOutsideLoop(Diagnostic, TypeError):
    code = "E238"
    template = "a range with run-time bounds can only stand in a `for`"
