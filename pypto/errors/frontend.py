"""Diagnostics of the front end: what a kernel's text can get wrong."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import bodies, programs


class UnknownSyntax(Diagnostic):
    code = "E201"
    template = "{what} cannot be used in a kernel"
    hint = "{way}"
    example = bodies("raise ValueError", "assert n == 8, 'eight'")


class NoSource(Diagnostic, TypeError):
    code = "E202"
    template = "the source of {name} in {file} is not available: {reason}"
    hint = "define the kernel in a file, a notebook cell or a REPL that keeps its inputs"
    example = programs(
        """
        names = {"pto": pto}
        exec("@pto.jit\\ndef f(x):\\n    x[0] = 1", names)
        names["f"][(1,)](x)
        """,
        """
        @pto.jit
        def f(x):
            x[0] = 1

        f[(1,)](x)
        """,
    )


class UndefinedName(Diagnostic, NameError):
    code = "E203"
    template = "the name `{name}` is not defined"
    hint = "{way}"
    example = bodies("y[:] = scale * x[:]", "scale = 2\ny[:] = scale * x[:]")


class MaybeUnassigned(Diagnostic, NameError):
    code = "E204"
    template = "`{name}` may be unassigned here: {why}"
    hint = "assign it before, so that it has a value on every path"
    example = bodies("if n > 4:\n    v = 1\ny[0] = v", "v = 0\nif n > 4:\n    v = 1\ny[0] = v")


class TypeClash(Diagnostic, TypeError):
    code = "E205"
    template = "{what}: {a} on one path and {b} on another; a variable has one type where paths meet"
    hint = "{way}"
    example = bodies("v = x[0:4]\nif n > 4:\n    v = x[:]\ny[:] = v", "v = x[:]\nif n > 4:\n    v = x[:] * 2\ny[:] = v")


class NotConstant(Diagnostic, TypeError):
    code = "E206"
    template = "{what} must be known at compile time, but {problem}"
    hint = "use a literal, a `pto.constexpr` parameter, or a value computed from these alone"
    example = bodies("y[:] = pto.full((n,), 1.0, pto.float32)", "y[:] = pto.full((8,), 1.0, pto.float32)")


class NoOperator(Diagnostic, TypeError):
    code = "E207"
    template = "`{symbol}` does not take {a} and {b}"
    hint = "{way}"
    example = bodies("y[:] = x * 2", "y[:] = x[:] * 2")


class ConstantFailed(Diagnostic, ValueError):
    code = "E208"
    template = "the constant expression fails: {problem}"
    example = bodies("y[0] = 1 // 0", "y[0] = 1 // 2")


class TileCondition(Diagnostic, TypeError):
    code = "E209"
    template = "{where} needs one truth value, but this is {type}"
    hint = "{way}"
    example = bodies("if x[:] > 0:\n    y[:] = 1", "y[:] = pto.where(x[:] > 0, 1.0, 0.0)")


class MissingArgument(Diagnostic, TypeError):
    code = "E210"
    template = "{function} misses {missing}"
    hint = "its signature is {signature}"
    example = bodies("y[:] = pto.where(x[:] > 0, 1.0)", "y[:] = pto.where(x[:] > 0, 1.0, 0.0)")


class UnknownArgument(Diagnostic, TypeError):
    code = "E211"
    template = "{function} has no argument `{name}`"
    hint = "{way}"
    example = bodies("y[0] = pto.sum(x[:], axes=0)", "y[0] = pto.sum(x[:], axis=0)")


class SurplusArgument(Diagnostic, TypeError):
    code = "E212"
    template = "{function} is given {given} positional arguments, but its limit is {most}"
    hint = "its signature is {signature}"
    example = bodies("y[0] = pto.program_id(0, 1)", "y[0] = pto.program_id(0)")


class RepeatedArgument(Diagnostic, TypeError):
    code = "E213"
    template = "{function} is given its argument `{name}` twice"
    example = bodies("y[0] = pto.sum(x[:], 0, axis=0)", "y[0] = pto.sum(x[:], 0)")


class WrongArgument(Diagnostic, TypeError):
    code = "E214"
    template = "{function}: `{name}` must be {wanted}, not {given}"
    hint = "{way}"
    example = bodies("y[:] = pto.exp(x)", "y[:] = pto.exp(x[:])")


class NotCallable(Diagnostic, TypeError):
    code = "E215"
    template = "{what} cannot be called in a kernel"
    hint = "{way}"
    example = bodies("y[0] = n(3)", "y[0] = n * 3")


class NoAttribute(Diagnostic, AttributeError):
    code = "E216"
    template = "{what} has no attribute `{name}` in a kernel"
    hint = "{way}"
    example = bodies("y[0] = x.sum()", "y[0] = x[:].sum()")


class NoTargetFact(Diagnostic, AttributeError):
    code = "E240"
    template = "the target {target} has no fact `{name}`"
    hint = "it has {known}; take what it lacks as a `pto.constexpr` parameter"
    example = bodies("y[0] = pto.target.cube_cores", "y[0] = pto.target.cores")


class NotIterable(Diagnostic, TypeError):
    code = "E217"
    template = "cannot iterate over {what}"
    hint = "{way}"
    example = bodies("for i in n:\n    y[i] = 1", "for i in range(n):\n    y[i] = 1")


class UnpackMismatch(Diagnostic, ValueError):
    code = "E218"
    template = "cannot unpack {given} into {wanted}"
    example = bodies("a, b = (1, 2, 3)\ny[0] = a + b", "a, b, c = (1, 2, 3)\ny[0] = a + b + c")


class TooManyIterations(Diagnostic, ValueError):
    code = "E219"
    template = "unrolling makes more than {limit} iterations"
    hint = "use `range`, which makes a loop, in place of a tuple or `pto.static_range`"
    example = bodies("for i in pto.static_range(20_000):\n    y[0] += 1", "for i in range(20_000):\n    y[0] += 1")


class TooManyOps(Diagnostic, ValueError):
    code = "E239"
    template = "the kernel becomes more than {limit} operations"
    hint = "use `pto.range`, which makes a loop, where one is unrolled; or allow more: `@pto.jit(max_ops=...)`"
    example = programs(
        """
        @pto.jit(max_ops=100)
        def f(y):
            for i in pto.static_range(100):
                y[0] += i

        f[(1,)](y)
        """,
        """
        @pto.jit(max_ops=100)
        def f(y):
            for i in range(100):
                y[0] += i

        f[(1,)](y)
        """,
    )


class TooDeep(Diagnostic, RecursionError):
    code = "E220"
    template = "calls are nested more than {limit} deep in `{function}`"
    hint = "recursion must end at compile time: let it depend on constants alone"
    example = programs(
        """
        def power(k):
            return 2 * power(k - 1)

        @pto.jit
        def f(y):
            y[0] = power(3)

        f[(1,)](y)
        """,
        """
        def power(k):
            return 1 if k == 0 else 2 * power(k - 1)

        @pto.jit
        def f(y):
            y[0] = power(3)

        f[(1,)](y)
        """,
    )


class SliceExtent(Diagnostic, TypeError):
    code = "E221"
    template = "the extent of a slice must be known at compile time, but {problem}"
    hint = "{way}"
    example = bodies("y[0:n] = x[0:n]", "y[0:8] = x[0:8]")


class IndexCount(Diagnostic, IndexError):
    code = "E222"
    template = "{given} indices, but {what} takes {ndim}"
    example = bodies("y[0] = x[0, 0]", "y[0] = x[0]")


class BadIndex(Diagnostic, TypeError):
    code = "E223"
    template = "unsupported tensor index: {what} cannot be indexed with {index}"
    hint = "{way}"
    example = bodies("y[:] = x[::-1]", "y[:] = pto.flip(x[:])")


class NegativePosition(Diagnostic, IndexError):
    code = "E224"
    template = "{position} is no position of an array: positions start at 0 and do not wrap around"
    hint = "count from the end with the shape, for instance `x.shape[0] - 1`"
    example = bodies("y[0] = x[-1]", "y[0] = x[x.shape[0] - 1]")


class EmptySlice(Diagnostic, ValueError):
    code = "E225"
    template = "the slice has {extent} elements; a tile has at least one"
    hint = "{way}"
    example = bodies("y[0] = pto.sum(x[4:4])", "y[0] = pto.sum(x[4:8])")


class StoreShape(Diagnostic, TypeError):
    code = "E226"
    template = "a value of shape {value} does not fit into a slice of shape {target}"
    hint = "sizes of the value must be equal to those of the slice, or 1"
    example = bodies("y[0:4] = x[:]", "y[0:4] = x[0:4]")


class AssertionFailed(Diagnostic, AssertionError):
    code = "E227"
    template = "assertion failed{message}"
    example = bodies("pto.static_assert(x.ndim == 2, 'a matrix')", "pto.static_assert(x.ndim == 1, 'a vector')")


class ReturnInKernel(Diagnostic, TypeError):
    code = "E228"
    template = "a kernel returns nothing, but this returns {what}"
    hint = "store the result into an array argument"
    example = bodies("return x[:]", "y[:] = x[:]")


class ReturnOnSomePaths(Diagnostic, TypeError):
    code = "E229"
    template = "`{function}` returns a value on some paths only"
    hint = "end every path with a `return` of one type"
    example = programs(
        """
        def sign(v):
            if v > 0:
                return 1

        @pto.jit
        def f(y, n):
            y[0] = sign(n)

        f[(1,)](y, 8)
        """,
        """
        def sign(v):
            if v > 0:
                return 1
            return -1

        @pto.jit
        def f(y, n):
            y[0] = sign(n)

        f[(1,)](y, 8)
        """,
    )


class UnsupportedGlobal(Diagnostic, TypeError):
    code = "E230"
    template = "`{name}` is {what}, which a kernel cannot read from outside"
    hint = "{way}"
    example = programs(
        """
        WEIGHTS = [1, 2]

        @pto.jit
        def f(y):
            y[0] = WEIGHTS[0]

        f[(1,)](y)
        """,
        """
        WEIGHTS = (1, 2)

        @pto.jit
        def f(y):
            y[0] = WEIGHTS[0]

        f[(1,)](y)
        """,
    )


class ZeroStep(Diagnostic, ValueError):
    code = "E231"
    template = "the step of a range must not be 0"
    example = bodies("for i in range(0, n, 0):\n    y[i] = 1", "for i in range(0, n, 2):\n    y[i] = 1")


class LoopBound(Diagnostic, TypeError):
    code = "E232"
    template = "{what} of a range must be an integer, not {given}"
    example = bodies("for i in range(2.5):\n    y[i] = 1", "for i in range(2):\n    y[i] = 1")


class EndlessLoop(Diagnostic, ValueError):
    code = "E233"
    template = "this loop never ends: its condition is always true, and nothing in it breaks or returns"
    example = bodies("while True:\n    y[0] += 1", "while y[0] < 4:\n    y[0] += 1")


class RuntimeFormat(Diagnostic, TypeError):
    code = "E234"
    template = "an f-string holds constants only, but `{text}` is a run-time {type}"
    hint = 'print run-time values as arguments of their own: `print("x", x)`'
    example = bodies("pto.static_print(f'n is {n}')", "pto.static_print('n is', n)")


class HostFunction(Diagnostic, TypeError):
    code = "E235"
    template = "{function} is a function of the host and takes constants only, but `{text}` is a run-time {type}"
    hint = "{way}"
    example = bodies("y[0] = float(n)", "y[0] = n.to(pto.float32)")


class OnlyAnAnnotation(Diagnostic, TypeError):
    code = "E394"
    template = "pto.tensor is an annotation of parameters, and makes no array"
    hint = "arrays are those of numpy: `np.asarray(x)`; `pypto.arrays.lazy(x)` makes one of which operations are noted"
    example = programs(
        """
        pto.tensor(x)
        """,
        """
        import pypto.arrays as pt

        pt.lazy(x)
        """,
    )


class OutsideKernel(Diagnostic, RuntimeError):
    code = "E236"
    template = "pto.{name} can be called inside a kernel only"
    hint = (
        "put the call into a function under `@pto.jit` and launch it as `kernel[grid](...)`; functions on whole arrays "
        "are those of numpy and of `pypto.arrays`"
    )
    example = programs(
        """
        y[:] = pto.exp(x)
        """,
        """
        @pto.jit
        def f(x, y):
            y[:] = pto.exp(x[:])

        f[(1,)](x, y)
        """,
    )


class AssignTarget(Diagnostic, TypeError):
    code = "E237"
    template = "cannot assign to {what}"
    hint = "{way}"
    example = bodies("t = x[:]\nt[0] = 2\ny[:] = t", "y[:] = pto.where(pto.arange(0, 8) == 0, 2.0, x[:])")
