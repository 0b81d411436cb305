"""Pictures that show themselves in a notebook, and are written to files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pypto.markup import Markup, Shown, card
from pypto.markup.drawings import sheet


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


def document(picture: str) -> str:
    """A file of its own: with a style sheet."""
    head, end, tail = picture.partition(">")
    return f"{head}{end}{sheet()}{tail}\n"
