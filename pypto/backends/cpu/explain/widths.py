"""Vector widths by source line, read off LLVM IR whose lines name the user's."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

_VECTOR: Final = re.compile(r"<(\d+) x (half|bfloat|float|double|i8|i16|i32|i64)>")
_BITS: Final = {"half": 16, "bfloat": 16, "float": 32, "double": 64, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
_NAMES: Final = {"half": "float16", "bfloat": "bfloat16", "float": "float32", "double": "float64"}
_SCALAR: Final = "one at a time"
# What makes a line's width: integers beside floats are indices and masks.
_FLOATS: Final = ("half", "bfloat", "float", "double")


def widths_of(lines: Iterable[tuple[int, str]], register_bytes: int) -> dict[int, str]:
    """The widest vectors of every source line's LLVM IR: the code for whole tiles, not that for their edges."""
    vectors_by_line: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for number, text in lines:
        vectors_by_line[number] |= {(int(count), kind) for count, kind in _VECTOR.findall(text)}
    return {number: width_text(vectors, register_bytes) for number, vectors in vectors_by_line.items() if number}


def width_text(vectors: set[tuple[int, str]], register_bytes: int) -> str:
    """The widest vector in words: of floats, if there are any.

    Examples
    --------
    >>> width_text({(64, "float"), (64, "i32")}, 64), width_text({(4, "i32")}, 32), width_text(set(), 64)
    ('64 float32 in 4 registers', '4 int32 in a register', 'one at a time')
    """
    floats = {vector for vector in vectors if vector[1] in _FLOATS}
    if not vectors:
        return _SCALAR
    count, kind = max(floats or vectors, key=lambda vector: (vector[0] * _BITS[vector[1]], vector))
    registers = -(-count * _BITS[kind] // (8 * register_bytes))
    name = _NAMES.get(kind, kind.replace("i", "int"))
    return f"{count} {name} in {'a register' if registers == 1 else f'{registers} registers'}"
