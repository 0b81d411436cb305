"""`pypto.torch.use`: rows in an eager model, within a block, on one thread, with nothing left behind."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from pypto.errors.library import NoSuchOperator

torch = pytest.importorskip("torch")

import pypto.torch  # noqa: E402

F = torch.nn.functional


def model() -> Any:
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True)
    return torch.nn.Sequential(layer, torch.nn.RMSNorm(32), torch.nn.SiLU(), torch.nn.Softmax(-1))


def test_a_model() -> None:
    torch.manual_seed(0)
    net, x = model(), torch.randn(2, 5, 32)
    expected = net(x)
    with pypto.torch.use() as replacing:
        found = net(x)
    torch.testing.assert_close(found, expected)
    counts = {"layer_norm": 2, "gelu": 1, "rms_norm": 1, "silu": 1, "softmax": 1}
    assert dict(+replacing.replaced) == counts  # torch's multi-head attention is one function
    wanted = torch.autograd.grad(expected.square().sum(), list(net.parameters()))
    gradients = torch.autograd.grad(found.square().sum(), list(net.parameters()))
    torch.testing.assert_close(gradients, wanted, rtol=1e-3, atol=1e-4)


def test_only_what_is_named_is_replaced() -> None:
    x = torch.randn(3, 8)
    with pypto.torch.use(include=["softmax"]) as replacing:
        F.silu(x)
        for y in (x.softmax(-1), torch.softmax(x, 1), F.softmax(x, dim=-1), torch.softmax(input=x, dim=-1)):
            torch.testing.assert_close(y, torch.softmax(x, 1))
    assert replacing.replaced["softmax"] >= 4 and set(+replacing.replaced) == {"softmax"}


def test_what_a_row_does_not_cover_stays_torchs() -> None:
    x, mask = torch.randn(2, 4, 5, 8), torch.randn(5, 7)
    keys = torch.randn(2, 4, 7, 8)
    calls: list[Callable[[], Any]] = [
        lambda: torch.softmax(x, 1),
        lambda: torch.softmax(x, -1, torch.float64),
        lambda: torch.softmax(x.double(), -1),
        lambda: F.rms_norm(x, (5, 8)),
        lambda: F.layer_norm(x, (8,)),
        lambda: F.silu(x.clone(), inplace=True),
        lambda: F.gelu(torch.tensor(1.0)),
        lambda: F.scaled_dot_product_attention(x, keys, keys, is_causal=True),
        lambda: F.scaled_dot_product_attention(x[0], x[0], x[0]),
        lambda: F.scaled_dot_product_attention(x, keys, keys, attn_mask=mask[:, :1]),
    ]
    expected = [call() for call in calls]
    with pypto.torch.use() as replacing:
        found = [call() for call in calls]
    assert not +replacing.replaced and sum(replacing.left.values()) == len(calls)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == b.dtype
        torch.testing.assert_close(a, b)


def test_masks_of_attention() -> None:
    q, k = torch.randn(2, 4, 5, 8), torch.randn(2, 2, 7, 8)
    for mask in (torch.randn(5, 7), torch.rand(2, 1, 5, 7) < 2, torch.rand(4, 5, 7) < 2):
        expected = F.scaled_dot_product_attention(q, k, k, attn_mask=mask, enable_gqa=True, scale=0.3)
        with pypto.torch.use(["attention"]) as replacing:
            found = F.scaled_dot_product_attention(query=q, key=k, value=k, attn_mask=mask, enable_gqa=True, scale=0.3)
        torch.testing.assert_close(found, expected)
        assert replacing.replaced["attention"] == 1


def test_the_block_ends_with_an_exception() -> None:
    x = torch.randn(3, 8)
    with pytest.raises(ZeroDivisionError), pypto.torch.use() as replacing:
        torch.softmax(x, -1)
        raise ZeroDivisionError
    torch.softmax(x, -1)
    assert replacing.replaced["softmax"] == 1
    assert not torch.overrides._get_current_function_mode_stack()


def test_other_threads_do_not_see_it() -> None:
    x, results = torch.randn(3, 8), []
    with pypto.torch.use() as replacing:
        thread = threading.Thread(target=lambda: results.append(torch.softmax(x, -1)))
        thread.start()
        thread.join()
    assert len(results) == 1 and not +replacing.replaced


def test_unknown_names_are_refused() -> None:
    with pytest.raises(NoSuchOperator, match="softmax"):
        pypto.torch.use(include=["softmx"])
