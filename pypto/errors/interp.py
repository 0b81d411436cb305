"""What the interpreter, and a checked kernel, find wrong while a kernel runs."""

from __future__ import annotations

from pypto.errors.base import Diagnostic


class OutOfBounds(Diagnostic, IndexError):
    code = "E401"
    template = "{what} out of bounds: {array}[{index}] in program {program}; the shape is {shape}"
    hint = "mask the access, for instance `mask=offsets < n`, or slice the array, which clips by itself"


class WildPointer(Diagnostic, IndexError):
    code = "E402"
    template = "{what} through a pointer that belongs to no argument, in program {program}"
    hint = "start at an array argument; arrays behind mere addresses are named: `pto.interpret(kernel, memory=(a, b))`"


class UninitializedRead(Diagnostic):
    code = "E403"
    template = "read before written: {array}[{index}] in program {program}"
    hint = "the array was declared uninitialized; write the element first, or initialise the array before the launch"


class WriteRace(Diagnostic):
    code = "E404"
    template = "two programs write one element: {array}[{index}], program {first} and program {program}"
    hint = "programs run in any order: give each program elements of its own"


class KernelAssertion(Diagnostic, AssertionError):
    code = "E405"
    template = "assertion failed in program {program}{message}"


class CompiledDiffers(Diagnostic, AssertionError):
    code = "E407"
    template = (
        "{kernel} computes something else when it is compiled: {array}[{index}] is {got}, and {expected} when "
        "interpreted; {count} of {total} elements differ, the first one in program {program}, {element}"
    )
    hint = "if sums in another order explain it, allow more: `pto.verify(kernel, rtol=...)`; else please report it"


class ZeroStep(Diagnostic, ValueError):
    code = "E406"
    template = "the step of a range is 0 in program {program}"
    hint = "use a step other than 0"


class IndexOverflow(Diagnostic, OverflowError):
    code = "E408"
    template = "index arithmetic leaves the range of {dtype} in program {program}"
    hint = "compute the index in 64 bits, for instance `pto.program_id(0).to(pto.int64)`"


class GatherOutOfRange(Diagnostic, IndexError):
    code = "E409"
    template = "gather out of range: index {index} along {where}, in program {program}"
    hint = "keep the indices between 0 and the size of the axis"
