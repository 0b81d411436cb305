"""Docstrings in numpydoc's form as Markdown."""

from __future__ import annotations

import inspect
import re
import textwrap
from functools import cached_property
from typing import Any, Final

SECTION: Final = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.MULTILINE)
LISTS: Final = ("Parameters", "Attributes", "Returns", "Yields", "Raises")


def markdown(text: str, heading: str = "## {}") -> str:
    """What a docstring says after its first line: prose, then its sections under headings."""
    prose, *rest = SECTION.split(text)
    pairs = zip(rest[::2], rest[1::2], strict=True)
    sections = [f"{heading.format(title)}\n\n{section(title, body.strip())}" for title, body in pairs]
    return "\n\n".join(part for part in (spans(prose.strip()), *sections) if part)


def section(title: str, body: str) -> str:
    if title == "Examples" or body.startswith(">>>"):
        return f"```pycon\n{body}\n```"
    return entries(body) if title in LISTS else spans(body)


def entries(body: str) -> str:
    """Parameters and the like as a list: a line of name and type, with indented lines that say what it is."""
    found = re.findall(r"^(\S.*)\n?((?:(?:[ ]+.*)?(?:\n|$))*)", body, re.MULTILINE)
    return "\n".join(entry(head, textwrap.dedent(rest).strip()) for head, rest in found)


def entry(head: str, rest: str) -> str:
    name, _, kind = head.partition(" : ")
    return f"- `{name}`{f' ({spans(kind)})' if kind else ''}{': ' if rest else ''}{spans(' '.join(rest.split()))}"


def spans(text: str) -> str:
    """Asterisks are meant as they stand."""
    return re.sub(r"(?<![`\w])\*(?=\w)", r"\\*", text)


def methods(value: type[Any]) -> list[tuple[str, str]]:
    """A class's own public methods and properties with their docstrings."""
    own = [(name, member) for name, member in sorted(vars(value).items()) if not name.startswith("_")]
    return [(call(name, member), inspect.getdoc(member) or "") for name, member in own if documented(member)]


def documented(member: Any) -> bool:
    kinds = (property, cached_property, classmethod, staticmethod)
    return bool(inspect.getdoc(member)) and (inspect.isfunction(member) or isinstance(member, kinds))


def call(name: str, member: Any) -> str:
    """A method as it is called, without annotations."""
    if isinstance(member, property | cached_property):
        return name
    function = getattr(member, "__func__", member)
    parameters = list(inspect.signature(function).parameters.values())
    if not isinstance(member, staticmethod):
        parameters = parameters[1:]
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return f"{name}{inspect.Signature(plain)}"
