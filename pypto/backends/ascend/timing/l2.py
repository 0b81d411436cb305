"""L2 model: the hit rates of a launch, and the contention of cores that read one place at the same time.

The model samples bytes of each array. It sorts the accesses of these samples by the clocks of the cores and runs them
through an LRU cache of the size of L2. Reads that bypass L2 allocate no line.
"""

from __future__ import annotations

import math
from collections import OrderedDict, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

import numpy as np
import numpy.typing as npt

from pypto.backends.ascend.blockir.effects import views
from pypto.backends.ascend.timing.accesses import Access
from pypto.backends.ascend.timing.rates import WINDOW, MemoryRates

SAMPLES: Final = 1500  # bytes of all arrays that are followed
LEAST_SAMPLES: Final = 24  # of an array
NOTHING: Final[Mapping[str, float]] = MappingProxyType({})
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


@dataclass
class L2Use:
    """What L2 does in a launch.

    Attributes
    ----------
    hits : dict
        The part of an instruction's bytes that L2 has, by the instruction's id.
    read_hits : float
        The part of all bytes read through L2 that it has.
    evicted : float
        The part of all bytes written that leave L2 for memory before the launch ends, or in the next one.
    same_place : float
        Seconds for reads that wait for other cores at the same place, for each byte that is moved.
    """

    hits: dict[int, float] = field(default_factory=dict)
    read_hits: float = 0.0
    evicted: float = 0.0
    same_place: float = 0.0


@dataclass
class Events:
    """Accesses of samples: the sample, the time, the access, and the bytes that the sample stands for."""

    sample: Numbers
    time: Floats
    access: Numbers
    bytes: Floats


def l2_use(
    accesses: list[Access], ends: list[Floats], streams: frozenset[str], capacity: int, rates: MemoryRates,
    since: Mapping[str, float] = NOTHING,
) -> L2Use:  # fmt: skip
    """Simulate L2 on the samples. `ends` has for each access the last clock of its kind of core.

    `since` are arrays that launches before it have written, with the bytes that came into L2 after them.
    """
    events, footprint = sampled(accesses, ends)
    if not len(events.sample):
        return L2Use()
    bypasses = np.array([not a.is_write and a.array in streams for a in accesses])
    kept = [name for name, later in since.items() if later + footprint.get(name, 0.0) <= capacity]
    present = np.array([a.array in kept for a in accesses])[events.access]
    is_hit = hit_by_order(events, bypasses, present, capacity)
    weights, is_write = events.bytes, np.array([a.is_write for a in accesses])[events.access]
    passed = bypasses[events.access]
    hits, sizes = defaultdict[int, float](float), defaultdict[int, float](float)
    for n, access in enumerate(accesses):
        chosen = events.access == n
        sizes[id(access.instr)] += float(weights[chosen].sum())
        hits[id(access.instr)] += float((weights * is_hit)[chosen].sum())
    through = ~is_write & ~passed
    allocated = sum(size for name, size in footprint.items() if name not in streams)
    missed = float((weights * (is_write & ~is_hit)).sum() / max(1.0, (weights * is_write).sum()))
    return L2Use(
        {key: hits[key] / size for key, size in sizes.items() if size},
        float((weights * is_hit * through).sum() / max(1.0, (weights * through).sum())),
        missed * evicted_part(allocated / capacity),
        waits(accesses, events, ~is_write, passed, rates),
    )


def evicted_part(fill: float) -> float:
    """The fraction of bytes that is evicted before its next use, for a working set of `fill` times the cache.

    Replacement is random: m = 1 - exp(-m * fill), solved by fixed-point iteration.
    """
    if fill <= 1:
        return 0.0
    part = 1.0
    for _ in range(60):
        part = 1 - math.exp(-part * fill)
    return part


