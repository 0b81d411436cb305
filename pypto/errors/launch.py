"""What can be wrong with a launch. All of it is found before any memory is written."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, PyptoWarning


class WrongArguments(Diagnostic, TypeError):
    code = "E301"
    template = "{kernel}: {problem}"


class UnsupportedArgument(Diagnostic, TypeError):
    code = "E302"
    template = "{kernel}: argument `{arg}` is {got}"
    hint = "{way}"


class ReadOnlyArgument(Diagnostic, TypeError):
    code = "E303"
    template = "{kernel} writes to `{arg}`, which is read-only"
    hint = "make `{arg}` writable before the call; the result is in what you pass, so keep a copy if you pass one"


class RecordedArgument(Diagnostic, RuntimeError):
    code = "E315"
    template = "{kernel} writes to `{arg}`, a tensor that requires grad, and autograd cannot differentiate that"
    hint = "launch under `torch.no_grad()` or in a torch.autograd.Function, or pass `{arg}.detach()`"


class TracedLaunch(Diagnostic, RuntimeError):
    code = "E316"
    template = "{kernel} cannot be launched in a graph of torch.compile: {problem}"
    hint = "launch it outside of the compiled function, or under `torch.compiler.disable`"


class WrongGrid(Diagnostic, ValueError):
    code = "E304"
    template = "{kernel}: the grid {grid} is not usable: {problem}"
    hint = "a grid is 1 to 3 whole numbers of 0 or more, or a function of the constexpr arguments that gives them"


class TooLarge(Diagnostic, OverflowError):
    code = "E305"
    template = "{kernel}: {arg} = {value} does not fit into 64 bits"


class NeedsShape(Diagnostic, TypeError):
    code = "E306"
    template = "{kernel}: a tile's extent depends on dimension {dim} of `{arg}`, which is annotated `pto.dynamic`"
    hint = "remove the annotation, or give the extent as a constexpr argument"


class NotLaunched(Diagnostic, TypeError):
    code = "E307"
    template = "{kernel} is a kernel and is launched over a grid"
    hint = "write {kernel}[grid](...), for instance {kernel}[(16,)](...)"


class BusyWaiting(Diagnostic, PyptoWarning):
    code = "E322"
    template = "{kernel}: this loop waits for what another program stores, which may be for ever"
    hint = (
        "each thread runs its programs one after the other, in the order of the grid: a program may wait for one "
        "before it (with an atomic, as in `pto.atomic_add(flag, 0)`: a plain load may be made once only), and never "
        "for one behind it; launch a second kernel for what has to come after all programs"
    )
