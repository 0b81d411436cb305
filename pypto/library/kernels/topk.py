# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
# ruff: noqa: PLR0913, PLR0917
"""Top-k by radix select: histograms of the scores' bits find the least selected score; then the selected are sorted."""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty

BLOCK = 1024
BINS = 2048
SCANNED = 16
LEAST = -2147483648


@pto.jit
def sortable(t):
    """Maps floats to integers of the same order; NaN becomes the least, so it is selected last."""
    bits = pto.bitcast(pto.where(pto.isnan(t), -math.inf, t), pto.int32)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@pto.jit
def score_keys(scores: pto.dynamic, row, j, BLOCK: pto.constexpr):
    """Returns the sort keys of a block of scores."""
    return sortable(pto.load(scores, (row, j), (1, BLOCK)).reshape(BLOCK))


@pto.jit
def stored_keys(keys: pto.dynamic, row, j, BLOCK: pto.constexpr):
    """Loads a block of sort keys."""
    return pto.load(keys, (row, j), (1, BLOCK)).reshape(BLOCK)


@pto.jit
def last_bin(counts, need, BINS: pto.constexpr):
    """Finds the last bin from which on at least `need` keys lie, and counts the keys behind it."""
    behind = pto.sum(counts) - pto.cumsum(counts, axis=0)
    bins = pto.arange(0, BINS)
    last = pto.max(pto.where(behind + counts >= need, bins, 0))
    return last, pto.sum(pto.where(bins == last, behind, 0))


@pto.jit
def least_chosen(read: pto.constexpr, x: pto.dynamic, row, n, need, BLOCK: pto.constexpr, BINS: pto.constexpr):
    """Finds the least of the `need` largest keys by three histograms, and how many keys equal to it are selected."""
    counts = pto.zeros((BINS,), pto.int32)
    for j in range(0, n, BLOCK):
        inside = j + pto.arange(0, BLOCK) < n
        counts += pto.histogram(pto.where(inside, (read(x, row, j, BLOCK) >> 21) + 1024, -1), BINS)
    high, behind = last_bin(counts, need, BINS)
    need_high = need - behind
    counts = pto.zeros((BINS,), pto.int32)
    for j in range(0, n, BLOCK):
        key = read(x, row, j, BLOCK)
        inside = (j + pto.arange(0, BLOCK) < n) & ((key >> 21) + 1024 == high)
        counts += pto.histogram(pto.where(inside, (key >> 10) & 2047, -1), BINS)
    middle, behind = last_bin(counts, need_high, BINS)
    need_middle = need_high - behind
    prefix = ((high - 1024) << 11) | middle
    counts = pto.zeros((BINS,), pto.int32)
    for j in range(0, n, BLOCK):
        key = read(x, row, j, BLOCK)
        inside = (j + pto.arange(0, BLOCK) < n) & ((key >> 10) == prefix)
        counts += pto.histogram(pto.where(inside, key & 1023, -1), BINS)
    low, behind = last_bin(counts, need_middle, BINS)
    return (prefix << 10) | low, need_middle - behind


