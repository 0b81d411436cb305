"""Reads the symbol table of a 64-bit little-endian ELF object: what code calls that it does not bring along."""

from __future__ import annotations

import struct

_SYMTAB = 2


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Names of the symbols that an object leaves undefined, sorted.

    Raises
    ------
    ValueError
        When the bytes are no such object.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("no 64-bit little-endian ELF object")
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, table + i * size) for i in range(count)]
    found = set()
    for section in sections:
        if section[1] != _SYMTAB:
            continue
        names = sections[section[6]][4]
        for at in range(section[4], section[4] + section[5], 24):
            name, _info, _other, index = struct.unpack_from("<IBBH", code, at)
            if index == 0 and name:
                start = names + name
                found.add(code[start : code.index(b"\0", start)].decode())
    return tuple(sorted(found))
