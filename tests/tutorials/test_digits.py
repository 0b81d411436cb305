"""The network of tutorial 19: its data, its losses, and these beside those of the same network in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.tutorials import allow_helpers

allow_helpers()

from digits import data  # noqa: E402
from digits.network import EPS, PLACES, Network, patches  # noqa: E402

BATCH = 20
RATE = 0.02


@pytest.mark.parametrize("is_installed", [True, False])
def test_digits(is_installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_installed:
        monkeypatch.setattr(data, "data_file", lambda: None)
    elif data.data_file() is None:
        pytest.skip("the package with the digits is not installed")
    (images, labels), (held_images, held_labels), source = data.digits(np.random.default_rng(0))
    assert images.shape == (4000, 28, 28)
    assert held_images.shape == (1000, 28, 28)
    assert (images.min(), images.max()) == (0, 1) if is_installed else images.max() <= 1
    assert set(labels) == set(held_labels) == set(range(10))
    assert source == ("real digits" if is_installed else "digits that were drawn")


def test_images_are_moved_by_two_pixels_at_most() -> None:
    image = np.zeros((200, 28, 28), np.float32)
    image[:, 14, 14] = 1
    places = np.argwhere(data.moved(image, np.random.default_rng(0)))[:, 1:]
    assert (places.min(), places.max()) == (12, 16)


def trained(steps: int) -> tuple[list[float], list[Any], list[tuple[Any, Any]]]:
    """Losses of some steps, the parameters that they began with, and the batches."""
    rng = np.random.default_rng(0)
    network = Network(rng, BATCH)
    start = [p.copy() for p in network.parameters]
    all_images, all_labels = data.drawn(rng)
    batches, losses = [], []
    for first in range(0, steps * BATCH, BATCH):
        images, labels = all_images[first : first + BATCH], all_labels[first : first + BATCH]
        batches.append((images, labels))
        losses.append(network.forward(patches(images), labels))
        network.backward(patches(images), labels)
        network.step(RATE)
    return losses, start, batches


def test_the_loss_falls() -> None:
    losses, _, _ = trained(40)
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


@pytest.mark.torch
def test_losses_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    losses, start, batches = trained(100)
    parameters = [torch.from_numpy(p).requires_grad_() for p in start]
    momentum = [torch.zeros_like(p) for p in parameters]
    functional = torch.nn.functional
    for (images, labels), expected in zip(batches, losses, strict=True):
        x = functional.unfold(torch.from_numpy(images)[:, None], 5, stride=2).transpose(1, 2)
        for n in range(3):
            w, b, *norm = parameters[4 * n : 4 * n + 4]
            x = x @ w + b
            if norm:
                x = functional.gelu(functional.layer_norm(x, x.shape[-1:], *norm, EPS))
            if n == 0:
                assert x.shape == (BATCH, PLACES * PLACES, 12)
                x = x.reshape(BATCH, -1)
        loss = functional.cross_entropy(x, torch.from_numpy(labels).long())
        assert abs(loss.item() - expected) < 1e-4
        for p, v, g in zip(parameters, momentum, torch.autograd.grad(loss, parameters), strict=True):
            v.mul_(0.9).sub_(g, alpha=RATE)
            p.data.add_(v)