def sampled(accesses: list[Access], ends: list[Floats]) -> tuple[Events, dict[str, float]]:
    """Sample random bytes of each array: their accesses, and the footprint of each array."""
    arrays = defaultdict[str, list[int]](list)
    for n, access in enumerate(accesses):
        arrays[access.array].append(n)
    extents = {name: extent([accesses[n] for n in numbers]) for name, numbers in arrays.items()}
    whole = sum(end - start for start, end in extents.values())
    random, parts, count = np.random.default_rng(0), list[Events](), 0
    footprint = dict[str, float]()
    for name, numbers in arrays.items():
        start, end = extents[name]
        wanted = min(end - start, max(LEAST_SAMPLES, SAMPLES * (end - start) // max(1, whole)))
        if wanted <= 0:
            continue
        places, touched = random.integers(start, end, wanted), set[int]()
        for n in numbers:
            samples, times = touches(accesses[n], places)
            touched.update(samples.tolist())
            each = np.full(len(samples), (end - start) / wanted)
            parts.append(Events(samples + count, times / ends[n].max(initial=1.0), np.full(len(samples), n), each))
        footprint[name] = (end - start) * len(touched) / wanted
        count += wanted
    empty = Events(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, np.int64), np.zeros(0))
    parts = parts or [empty]
    return Events(*(np.concatenate([getattr(p, f) for p in parts]) for f in ("sample", "time", "access", "bytes"))), (
        footprint
    )


def extent(accesses: list[Access]) -> tuple[int, int]:
    """The first byte that is accessed, and the end of the last."""
    starts, ends = [], []
    for access in accesses:
        low, high = access.base, access.base + (access.rows - 1) * access.pitch + access.run
        for dim in access.dims:
            moved = (dim.count - 1) * dim.step
            low, high = low + np.minimum(0, moved), high + np.maximum(0, moved)
        moves = access.mask & (access.rows > 0) & (access.run > 0)
        if moves.any():
            starts.append(int(low[moves].min()))
            ends.append(int(high[moves].max()))
    return (min(starts), max(ends)) if starts else (0, 0)


def touches(access: Access, places: Numbers) -> tuple[Numbers, Floats]:
    """The sampled places that an access touches, and when: for each core, and for each iteration that repeats them."""
    cores = access.mask.nonzero()[0]
    left = places[:, None] - access.base[cores][None, :]
    time = np.broadcast_to(access.start[cores].astype(np.float64), left.shape)
    inside = np.ones(left.shape, bool)
    again: list[tuple[int, Floats]] = []
    none = np.zeros(len(access.mask), np.int64)
    dims = [(d.count + none, d.step + none, d.time + none) for d in access.dims]
    dims.append((access.rows, access.pitch, none))
    for counts, steps, times in sorted(dims, key=lambda d: -int(np.abs(d[1][cores]).max(initial=0))):
        count, step, later = counts[cores], steps[cores], times[cores]
        if not step.any():
            if int(count.max(initial=0)) > 1 and later.any():
                again.append((int(count.max()), later.astype(np.float64)))
            continue
        size = np.maximum(1, np.abs(step))
        moved = np.where(step < 0, left + (count - 1) * size, left)
        at = np.clip(moved // size, 0, np.maximum(0, count - 1))
        left = moved - at * size
        inside &= (left >= 0) & (count > 0)
        time = time + np.where(step < 0, count - 1 - at, at) * later
    inside &= left < access.run[cores]
    samples, lanes = inside.nonzero()
    found = time[samples, lanes]
    for times_again, after in again:
        samples, lanes = np.repeat(samples, times_again), np.repeat(lanes, times_again)
        found = np.repeat(found, times_again) + np.tile(np.arange(times_again), len(found)) * after[lanes]
    return samples, found


def hit_by_order(
    events: Events, bypasses: npt.NDArray[np.bool_], present: npt.NDArray[np.bool_], capacity: int
) -> npt.NDArray[np.bool_]:
    """LRU simulation: whether each access hits L2, in the order of the clocks. What is `present` L2 has from before."""
    pairs = zip(events.sample[present].tolist(), events.bytes[present].tolist(), strict=True)
    cache = OrderedDict[int, float](pairs)
    held = sum(cache.values())
    is_hit = np.zeros(len(events.sample), bool)
    order = np.argsort(events.time, kind="stable")
    columns = (events.sample[order], events.bytes[order], bypasses[events.access[order]])
    for n, sample, size, bypass in zip(order.tolist(), *(c.tolist() for c in columns), strict=True):
        if sample in cache:
            cache.move_to_end(sample)
            is_hit[n] = True
        elif not bypass:
            cache[sample] = size
            held += size
            while held > capacity:
                held -= cache.popitem(last=False)[1]
    return is_hit


def waits(
    accesses: list[Access], events: Events, reads: npt.NDArray[np.bool_], passed: npt.NDArray[np.bool_],
    rates: MemoryRates,
) -> float:  # fmt: skip
    """Contention: seconds of waiting for each byte moved, where several cores read a place within a time window."""
    lanes = np.array([len(a.mask) for a in accesses])[events.access]
    moved = max(1.0, events.bytes.sum() / lanes.max(initial=1))
    order = np.lexsort((events.time, events.sample))
    order = order[reads[order]]
    if not len(order):
        return 0.0
    sample, time, lanes = events.sample[order], events.time[order], lanes[order]
    begins = np.ones(len(order), bool)
    begins[1:] = (sample[1:] != sample[:-1]) | (time[1:] - time[:-1] > WINDOW / moved)
    group = np.cumsum(begins) - 1
    together = np.minimum(lanes, np.bincount(group)[group])
    to_vector = np.array([views(a.instr)[0].space == "UB" for a in accesses])[events.access[order]]
    bypassing = np.where(to_vector, rates.same_place_vector, rates.same_place)
    rate = np.where(passed[order], bypassing, rates.same_in_l2)
    return float((events.bytes[order] * together * (together > 1) / (lanes * rate)).sum() / events.bytes.sum())
