"""Launches of a plan that are made again and again: argument blocks that are filled in once, see `replay.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.backends.base import FIXED_SLOTS
from pypto.backends.cpu.runtime.launcher.recipe import SLOTS
from pypto.backends.cpu.runtime.launcher.tensors import Layout, UnknownLayoutError, is_torch, tensor_layout

HEAD: Final = ("shared", "launches", "total", "next", "arrays", "compared", "units", "like", "count",
    "pairs", "repeats", "addresses", "numpy", "layout", "modes", "gradients", "requires")  # fmt: skip
PARTS: Final = 8  # of a wave, for each thread
_UNIT: Final = 4  # words


@dataclass(frozen=True, slots=True)
class ReplayedLaunch:
    """A launch of a replay.

    Parameters
    ----------
    kernel : Kernel
    grid : tuple of int
    values : tuple of ndarray
        Of all parameters.
    moves : tuple of (int, int, int)
        Parameters whose arrays differ from call to call: the parameter, the array of the call, and how many bytes
        behind its beginning that of the parameter begins.
    wave : int
        How many launches, from this one on, depend on none of each other; 0 within those of an earlier one.
    """

    kernel: Any
    grid: tuple[int, ...]
    values: tuple[Any, ...]
    moves: tuple[tuple[int, int, int], ...]
    wave: int


class Replay:
    """A function that makes all launches of a replay, on the arrays of a call.

    It gives None when all are done, the number of a launch that Python is to make before it calls again, and -1 where
    the arrays of the call are of other types, shapes or strides than those that it was made with, or overlap.

    Parameters
    ----------
    launcher : Launcher
    rows : sequence of ReplayedLaunch
    like : sequence of ndarray
        The first arrays of a call, as they are compared.
    arrays : int
        How many there are in all.
    pairs : sequence of (int, int, int, int)
        Arrays that must not overlap, by number, and the range in which the distance of their addresses must not lie.
    is_distinct : bool
        Whether no array may be given twice.

    Raises
    ------
    LookupError
        When native code does not know a launch.
    """

    def __init__(
        self, launcher: Any, rows: Sequence[ReplayedLaunch], like: Sequence[Any], arrays: int,
        pairs: Sequence[Sequence[int]], is_distinct: bool,
    ) -> None:  # fmt: skip
        self.launcher = launcher
        self.keep: list[Any] = []
        launches = [word for row in rows for word in self.launch(launcher, row)]
        threads, scratch = self.prepared(rows)
        if scratch:
            launcher.provide(scratch)
        units = self.words([0] * _UNIT * (2 * len(rows) + PARTS * threads))
        parts = {"shared": ctypes.addressof(launcher.shared), "launches": self.words(launches),
            "total": len(rows), "arrays": arrays, "compared": len(like), "units": units,
            "like": self.words(described(like)), "count": len(pairs),
            "pairs": self.words([word for pair in pairs for word in pair]), "repeats": not is_distinct,
            "addresses": self.words([0] * arrays), "numpy": id(np.ndarray)}  # fmt: skip
        self.keep.append([x.dtype for x in like])
        self.begin(parts)

    def begin(self, parts: Mapping[str, int]) -> None:
        """Make the head, and the native function that reads it."""
        self.head = (ctypes.c_int64 * len(HEAD))(*(parts.get(name, 0) for name in HEAD))
        address = ctypes.addressof(self.head).to_bytes(8, "little")
        self.run = self.launcher.function("replay", address, (self.head, self.keep, self.launcher))

    def on_tensors(self, like: Sequence[Any]) -> Replay | None:
        """The replay for tensors of torch, and arrays, in place of the arrays that it was made for.

        It is None where there is no tensor, or native code does not read one of them. The launches and their blocks
        are those of this one, so one of the two runs at a time.
        """
        try:
            layout, tensors = tensor_layout(), list(filter(is_torch, like))
        except UnknownLayoutError:
            return None
        if not tensors or not all(map(layout.can_read, tensors)):
            return None
        other = object.__new__(Replay)
        other.launcher, other.keep = self.launcher, [self.keep, [x.dtype for x in like]]
        records = {id(x): layout.record(x) for x in tensors}
        other.keep.append(list(records.values()))
        any_record = ctypes.addressof(records[id(tensors[0])])
        parts = dict(zip(HEAD, self.head, strict=True)) | {"next": 0, "layout": any_record, "modes": layout.modes,
            "gradients": layout.gradients_on, "requires": layout.requires_grad}  # fmt: skip
        other.begin(parts | {"like": other.words(described(like, layout, records))})
        return other

    def restart(self) -> None:
        """Begin with the first launch again, and not behind the one that Python was to make."""
        self.head[HEAD.index("next")] = 0

    def words(self, words: Sequence[int]) -> int:
        """The address of some words, which are kept."""
        self.keep.append((ctypes.c_int64 * max(1, len(words)))(*words))
        return ctypes.addressof(self.keep[-1])

    def launch(self, launcher: Any, row: ReplayedLaunch) -> tuple[int, ...]:
        """The words of a launch, with its block filled in."""
        table = row.kernel.table
        if not table:
            raise LookupError
        block = self.words([0] * SLOTS)
        entry = launcher.resolve(ctypes.addressof(table.words), row.grid, row.values, block)
        version = table.versions[entry]
        moved = {at for at, _, _ in row.moves}
        self.keep += [table, [x for at, x in enumerate(row.values) if at not in moved]]
        slots = {s.arg: n for n, s in enumerate(version.program.artifact.abi, FIXED_SLOTS) if s.kind == "ptr"}
        names = row.kernel.signature.names
        moves = [(slots[names[at]], array, offset) for at, array, offset in row.moves if names[at] in slots]
        address = self.words([word for move in moves for word in move])
        return ctypes.addressof(table.words), entry, block, address, len(moves), row.wave

    def prepared(self, rows: Sequence[ReplayedLaunch]) -> tuple[int, int]:
        """Threads of a wave, and the bytes of scratch memory that all of them need; the pool is started for it."""
        starts = [n for n, row in enumerate(rows) if row.wave > 1]
        if not starts:
            return 1, 0
        programs = [
            version.program for n in starts for row in rows[n : n + rows[n].wave]
            for version in row.kernel.table.versions.values()
        ]  # fmt: skip
        backend = programs[0].backend
        backend.pool()
        most = max(program.artifact.pages for program in programs)
        return backend.threads, most * backend.threads


def described(
    arrays: Sequence[Any], layout: Layout | None = None, records: Mapping[int, Any] = MappingProxyType({})
) -> list[int]:
    """What arrays are like, as `replay.h` compares it; tensors have a record of their layout."""
    rows: list[tuple[int, ...]] = []
    for x in arrays:
        if layout is not None and id(x) in records:
            kind = layout.kind_of(x)
            rows.append((id(type(x)), kind, x.dim(), ctypes.addressof(records[id(x)]), *x.shape, *x.stride()))
        else:
            rows.append((id(np.ndarray), id(x.dtype), x.ndim, 0, *x.shape, *x.strides))
    return [word for row in rows for word in row]
