"""A picture of a graph that notebooks show as SVG, and that is saved as SVG or DOT."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pypto.graph.views.diagram import Diagram
from pypto.graph.views.dot import dot_text
from pypto.graph.views.svg import picture
from pypto.markup.pictures import SavablePicture


@dataclass(frozen=True, slots=True)
class Drawing(Diagram, SavablePicture):
    """A picture of a graph, with a caption.

    Examples
    --------
    >>> from pypto.graph.views.diagram import Arrow, Box
    >>> pair = Drawing("pair", "Two boxes.", (Box("a", "exp"), Box("b", "sum")), (Arrow("a", "b"),))
    >>> pair.dot.splitlines()[-2]
    '  "a" -> "b";'
    """

    @property
    def dot(self) -> str:
        """Returns the picture as text for Graphviz."""
        return dot_text(self)

    @property
    def formats(self) -> dict[str, Callable[[], str]]:
        return {".svg": lambda: self.svg, ".dot": lambda: self.dot}

    @property
    def inner_svg(self) -> str:
        return picture(self)

    def __str__(self) -> str:
        return self.dot
