"""Names in a function's bytecode, with their lines."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

from pypto.loc import Caller, Loc


@lru_cache(maxsize=1024)
def globals_of(code: CodeType) -> tuple[str, ...]:
    """Return the globals that a function and its nested functions read.

    Examples
    --------
    >>> globals_of((lambda x: [x.shape[0] * scale for _ in range(n)]).__code__)
    ('range', 'n', 'scale')
    """
    names = [i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")]
    for part in code.co_consts:
        if isinstance(part, CodeType):
            names += globals_of(part)
    return tuple(dict.fromkeys(names))


@lru_cache(maxsize=1024)
def names_of(code: CodeType) -> tuple[str, ...]:
    """Return the names of globals and attributes in a function and its nested functions."""
    inner = (names_of(part) for part in code.co_consts if isinstance(part, CodeType))
    return tuple(dict.fromkeys((*code.co_names, *(name for names in inner for name in names))))


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from codes_of(part)


def line_of(code: CodeType, op: str, name: str) -> Loc | None:
    """Return the location of an instruction on a name."""
    for each in codes_of(code):
        for instruction in dis.get_instructions(each):
            if instruction.opname == op and instruction.argval == name:
                return Caller(each, instruction.offset // 2, each.co_firstlineno).loc()
    return None
