"""A quantised tensor: one meaning of its codes in all packings, for numpy and for fused functions, and in files."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import quant
from pypto.quant.deploy import Product
from pypto.quant.models.decoding.weights import in_tiles, product_of
from pypto.quant.tensor import MIDDLE

SCHEMES = {
    "int8": quant.int8(),
    "one scale": quant.int8("tensor", symmetric=False),
    "int4": quant.int4(group=32),
    "zero points": quant.int4(group=32, symmetric=False),
    "a last, smaller group": quant.int4(group=48),
    "mxfp4": quant.mxfp4(),
}
# Digests of files that were written when each kind of quantised weight had a class of its own.
FILES = {
    "int8": "8c8c82a7397db6a295bc3c0ae9e440acb65172e296265e111622fa52f3772936",
    "one scale": "df96fb1246130e7daccaa799523c4bbf13950b97c57d39bf4892171af623871f",
    "int4": "170d209156581d9e6e87e4d2c5fa5b00beea01de036d14fd2dcb99ddd08dd9e6",
    "zero points": "02e0bb3e86736e23c8bd1115a8c57f1d34c07f5422c5a0683a79dc6924eb91c1",
    "a last, smaller group": "bc3251ce88fe4a0cb6a2ddf0d7eb74123034369707727fc46b72297111e328cd",
}


def weight(scheme: quant.Scheme, outputs: int = 24, inputs: int = 80, seed: int = 3) -> quant.QuantizedTensor:
    """Codes that no rounding made, with an order and factors."""
    rng = np.random.default_rng(seed)
    shape = outputs, scheme.groups(inputs)
    codes = rng.integers(max(scheme.low, -127), scheme.high + 1, (outputs, inputs)).astype(np.int8)
    scales = (rng.integers(1, 64, shape) / 256).astype(np.float32)
    zeros = None if scheme.symmetric else rng.integers(-8, 8, shape).astype(np.int8)
    if scheme.per == "tensor":
        scales, zeros = scales[:1].repeat(outputs, 0), None if zeros is None else zeros[:1].repeat(outputs, 0)
    order = None
    if scheme.group:
        groups = np.array_split(rng.permutation(inputs).astype(np.int32), range(scheme.group, inputs, scheme.group))
        order = np.concatenate([np.sort(group) for group in groups])
    factors = (rng.integers(1, 16, inputs) / 8).astype(np.float32)
    return quant.QuantizedTensor(codes, scales, scheme, zeros, order, factors)


def by_hand(w: quant.QuantizedTensor) -> Any:
    """The numbers one by one, in float32."""
    found = np.zeros(w.codes.shape, np.float32)
    form = w.scheme.format
    for (i, j), code in np.ndenumerate(w.codes):
        group = j // w.scheme.group if w.scheme.group else 0
        number = np.float32(code) if form is None else form.numbers(np.array([code]))[0]
        number -= np.float32(0 if w.zeros is None else w.zeros[i, group])
        place = j if w.order is None else w.order[j]
        found[i, place] = number * w.scales[i, group] * (1 if w.transform is None else w.transform[place])
    return found


@pytest.mark.parametrize("name", SCHEMES)
def test_numbers_are_those_of_the_definition(name: str) -> None:
    w = weight(SCHEMES[name])
    np.testing.assert_array_equal(w.dequantize(), by_hand(w))


@pytest.mark.parametrize("name", SCHEMES)
def test_a_fused_function_dequantises(name: str) -> None:
    w = weight(SCHEMES[name])
    x = np.random.default_rng(0).standard_normal((2, 80)).astype(np.float32)
    fused = pto.fuse(lambda w, x: (w.dequantize(), x @ w.dequantize().T))
    numbers, y = fused(w, x)
    np.testing.assert_array_equal(numbers, w.dequantize())
    np.testing.assert_allclose(y, x @ w.dequantize().T, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", SCHEMES)
def test_numbers_are_the_same_in_columns_and_tiles(name: str) -> None:
    w = weight(SCHEMES[name])
    layer = quant.deploy({"a": quant.QuantizedLayer("a", w)})["a"]
    assert isinstance(layer.run, Product)
    np.testing.assert_array_equal(layer.run.weight.dequantize(), w.dequantize())
    product = product_of(layer)
    for packed in (product.weight, in_tiles([product]).weight):
        assert packed.shape == (24, 80)
        np.testing.assert_allclose(packed.dequantize(), w.dequantize(), rtol=1e-6, atol=1e-6)


def test_blocks_of_gguf_are_such_tensors() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 16, (8, 64)).astype(np.int8)
    scales, minima = ((rng.integers(1, 9, (8, 2)) / 8).astype(np.float32) for _ in range(2))
    w = quant.GroupedWeight(codes, scales, 4, minima)
    expected = codes * scales.repeat(32, axis=1) + minima.repeat(32, axis=1)
    assert isinstance(w, quant.QuantizedTensor)
    assert (w.bits, w.minima is minima) == (4, True)
    np.testing.assert_array_equal(w.dequantize(), expected)
    layer = quant.deploy({"a": w})["a"]
    assert isinstance(layer.run, Product)
    np.testing.assert_array_equal(layer.run.weight.dequantize(), expected)
    np.testing.assert_array_equal(layer.run.weight.offset, (MIDDLE * scales + minima).T)


def test_mxfp8_is_such_a_tensor() -> None:
    w = quant.quantize(np.random.default_rng(0).standard_normal((8, 80)).astype(np.float32), scheme=quant.mxfp8())
    run = quant.deploy({"a": quant.QuantizedLayer("a", w, inputs=quant.mxfp8())})["a"].run
    assert isinstance(run, Product)
    np.testing.assert_array_equal(run.weight.dequantize(), w.dequantize())


@pytest.mark.parametrize("name", FILES)
def test_files_are_those_of_earlier_versions_bit_for_bit(name: str, tmp_path: Path) -> None:
    bias = np.arange(24, dtype=np.float32) / 8
    layer = quant.QuantizedLayer("a", weight(SCHEMES[name]), bias)
    quant.save({"a": layer, "b": quant.QuantizedLayer("b", weight(SCHEMES[name], seed=4))}, tmp_path)
    written = b"".join(path.read_bytes() for path in sorted(tmp_path.iterdir()))
    assert hashlib.sha256(written).hexdigest() == FILES[name]
    np.testing.assert_array_equal(quant.load(tmp_path)["a"].weight.dequantize(), layer.weight.dequantize())
