"""What can be wrong with a launch. All of it is found before any memory is written."""

from __future__ import annotations

from pypto.errors.base import Diagnostic, OptionError


class WrongArguments(Diagnostic, TypeError):
    code = "E301"
    template = "{kernel}: {problem}"
    hint = "{way}"


class UnsupportedArgument(Diagnostic, TypeError):
    code = "E302"
    template = "{kernel}: argument `{arg}` is {got}"
    hint = "{way}"


class ReadOnlyArgument(Diagnostic, TypeError):
    code = "E303"
    template = "{kernel} writes to `{arg}`, which is read-only"
    hint = "make `{arg}` writable before the call; the result is in what you pass, so keep a copy if you pass one"


class WrongGrid(Diagnostic, ValueError):
    code = "E304"
    template = "{kernel}: the grid {grid} is not usable: {problem}"
    hint = (
        "a grid is 1 to 3 whole numbers of 0 or more, or a function of the arguments by name that gives them, "
        "for instance `lambda meta: (pto.cdiv(n, meta['BLOCK']),)`"
    )


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


class WrongDecorator(Diagnostic, TypeError):
    code = "E308"
    template = "{decorator} is given {given}, and takes {wanted}"
    hint = "{way}"


class WrongOption(Diagnostic, OptionError, TypeError):
    code = "E309"
    template = "{function} {problem}"
    hint = "{way}"


class WrongConfiguration(Diagnostic, ValueError):
    code = "E310"
    template = "{kernel}: {problem}"
    hint = "{way}"
