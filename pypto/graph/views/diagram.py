"""A picture of a graph as data, which does not depend on a format: boxes, arrows and clusters."""

from __future__ import annotations

from dataclasses import dataclass


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
    """An arrow between two boxes, which it names."""

    source: str
    target: str
    tip: str = ""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A frame around some of the boxes."""

    name: str
    title: str
    note: str = ""
    hue: str = ""


@dataclass(frozen=True, slots=True)
class Diagram:
    """A graph to be drawn, with a caption."""

    name: str
    text: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...] = ()
    clusters: tuple[Cluster, ...] = ()
