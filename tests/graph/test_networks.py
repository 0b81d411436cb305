"""Blocks of image networks as functions of numpy: right, in few kernels, for any number of images, on any device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pypto as pto
import pypto.arrays as pt

Array = np.ndarray[Any, Any]
LAST = "NHWC"


def drawn(*shape: int) -> Array:
    rng = np.random.default_rng(sum(shape))
    return rng.standard_normal(shape, np.float32) * np.float32(np.prod(shape[:-1]) ** -0.5 if len(shape) > 1 else 1)


def conv(x: Array, w: Array, **how: Any) -> Any:
    return pt.conv2d(x, w, data_format=LAST, **how)


def bottleneck(x: Array, w1: Array, w2: Array, w3: Array, scale: Array, shift: Array) -> Any:
    """A block of ResNet: three convolutions with normalisation, and a residual."""
    y = pt.relu(conv(x, w1) * scale + shift)
    y = pt.relu(conv(y, w2, padding=1) * scale + shift)
    return pt.relu(conv(y, w3) + x)


def lenet(x: Array, w1: Array, w2: Array, f1: Array, f2: Array) -> Any:
    y = pt.max_pool(pt.relu(conv(x, w1, padding=2)), 2, data_format=LAST)
    y = pt.max_pool(pt.relu(conv(y, w2)), 2, data_format=LAST)
    return pt.relu(y.reshape(y.shape[0], -1) @ f1) @ f2


def unet(x: Array, down: Array, up: Array, w: Array) -> Any:
    y = pt.relu(conv(pt.max_pool(x, 2, data_format=LAST), down, padding=1))
    y = pt.conv_transpose(y, up, stride=2, data_format=LAST)
    return pt.relu(conv(np.concatenate([x, y], axis=-1), w, padding=1))


def inverted_residual(x: Array, wide: Array, each: Array, narrow: Array) -> Any:
    """A block of MobileNet."""
    y = np.clip(conv(x, wide), 0, 6)
    y = np.clip(conv(y, each, padding=1, groups=y.shape[-1]), 0, 6)
    return conv(y, narrow) + x


def crnn(x: Array, w1: Array, w2: Array, f: Array) -> Any:
    """Text in a line: columns of features as a sequence of characters."""
    for w in (w1, w2):
        x = pt.max_pool(pt.relu(conv(x, w, padding=1)), 2, data_format=LAST)
    return pt.log_softmax(x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1) @ f)


def pyramid(x: Array, w: Array) -> Any:
    """Features of two scales, and a vector of the image."""
    y = pt.relu(conv(x, w, stride=2, padding=1))
    y = x + pt.interpolate(y, scale_factor=2, mode="bilinear", data_format=LAST)
    return y * pt.sigmoid(pt.adaptive_avg_pool(y, 1, data_format=LAST))


# A function, its images and weights, and the most steps of its plan.
NETWORKS: dict[str, tuple[Callable[..., Any], tuple[Array, ...], int]] = {
    "bottleneck": (
        bottleneck,
        (drawn(2, 9, 8, 32), drawn(1, 1, 32, 12), drawn(3, 3, 12, 12), drawn(1, 1, 12, 32), drawn(12), drawn(12)),
        3,
    ),
    "lenet": (lenet, (drawn(3, 28, 28, 1), drawn(5, 5, 1, 6), drawn(5, 5, 6, 16), drawn(400, 20), drawn(20, 10)), 8),
    "unet": (unet, (drawn(1, 8, 12, 10), drawn(3, 3, 10, 12), drawn(2, 2, 10, 12), drawn(3, 3, 20, 9)), 5),
    "inverted residual": (
        inverted_residual, (drawn(2, 7, 9, 10), drawn(1, 1, 10, 24), drawn(3, 3, 1, 24), drawn(1, 1, 24, 10)), 2,
    ),
    "crnn": (crnn, (drawn(2, 8, 20, 1), drawn(3, 3, 1, 12), drawn(3, 3, 12, 16), drawn(32, 11)), 7),
    "pyramid": (pyramid, (drawn(2, 8, 12, 10), drawn(3, 3, 10, 10)), 5),
}  # fmt: skip


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_right_in_few_steps(name: str) -> None:
    function, given, most = NETWORKS[name]
    exact = function(*(x.astype(np.float64) for x in given))  # each of its functions on its own
    fused = pto.fuse(function)
    np.testing.assert_allclose(fused(*given), exact, rtol=1e-4, atol=1e-5)
    assert len(fused.plan(*given).steps) <= most


@pytest.mark.parametrize("name", ["bottleneck", "inverted residual", "crnn"])
def test_any_number_of_images_by_one_plan(name: str) -> None:
    function, (images, *weights), most = NETWORKS[name]
    fused = pto.fuse(function, dims={"x": (pt.Dim("images", 1, 64), None, None, None)})
    for count in (1, 2, 5):
        x = np.concatenate([images, images[::-1], images])[:count]
        np.testing.assert_allclose(fused(x, *weights), function(x, *weights), rtol=1e-4, atol=1e-5)
    plan = fused.plan(x, *weights)
    assert len(plan.steps) <= most + 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_on_the_simulated_device(name: str) -> None:
    function, given, _ = NETWORKS[name]
    with pto.device("ascend-sim"):
        found = pto.fuse(function)(*given)
    np.testing.assert_allclose(found, function(*given), rtol=1e-3, atol=1e-4)
