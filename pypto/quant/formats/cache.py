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
        check_finite(name, "its keys", k)
        most = np.abs(k).max(axis=(0, 1), initial=0)
        self.largest[name] = np.maximum(self.largest.get(name, most), most)
        return k, v


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
        if name not in self.key_scales:
            raise WrongCalibration(what=f"block {name} has no scales of keys", way="gather them with `KeyRanges`")
        check_finite(name, "its keys", k)
        check_finite(name, "its values", v)
        keys = key_codes(k, self.key_scales[name])
        most = np.abs(v).max(axis=-1, initial=0)
        up = np.divide(np.float32(MOST), most, out=np.zeros_like(most), where=most > 0)
        return keys, np.rint(v * up[..., None]).astype(np.int8), most / np.float32(MOST)

    def __call__(self, name: str, k: Array, v: Array) -> tuple[Array, Array]:
        """Encodes and decodes keys and values, in float32."""
        keys, values, scales = self.encode(name, k, v)
        return keys * self.key_scales[name], values * scales[..., None]


def key_codes(keys: Array, scales: Array) -> Array:
    """Returns codes of keys; those beyond the range are clipped."""
    return np.clip(np.rint(keys / scales), -MOST, MOST).astype(np.int8)
