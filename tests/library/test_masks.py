"""Masks, biases and sinks of attention, beside torch's own attention and at their edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto import library
from pypto.errors.library import OperandDtype, OperandValue, UnrelatedSizes

RNG = np.random.default_rng(7)
Q = RNG.standard_normal((2, 6, 5, 16), np.float32)
K, V = RNG.standard_normal((2, 2, 2, 9, 16), np.float32)


def test_ways_to_hide_the_same_keys_agree() -> None:
    """Padding, a window and the causal mask, as positions, as a mask and as a bias."""
    distance = np.arange(5)[:, None] + 4 - np.arange(9)
    first = np.array([0, 3], np.int32)
    mask = (distance >= 0) & (distance < 4) & (np.arange(9) >= first[:, None, None, None])
    expected = library.attention(Q, K, V, causal=1, window=4, first=first)
    given = {"mask": mask}, {"mask": mask.astype(np.uint8)}, {"bias": np.where(mask, np.float32(0), -np.inf)}
    for one in given:
        np.testing.assert_allclose(library.attention(Q, K, V, **one), expected, atol=2e-6)


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    nothing = np.zeros((1, 1, 1, 9), bool)
    assert not library.attention(Q, K, V, mask=nothing).any()
    assert not library.attention(Q, K, V, mask=nothing, sinks=np.ones(6, np.float32)).any()
    assert not library.attention(Q, K, V, first=np.array([9, 9], np.int32)).any()
    assert library.attention(Q[:, :, :0], K, V, mask=nothing).shape == (2, 6, 0, 16)
    assert not library.attention(Q, K[:, :, :0], V[:, :, :0], mask=nothing[..., :0]).any()


def test_a_large_sink_takes_all_the_weight() -> None:
    small, large = np.full(6, -1e4, np.float32), np.full(6, 1e4, np.float32)
    np.testing.assert_allclose(library.attention(Q, K, V, sinks=small), library.attention(Q, K, V), atol=1e-6)
    assert not library.attention(Q, K, V, sinks=large).any()


def test_views_of_masks() -> None:
    mask = RNG.random((9, 5)) < 0.6
    expected = library.attention(Q, K, V, mask=np.ascontiguousarray(mask.T)[None, None])
    assert np.array_equal(library.attention(Q, K, V, mask=mask.T[None, None]), expected)


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"mask": np.ones((3, 1, 5, 9), bool)}, UnrelatedSizes),
        ({"bias": np.ones((1, 2, 5, 9), np.float32)}, UnrelatedSizes),
        ({"bias": np.ones((1, 1, 5, 9))}, OperandDtype),
        ({"first": np.array([0, 10], np.int32)}, OperandValue),
        ({"window": -1}, UnrelatedSizes),
    ],
)
def test_what_does_not_fit_is_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        library.attention(Q, K, V, **given)


def test_torch_agrees() -> None:
    torch = pytest.importorskip("torch")
    attention = torch.nn.functional.scaled_dot_product_attention
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 4e-3)):
        q, k, v = (torch.from_numpy(x).to(dtype) for x in (Q, K, V))
        for shape in ((1, 1, 5, 9), (2, 1, 1, 9), (2, 6, 5, 9)):
            mask, bias = torch.rand(shape) < 0.7, torch.randn(shape).to(dtype)
            mask[..., 0] = True
            for ours, theirs in (({"mask": mask}, mask), ({"bias": bias}, bias)):
                expected = attention(q, k, v, attn_mask=theirs, enable_gqa=True)
                torch.testing.assert_close(library.attention(q, k, v, **ours), expected, rtol=tolerance, atol=tolerance)


def test_gradients() -> None:
    """Those of torch's own attention, and of a composition with sinks and a cap."""
    torch = pytest.importorskip("torch")
    mask, bias = torch.rand(2, 1, 5, 9) < 0.7, torch.randn(1, 6, 5, 9, requires_grad=True)
    mask[:, :, 2] = False
    q, k, v = (torch.from_numpy(x).clone().requires_grad_() for x in (Q, K, V))
    theirs = torch.where(mask, bias, -1e30)
    expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=theirs, enable_gqa=True)
    expected = expected * mask.any(-1, keepdim=True)
    found = library.attention(q, k, v, bias=bias, mask=mask)
    torch.testing.assert_close(found, expected)
    wanted = torch.autograd.grad(expected.square().sum(), (q, k, v, bias))
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), (q, k, v, bias)), wanted, rtol=1e-4, atol=1e-4)

    sinks, first = torch.randn(6, requires_grad=True), torch.tensor([0, 4], dtype=torch.int32)
    more = {"causal": 1, "window": 3, "softcap": 2.0, "first": first}
    (found,) = torch.autograd.grad(library.attention(q, k, v, sinks=sinks, **more).sum(), sinks)
    step = 1e-2 * torch.eye(6)
    with torch.no_grad():
        sums = [[library.attention(q, k, v, sinks=sinks + s * t, **more).sum() for s in step] for t in (1, -1)]
    slopes = torch.stack([(up - down) / 2e-2 for up, down in zip(*sums, strict=True)])
    torch.testing.assert_close(found, slopes, rtol=2e-2, atol=2e-3)
