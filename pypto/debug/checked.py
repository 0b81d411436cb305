"""Checked mode (`pto.checked`): launches checked kernels, reads the report of their programs, and raises its errors."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.backends.base import FIXED_SLOTS
from pypto.backends.sites import Check
from pypto.errors import Diagnostic
from pypto.errors.interp import GatherOutOfRange, IndexOverflow, KernelAssertion, OutOfBounds, WriteRace
from pypto.interp.memory import elements, index_text, program_text
from pypto.runtime.arrays import ArrayInfo
from pypto.runtime.mode import MODE, mode
from pypto.runtime.owners import MOST_NUMBERS, Owners, OwnerStore

HEAD_WORDS, ARRAY_WORDS, LOCK_WORDS = 24, 8, 8 * 64  # layout of a report, see `bounds.c`
_MOST_OWNERS: Final = 2**38  # limit of watched elements; a pointer without an extent has more

Array = np.ndarray[Any, Any]
Sizes = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Record:
    """The bounds of an array in a report: where its memory begins, relative to its address, and its size.

    Races are detected on `owned` elements.
    """

    low: int
    size: int
    item: int
    exists: Array | None
    owned: int

    @staticmethod
    def of(info: ArrayInfo, is_stored: bool) -> Record:
        (low, high), item = info.reach, info.dtype.itemsize
        count = (high - low) // item
        exists = elements(info, count)
        owned = count if is_stored and count <= _MOST_OWNERS else 0
        return Record(low, high - low, item, None if exists is None else exists.view(np.uint8), owned)

    def words(self, address: int) -> tuple[int, ...]:
        """Returns the first words of a record, for an array at an address."""
        start = address + self.low
        if self.exists is None:
            return start, self.size, self.size, self.item, 0
        return start, 0, self.size, self.item, self.exists.ctypes.data


@dataclass(frozen=True, slots=True)
class Checking:
    """The checks of a kernel's launches, for arguments of the same kinds."""

    checks: tuple[Check, ...]
    arrays: Mapping[str, ArrayInfo]
    records: tuple[Record, ...]
    slots: tuple[tuple[int, int], ...]  # slots of the argument block, with the words of the report
    store: OwnerStore

    @staticmethod
    def of(program: Any, infos: Mapping[str, Any], store: OwnerStore) -> Checking:
        """Builds the checks of one compiled version."""
        checks, abi = program.artifact.checks, program.artifact.abi
        stored = {array for check in checks if check.kind == "store" for array in check.arrays}
        arrays = {name: info for name, info in infos.items() if isinstance(info, ArrayInfo)}
        words = {name: HEAD_WORDS + ARRAY_WORDS * n for n, name in enumerate(arrays)}
        slots = ((i, words.get(s.arg, 0)) for i, s in enumerate(abi, FIXED_SLOTS) if s.kind in ("report", "watched"))
        records = tuple(Record.of(info, name in stored) for name, info in arrays.items())
        return Checking(checks, arrays, records, tuple(slots), store)

    @contextmanager
    def watched(self, slots: list[int], grid: Sizes, addresses: Sequence[int], threads: int) -> Iterator[None]:
        """Fills the slots of an argument block, and raises the errors that programs report."""
        report: Any = (ctypes.c_int64 * (HEAD_WORDS + ARRAY_WORDS * len(self.records) + LOCK_WORDS))()
        start, programs, all_owners = ctypes.addressof(report), grid[0] * grid[1] * grid[2], list[Owners]()
        locks = start + ctypes.sizeof(report) - 8 * LOCK_WORDS
        report[5:9] = len(self.records), locks, programs, threads > 1
        races = MODE.get().races and programs + 1 < MOST_NUMBERS
        for n, (record, address) in enumerate(zip(self.records, addresses, strict=True)):
            at = HEAD_WORDS + ARRAY_WORDS * n
            report[at : at + 5] = record.words(address)
            if races and record.owned:
                all_owners.append(owners := self.store.take(record.owned))
                report[at + 5 : at + 8] = owners.address, owners.numbers(programs), owners.blocks
        for slot, word in self.slots:
            slots[slot] = start + 8 * word
        try:
            yield
        finally:
            for owners in all_owners:
                self.store.give_back(owners)
        if report[0]:
            raise self.failure(report, addresses, grid)

    def failure(self, report: Sequence[int], addresses: Sequence[int], grid: Sizes) -> Diagnostic:
        """Builds the error of the first report, with the interpreter's text."""
        check, value = self.checks[report[1]], report[2]
        program, other = (program_text(n, grid) for n in report[3:5])
        if check.kind in _PLAIN:
            return _PLAIN[check.kind](check, program, value)
        if check.kind == "position":
            (array,) = check.arrays
            shape = self.arrays[array].shape
            index = ", ".join(map(str, report[9 : 9 + len(shape)]))
            return OutOfBounds(check.loc, what=check.what, array=array, index=index, program=program, shape=shape)
        array, info, start = self.nearest(check.arrays, addresses, value)
        index = index_text(info, (value - start) // info.dtype.itemsize)
        if report[4] >= 0:
            return WriteRace(check.loc, array=array, index=index, first=other, program=program)
        return OutOfBounds(check.loc, what=check.kind, array=array, index=index, program=program, shape=info.shape)

    def nearest(self, names: Sequence[str], addresses: Sequence[int], value: int) -> tuple[str, ArrayInfo, int]:
        """Returns, of the arrays that an access may touch, the one that contains an address or lies nearest to it."""
        known = [(name, info, start) for (name, info), start in zip(self.arrays.items(), addresses, strict=True)
                 if name in names]  # fmt: skip
        return min(known, key=lambda k: max(k[2] + k[1].reach[0] - value, value - (k[2] + k[1].reach[1] - 1), 0))


_PLAIN: Final[Mapping[str, Callable[[Check, str, int], Diagnostic]]] = MappingProxyType(
    {
        "assert": lambda c, program, _: KernelAssertion(
            c.loc, program=program, message=f": {c.what}" if c.what else ""
        ),
        "overflow": lambda c, program, _: IndexOverflow(c.loc, program=program, dtype=c.what),
        "gather": lambda c, program, value: GatherOutOfRange(c.loc, program=program, index=value, where=c.what),
    }
)


@contextmanager
def checked(races: bool = True) -> Iterator[None]:
    """Runs all kernels in a `with` block with compiled checks, which stop them at the first error.

    Parameters
    ----------
    races : bool
        Whether to detect two programs that store to one element. This is most of the cost of checks.

    Raises
    ------
    OutOfBounds, WriteRace, KernelAssertion, IndexOverflow, GatherOutOfRange
        If a program touches memory that is not an element of its array, stores to an element that another program
        stored, fails an assertion, computes an index that wraps around, or gathers from outside of a tile. The error
        names the line, the array, the index and the program. Earlier stores are not undone.

    Examples
    --------
    >>> import numpy as np, pypto as pto
    >>> @pto.jit
    ... def copy(x, y, BLOCK: pto.constexpr):
    ...     i = pto.program_id(0) * BLOCK + pto.arange(0, BLOCK)
    ...     pto.store(y + i, pto.load(x + i))
    >>> with pto.checked():
    ...     copy[2](np.zeros(10, np.float32), np.zeros(16, np.float32), BLOCK=8)
    Traceback (most recent call last):
        ...
    pypto.errors.interp.OutOfBounds: [E401] load out of bounds: x[10] in program (1, 0, 0); the shape is (10,)
      --> ...
    """
    with mode(checked=True, races=races):
        yield
