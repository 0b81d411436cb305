"""HTML for notebooks and pages: elements that escape their text, cards, tables and bars.

Whatever shows itself in a notebook is made here, in the one style of `pypto.markup.style`. Text is escaped unless it is
`Markup` already, so a caller cannot forget it.

Read `style` and `palette`, then `summary`, `drawings`, `pictures` and `colours`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from pypto.markup.style import STYLE

_FLAGS: Final = ("hidden", "open")


class Markup(str):
    """HTML that is safe to show: it was made by the functions of this module."""

    __slots__ = ()


class Shown:
    """An object that shows itself: as HTML in a notebook, as `str` makes it in a terminal of IPython."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        raise NotImplementedError(f"{type(self).__name__} has no HTML")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self).rstrip("\n"), "text/html": self._repr_html_()}


def escaped(value: str) -> str:
    """Text with the characters that HTML takes for its own written otherwise; few processes show anything."""
    from html import escape

    return escape(value)


def text(value: object) -> Markup:
    """A value as text of a page: escaped, unless it is markup.

    Examples
    --------
    >>> text("a < b"), text(Markup("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return value if isinstance(value, Markup) else Markup(escaped(str(value)))


def join(parts: Iterable[object], between: str = "") -> Markup:
    """Parts one after the other; text is escaped."""
    return Markup(escaped(between).join(map(text, parts)))


def tag(name: str, *parts: object, **attributes: object) -> Markup:
    """An element. An attribute whose name is a word of Python ends in `_`, and `data_line` is `data-line`.

    Examples
    --------
    >>> tag("td", "a < b", class_="number", hidden=True)
    '<td class="number" hidden>a &lt; b</td>'
    """
    given = "".join(attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{given}>{join(parts)}</{name}>")


def attribute(name: str, value: object) -> str:
    """An attribute with a space before it; an empty value leaves it out."""
    if name in _FLAGS:
        return f" {name}" if value else ""
    return f' {name}="{escaped(str(value))}"' if value != "" else ""


def card(title: object, *parts: object, note: object = "") -> Markup:
    """A whole object in a notebook's cell: its title, a line of smaller text below it, and its parts."""
    head = [tag("div", title, class_="pypto-title"), tag("div", note, class_="pypto-note") if note else Markup("")]
    style = Markup(f"<style>{STYLE}</style>")
    return tag("div", style, *head, *parts, class_="pypto")


def table(headings: Sequence[object], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> Markup:
    """A table; the columns `numbers` stand to the right, as numbers do. A row may be an element already."""
    body = (row if isinstance(row, Markup) else cells("td", row, numbers) for row in rows)
    return tag("table", tag("thead", cells("th", headings, numbers)), tag("tbody", *body))


def cells(name: str, values: Sequence[object], numbers: Sequence[int] = (), **attributes: object) -> Markup:
    """A row of a table."""
    return tag("tr", *(cell(name, value, n in numbers) for n, value in enumerate(values)), **attributes)


def cell(name: str, value: object, number: bool) -> Markup:
    return tag(name, value, class_="number" if number else "")


def bar(share: float, label: object = "") -> Markup:
    """A part of a whole, from 0 to 1, as a bar with a label behind it."""
    width = f"width:{100 * min(max(share, 0.0), 1.0):.1f}%"
    drawn = tag("span", tag("span", class_="pypto-fill", style=width), class_="pypto-bar")
    return join([drawn, tag("span", label, class_="pypto-label")])


def note(value: object) -> Markup:
    """A line of smaller text."""
    return tag("div", value, class_="pypto-note")


def folded(title: object, *parts: object) -> Markup:
    """Parts that are shown when their title is clicked."""
    return tag("details", tag("summary", title), *parts)
