"""What the interpreter, and a checked kernel, find wrong while a kernel runs."""

from __future__ import annotations

from pypto.errors.base import Diagnostic
from pypto.errors.examples import CHECKED, INTERPRETED, bodies, programs


class OutOfBounds(Diagnostic, IndexError):
    code = "E401"
    template = "{what} out of bounds: {array}[{index}] in program {program}; the shape is {shape}"
    hint = "mask the access, for instance `mask=offsets < n`, or slice the array, which clips by itself"
    example = bodies(
        "pto.store(y + pto.arange(0, 16), 1.0)", "i = pto.arange(0, 16)\npto.store(y + i, 1.0, mask=i < n)", INTERPRETED
    )


class WildPointer(Diagnostic, IndexError):
    code = "E402"
    template = "{what} through a pointer that belongs to no argument, in program {program}"
    hint = "start at an array argument; arrays behind mere addresses are named: `pto.interpret(kernel, memory=(a, b))`"
    example = bodies(
        "p = n.to(pto.int64).to(pto.pointer_type(pto.float32))\ny[0] = pto.load(p)",
        "y[0] = pto.load(x + 1)",
        INTERPRETED,
    )


class UninitializedRead(Diagnostic):
    code = "E403"
    template = "read before written: {array}[{index}] in program {program}"
    hint = "the array was declared uninitialized; write the element first, or initialise the array before the launch"
    example = bodies("y[:] += x[:]", "y[:] = x[:]", "pto.interpret(f, uninitialized=('y',))[(1,)](x, y, 8)")


class WriteRace(Diagnostic):
    code = "E404"
    template = "two programs write one element: {array}[{index}], program {first} and program {program}"
    hint = "programs run in any order: give each program elements of its own"
    example = bodies(
        "y[0] = pto.program_id(0)", "y[pto.program_id(0)] = 1", "with pto.checked():\n    f[(2,)](x, y, 8)"
    )


class KernelAssertion(Diagnostic, AssertionError):
    code = "E405"
    template = "assertion failed in program {program}{message}"
    example = bodies("assert n < 8, 'fewer'\ny[0] = n", "assert n <= 8, 'not more'\ny[0] = n", INTERPRETED)


class CompiledDiffers(Diagnostic, AssertionError):
    code = "E407"
    template = (
        "{kernel} computes something else when it is compiled: {array}[{index}] is {got}, and {expected} when "
        "interpreted; {count} of {total} elements differ, the first one in program {program}, {element}"
    )
    hint = "if sums in another order explain it, allow more: `pto.verify(kernel, rtol=...)`; else please report it"
    example = programs(
        """
        @pto.jit
        def f(x, y):
            y[0] = pto.sum(x[:])

        for seed in range(20):
            pto.verify(f, rtol=0, atol=0)[(1,)](np.random.default_rng(seed).random(5001, np.float32), y)
        """,
        """
        @pto.jit
        def f(x, y):
            y[0] = pto.sum(x[:])

        for seed in range(20):
            pto.verify(f)[(1,)](np.random.default_rng(seed).random(5001, np.float32), y)
        """,
    )


class ZeroStep(Diagnostic, ValueError):
    code = "E406"
    template = "the step of a range is 0 in program {program}"
    hint = "use a step other than 0"
    example = bodies(
        "for i in range(0, n, n - 8):\n    y[i] = 1", "for i in range(0, n, n - 7):\n    y[i] = 1", INTERPRETED
    )


class IndexOverflow(Diagnostic, OverflowError):
    code = "E408"
    template = "index arithmetic leaves the range of {dtype} in program {program}"
    hint = "compute the index in 64 bits, for instance `pto.program_id(0).to(pto.int64)`"
    example = bodies(
        "i = (pto.program_id(0) + 6) * (n << 26)\npto.store(y + i // (n << 26), 1.0)",
        "i = (pto.program_id(0) + 6).to(pto.int64) * (n << 26)\npto.store(y + i // (n << 26), 1.0)",
        CHECKED,
    )


class GatherOutOfRange(Diagnostic, IndexError):
    code = "E409"
    template = "gather out of range: index {index} along {where}, in program {program}"
    hint = "keep the indices between 0 and the size of the axis"
    example = bodies(
        "y[:] = pto.gather(x[:], pto.arange(1, 9), 0)",
        "y[:] = pto.gather(x[:], pto.minimum(pto.arange(1, 9), 7), 0)",
        CHECKED,
    )
