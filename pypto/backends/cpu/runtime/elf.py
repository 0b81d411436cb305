"""Objects in memory: relocatable ELF for x86-64 on Linux, loaded without LLVM, which takes long to be imported.

Sections lie one after the other in one private mapping: first what is executed or only read, with a stub for each
function of the process, then what is written. What is not known here, such as another machine's relocation, is left to
LLVM's linker.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_RELOCATION: Final = struct.Struct("<QQq")
_HEAD: Final = b"\x7fELF\x02\x01\x01"  # 64 bits, little endian
_RELOCATABLE_X86: Final = (1, 62)  # type and machine
_SYMBOLS, _RELOCATIONS, _NO_BITS = 2, 4, 8  # types of sections
_WRITTEN, _ALLOCATED = 1, 2  # flags of sections
_UNDEFINED, _RESERVED = 0, 0xFF00  # numbers of sections
_ADDRESS, _RELATIVE, _CALL, _RELATIVE_64 = 1, 2, 4, 24  # relocations
_INSIDE: Final = (_ADDRESS, _RELATIVE, _CALL, _RELATIVE_64)  # that symbols of the object have
_TABLE_ENTRIES: Final = (9, 41, 42)  # to a word with the address of a symbol, which that of its stub is
_STUB: Final = b"\xff\x25\0\0\0\0"  # jumps to the address in the word behind it
_STUB_BYTES: Final = 16
_FRAMES: Final = ".eh_frame"
_UNWINDER: Final = "libgcc_s.so.1"
_GAP: Final = 8  # zero bytes behind a section, which end a list of frames


class Unsupported(Exception):
    """The object has something that only LLVM's linker knows."""


class Section(NamedTuple):
    """A section's header."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A symbol, with its name as text."""

    name: str
    section: int
    value: int


def sections_of(code: bytes) -> list[Section]:
    """The section headers of an ELF object."""
    start, size, count = *struct.unpack_from("<Q", code, 0x28), *struct.unpack_from("<HH", code, 0x3A)
    return [Section(*_SECTION.unpack_from(code, start + n * size)) for n in range(count)]


def symbols_of(code: bytes, sections: Sequence[Section]) -> list[Symbol]:
    """The symbols of an object, in their order."""
    table = next((section for section in sections if section.kind == _SYMBOLS), None)
    if table is None:
        return []
    names = sections[table.link].offset
    rows = _SYMBOL.iter_unpack(code[table.offset : table.offset + table.size])
    return [Symbol(text_at(code, names + name), section, value) for name, _, _, section, value, _ in rows]


def text_at(code: bytes, start: int) -> str:
    """A text that ends with a zero byte."""
    return code[start : code.index(b"\0", start)].decode()


def symbol_range(code: bytes, name: str) -> tuple[int, int]:
    """The offset of a symbol in its section, and the bytes of the section; zeros where it is missing."""
    sections = sections_of(code)
    symbol = next((s for s in symbols_of(code, sections) if s.name == name), None)
    return (symbol.value, sections[symbol.section].size) if symbol else (0, 0)


def is_loadable(code: bytes) -> bool:
    """Whether this machine runs such objects, and this module may know them."""
    here = sys.platform == "linux" and platform.machine() == "x86_64"
    return here and code.startswith(_HEAD) and struct.unpack_from("<HH", code, 16) == _RELOCATABLE_X86


def load_object(code: bytes, names: Sequence[str]) -> tuple[tuple[int, ...], Any]:
    """Addresses of some symbols of an object, and what keeps its memory.

    Raises
    ------
    Unsupported
        When there is something in the object that is not known here, or something missing.
    """
    try:
        image = Image(code)
        image.relocate()
        addresses = tuple(image.symbol_address(name) for name in names)
    except (struct.error, LookupError, ValueError, AttributeError, UnicodeDecodeError) as error:
        raise Unsupported(str(error)) from None
    image.protect()
    return addresses, image


