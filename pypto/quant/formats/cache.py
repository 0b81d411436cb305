"""An int8 key-value cache stores keys with one scale per channel, and values with one scale per token and head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from pypto.errors.quant import WrongCalibration
from pypto.markup.summary import Summary
from pypto.quant.arrays import Array, check_finite

MOST: Final = 127
OBSERVED: Final = {"keys": "its keys", "values": "its values"}


@dataclass(frozen=True, slots=True, repr=False)
class BlockCache(Summary):
    """The cache of one block as array expressions, which a fused forward pass computes.

    Parameters
    ----------
    key_scales : ndarray of shape (heads, depth), float32, or None
        The scales of int8 keys; without, keys and values stay as they are.
    """

    key_scales: Array | None = None

    def __call__(self, k: Array, v: Array) -> tuple[Array, Array, dict[str, Array]]:
        """Returns the keys and values that attention reads, and the largest magnitudes of given ones by channel."""
        seen = {"keys": np.abs(k).max(axis=(0, 1))}
        if self.key_scales is None:
            return k, v, seen
        keys, values, scales = self.encode(k, v)
        seen["values"] = np.abs(v).max(axis=(0, 1))
        return keys * self.key_scales, values * scales[..., None], seen

    def encode(self, k: Array, v: Array) -> tuple[Array, Array, Array]:
        """Returns codes of keys and values, and scales of the values; keys beyond their range are clipped."""
        key_scales: Array = self.key_scales
        most = np.abs(v).max(axis=-1)
        up = np.where(most > 0, np.float32(MOST) / np.where(most > 0, most, 1), 0)
        keys = np.clip(np.rint(k / key_scales), -MOST, MOST).astype(np.int8)
        return keys, np.rint(v * up[..., None]).astype(np.int8), most / np.float32(MOST)


def check_seen(name: str, seen: Mapping[str, Array]) -> None:
    """Refuses NaN and infinity among the keys and values of a block, whose largest magnitudes are given."""
    for part, most in seen.items():
        check_finite(name, OBSERVED[part], most)


@dataclass(slots=True, repr=False)
class KeyRanges(Summary):
    """The largest magnitudes of keys, per block, head and channel, gathered while a model runs on calibration data.

    Attributes
    ----------
    largest : dict of str to ndarray of shape (heads, depth), float32

    Examples
    --------
    >>> ranges = KeyRanges()
    >>> k = np.array([[[[1.0, -2.0]], [[3.0, 0.5]]]], np.float32)  # (batch, tokens, heads, depth)
    >>> _ = ranges("0", k, k)
    >>> ranges.largest["0"].tolist()
    [[3.0, 2.0]]
    """

    largest: dict[str, Array] = field(default_factory=dict)

    def __call__(self, name: str, k: Array, v: Array) -> tuple[Array, Array]:
        """Observes the keys (batch, tokens, heads, depth) of a block; returns keys and values unchanged."""
        self.note(name, {"keys": np.abs(k).max(axis=(0, 1), initial=0)})
        return k, v

    def of_block(self, _name: str) -> BlockCache:
        """Returns what a fused forward pass computes for a block; `note` takes what it has seen."""
        return BlockCache()

    def note(self, name: str, seen: Mapping[str, Array]) -> None:
        """Adds the largest magnitudes of a block's keys.

        Raises
        ------
        NotFinite
        """
        check_seen(name, seen)
        most = seen["keys"]
        self.largest[name] = np.maximum(self.largest[name], most) if name in self.largest else most


@dataclass(frozen=True, slots=True, repr=False)
class Int8Cache(Summary):
    """A cache of int8 keys and values.

    A channel of the keys has one static scale, which can therefore be folded into the queries. A token of the values
    has one scale for each head, computed when it is stored. Keys beyond the range are clipped.

    Parameters
    ----------
    key_scales : mapping of str to ndarray of shape (heads, depth), float32
        The scales by name of the block; `Int8Cache.of` makes them from ranges.

    Examples
    --------
    >>> cache = Int8Cache.of(KeyRanges({"0": np.array([[2.0, 1.0]], np.float32)}))
    >>> k = np.array([[[[1.0, -1.0]]]], np.float32)
    >>> cache.encode("0", k, k)[0].tolist(), cache.encode("0", k, k)[1].tolist()
    ([[[[64, -127]]]], [[[[127, -127]]]])
    """

    key_scales: Mapping[str, Array]

    @classmethod
    def of(cls, ranges: KeyRanges) -> Int8Cache:
        """Makes scales from ranges; a channel that was always 0 has the scale 1."""
        return cls(
            {
                name: np.where(most > 0, most / np.float32(MOST), 1).astype(np.float32)
                for name, most in ranges.largest.items()
            }
        )

    def encode(self, name: str, k: Array, v: Array) -> tuple[Array, Array, Array]:
        """Returns codes of keys and values, and scales of the values (batch, tokens, heads).

        Raises
        ------
        WrongCalibration
            If the block has no scales.
        NotFinite
        """
        block = self.of_block(name)
        check_finite(name, "its keys", k)
        check_finite(name, "its values", v)
        return block.encode(k, v)

    def of_block(self, name: str) -> BlockCache:
        """Returns what a fused forward pass computes for a block; `note` takes what it has seen.

        Raises
        ------
        WrongCalibration
            If the block has no scales.
        """
        if name not in self.key_scales:
            raise WrongCalibration(what=f"block {name} has no scales of keys", way="gather them with `KeyRanges`")
        return BlockCache(self.key_scales[name])

    def note(self, name: str, seen: Mapping[str, Array]) -> None:
        """Refuses a block with NaN or infinity among its keys or values."""
        check_seen(name, seen)

    def __call__(self, name: str, k: Array, v: Array) -> tuple[Array, Array]:
        """Encodes and decodes keys and values, in float32."""
        keys, values, scales = self.encode(name, k, v)
        return keys * self.key_scales[name], values * scales[..., None]
