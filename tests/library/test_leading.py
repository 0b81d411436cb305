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


def folded(row: Operator) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns arguments with an even number of items, once with one leading dimension and once with two."""
    values = row.arguments(row.sample(np.random.default_rng(1)))
    free = [spec.name for spec in row.signature.inputs if spec.is_free and values[spec.name] is not None]
    is_even = all(len(values[name]) % 2 == 0 for name in free)
    changed = [*free, *(["y", "position"] if row.name == "combine_experts" else [])]  # m == t*k
    flat = {name: values[name] if is_even else np.concatenate([values[name]] * 2) for name in changed}
    halves = {name: x.reshape(2, -1, *x.shape[1:]) for name, x in flat.items() if name in free}
    return {**values, **flat}, {**values, **flat, **halves}


def results(row: Operator, values: dict[str, Any]) -> list[Any]:
    """Returns results and effects of a call on copies of the effects."""
    given = values | {name: values[name].copy() for name in row.effects}
    found = row(**given)
    computed = list(found) if isinstance(found, tuple) else [found] if row.signature.outputs else []
    return [*computed, *(given[name] for name in row.effects)]


def scattered(x: Any) -> Any:
    """Returns the array as a view whose leading dimensions have no stride in common."""
    wide = np.zeros((x.shape[0], x.shape[1] + 1, *x.shape[2:]), x.dtype)
    wide[:, 1:] = x
    return wide[:, 1:]


@pytest.mark.parametrize("row", FREE, ids=lambda row: row.name)
def test_two_leading_dimensions(row: Operator) -> None:
    flat, halves = folded(row)
    expected = results(row, flat)
    specs = {spec.name: spec for spec in (*row.signature.inputs, *row.signature.outputs)}
    free = {name for name, x in halves.items() if name in specs and specs[name].is_free and x is not None}
    views = {name: scattered(x) if name in free else x for name, x in halves.items()}
    names = [*(spec.name for spec in row.signature.outputs), *row.effects]
    for values in (halves, halves, *([views] if row.items == row.signature.free else [])):
        for name, found, one in zip(names, results(row, values), expected, strict=True):
            shape = (*halves[min(free)].shape[:2], *one.shape[1:]) if specs[name].is_free else one.shape
            assert found.shape == shape
            np.testing.assert_array_equal(found.reshape(one.shape), one)


def test_a_row_without_free_dimensions_says_why_not() -> None:
    for name, row in library.rows.items():
        assert bool(row.signature.free) != bool(row.no_leading), name
    q, starts = np.ones((2, 3, 2, 8), np.float32), np.array([0, 6], np.int32)
    with pytest.raises(OperandShape, match="`t` counts the tokens of all sequences, which are packed"):
        library.varlen_attention(q, q, q, starts)


def test_there_are_many_such_rows() -> None:
    assert len(FREE) >= 70 and {"rms_norm", "rope_half", "cross_entropy", "moe_gate"} <= {row.name for row in FREE}


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
