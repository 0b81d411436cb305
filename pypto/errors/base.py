"""The one shape of a diagnostic: what is wrong, where, the source with a caret, and the way out."""

from __future__ import annotations

import linecache
from typing import Any, ClassVar

from pypto.errors.examples import Example
from pypto.loc import Loc


class PyptoError(Exception):
    """Base of every error that pypto raises."""


class PyptoWarning(UserWarning):
    """Base of every warning that pypto gives."""


class CacheWarning(PyptoWarning):
    """The disk cache cannot be used as it should; calls go on without it."""


class SlowCompilation(PyptoWarning):
    """A kernel takes long to compile, by a loop that is unrolled."""


class OptionError(PyptoError, ValueError):
    """An option or environment variable has a value that cannot be used."""


class CompilerBug(PyptoError, RuntimeError):
    """A fault of pypto itself, never of the kernel: please report it with the text."""


class Diagnostic(PyptoError):
    """An error in a kernel or in its launch.

    A subclass is one mistake: it states `code`, the `template` of its message, an `example` and, where there is a way
    out, a `hint`. Template and hint are filled from the keyword arguments.

    Parameters
    ----------
    loc : Loc, optional
        The span that gets the caret. Diagnostics of a launch have none.
    others : tuple of (str, Loc)
        Further spans with what they show, for mistakes where two places disagree.
    **fields
        What the template and the hint name.
    """

    code: ClassVar[str] = "E000"
    template: ClassVar[str] = "{message}"
    hint: ClassVar[str] = ""
    example: ClassVar[Example]

    def __init__(self, loc: Loc | None = None, others: tuple[tuple[str, Loc], ...] = (), **fields: Any) -> None:
        self.loc = loc
        self.others = others
        self.fields = fields
        super().__init__(self.render())

    def __reduce__(self) -> Any:
        """A process of a pool hands an error to the one that waits for it."""
        fields = {name: x if isinstance(x, str | int | float) else str(x) for name, x in self.fields.items()}
        return restored, (type(self), str(self), self.loc, self.others, fields)

    def place(self, loc: Loc) -> None:
        """Give a diagnostic that was raised without a place the one that it is about."""
        self.loc = loc
        self.args = (self.render(),)

    @property
    def message(self) -> str:
        """The first line of the text, without the place."""
        return self.template.format(**self.fields)

    @property
    def error_message(self) -> str:
        """The message, under the name that Triton's errors use."""
        return self.message

    def _render_traceback_(self) -> list[str]:
        """What IPython shows in place of a traceback."""
        from pypto.errors.notebook import rendered

        locs = [*(loc for _, loc in self.others), *(self.loc.chain if self.loc else ())]
        return rendered(str(self), locs, self)

    def render(self) -> str:
        """The whole text: message, spans with carets, call sites, hint."""
        lines = [f"[{self.code}] {self.message}"]
        if self.loc is not None:
            lines += snippet(self.loc)
            lines += call_sites(self.loc)
        for label, loc in self.others:
            lines += [f"  {label}:", *snippet(loc)]
        hint = self.hint.format(**self.fields)
        return "\n".join([*lines, f"  help: {hint}"] if hint else lines)


def restored(
    kind: type[Diagnostic], text: str, loc: Loc | None, others: tuple[tuple[str, Loc], ...], fields: dict[str, Any]
) -> Diagnostic:
    """A diagnostic that was pickled."""
    error = kind.__new__(kind, text)
    error.loc, error.others, error.fields, error.args = loc, others, fields, (text,)
    return error


def snippet(loc: Loc) -> list[str]:
    """The place, its source line and a caret under the exact span."""
    lines = [f"  --> {loc}" + (f", in {loc.function}" if loc.function else "")]
    text = linecache.getline(loc.file, loc.line).rstrip("\n")
    if not text.strip():
        return lines
    end = loc.end_col if loc.end_line == loc.line else len(text)
    start = min(loc.col, len(text))
    carets = "^" * max(1, min(end, len(text)) - start)
    number = str(loc.line)
    pad = "".join("\t" if c == "\t" else " " for c in text[:start])
    return [*lines, f"  {number} | {text}", f"  {' ' * len(number)} | {pad}{carets}"]


def call_sites(loc: Loc) -> list[str]:
    """One line per inlined call, innermost first."""
    sites = loc.chain[1:]
    lines = [f"  called from {site}" + (f", in {site.function}" if site.function else "") for site in sites]
    return lines if len(lines) <= 8 else [*lines[:3], f"  … {len(lines) - 6} more calls", *lines[-3:]]
