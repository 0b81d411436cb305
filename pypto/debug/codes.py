"""Lists every diagnostic by its code: its text, the remedy, and the exception class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent

from pypto.errors import (
    Diagnostic,
    PyptoError,
    advice,
    aot,
    ascend,
    device,
    frontend,
    gradients,
    graph,
    inductor,
    interp,
    ir,
    language,
    launch,
    library,
    project,
    quant,
    routing,
    tuning,
)
from pypto.errors.examples import PRELUDE, Example
from pypto.options import suggestion

_ROOMS = (
    ir,
    frontend,
    launch,
    interp,
    language,
    ascend,
    device,
    tuning,
    aot,
    graph,
    gradients,
    library,
    routing,
    project,
    quant,
    inductor,
    advice,
)


class NoSuchCode(PyptoError, LookupError):
    """No diagnostic has this code."""


@dataclass(frozen=True, slots=True)
class Code:
    """The documentation of a diagnostic."""

    code: str
    name: str
    message: str
    hint: str
    builtin: str
    example: Example

    def __str__(self) -> str:
        kind = f" (a {self.builtin})" if self.builtin else ""
        lines = [f"{self.code}: {self.name}{kind}", f"  says: {self.message}"]
        way = "depends on what is there, and stands below the line" if self.hint == "{way}" else self.hint
        lines += [f"  help: {way}"] if way else []
        for title, program in (("wrong", self.example.wrong), ("right", self.example.right)):
            lines += ["", f"{title}:", indent(program, "    ").rstrip()]
        return "\n".join([*lines, "", "Both begin with:", indent(PRELUDE, "    ").rstrip()])


def subclasses(base: type[Diagnostic]) -> Iterator[type[Diagnostic]]:
    for subclass in base.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def codes() -> dict[str, Code]:
    """Returns every diagnostic of the package, by code.

    Examples
    --------
    >>> codes()["E304"].name
    'WrongGrid'
    """
    assert all(_ROOMS)  # imported, so that every class exists
    ours = sorted((c for c in subclasses(Diagnostic) if c.__module__.startswith("pypto.")), key=lambda c: c.code)
    kinds = (c for c in ours if "code" in vars(c))
    return {c.code: Code(c.code, c.__name__, c.template, c.hint, builtin(c), c.example) for c in kinds}


def builtin(kind: type[Diagnostic]) -> str:
    """Returns the builtin exception as which code may catch it."""
    plain = (Exception, BaseException, object)
    return next((c.__name__ for c in kind.__mro__ if c.__module__ == "builtins" and c not in plain), "")


def find(code: str) -> Code:
    """Finds a diagnostic by its code.

    Raises
    ------
    NoSuchCode
        If there is none.
    """
    known = codes()
    if code.upper() not in known:
        close_codes = suggestion(code.upper(), known)
        raise NoSuchCode(f"no diagnostic has the code {code}{close_codes}; they are {', '.join(known)}")
    return known[code.upper()]
