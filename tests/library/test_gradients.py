"""Operators on tensors that require grad: an error where a gradient would be lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto import library
from pypto.errors.launch import ReadOnlyArgument, RecordedArgument, RepeatedArgument
from pypto.errors.library import LostGradient

torch = pytest.importorskip("torch")


def operands() -> tuple[Any, Any]:
    return torch.randn(4, 8, requires_grad=True), torch.ones(8, requires_grad=True)


def test_a_gradient_is_not_lost() -> None:
    """The scales of a quantisation would be constants to autograd."""
    x, w = operands()
    for args, name in (((x, w), "x"), ((x.detach(), w), "smooth")):
        with pytest.raises(LostGradient, match=rf"quantize_per_token: `{name}` requires grad"):
            library.quantize_per_token(*args)


def test_where_autograd_does_not_record() -> None:
    x, w = operands()
    expected = library.rms_norm(x.detach(), w.detach())
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(library.rms_norm(x, w), expected)


def test_integers_have_no_gradient_to_lose() -> None:
    """As torch's own rounding to integers: nothing is lost, since there is none."""
    x = torch.randn(4, 8, requires_grad=True)
    up, add = torch.ones(8), torch.zeros(8)
    found = library.quantize_static(x, up, add)
    assert found.dtype == torch.int8 and not found.requires_grad
    why = library.rows["quantize_per_token"].no_gradient
    with pytest.raises(LostGradient, match=f"the operator has no gradient: {why}"):
        library.quantize_per_token(x)


def test_what_is_written_in_place() -> None:
    sample = library.rows["adamw"].sample(np.random.default_rng(0))
    values = {name: torch.from_numpy(x) if isinstance(x, np.ndarray) else x for name, x in sample.items()}
    row, effect = library.rows["adamw"], library.rows["adamw"].effects[0]
    before = {name: x.clone() for name, x in values.items() if isinstance(x, torch.Tensor)}
    frozen = values[effect].numpy().copy()
    frozen.flags.writeable = False
    for bad, error in (
        (values[effect].clone().requires_grad_(), RecordedArgument),
        (values[effect].flatten()[:1].expand_as(values[effect]), RepeatedArgument),
        (frozen, ReadOnlyArgument),
    ):
        with pytest.raises(error, match=f"adamw writes to `{effect}`"):
            row(**values | {effect: bad})
    assert all(torch.equal(values[name], x) for name, x in before.items())
