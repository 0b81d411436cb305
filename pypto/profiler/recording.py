"""Allocates memory for the records of a profiled kernel, and reads them after the launch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from pypto.backends.sites import AREA_WORDS, EVENT_WORDS, SITE_WORDS, Site, area_bytes

Counts = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Recording:
    """The memory for the records of one launch.

    `areas` are at the ends of the threads' scratch. `events` and `programs` are arrays of shape (threads, records,
    words), which limit the number of records.
    """

    areas: list[Counts]
    events: Counts
    programs: Counts

    @staticmethod
    def begin(artifact: Any, scratch: int, step: int, threads: int, events: int, programs: int) -> Recording:
        """Prepares the areas in a launch's scratch, which has `step` bytes per thread."""
        sites = len(artifact.sites)
        start = scratch + artifact.scratch_bytes - area_bytes(sites)
        areas = [words_at(start + n * step, area_bytes(sites) // 8) for n in range(threads)]
        shapes = (threads, events, EVENT_WORDS), (threads, programs, 1 + sites)
        recording = Recording(areas, *(np.empty(shape, np.int64) for shape in shapes))
        for n, area in enumerate(areas):
            area[:] = 0
            area[0:2] = span(recording.events[n])
            area[3:5] = span(recording.programs[n])
        return recording

    @property
    def totals(self) -> Counts:
        """Returns the cycles and the runs of each site: an array of shape (2, sites)."""
        tables = [area[AREA_WORDS:].reshape(-1, SITE_WORDS) for area in self.areas]
        return sum(tables[1:], tables[0].copy())[:, :2].T

    @property
    def dropped(self) -> tuple[int, int]:
        """Returns the numbers of events and programs for which the memory was too small."""
        return sum(int(area[2]) for area in self.areas), sum(int(area[5]) for area in self.areas)

    def kept_events(self) -> list[Counts]:
        """Returns for each thread the rows of site, program, begin and end."""
        return [filled(rows, area[0]) for rows, area in zip(self.events, self.areas, strict=True)]

    def kept_programs(self) -> Counts:
        """Returns a row of cycles per site for every recorded program."""
        copies = [filled(rows, area[3]) for rows, area in zip(self.programs, self.areas, strict=True)]
        return np.concatenate(copies)[:, 1:]


def words_at(address: int, count: int) -> Counts:
    return np.ctypeslib.as_array((ctypes.c_int64 * count).from_address(address))


def span(rows: Counts) -> tuple[int, int]:
    """Returns the addresses of the first byte and of the one after the last."""
    return rows.ctypes.data, rows.ctypes.data + rows.nbytes


def filled(rows: Counts, end: int) -> Counts:
    """Returns a copy of the rows in front of an address."""
    return rows[: (int(end) - rows.ctypes.data) // (8 * rows.shape[1])].copy() if rows.size else rows


def own_time(cycles: Counts, sites: tuple[Site, ...]) -> Counts:
    """Returns each site's time without the sites inside it; the sites are the last axis."""
    exclusive = cycles.copy()
    for number, site in enumerate(sites):
        if site.parent >= 0:
            exclusive[..., site.parent] -= cycles[..., number]
    return np.maximum(exclusive, 0)