@pto.jit
def visible(lengths, s, row, n):
    """Returns how many scores of a row a token may see."""
    if lengths is not None:
        n = min(max(lengths[row // s] - (s - 1 - row % s), 0), n)
    return n


@pto.jit
def sort_chosen(scores: pto.dynamic, keys, places, values, indices, row, need, K: pto.constexpr):
    """Sorts the first keys of a row, descending; equal keys stay in the order in which they were listed."""
    numbers = pto.arange(0, K)
    listed = pto.load(keys + row * keys.shape[1] + numbers, mask=numbers < need, other=-2147483648)
    order = pto.argsort(listed, descending=True)
    place = pto.load(places + row * places.shape[1] + order, mask=numbers < need, other=-1)
    indices[row, :] = place
    if values is not None:
        safe = pto.maximum(place, 0)
        values[row, :] = pto.load(scores + row * scores.strides[0] + safe, mask=numbers < need, other=-math.inf)


@pto.jit
def histograms_kernel(
    scores: pto.dynamic, lengths, s, keys, places, values, indices,
    K: pto.constexpr, BLOCK: pto.constexpr, BINS: pto.constexpr,
):  # fmt: skip
    """Finds the least selected key by three histograms of all keys, lists the selected ones, and sorts them."""
    row = pto.program_id(0)
    n = visible(lengths, s, row, scores.shape[1])
    need = min(n, K)
    least, equals = least_chosen(score_keys, scores, row, n, need, BLOCK, BINS)
    at = 0
    seen = 0
    for j in range(0, n, BLOCK):
        key = score_keys(scores, row, j, BLOCK)
        numbers = j + pto.arange(0, BLOCK)
        same = (key == least) & (numbers < n)
        rank = seen + pto.cumsum(same.to(pto.int32), axis=0)
        chosen = ((key > least) & (numbers < n)) | (same & (rank <= equals))
        where = at + pto.cumsum(chosen.to(pto.int32), axis=0) - 1
        pto.store(keys + row * K + where, key, mask=chosen)
        pto.store(places + row * K + where, numbers.to(pto.int32), mask=chosen)
        at += pto.sum(chosen.to(pto.int32))
        seen += pto.sum(same.to(pto.int32))
    sort_chosen(scores, keys, places, values, indices, row, need, K)


@pto.jit
def lower_bound(scores: pto.dynamic, row, n, need, GROUPS: pto.constexpr, BINS: pto.constexpr):
    """Finds a key that at least `need` others reach, from the maximum of each of GROUPS groups.

    Elements of a group are GROUPS apart, so that adjacent large elements fall into different groups.
    """
    most = pto.full((GROUPS,), -2147483648, pto.int32)
    for j in range(0, n, GROUPS):
        inside = j + pto.arange(0, GROUPS) < n
        most = pto.maximum(most, pto.where(inside, score_keys(scores, row, j, GROUPS), -2147483648))
    high, behind = last_bin(pto.histogram((most >> 21) + 1024, BINS), need, BINS)
    second = pto.where((most >> 21) + 1024 == high, (most >> 10) & 2047, -1)
    middle, _ = last_bin(pto.histogram(second, BINS), need - behind, BINS)
    return (((high - 1024) << 11) | middle) << 10


@pto.jit
def candidates_kernel(
    scores: pto.dynamic, lengths, s, keys: pto.dynamic, places: pto.dynamic, values, indices,
    K: pto.constexpr, GROUPS: pto.constexpr, SCANNED: pto.constexpr, BLOCK: pto.constexpr, BINS: pto.constexpr,
):  # fmt: skip
    """Lists the keys above a lower bound in one scan, so that the histograms read these alone."""
    row = pto.program_id(0)
    n, width = visible(lengths, s, row, scores.shape[1]), keys.shape[1]
    need = min(n, K)
    bound = lower_bound(scores, row, n, need, GROUPS, BINS)
    count = 0
    for j in range(0, n, SCANNED):
        key = score_keys(scores, row, j, SCANNED)
        if pto.max(key) >= bound:
            numbers = j + pto.arange(0, SCANNED)
            listed = (key >= bound) & (numbers < n)
            where = row * width + count + pto.cumsum(listed.to(pto.int32), axis=0) - 1
            pto.store(keys + where, key, mask=listed)
            pto.store(places + where, numbers.to(pto.int32), mask=listed)
            count += pto.sum(listed.to(pto.int32))
    least, equals = least_chosen(stored_keys, keys, row, count, need, BLOCK, BINS)
    at = 0
    seen = 0
    for j in range(0, count, BLOCK):
        key = stored_keys(keys, row, j, BLOCK)
        place = stored_keys(places, row, j, BLOCK)
        inside = j + pto.arange(0, BLOCK) < count
        same = (key == least) & inside
        rank = seen + pto.cumsum(same.to(pto.int32), axis=0)
        chosen = ((key > least) & inside) | (same & (rank <= equals))
        where = row * width + at + pto.cumsum(chosen.to(pto.int32), axis=0) - 1
        pto.store(keys + where, key, mask=chosen)
        pto.store(places + where, place, mask=chosen)
        at += pto.sum(chosen.to(pto.int32))
        seen += pto.sum(same.to(pto.int32))
    sort_chosen(scores, keys, places, values, indices, row, need, K)


def histograms(scores, lengths, k, s, values, indices):
    """Finds the k largest of every row, descending; ties go to the lowest index."""
    t = scores.shape[0]
    keys, places = empty(scores, (t, k), int32), empty(scores, (t, k), int32)
    histograms_kernel[(t,)](scores, lengths, s, keys, places, values, indices, K=k, BLOCK=BLOCK, BINS=BINS)


def candidates(scores, lengths, k, s, values, indices):
    """Finds the k largest by `candidates_kernel`, where a scan with a branch for every few elements is fast."""
    t, n = scores.shape
    keys, places = empty(scores, (t, max(n, k)), int32), empty(scores, (t, max(n, k)), int32)
    sizes = {"K": k, "GROUPS": 4 * k, "SCANNED": SCANNED, "BLOCK": BLOCK, "BINS": BINS}
    candidates_kernel[(t,)](scores, lengths, s, keys, places, values, indices, **sizes)
