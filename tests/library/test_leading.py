"""Free leading dimensions: any number of them gives what one gives, without copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pypto import library
from pypto.errors.library import OperandShape, ScatteredOperand, WrongOperands, WrongSignature
from pypto.library.leading import LeadingDims
from pypto.library.row import Operator
from pypto.library.signature import Signature

FREE = [row for row in library.rows.values() if row.signature.free]
X, G = np.random.default_rng(5).standard_normal((4, 3, 40), np.float32), np.ones(40, np.float32)


def twice(row: Operator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns arguments with twice as many items, once with one leading dimension and once with two."""
    values = row.arguments(row.sample(np.random.default_rng(1)))
    free = [spec.name for spec in row.signature.inputs if spec.is_free and values[spec.name] is not None]
    flat = {name: np.concatenate([values[name]] * 2) for name in free}
    folded = {name: x.reshape(2, -1, *x.shape[1:]) for name, x in flat.items()}
    return {**values, **flat}, {**values, **folded}


def results(row: Operator, values: dict[str, Any]) -> list[Any]:
    found = row(**values)
    return list(found) if isinstance(found, tuple) else [found]


def scattered(x: Any) -> Any:
    """Returns the array as a view whose leading dimensions have no stride in common."""
    wide = np.zeros((x.shape[0], x.shape[1] + 1, *x.shape[2:]), x.dtype)
    wide[:, 1:] = x
    return wide[:, 1:]


@pytest.mark.parametrize("row", FREE, ids=lambda row: row.name)
def test_two_leading_dimensions(row: Operator) -> None:
    flat, folded = twice(row)
    expected = results(row, flat)
    free = {spec.name for spec in row.signature.inputs if spec.is_free}
    views = {name: scattered(x) if name in free and x is not None else x for name, x in folded.items()}
    for values in (folded, folded, *([views] if row.items == row.signature.free else [])):
        for spec, found, one in zip(row.signature.outputs, results(row, values), expected, strict=True):
            shape = (*folded[row.signature.inputs[0].name].shape[:2], *one.shape[1:]) if spec.is_free else one.shape
            assert found.shape == shape
            np.testing.assert_array_equal(found.reshape(one.shape), one)


def test_there_are_many_such_rows() -> None:
    assert len(FREE) >= 30 and {"rms_norm", "rope_half", "cross_entropy", "moe_gate"} <= {row.name for row in FREE}


def test_no_leading_dimension_and_none_with_elements() -> None:
    expected = library.rms_norm(X[0], G)
    assert np.array_equal(library.rms_norm(X[0, 1], G), expected[1])
    assert np.array_equal(library.rms_norm(X[:, :, ::-1][0, 1][::-1], G), expected[1])
    assert library.rms_norm(X[:0], G).shape == (0, 3, 40) and library.rms_norm(X[:, :0], G).shape == (4, 0, 40)
    assert library.cross_entropy(X[0, 0], np.array(3)).shape == ()


def test_views_are_no_copies() -> None:
    """Kernels get memory of the arguments themselves."""
    for x, outer in ((X, 0), (X[::2], 1), (X[:, :1], 0), (X[:, 1:], 1), (X[1:], 0), (X.swapaxes(0, 1), 1)):
        parts = list(LeadingDims(x.shape[:2], outer, {"x": (40,)}).parts({"x": x}))
        assert all(np.shares_memory(part["x"], X) for part in parts)
        assert np.array_equal(np.concatenate([part["x"] for part in parts]), x.reshape(-1, 40))


def test_scattered_rows_of_sums() -> None:
    """A sum over all rows takes one launch, so the rows need one stride."""
    with pytest.raises(ScatteredOperand, match=r"rms_norm_backward: `x` has the strides \(120, 40, 1\)"):
        library.rms_norm_backward(X[:, 1:], G, X[:, 1:])


def test_errors_name_the_leading_dimensions() -> None:
    with pytest.raises(OperandShape, match=r"asks for \[t..., d\], with t... = \(4, 3\)"):
        library.add_rms_norm(X, X[0], G)
    with pytest.raises(OperandShape, match=r"`x` has shape \(40,\)"):
        library.rope_half(G, G, G)
    with pytest.raises(WrongOperands):
        library.rms_norm(np.float32(1), G)
    for text, problem in (("x[a, b...] f32 -> ", "first dimension"), ("x[a...] f32, y[b...] -> ", "two free")):
        with pytest.raises(WrongSignature, match=problem):
            Signature.parse(text)


def test_tensors() -> None:
    torch = pytest.importorskip("torch")
    x, g = torch.from_numpy(X), torch.from_numpy(G)
    for view in (x, x[:, 1:], x.transpose(0, 1), x[0, 0], x[:0], x[None].expand(2, 4, 3, 40)):
        expected = library.rms_norm(view.reshape(-1, 40), g).reshape(view.shape)
        assert all(torch.equal(library.rms_norm(view, g), expected) for _ in range(8))
