# Written for the front end, which reads types from arguments; not for a type checker.
# mypy: ignore-errors
"""The largest scores of rows by sorting, for chips whose vector unit has instructions that sort.

Many cores sort parts of a row, and keep the K largest of each. Two such lists are sorted again, pair by pair, until one
is left. Equal scores stay in the order of their places, since sorts are stable and the list of lower places comes
first.
"""

from __future__ import annotations

import math

import pypto as pto
from pypto.ir.types import int32
from pypto.library.binding import empty
from pypto.library.kernels.topk import histograms, sortable, visible

SORTED = 4096  # elements that are sorted at once
LEAST = -2147483648  # the key of no score
NAN = LEAST + 1


@pto.jit
def parts_kernel(scores: pto.dynamic, lengths, s, keys, places, K: pto.constexpr, PART: pto.constexpr):
    """The keys of a part of a row, descending, and their places. The lists have room for K of them."""
    part, row = pto.program_id(0), pto.program_id(1)
    n, first = visible(lengths, s, row, scores.shape[1]), part * PART
    if first < n:
        numbers = pto.arange(0, PART)
        score = pto.reshape(pto.load(scores, (row, first), (1, PART)), (PART,))
        key = pto.where(pto.isnan(score), NAN, sortable(score))
        key = pto.where(numbers < n - first, key, LEAST)
        order = pto.argsort(key, descending=True)
        keys[row, part, 0:PART] = pto.gather(key, order, 0)
        places[row, part, 0:PART] = first + order.to(pto.int32)
    else:
        keys[row, part, :] = pto.full((K,), LEAST, pto.int32)


@pto.jit
def merge_kernel(keys, places, merged_keys, merged_places, values, indices, K: pto.constexpr):
    """The K largest of two lists; of the last two, they are the result."""
    pair, row = pto.program_id(0), pto.program_id(1)
    key = pto.reshape(keys[row, 2 * pair : 2 * pair + 2, :], (2 * K,))
    place = pto.reshape(places[row, 2 * pair : 2 * pair + 2, :], (2 * K,))
    order = pto.argsort(key, descending=True)
    key, place = pto.gather(key, order, 0), pto.gather(place, order, 0)
    if indices is None:
        merged_keys[row, pair, 0 : 2 * K] = key
        merged_places[row, pair, 0 : 2 * K] = place
    else:
        indices[row, 0 : 2 * K] = pto.where(key == LEAST, -1, place)
        if values is not None:
            score = pto.bitcast(key ^ ((key >> 31) & 0x7FFFFFFF), pto.float32)
            score = pto.where(key == NAN, math.nan, score)
            values[row, 0 : 2 * K] = pto.where(key == LEAST, -math.inf, score)


def sorted_parts(scores, lengths, k, s, values, indices):
    """The k largest of every row, descending, ties to the lowest index."""
    t, n = scores.shape
    if 2 * k > SORTED:
        histograms(scores, lengths, k, s, values, indices)
        return
    part = max(2 * k, min(SORTED, pto.next_power_of_2(n)))
    lists = max(2, pto.next_power_of_2(pto.cdiv(n, part)))
    keys, places = empty(scores, (t, lists, k), int32), empty(scores, (t, lists, k), int32)
    parts_kernel[(lists, t)](scores, lengths, s, keys, places, K=k, PART=part)
    while lists > 2:
        lists //= 2
        merged_keys, merged_places = empty(scores, (t, lists, k), int32), empty(scores, (t, lists, k), int32)
        merge_kernel[(lists, t)](keys, places, merged_keys, merged_places, None, None, K=k)
        keys, places = merged_keys, merged_places
    merge_kernel[(1, t)](keys, places, None, None, values, indices, K=k)
