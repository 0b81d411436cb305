"""Random numbers by counter: Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).

What they give for a seed and an offset is what Triton gives.
"""

from __future__ import annotations

from typing import Any

from pypto.ir.types import int32, int64, uint32, uint64
from pypto.language import ops
from pypto.language.standard import static_assert

Tile = Any  # a tile or scalar; annotations in here are for readers

__all__ = [
    "pair_uniform_to_normal",
    "philox",
    "philox_impl",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "uint_to_uniform_float",
]


def _upper(a: Any, b: Any) -> Any:
    """The upper half of a product."""
    if a.dtype == uint64:
        return ops.umulhi(a, ops.cast(b, uint64))
    return ops.cast((ops.cast(a, uint64) * b) >> 32, uint32)


def _is_whole(seed: Any) -> Any:
    """Whether a seed is an integer; a constant has no dtype."""
    if isinstance(seed, float):
        return False
    return isinstance(seed, int) or not seed.dtype.is_floating()


def philox_impl(c0: Tile, c1: Tile, c2: Tile, c3: Tile, k0: Tile, k1: Tile, n_rounds: int = 10) -> Any:
    """Rounds of Philox on counters and keys of 32 or 64 unsigned bits; gives four random integers."""
    if c0.dtype == uint32:
        a, b, key_a, key_b = 0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85
    else:
        a, b, key_a, key_b = 0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
    for _ in ops.static_range(n_rounds):
        c0, c1, c2, c3 = _upper(c2, b) ^ c1 ^ k0, c2 * b, _upper(c0, a) ^ c3 ^ k1, c0 * a
        k0, k1 = k0 + key_a, k1 + key_b
    return c0, c1, c2, c3


def philox(seed: Any, c0: Tile, c1: Tile, c2: Tile, c3: Tile, n_rounds: int = 10) -> Any:
    """Four random integers of the counters' width, 32 or 64 bits.

    Parameters
    ----------
    seed : int
        Of 32 or 64 bits; all of it counts.
    c0, c1, c2, c3 : tiles of integers of one width
    n_rounds : int
    """
    static_assert(_is_whole(seed), "a seed is an integer")
    key = ops.cast(seed, uint64)
    if c0.dtype.bits == 64:
        dtype, low, high = uint64, key, ops.cast(0, uint64)
    else:
        dtype, low, high = uint32, ops.cast(key, uint32), ops.cast(key >> 32, uint32)
    c0, c1, c2, c3 = (ops.cast(c, dtype) for c in (c0, c1, c2, c3))
    return philox_impl(c0, c1, c2, c3, low, high, n_rounds)


def randint4x(seed: Any, offset: Tile, n_rounds: int = 10) -> Any:
    """Four tiles of random uint32 for a seed and offsets of 32 or 64 bits."""
    counter = ops.cast(offset, uint64)
    low, high, zero = ops.cast(counter, uint32), ops.cast(counter >> 32, uint32), ops.cast(counter * 0, uint32)
    return philox(seed, low, high if offset.dtype.bits == 64 else zero, zero, zero, n_rounds)


def randint(seed: Any, offset: Tile, n_rounds: int = 10) -> Tile:
    """Random uint32 for a seed and offsets."""
    return randint4x(seed, offset, n_rounds)[0]


def uint_to_uniform_float(x: Tile) -> Tile:
    """Random integers of 32 or 64 bits to float32 from 0 to 1, without 1."""
    if x.dtype.bits == 32:
        signed, scale = ops.bitcast(x, int32), 4.6566127342e-10
    else:
        signed, scale = ops.bitcast(x, int64), 1.0842020432385337e-19
    return ops.where(signed < 0, -signed - 1, signed) * scale


def rand4x(seed: Any, offset: Tile, n_rounds: int = 10) -> Any:
    """Four tiles of float32 from 0 to 1, without 1, for a seed and offsets."""
    return tuple(uint_to_uniform_float(x) for x in randint4x(seed, offset, n_rounds))


def rand(seed: Any, offset: Tile, n_rounds: int = 10) -> Tile:
    """float32 from 0 to 1, without 1, for a seed and offsets.

    Parameters
    ----------
    seed : int
        Of 32 or 64 bits; all of it counts. It may be a run-time value.
    offset : tile or int
        Integers of 32 or 64 bits, one for each number.
    n_rounds : int
        Rounds of Philox; a constant. Fewer are faster and less random.

    Returns
    -------
    tile
        float32, of the shape of `offset`.
    """
    return uint_to_uniform_float(randint(seed, offset, n_rounds))


def pair_uniform_to_normal(u1: Tile, u2: Tile) -> Any:
    """Two normal numbers from two uniform ones, by Box and Muller."""
    radius = ops.sqrt(-2.0 * ops.log(ops.maximum(1.0e-7, u1)))
    angle = 6.283185307179586 * u2
    return radius * ops.cos(angle), radius * ops.sin(angle)


def randn4x(seed: Any, offset: Tile, n_rounds: int = 10) -> Any:
    """Four tiles of normal float32 for a seed and offsets."""
    u1, u2, u3, u4 = rand4x(seed, offset, n_rounds)
    return (*pair_uniform_to_normal(u1, u2), *pair_uniform_to_normal(u3, u4))


def randn(seed: Any, offset: Tile, n_rounds: int = 10) -> Tile:
    """Normal float32 for a seed and offsets."""
    a, b, _, _ = randint4x(seed, offset, n_rounds)
    return pair_uniform_to_normal(uint_to_uniform_float(a), uint_to_uniform_float(b))[0]