@dataclass
class Image:
    """An object's sections in memory."""

    code: bytes
    places: dict[int, int] = field(default_factory=dict)  # of allocated sections: offset in memory
    stubs: dict[Symbol, int] = field(default_factory=dict)  # offsets of stubs

    def __post_init__(self) -> None:
        self.sections = sections_of(self.code)
        self.symbols = symbols_of(self.code, self.sections)
        used = {n: s for n, s in enumerate(self.sections) if s.flags & _ALLOCATED and s.size}
        end = 0
        for n, section in sorted(used.items(), key=lambda row: row[1].flags & _WRITTEN):
            if section.flags & _WRITTEN and not hasattr(self, "fixed"):
                end = self.end_fixed(end)
            end += -end % max(1, section.alignment)
            self.places[n] = end
            end += section.size + _GAP
        if not hasattr(self, "fixed"):
            end = self.end_fixed(end)
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        self.memory = mmap.mmap(-1, max(end, mmap.PAGESIZE), flags, mmap.PROT_READ | mmap.PROT_WRITE)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        for n, place in self.places.items():
            section = self.sections[n]
            if section.kind != _NO_BITS:
                self.memory[place : place + section.size] = self.content(section)

    def end_fixed(self, end: int) -> int:
        """Place the stubs behind what is not written; gives the start of the next page."""
        end += -end % _STUB_BYTES
        for kind, symbol, _, _ in self.relocations():
            if kind in _TABLE_ENTRIES or symbol.section == _UNDEFINED:
                self.stubs.setdefault(symbol, end)
                end += _STUB_BYTES
        self.fixed = end + -end % mmap.PAGESIZE
        return self.fixed

    def relocations(self) -> Iterator[tuple[int, Symbol, int, tuple[int, int]]]:
        """Relocations of allocated sections: kind, symbol, addend, and the place as section and offset."""
        for section in self.sections:
            if section.kind == _RELOCATIONS and self.sections[section.info].flags & _ALLOCATED:
                for offset, info, addend in _RELOCATION.iter_unpack(self.content(section)):
                    yield info & 0xFFFFFFFF, self.symbols[info >> 32], addend, (section.info, offset)

    def content(self, section: Section) -> bytes:
        """The bytes of a section."""
        return self.code[section.offset : section.offset + section.size]

    def address(self, symbol: Symbol) -> int:
        """Where a symbol is, in the object or in the process."""
        if symbol.section == _UNDEFINED:
            return address_of(symbol.name)
        if symbol.section >= _RESERVED:
            raise Unsupported(symbol.name)
        return self.base + self.places[symbol.section] + symbol.value

    def symbol_address(self, name: str) -> int:
        """Where a symbol is that the object defines."""
        symbol = next((s for s in self.symbols if s.name == name and s.section != _UNDEFINED), None)
        if symbol is None:
            raise Unsupported(f"no symbol {name}")
        return self.address(symbol)

    def relocate(self) -> None:
        """Fill in stubs and addresses."""
        for symbol, place in self.stubs.items():
            self.memory[place : place + _STUB_BYTES] = _STUB + self.address(symbol).to_bytes(
                _STUB_BYTES - len(_STUB), "little"
            )
        for kind, symbol, addend, (section, offset) in self.relocations():
            place = self.places[section] + offset
            is_outside = symbol.section == _UNDEFINED
            if kind in _TABLE_ENTRIES:
                value = self.base + self.stubs[symbol] + len(_STUB)
            elif kind == _CALL and is_outside:
                value = self.base + self.stubs[symbol]
            elif kind in _INSIDE and not is_outside:
                value = self.address(symbol)
            else:
                raise Unsupported(f"relocation {kind} to {symbol.name}")
            value += addend - (0 if kind == _ADDRESS else self.base + place)
            form = "<Q" if kind == _ADDRESS else "<q" if kind == _RELATIVE_64 else "<i"
            struct.pack_into(form, self.memory, place, value)

    def protect(self) -> None:
        """Let the code be executed, and no longer written; tell the unwinder of frames, which then stay for ever."""
        if libc().mprotect(ctypes.c_void_p(self.base), ctypes.c_size_t(self.fixed), mmap.PROT_READ | mmap.PROT_EXEC):
            raise Unsupported("memory cannot be executed")
        strings = self.sections[struct.unpack_from("<H", self.code, 0x3E)[0]].offset
        for n, place in self.places.items():
            if text_at(self.code, strings + self.sections[n].name) == _FRAMES:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
                getattr(ctypes.CDLL(_UNWINDER), "__register_frame")(ctypes.c_void_p(self.base + place))


def libc() -> Any:
    """Functions of the process."""
    return ctypes.CDLL(None)


def address_of(name: str) -> int:
    """Where a function of the process is."""
    address = ctypes.cast(getattr(libc(), name), ctypes.c_void_p).value
    if not address:
        raise Unsupported(name)
    return address
