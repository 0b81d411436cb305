"""Random numbers: Philox against published vectors and a plain one in numpy, and what is made of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.errors.frontend import AssertionFailed
from tests.language.running import Array, both

# Counters, keys and results of Philox 4x32-10 from the test vectors of Random123.
ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES,) * 4, (ONES,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (PI, (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]
WORD = {
    32: (0xD2511F53, 0xCD9E8D57, 0x9E3779B9, 0xBB67AE85),
    64: (0xD2E7470EE14C6C93, 0xCA5A826395121157, 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B),
}


def philox(counter: Any, key: Any, rounds: int = 10, bits: int = 32) -> tuple[int, ...]:
    """The generator as its authors describe it, on Python integers."""
    (c0, c1, c2, c3), (k0, k1), mask = counter, key, (1 << bits) - 1
    a, b, key_a, key_b = WORD[bits]
    for _ in range(rounds):
        p, q = a * c0, b * c2
        c0, c1, c2, c3 = (q >> bits) ^ c1 ^ k0, q & mask, (p >> bits) ^ c3 ^ k1, p & mask
        k0, k1 = (k0 + key_a) & mask, (k1 + key_b) & mask
    return c0, c1, c2, c3


def test_the_reference_gives_the_published_numbers() -> None:
    for counter, key, result in VECTORS:
        assert philox(counter, key) == result


@pto.jit
def direct(counters, seed, out):
    c0, c1, c2, c3 = (counters[n : n + 1] for n in range(4))
    for n, x in enumerate(pto.philox(seed, c0, c1, c2, c3)):
        out[n : n + 1] = x


@pytest.mark.parametrize(("counter", "key", "result"), VECTORS)
def test_published_numbers(counter: Any, key: Any, result: Any, level: str) -> None:
    words = np.array(counter, np.uint32)
    for counters in (words, words.view(np.int32)):
        (out,) = both(direct, counters, key[0] + (key[1] << 32), np.zeros(4, np.uint32), outputs=1, level=level)
        assert tuple(out.tolist()) == result


def test_64_bits(level: str) -> None:
    counter, seed = (3, 2**63 + 5, 2**40, 7), 2**50 + 1
    (out,) = both(direct, np.array(counter, np.uint64), seed, np.zeros(4, np.uint64), outputs=1, level=level)
    assert tuple(out.tolist()) == philox(counter, (seed, 0), bits=64)


@pto.jit
def draws(seed, offset, words, uniform, normal, N: pto.constexpr, ROUNDS: pto.constexpr):
    at = pto.arange(0, N) + offset
    for n, x in enumerate(pto.randint4x(seed, at, ROUNDS)):
        words[n, :] = x
    for n, x in enumerate(pto.rand4x(seed, at, n_rounds=ROUNDS)):
        uniform[n, :] = x
    for n, x in enumerate(pto.randn4x(seed, at, ROUNDS)):
        normal[n, :] = x
    words[4, :] = pto.randint(seed, at, ROUNDS)
    uniform[4, :] = pto.rand(seed, at, ROUNDS)
    normal[4, :] = pto.randn(seed, at, ROUNDS)


def uniforms(words: Array) -> Array:
    signed = words.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


SEEDS = [(0, 0, 10), (42, 100, 10), (-3, 5, 10), (2**40 + 17, 2**35 + 3, 10), (7, 2**31 - 20, 6), (2**63 + 1, 0, 7)]


@pytest.mark.parametrize(("seed", "offset", "rounds"), SEEDS)
def test_draws(seed: int, offset: int, rounds: int, level: str) -> None:
    n = 67
    outputs = np.zeros((5, n), np.uint32), np.zeros((5, n), np.float32), np.zeros((5, n), np.float32)
    words, uniform, normal = both(draws, seed, offset, *outputs, outputs=3, level=level, N=n, ROUNDS=rounds)
    key = (seed % 2**32, seed % 2**64 >> 32)
    low = np.arange(n) + offset
    if offset < 2**31:  # offsets of 32 bits wrap
        low = low.astype(np.int32).view(np.uint32).astype(np.int64)
    right = np.array([philox((int(c) % 2**32, int(c) >> 32, 0, 0), key, rounds) for c in low], np.uint32).T
    np.testing.assert_array_equal(words[:4], right)
    np.testing.assert_array_equal(words[4], right[0])
    np.testing.assert_array_equal(uniform[:4], uniforms(np.ascontiguousarray(right)))
    np.testing.assert_array_equal(uniform[4], uniform[0])
    u = np.maximum(1e-7, uniform.astype(np.float64))
    for k in (0, 2):
        radius, angle = np.sqrt(-2 * np.log(u[k])), 2 * np.pi * uniform[k + 1]
        np.testing.assert_allclose(normal[k], radius * np.cos(angle), atol=2e-5)
        np.testing.assert_allclose(normal[k + 1], radius * np.sin(angle), atol=2e-5)
    np.testing.assert_array_equal(normal[4], normal[0])


@pto.jit
def edges(words, out):
    out[:] = pto.uint_to_uniform_float(words[:])


@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.uint64, np.int64])
def test_uniform_numbers_lie_below_one(dtype: Any, level: str) -> None:
    top = 2 ** (8 * np.dtype(dtype).itemsize)
    words = np.array([0, top // 2 - 1, top // 2, top - 1, 1], f"u{np.dtype(dtype).itemsize}").view(dtype)
    (out,) = both(edges, words, np.zeros(5, np.float32), outputs=1, level=level)
    assert out.min() == 0 and 0.999999 < out.max() < 1
    assert out[0] == out[3] == 0 and out[1] == out[2]


def test_statistics() -> None:
    n = 100_000
    outputs = np.zeros((5, n), np.uint32), np.zeros((5, n), np.float32), np.zeros((5, n), np.float32)
    draws[1](123, 0, *outputs, N=n, ROUNDS=10)
    _, uniform, normal = outputs
    np.testing.assert_allclose(uniform.mean(1), 0.5, atol=0.005)
    np.testing.assert_allclose(np.histogram(uniform[0], 10, (0, 1))[0] / n, 0.1, atol=0.005)
    np.testing.assert_allclose(normal.mean(1), 0, atol=0.02)
    np.testing.assert_allclose(normal.std(1), 1, atol=0.02)


def test_a_seed_is_an_integer() -> None:
    @pto.jit
    def drawn(x, seed):
        x[:] = pto.rand(seed, pto.arange(0, 4))

    @pto.jit
    def constant(x):
        x[:] = pto.rand(2.5, pto.arange(0, 4))

    with pytest.raises(AssertionFailed, match=r"a seed is an integer(.|\n)*pto.rand\(seed"):
        drawn[(1,)](np.zeros(4, np.float32), 2.3)
    with pytest.raises(AssertionFailed, match="a seed is an integer"):
        constant[(1,)](np.zeros(4, np.float32))
