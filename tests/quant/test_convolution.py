"""Convolutions in int8: against the definition, and as near to float32 as eight bits allow."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from pypto import quant
from pypto.errors.quant import NoSuchLayer, NotFinite, WrongCalibration, WrongScheme

CONFIG = quant.Config(inputs=quant.int8("tensor"))
# Outputs, channels, groups, window, strides, and zeros above, to the left, below and to the right.
SHAPES: dict[str, tuple[int, int, int, tuple[int, int], tuple[int, int], tuple[int, int, int, int]]] = {
    "one pixel": (17, 70, 1, (1, 1), (1, 1), (0, 0, 0, 0)),
    "colours": (16, 3, 1, (3, 3), (2, 2), (1, 1, 1, 1)),
    "uneven borders": (5, 6, 1, (3, 2), (2, 1), (0, 1, 2, 0)),
    "depthwise": (70, 70, 70, (5, 5), (2, 1), (2, 2, 2, 2)),
}


def layer(case: str, rng: np.random.Generator) -> quant.Convolution:
    outputs, channels, groups, size, strides, pads = SHAPES[case]
    weight = rng.standard_normal((outputs, channels // groups, *size)).astype(np.float32)
    return quant.Convolution(case, weight, rng.standard_normal(outputs).astype(np.float32), strides, pads, groups)


def by_definition(made: quant.Convolution, x: Any) -> Any:
    """Window by window, in float64."""
    top, left, bottom, right = made.pads
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (kh, kw), (sh, sw) = made.weight.shape[2:], made.strides
    rows, columns = (padded.shape[2] - kh) // sh + 1, (padded.shape[3] - kw) // sw + 1
    y = np.empty((len(x), len(made.weight), rows, columns))
    for i in range(rows):
        for j in range(columns):
            window = padded[:, :, i * sh : i * sh + kh, j * sw : j * sw + kw]
            subscripts = "ncij,cij->nc" if made.is_depthwise else "ncij,ocij->no"
            y[:, :, i, j] = np.einsum(subscripts, window, made.weight[:, 0] if made.is_depthwise else made.weight)
    assert made.bias is not None
    return y + made.bias[:, None, None]


@pytest.mark.parametrize("case", SHAPES)
def test_results_are_near_those_of_float32(case: str) -> None:
    rng = np.random.default_rng(5)
    made = layer(case, rng)
    x = rng.standard_normal((2, SHAPES[case][1], 9, 11)).astype(np.float32)
    run = quant.calibrate_convolutions([made], CONFIG)
    wanted = by_definition(made, x)
    np.testing.assert_allclose(run(case, x), wanted, rtol=1e-5, atol=1e-5)
    converted = run.convert()[case]
    assert isinstance(converted, quant.QuantizedConvolution)
    assert converted.codes.dtype == np.int8
    found = converted(x)
    assert quant.sqnr(wanted, found) > 34
    assert not np.array_equal(found, wanted.astype(np.float32))


def test_results_are_exact_where_weights_and_inputs_are_codes() -> None:
    """Each output has a weight of 127 or -127, and the input has ±127: all numbers are their own codes."""
    rng = np.random.default_rng(6)
    weight = rng.integers(-126, 127, (20, 33, 3, 3)).astype(np.float32)
    weight[:, 0, 0, 0] = 127
    x = rng.integers(-127, 128, (1, 33, 5, 6)).astype(np.float32)
    x[0, 0, 0, 0] = 127
    made = quant.Convolution("0", weight, None, (1, 1), (1, 1, 1, 1))
    run = quant.calibrate_convolutions([made], CONFIG)
    wanted = run("0", x)
    np.testing.assert_allclose(run.convert()["0"](x), wanted, rtol=1e-6, atol=1e-3)


def test_skipped_layers_stay_in_float32() -> None:
    made = layer("colours", np.random.default_rng(7))
    run = quant.calibrate_convolutions([made], quant.Config(inputs=quant.int8("tensor"), skip=["col*"]))
    assert run.convert()["colours"] is made


def test_what_is_refused() -> None:
    rng = np.random.default_rng(8)
    made = layer("colours", rng)
    with pytest.raises(WrongCalibration, match="convolution colours was not called"):
        quant.calibrate_convolutions([made], CONFIG).convert()
    tensor = quant.int8("tensor")
    for config in (quant.Config(), quant.Config(quant.int4(group=32), tensor), quant.Config(quant.fp8(), tensor)):
        with pytest.raises(WrongScheme, match="symmetric int8 inputs per tensor"):
            quant.calibrate_convolutions([made], config)
    with pytest.raises(WrongScheme, match="2 groups of 3 channels"):
        quant.Convolution("grouped", np.ones((4, 3, 1, 1), np.float32), groups=2)
    with pytest.raises(NotFinite):
        quant.Convolution("0", np.full((1, 1, 1, 1), np.nan, np.float32))
    run = quant.calibrate_convolutions([made], CONFIG)
    with pytest.raises(NotFinite):
        run("colours", np.full((1, 3, 4, 4), np.inf, np.float32))


@pytest.mark.slow
def test_text_is_read_as_in_float32() -> None:
    """The networks of PP-OCR find and read the same letters; both at times leave out spaces."""
    for package in ("onnx", "PIL"):
        pytest.importorskip(package)
    if importlib.util.find_spec("rapidocr_onnxruntime") is None:
        pytest.skip("the models of PP-OCR are not installed")
    from benchmarks.ocr import READ, Reader, functions, page, quantized

    reader = Reader.load()
    plain = [{made.name: made for made in part.convolutions()} for part in (reader.find, reader.read)]
    int8 = quantized(reader)
    assert all(isinstance(made, quant.QuantizedConvolution) for part in int8 for made in part.values())
    letters = 0
    for lines in READ:
        texts = [[text.replace(" ", "") for text in reader.text(page(lines), *map(functions, layers))]
                 for layers in (plain, int8)]  # fmt: skip
        assert texts[0] == texts[1]
        written = [line.replace(" ", "") for line in lines]
        assert len(written) == len(texts[0])
        letters += sum(a == b for a, b in zip("".join(written), "".join(texts[0]), strict=True))
    assert letters >= 0.99 * sum(len(line.replace(" ", "")) for lines in READ for line in lines)


def test_algorithms_that_a_convolution_cannot_follow() -> None:
    """Factors of channels were left out once: the result was noise."""
    layer = quant.Convolution("a", np.ones((2, 3, 1, 1), np.float32))
    inputs = quant.int8("tensor")
    for algorithm in ("smoothquant", "awq", "gptq", ("smoothquant", "minmax")):
        with pytest.raises(WrongScheme, match="is not offered for convolutions"):
            quant.calibrate_convolutions([layer], quant.Config(inputs=inputs, algorithm=algorithm))
    with pytest.raises(WrongScheme, match="no `least_sqnr`"):
        quant.calibrate_convolutions([layer], quant.Config(inputs=inputs, least_sqnr=10))
    with pytest.raises(NoSuchLayer, match="the pattern 'b' in `skip` matches no layer"):
        quant.calibrate_convolutions([layer], quant.Config(inputs=inputs, skip=["b"]))
    run = quant.calibrate_convolutions([layer], quant.Config(inputs=inputs))
    with pytest.raises(NoSuchLayer, match="the model has no layer b"):
        run("b", np.ones((1, 3, 2, 2), np.float32))
    with pytest.raises(WrongCalibration, match="its weight has 3 columns"):
        run("a", np.ones((1, 6, 2, 2), np.float32))

    @quant.algorithm("hidden factors", gram=False)
    def hidden(layer: quant.Layer, statistics: quant.Statistics, scheme: quant.Scheme) -> quant.QuantizedWeight:
        return replace(quant.quantize(layer.weight), transform=np.full(3, 2, np.float32))

    run = quant.calibrate_convolutions([layer], quant.Config(inputs=inputs, algorithm=hidden))
    run("a", np.ones((1, 3, 2, 2), np.float32))
    with pytest.raises(WrongScheme, match="its channels have no factors"):
        run.convert()
