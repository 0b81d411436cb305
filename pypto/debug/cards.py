"""Shows kernels, explanations and comparisons as HTML in a notebook's cell."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from pypto.errors import Diagnostic
from pypto.markup import Markup, card, folded, join, note, table, tag
from pypto.markup.colours import coloured
from pypto.runtime.versions import counted, versions_table

if TYPE_CHECKING:
    from pypto.backends.findings import Finding
    from pypto.debug.explain import Explanation
    from pypto.debug.verify import Verified


def kernel_card(kernel: Any) -> Markup:
    """A kernel: its signature, docstring, options, compiled versions and source."""
    compiled = kernel.specializations
    where, source = source_of(kernel)
    versions = versions_table(compiled) if compiled else Markup("")
    note_text = counted(len(compiled)) if compiled else "Not compiled yet: the first launch does it."
    parts = [described(kernel.function), note(note_text), versions, source]
    return card(tag("code", coloured(signature_of(kernel.function))), *parts, note=join([where, options_of(kernel)]))


def described(function: Any) -> Markup:
    """Returns the docstring of a function."""
    doc = inspect.getdoc(function)
    return tag("pre", doc) if doc else Markup("")


def signature_of(function: Any) -> str:
    """Shows how a kernel is called, with remarks about its parameters."""
    parameters = inspect.signature(function).parameters.values()
    return f"{function.__name__}({', '.join(map(parameter_text, parameters))})"


def parameter_text(parameter: inspect.Parameter) -> str:
    """Formats a parameter as in a function's head."""
    name, equals, default = str(parameter.replace(annotation=inspect.Parameter.empty)).partition("=")
    kind = annotated(parameter)
    between = " = " if kind and equals else equals
    return f"{name}{kind}{between}{default}"


def annotated(parameter: inspect.Parameter) -> str:
    """Returns a parameter's annotation as it was written, if that is known."""
    said = parameter.annotation
    if said is inspect.Parameter.empty:
        return ""
    return f": {said if isinstance(said, str) else getattr(said, '__name__', said)}"


def source_of(kernel: Any) -> tuple[str, Markup]:
    """Shows the place and the folded source of a kernel; nothing if it has no source."""
    from pypto.debug.explain import short

    try:
        source = kernel.kernel_source
    except Diagnostic:
        return "", Markup("")
    first, last = source.node.lineno, source.node.end_lineno or source.node.lineno
    lines = (coloured(linecache.getline(source.file, n).rstrip("\n")) for n in range(first, last + 1))
    return f"{short(source.file)}:{first}", folded("source", tag("pre", join(lines, "\n")))


def options_of(kernel: Any) -> str:
    """Returns the options that differ from their defaults."""
    usual = type(kernel.options)()
    names = [name for name in kernel.options.__slots__ if getattr(kernel.options, name) != getattr(usual, name)]
    return "".join(f"; {name}={getattr(kernel.options, name)!r}" for name in names)


def explanation_card(explanation: Explanation) -> Markup:
    """An explanation: every line of the source that something was decided about, and what."""
    text = f"{explanation.version}; {explanation.scratch_text}"
    rows = [row for _, group in groupby(explanation.findings, place) for row in finding_rows(list(group))]
    shown = table(("line", "source", "topic", "decision"), rows, (0,)) if rows else note("There is nothing to remark.")
    return card(f"{explanation.kernel}: why it was compiled so", shown, note=text)


def place(finding: Finding) -> tuple[str, int]:
    return finding.loc.user.file, finding.loc.user.line


def finding_rows(group: list[Finding]) -> Iterator[tuple[Any, ...]]:
    """Returns a row for each finding of one line; the first row has the line."""
    file, number = place(group[0])
    shown: tuple[Any, Any] = number, tag("code", coloured(linecache.getline(file, number).strip()))
    for finding in group:
        yield *shown, finding.topic, finding.text + (f"; {finding.way}" if finding.way else "")
        shown = "", ""


def verified_card(verified: Verified) -> Markup:
    """What `verify` compared."""
    rows = [(a.array, f"{a.elements:,}", f"{a.largest:.3g}", "" if a.ulp is None else f"{a.ulp:.3g}")
            for a in verified.arrays]  # fmt: skip
    shown = table(("array", "elements", "largest difference", "in ulp"), rows, (1, 2, 3))
    text = f"{verified.programs:,} programs ran compiled and interpreted, and nothing differs by more than is allowed."
    return card(f"{verified.kernel}: verified", shown, note=text)
