"""Colours for source and for the compiler's levels: one scan of a line into words, each with the class of its kind."""

from __future__ import annotations

import keyword
import re
from typing import Final

from pypto.markup import Markup, tag, text

_OF_IR: Final = ("attributes", "define", "kernel", "loop", "nest", "region", "scalar", "yield")
_WORDS: Final = frozenset({*keyword.kwlist, *_OF_IR})
_TOKENS: Final = re.compile(
    r"(?P<c>#.*|//.*|(?<![\w\]>)]);.*)"
    r"|(?P<s>\"[^\"]*\"?|'[^']*'?)"
    r"|(?P<t>\b(?:tile|array|ptr)<[^>]*>+|<\d+ x \w+>|\b(?:[iuf]\d+|bf16|index|float|double|half|ptr|void)\b)"
    r"|(?P<f>[%@]\w[\w.]*)"
    r"|(?P<n>(?<![\w.])\d[\w.]*)"
    r"|(?P<word>[A-Za-z_]\w*)"
)


def coloured(line: str) -> Markup:
    """A line of source, IR or assembly with its words in colours.

    Examples
    --------
    >>> coloured("for i in x")
    '<span class="k">for</span> i <span class="k">in</span> x'
    """
    parts, end = [], 0
    for match in _TOKENS.finditer(line):
        parts += [text(line[end : match.start()]), word(match)]
        end = match.end()
    return Markup("".join([*parts, text(line[end:])]))


def word(match: re.Match[str]) -> Markup:
    kind = match.lastgroup or ""
    if kind == "word":
        kind = "k" if match[0] in _WORDS else ""
    return tag("span", match[0], class_=kind) if kind else text(match[0])
