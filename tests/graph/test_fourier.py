"""`np.fft` in fused functions: products with roots of unity, or steps of numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

RNG = np.random.default_rng(0)


def drawn(shape: tuple[int, ...], dtype: Any) -> Any:
    x = RNG.standard_normal(shape)
    return (x + 1j * RNG.standard_normal(shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def check(function: Any, *args: Any, kernel: bool = True) -> None:
    fused = pto.fuse(function)
    got, expected = fused(*args), function(*args)
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    eps = np.finfo(got.dtype).eps
    assert np.abs(got - expected).max() <= 8 * np.log2(expected.size + 2) * eps * np.abs(expected).max()
    assert ("run by numpy" not in pt.explain(fused, *args)) == kernel


@pytest.mark.parametrize(("size", "dtype"), [(7, complex), (64, np.complex64), (105, complex), (1000, np.complex64)])
def test_sizes_of_small_primes_are_products(size: int, dtype: Any) -> None:
    check(np.fft.fft, drawn((3, size), dtype))


FUNCTIONS: dict[str, tuple[Any, Any]] = {
    "ifft": (np.fft.ifft, complex), "of a real array": (np.fft.fft, float), "rfft": (np.fft.rfft, np.float32),
    "irfft": (np.fft.irfft, complex), "hfft": (np.fft.hfft, complex), "ihfft": (np.fft.ihfft, float),
    "odd": (lambda x: np.fft.irfft(x, 15), complex), "integers": (np.fft.fft, int),
    "first axis": (lambda x: np.fft.fft(x, axis=0), complex), "ortho": (lambda x: np.fft.fft(x, norm="ortho"), complex),
    "forward": (lambda x: np.fft.ifft(x, norm="forward"), complex), "cropped": (lambda x: np.fft.fft(x, 5), complex),
    "longer": (lambda x: np.fft.rfft(x, 20, axis=0), float), "fft2": (np.fft.fft2, complex),
    "ifft2": (np.fft.ifft2, complex), "fftn": (lambda x: np.fft.fftn(x, axes=(0,)), complex),
    "rfftn": (np.fft.rfftn, float), "irfft2": (np.fft.irfft2, complex),
    "and back": (lambda x: np.fft.irfft(np.fft.rfft(x) * 2), np.float32),
    "of an expression": (lambda x: np.abs(np.fft.fftshift(np.fft.fft(x * 2 + 1))) ** 2, float),
    "convolution": (lambda x: np.fft.ifft(np.fft.fft(x) * np.fft.fft(x[::-1])).real, float),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_transforms_are_numpys(name: str) -> None:
    function, dtype = FUNCTIONS[name]
    check(function, drawn((6, 16), dtype))


@pytest.mark.parametrize(("shape", "dtype"), [((4, 11), complex), ((2, 8192), complex), ((64, 512), complex)])
def test_others_are_steps_of_numpy(shape: tuple[int, ...], dtype: Any) -> None:
    check(np.fft.fft, drawn(shape, dtype), kernel=False)


def test_the_kernels_of_a_transform_are_shown() -> None:
    kernels = pto.fuse(np.fft.fft).plan(drawn((8, 16), np.complex64)).kernels
    assert any("pto.dot" in kernel.source for kernel in kernels)
