"""A picture of a graph as data: boxes, arrows and clusters. It shows itself as SVG, and is written as SVG or DOT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pypto.markup import Markup, Shown, card


@dataclass(frozen=True, slots=True)
class Box:
    """A node of a picture.

    Parameters
    ----------
    name : str
        Unique in the picture.
    title, note : str
        Its first line; the note is in a softer colour.
    rows : tuple of str
        Lines below it.
    kind : str
        ``input``, ``op``, ``heavy`` (products and reductions), ``view`` (moves nothing), ``step`` or ``result``.
    hue : str
        What it is coloured by: the form of a kernel.
    tip : str
        What is shown when a mouse is over it.
    line : str
        The user's line that it comes from, as ``file.py:12``.
    cluster : str
        The cluster that it lies in, if any.
    """

    name: str
    title: str
    note: str = ""
    rows: tuple[str, ...] = ()
    kind: str = "op"
    hue: str = ""
    tip: str = ""
    line: str = ""
    cluster: str = ""


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one box to another, by their names."""

    source: str
    target: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Boxes with a frame around them."""

    name: str
    title: str
    note: str = ""
    hue: str = ""


class SavablePicture(Shown):
    """A picture that is written to files, and shows itself."""

    __slots__ = ()
    name: str
    text: str

    @property
    def inner_svg(self) -> str:
        """The picture for a page that has the style sheet."""
        raise NotImplementedError

    @property
    def formats(self) -> dict[str, Callable[[], str]]:
        """What it can be written as: a text for each suffix."""
        return {".svg": lambda: self.svg}

    @property
    def svg(self) -> str:
        """A file of its own, with its colours for light and dark."""
        from pypto.graph.views.svg import document

        return document(self.inner_svg)

    def save(self, path: str | Path) -> Path:
        """Write the picture to a file, in the form that the suffix names: ``.svg``, and of graphs ``.dot``.

        Raises
        ------
        ValueError
            For another suffix.
        """
        target = Path(path)
        if target.suffix not in self.formats:
            raise ValueError(f"{self.name} is written as {' or '.join(self.formats)}, not as {target.name!r}")
        target.write_text(self.formats[target.suffix](), encoding="utf-8")
        return target

    def _repr_html_(self) -> str:
        return card(self.name, Markup(f"<div class='drawing'>{self.inner_svg}</div>"), note=self.text)


@dataclass(frozen=True, slots=True)
class Chart(SavablePicture):
    """A picture that is no graph."""

    name: str
    text: str
    drawn: str

    @property
    def inner_svg(self) -> str:
        return self.drawn

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass(frozen=True, slots=True)
class Drawing(SavablePicture):
    """A picture of a graph, with a caption.

    Examples
    --------
    >>> pair = Drawing("pair", "Two boxes.", (Box("a", "exp"), Box("b", "sum")), (Arrow("a", "b"),))
    >>> pair.dot.splitlines()[-2]
    '  "a" -> "b";'
    """

    name: str
    text: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
    clusters: tuple[Cluster, ...] = ()

    @property
    def dot(self) -> str:
        """Text for Graphviz."""
        from pypto.graph.views.dot import dot_text

        return dot_text(self)

    @property
    def formats(self) -> dict[str, Callable[[], str]]:
        return {".svg": lambda: self.svg, ".dot": lambda: self.dot}

    @property
    def inner_svg(self) -> str:
        from pypto.graph.views.svg import picture

        return picture(self)

    def __str__(self) -> str:
        return self.dot
