# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""Top-k by sorting, for chips whose vector unit has instructions that sort.

Cores sort parts of a row and keep the K largest of each. Pairs of lists are then merged by another sort until one list
is left. Equal scores stay in the order of their indices, because sorts are stable and the list with lower indices comes
first. Minus infinity and the least finite number count as equal.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import float32, int32
from pypto.library.binding import empty
from pypto.library.kernels.topk import histograms, visible

SORTED = 4096  # elements in one sort
LOWEST = -3.4028234663852886e38  # stands for minus infinity, while minus infinity stands for NaN
INFINITE = 1 << 30  # is added to the index of a score of minus infinity


@pto.jit
def parts_kernel(scores: pto.dynamic, lengths, s, keys, places, K: pto.constexpr, PART: pto.constexpr):
    """Sorts the scores of a part of a row, descending, with their indices. The lists have room for K of them.

    Missing elements have the index -1, and come last.
    """
    part, row = pto.program_id(0), pto.program_id(1)
    n, first = visible(lengths, s, row, scores.shape[1]), part * PART
    if first < n:
        numbers = pto.arange(0, PART)
        at = scores + row * scores.strides[0] + first + numbers
        score = pto.load(at, mask=numbers < n - first, other=-math.inf)
        key = pto.where(pto.isnan(score), -math.inf, pto.maximum(score, LOWEST))
        key = pto.where(numbers < n - first, key, -math.inf)
        place = first + numbers + pto.where(score == -math.inf, INFINITE, 0)
        place = pto.where(numbers < n - first, place, -1)
        order = pto.argsort(key, descending=True)
        keys[row, part, 0:PART] = pto.gather(key, order, 0)
        places[row, part, 0:PART] = pto.gather(place, order, 0)
    else:
        keys[row, part, :] = pto.full((K,), -math.inf, pto.float32)
        places[row, part, :] = pto.full((K,), -1, pto.int32)


@pto.jit
def merge_kernel(keys, places, merged_keys, merged_places, values, indices, K: pto.constexpr):
    """Merges two lists into the K largest; the last merge writes the result."""
    pair, row = pto.program_id(0), pto.program_id(1)
    key = pto.reshape(keys[row, 2 * pair : 2 * pair + 2, :], (2 * K,))
    place = pto.reshape(places[row, 2 * pair : 2 * pair + 2, :], (2 * K,))
    key = pto.where(pto.isnan(key), -math.inf, key)  # never true, but tells the sort that no key is NaN
    order = pto.argsort(key, descending=True)
    key, place = pto.gather(key, order, 0), pto.gather(place, order, 0)
    if indices is None:
        merged_keys[row, pair, 0 : 2 * K] = key
        merged_places[row, pair, 0 : 2 * K] = place
    else:
        indices[row, 0 : 2 * K] = pto.where(place < 0, -1, place & (INFINITE - 1))
        if values is not None:
            score = pto.where(key == -math.inf, math.nan, pto.where(place >= INFINITE, -math.inf, key))
            values[row, 0 : 2 * K] = pto.where(place < 0, -math.inf, score)


def sorted_parts(scores, lengths, k, s, values, indices):
    """Finds the k largest of every row, descending; ties go to the lowest index."""
    t, n = scores.shape
    if 2 * k > SORTED:
        histograms(scores, lengths, k, s, values, indices)
        return
    part = max(2 * k, min(SORTED, pto.next_power_of_2(n)))
    lists = max(2, pto.next_power_of_2(pto.cdiv(n, part)))
    keys, places = empty(scores, (t, lists, k), float32), empty(scores, (t, lists, k), int32)
    parts_kernel[(lists, t)](scores, lengths, s, keys, places, K=k, PART=part)
    while lists > 2:
        lists //= 2
        merged_keys, merged_places = empty(scores, (t, lists, k), float32), empty(scores, (t, lists, k), int32)
        merge_kernel[(lists, t)](keys, places, merged_keys, merged_places, None, None, K=k)
        keys, places = merged_keys, merged_places
    merge_kernel[(1, t)](keys, places, None, None, values, indices, K=k)
