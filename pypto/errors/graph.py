"""What can be wrong with a function on arrays that is traced into a Tensor graph."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final

from pypto.errors.base import CompilerBug, Diagnostic
from pypto.errors.examples import Example, programs


def traced(wrong: str, right: str) -> Example:
    """Bodies of a function on arrays, which is traced."""
    head = "from pypto.graph import trace\n\ndef f(x, y):\n"
    return Example(*(f"{head}    {body}\n\ntrace(f, x, y)\n" for body in (wrong, right)))


REFUSALS: Final[ContextVar[list[Diagnostic] | None]] = ContextVar("refusals", default=None)
"""The refusals of the trace that runs: one that the traced function handles with `except` is raised at its end."""


class Refusal:
    """A refusal that notes itself with the trace that runs."""

    def __init__(self, *args: Any, **fields: Any) -> None:
        super().__init__(*args, **fields)
        refusals = REFUSALS.get()
        if refusals is not None and isinstance(self, Diagnostic):
            refusals.append(self)


class NeedsValue(Refusal, Diagnostic, TypeError):
    code = "E341"
    template = "{what} needs the value of an array, and while a function is traced only its type is known: {type}"
    hint = "{way}"
    example = traced("return x if x > 0 else y", "return np.where(x > 0, x, y)")


class NotTraced(Refusal, Diagnostic, TypeError):
    code = "E342"
    template = "{what} cannot be traced: {problem}"
    hint = "{way}"
    example = traced("return np.unique(x)", "return np.sort(x)")


class WrongShapes(Diagnostic, ValueError):
    code = "E343"
    template = "{what}: {problem}"
    example = traced("return x[:3] + y", "return x[:3] + y[:3]")


class SharedMemory(Diagnostic, RuntimeError):
    code = "E344"
    template = "whether {what} is a view or a copy here depends on memory order, and one of them is written"
    hint = "write `.copy()` behind the reshape where a copy is meant, or write to the array before it is reshaped"
    example = traced(
        "z = (np.ones((2, 4), np.float32) + x.reshape(4, 2).T).reshape(8); z += y; return z",
        "z = (np.ones((2, 4), np.float32) + x.reshape(4, 2).T).reshape(8).copy(); z += y; return z",
    )


class WrongDims(Diagnostic, ValueError):
    code = "E346"
    template = "{what}: {problem}"
    example = programs(
        """
        from pypto.arrays import Dim

        f = pto.fuse(lambda x: np.exp(x), dims={"x": (Dim("n", 1, 100),)})

        f(np.ones(101, np.float32))
        """,
        """
        from pypto.arrays import Dim

        f = pto.fuse(lambda x: np.exp(x), dims={"x": (Dim("n", 1, 200),)})

        f(np.ones(101, np.float32))
        """,
    )


class WrongOut(Diagnostic, ValueError):
    code = "E347"
    template = "{what}: {problem}"
    hint = "give a new array for this result, or leave it out; of two arguments that overlap, pass a copy"
    example = programs(
        """
        f = pto.fuse(lambda x: x + 1)
        x = np.zeros(8, np.float32)

        f(x, out=x)
        """,
        """
        f = pto.fuse(lambda x: x + 1)
        x = np.zeros(8, np.float32)

        f(x, out=np.empty_like(x))
        """,
    )


class MixedLibraries(Diagnostic, TypeError):
    code = "E336"
    template = "{kernel}: `{arg}` is an array of {library}, and `{other}` one of {second}; a call takes one library's"
    hint = "{way}"
    example = programs(
        """
        import torch

        f = pto.fuse(lambda x, y: x + y)

        f(torch.ones(8), np.ones(8, np.float32))
        """,
        """
        import torch

        f = pto.fuse(lambda x, y: x + y)

        f(torch.ones(8), torch.from_numpy(np.ones(8, np.float32)))
        """,
    )


class UntrackedGradient(Diagnostic, RuntimeError):
    code = "E337"
    template = "{kernel}: `{arg}` {what}, and no gradient would flow through a fused function"
    hint = (
        "pass `{arg}.detach()`, or call it under `torch.no_grad()`; operators with gradients are made by "
        "`pypto.torch.op`, and models are compiled by `torch.compile`"
    )
    example = programs(
        """
        import torch

        f = pto.fuse(lambda x: np.exp(x))

        f(torch.ones(8, requires_grad=True))
        """,
        """
        import torch

        f = pto.fuse(lambda x: np.exp(x))

        with torch.no_grad():
            f(torch.ones(8, requires_grad=True))
        """,
    )


class ArrayDiffers(Diagnostic, AssertionError):
    code = "E348"
    template = (
        "{function} computes something else than numpy: {array}, element [{index}] is {got}, and {expected} in numpy"
        "{ulp}; {count} of {total} elements differ; {told}"
    )
    hint = "if sums in another order explain it, allow more: `pto.verify(f, ..., rtol=...)`; else please report it"
    example = programs(
        """
        f = pto.fuse(lambda x: np.exp(x).sum())

        for seed in range(20):
            pto.verify(f, np.random.default_rng(seed).random(5001, np.float32), rtol=0, atol=0)
        """,
        """
        f = pto.fuse(lambda x: np.exp(x).sum())

        for seed in range(20):
            pto.verify(f, np.random.default_rng(seed).random(5001, np.float32))
        """,
    )


class NotTuned(Diagnostic, ValueError):
    code = "E349"
    template = "`{function}` cannot be tuned: {problem}"
    hint = "{way}"
    example = programs(
        """
        f = pto.fuse(lambda x: np.exp(x) + 1)

        f.tune(np.ones(8, np.float32), budget=0)
        """,
        """
        f = pto.fuse(lambda x: np.exp(x) + 1)

        f.tune(np.ones(8, np.float32), budget=0.1)
        """,
    )


class EmptyMask(Diagnostic, ValueError):
    code = "E356"
    template = "{what} of the elements that a mask picks has no value: it picks none"
    hint = "give the value for no element: `np.where(mask, x, -np.inf).max()`"
    example = programs(
        """
        f = pto.fuse(lambda x: x[x > 1].max())

        f(np.zeros(4, np.float32))
        """,
        """
        f = pto.fuse(lambda x: np.where(x > 1, x, -np.inf).max())

        f(np.zeros(4, np.float32))
        """,
    )


class OtherShape(Diagnostic, ValueError):
    code = "E357"
    template = "`{function}` returned an array of shape {shape}, and the plan expects {planned}"
    hint = "its shape depends on values: fix it (`minlength=` of `np.bincount`), or call it outside of the function"
    example = programs(
        """
        f = pto.fuse(lambda x: np.bincount(x, minlength=4))

        f(np.array([1, 7]))
        """,
        """
        f = pto.fuse(lambda x: np.bincount(x, minlength=8))

        f(np.array([1, 7]))
        """,
    )


class IndexOutside(Diagnostic, IndexError):
    code = "E358"
    template = "index {index} is out of bounds for axis {axis} with size {size}"
    hint = "no argument of the function has changed; compare the index with the size before the call"
    example = programs(
        """
        @pto.fuse
        def picked(x, where):
            total = 0.0
            for i in range(where.size):
                total += x[where[i]]
            return total

        picked(np.ones(100), np.arange(101))
        """,
        """
        @pto.fuse
        def picked(x, where):
            total = 0.0
            for i in range(where.size):
                total += x[where[i]]
            return total

        picked(np.ones(100), np.arange(100))
        """,
    )


class IntegerOutside(Diagnostic, OverflowError):
    code = "E359"
    template = "Python integer {value} out of bounds for {dtype}"
    hint = "compute in a wider type, or convert it: `np.int64(…)`; no argument of the function has changed"
    example = programs(
        """
        @pto.fuse
        def counted(x):
            for i in range(x.size):
                x[i] = i
            return x

        counted(np.zeros(300, np.uint8))
        """,
        """
        @pto.fuse
        def counted(x):
            for i in range(x.size):
                x[i] = i % 256
            return x

        counted(np.zeros(300, np.uint8))
        """,
    )


class NegativePower(Diagnostic, ValueError):
    code = "E354"
    template = "integers to negative integer powers are not allowed: {problem}"
    hint = "raise floats: `x.astype(np.float64) ** k`, or choose exponents of at least 0 by `np.maximum(k, 0)`"
    example = programs(
        """
        f = pto.fuse(lambda x, k: x**k)

        f(np.arange(1, 4), np.arange(-1, 2))
        """,
        """
        f = pto.fuse(lambda x, k: x.astype(np.float64) ** k)

        f(np.arange(1, 4), np.arange(-1, 2))
        """,
    )


class WrongKeyword(Diagnostic, TypeError):
    code = "E355"
    template = "`{function}` has no argument `{name}`: it takes {taken}"
    hint = "{way}"
    example = programs(
        """
        import pypto.arrays as pt

        pt.softmax(np.zeros((2, 3), np.float32), dim=0)
        """,
        """
        import pypto.arrays as pt

        pt.softmax(np.zeros((2, 3), np.float32), axis=0)
        """,
    )


class OutsideWritten(Diagnostic, TypeError):
    code = "E393"
    template = "{what} is set while its function is traced, and would be set in the first call alone"
    hint = (
        "return the new value, and set it outside of the fused function; an array may be updated in place: "
        "`self.w[...] = …`, `self.w -= …`"
    )
    example = programs(
        """
        class Model:
            def __init__(self):
                self.calls = 0

            @pto.fuse
            def forward(self, x):
                self.calls += 1
                return x + self.calls

        Model().forward(np.ones(3, np.float32))
        """,
        """
        class Model:
            def __init__(self):
                self.calls = np.zeros((), np.float32)

            @pto.fuse
            def forward(self, x):
                self.calls += 1
                return x + self.calls

        Model().forward(np.ones(3, np.float32))
        """,
    )


class InvalidGraph(Diagnostic, CompilerBug):
    """A Tensor graph that the verifier rejects."""

    code = "E903"
    template = "invalid Tensor graph in `{op}`: {problem}"
    hint = "the tracer or a pass made this graph, so this is a fault of pypto: please report it with the function"
    example = programs(
        """
        from pypto.graph import parse_graph, verify

        verify(parse_graph("graph @f(%0: f32[2]) { %1: f32[3] = exp %0 return %1 }"))
        """,
        """
        from pypto.graph import parse_graph, verify

        verify(parse_graph("graph @f(%0: f32[2]) { %1: f32[2] = exp %0 return %1 }"))
        """,
    )


class NoKernel(Diagnostic, NotImplementedError):
    code = "E345"
    template = "`{op}` on {type} has no form as a kernel: {problem}"
    hint = "compute it outside of the fused function, or split the axis that is too long"
    example = programs(
        """
        from pypto.arrays import Dim

        f = pto.fuse(lambda x: np.sort(x) + 1, dims={"x": (Dim("n", 1, 1 << 20),)})
        f(np.ones(1_000_000, np.float32))
        """,
        """
        f = pto.fuse(lambda x: np.sort(x) + 1)
        f(np.ones(1_000_000, np.float32))
        """,
    )
