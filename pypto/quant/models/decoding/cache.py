"""A key-value cache holds the keys and values of one sequence, so that a new token computes only its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pypto.errors.quant import FullCache
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array
from pypto.runtime.launches import BoundLaunches, LaunchList

CHANGED: Final = ("keys", "values", "value_scale")  # arrays of a store that a layer changes


@dataclass(frozen=True, slots=True, repr=False)
class Store(Summary):
    """The part of a cache that belongs to one layer."""

    keys: Array
    values: Array
    key_scale: Array | None
    value_scale: Array | None

    @property
    def arrays(self) -> dict[str, Array]:
        """The arrays that a layer changes, by name."""
        return {name: x for name in CHANGED if (x := getattr(self, name)) is not None}


@dataclass(slots=True, repr=False)
class KeyValueCache(Summary):
    """Keys and values of one sequence, which a decoder reads and writes; `Decoder.cache` makes one.

    Keys are rotated to their positions, and stored by halves: the even channels of a head, then the odd ones.

    Attributes
    ----------
    keys, values : ndarray of shape (blocks, heads, tokens, depth), float32 or int8
    key_scales : ndarray of shape (blocks, heads, depth), float32, optional
        Of int8 keys.
    value_scales : ndarray of shape (blocks, heads, tokens), float32, optional
        Of int8 values.
    length : int
        The number of stored tokens; decrease it to forget the last ones.
    """

    keys: Array = field(repr=False)
    values: Array = field(repr=False)
    key_scales: Array | None = field(default=None, repr=False)
    value_scales: Array | None = field(default=None, repr=False)
    length: int = 0
    rotary: tuple[Array, ...] = field(default=(), repr=False)  # cosines and sines of all positions
    position: Array = field(default_factory=lambda: np.zeros(1, np.int32), repr=False)
    launches: BoundLaunches = field(default_factory=LaunchList(()).bind, repr=False)  # launches of a step on this cache
    logits: Array = field(default_factory=lambda: np.zeros(0, np.float32), repr=False)  # of the last step
    owner: object = field(default=None, repr=False)  # the decoder of these launches

    @classmethod
    def of(cls, shape: tuple[int, int, int, int], key_scales: Array | None = None) -> KeyValueCache:
        """Allocates an empty cache (blocks, heads, tokens, depth), in int8 if there are key scales."""
        if key_scales is None:
            return cls(np.zeros(shape, np.float32), np.zeros(shape, np.float32))
        return cls(np.zeros(shape, np.int8), np.zeros(shape, np.int8), key_scales, np.zeros(shape[:3], np.float32))

    @property
    def tokens(self) -> int:
        """The capacity in tokens."""
        return int(self.keys.shape[2])

    @property
    def bytes(self) -> int:
        """The bytes of keys, values and the scales of values."""
        return int(
            self.keys.nbytes + self.values.nbytes + (0 if self.value_scales is None else self.value_scales.nbytes)
        )

    def of_block(self, number: int) -> Store:
        """Returns the part of a layer."""
        scales = (None if x is None else x[number] for x in (self.key_scales, self.value_scales))
        return Store(self.keys[number], self.values[number], *scales)

    def put(self, number: int, changed: Mapping[str, Array]) -> None:
        """Stores the arrays of a layer, which as a rule lie in the memory that they were donated with."""
        store = self.of_block(number)
        for name, array in store.arrays.items():
            if not np.may_share_memory(array, changed[name]):
                np.copyto(array, changed[name])

    def reserve(self, count: int) -> None:
        """Checks that so many more tokens fit.

        Raises
        ------
        FullCache
        """
        if self.length + count > self.tokens:
            raise FullCache(held=self.length, more=count, tokens=self.tokens)
