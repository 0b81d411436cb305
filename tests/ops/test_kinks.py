"""Gradients where functions have no derivative: the table of what they are, and torch's autograd at the same places.

A row with a kink says what its gradient is there. That no row has one that it does not state is searched for: at round
numbers and at ties, the slopes on both sides of every operand are compared.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from pypto.ops.table import ROWS
from tests.ops.test_adjoints import derived, meaning, op_of

Array = np.ndarray[Any, Any]
INF = float("inf")
NAN = float("nan")
NUMBER = {"propagate_nan": False}
STRICT = {"propagate_nan": True}
ROUND = (-1.0, -0.5, 0.0, 0.5, 1.0)
NEAR, FAR = 1e-8, 1e-5  # steps to both sides


@dataclass(frozen=True)
class Kink:
    """A row at a kink: operands, attributes, gradients of the sum by each operand; and torch's name, or "" for none."""

    name: str
    operands: tuple[Any, ...]
    wanted: tuple[Any, ...]
    torch: str = ""
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def arrays(self) -> list[Array]:
        return [np.array(x, np.float64 if not isinstance(x[0], bool) else bool) for x in self.operands]


ALONG, SCAN = {"axes": (0,), "keep_dims": True}, {"axis": 0, "reverse": False}
KINKS = (
    Kink("abs", ([0.0, -0.0],), ([0, 0],), "abs"),
    Kink("maximum", ([0.0, 1.0, 2.0], [0.0, 1.0, 1.0]), ([0.5, 0.5, 1], [0.5, 0.5, 0]), "maximum", STRICT),
    Kink("minimum", ([0.0, 1.0, 2.0], [0.0, 1.0, 1.0]), ([0.5, 0.5, 0], [0.5, 0.5, 1]), "minimum", STRICT),
    Kink("maximum", ([NAN, 1.0], [1.0, NAN]), ([1, 1], [1, 1]), "maximum", STRICT),
    Kink(
        "maximum", ([NAN, 1.0, 2.0], [1.0, NAN, 2.0]), ([0, 1, 0.5], [1, 0, 0.5]), "", NUMBER
    ),  # fmax: 1 and 0 at a tie
    Kink("minimum", ([NAN, 1.0], [1.0, NAN]), ([0, 1], [1, 0]), "fmin", NUMBER),
    Kink("where", ([True, False], [1.0, 1.0], [1.0, 1.0]), (None, [1, 0], [0, 1]), "where"),
    Kink("rem", ([4.0, -4.0, 0.0], [2.0, 2.0, 2.0]), ([1, 1, 1], [-2, 2, 0]), "fmod"),
    Kink("floor", ([1.0],), (None,), "floor"),
    Kink("ceil", ([1.0],), (None,), "ceil"),
    Kink("trunc", ([0.0, 1.0],), (None,), "trunc"),
    Kink("rint", ([0.5],), (None,), "round"),
    Kink("round", ([0.5],), (None,)),
    Kink("sqrt", ([0.0],), ([INF],), "sqrt"),
    Kink("cbrt", ([0.0],), ([INF],)),
    Kink("pow", ([0.0] * 5, [0.0, 0.5, 1.0, 2.0, -1.0]), ([0, INF, 1, 0, -INF], [0, 0, 0, 0, -INF]), "pow"),
    Kink("hypot", ([0.0], [0.0]), ([0], [0])),  # as torch.linalg.vector_norm; torch.hypot gives NaN
    Kink("atan2", ([0.0], [0.0]), ([0], [0]), "atan2"),
    Kink("asin", ([1.0, -1.0],), ([INF, INF],), "asin"),
    Kink("acos", ([1.0, -1.0],), ([-INF, -INF],), "acos"),
    Kink("acosh", ([1.0],), ([INF],), "acosh"),
    Kink("max", ([1.0, 3.0, 3.0, 2.0],), ([0, 1, 0, 0],), "max", ALONG),
    Kink("min", ([1.0, 0.0, 0.0, 2.0],), ([0, 1, 0, 0],), "min", ALONG),
    Kink("cummax", ([1.0, 3.0, 3.0, 2.0],), ([1, 1, 2, 0],), "cummax", SCAN),
    Kink("cummin", ([1.0, 0.0, 0.0, 2.0],), ([1, 1, 2, 0],), "cummin", SCAN),
)
IDS = [f"{x.name}{i}" for i, x in enumerate(KINKS)]


@pytest.mark.parametrize("kink", KINKS, ids=IDS)
def test_kinks(kink: Kink) -> None:
    op, arrays = op_of(kink.name, kink.arrays, kink.attrs), kink.arrays
    with np.errstate(all="ignore"):
        found = derived(op, arrays, np.ones(op.result.shape))
    for x, wanted in zip(found, kink.wanted, strict=True):
        np.testing.assert_array_equal(x, None if wanted is None else np.array(wanted, np.float64))


@pytest.mark.parametrize(
    "kink", [x for x in KINKS if x.torch], ids=[i for i, x in zip(IDS, KINKS, strict=True) if x.torch]
)
def test_torch_has_the_same_gradients_at_kinks(kink: Kink) -> None:
    torch = pytest.importorskip("torch")
    inputs = [torch.tensor(a, requires_grad=a.dtype == np.float64) for a in kink.arrays]
    along = (0,) if kink.attrs in (ALONG, SCAN) else ()
    result = getattr(torch, kink.torch)(*inputs, *along)
    (result.values if along else result).sum().backward()
    for x, wanted in zip(inputs, kink.wanted, strict=True):
        if x.grad is not None:
            expected = np.zeros(x.shape) if wanted is None else np.array(wanted, np.float64)
            np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_rows_say_what_they_do_at_kinks() -> None:
    assert {row.name for row in ROWS if row.kink} == {kink.name for kink in KINKS}
    assert all(row.kink.endswith(".") for row in ROWS if row.kink)


def slopes(op: Any, at: list[Array], n: int) -> tuple[float, ...]:
    """Difference quotients by operand n: on the left and on the right, over a far and a near step."""
    result = []
    for side, step in itertools.product((-1, 1), (FAR, NEAR)):
        moved = [a + side * step if k == n else a for k, a in enumerate(at)]
        change = meaning(op, *moved).astype(np.longdouble) - meaning(op, *at).astype(np.longdouble)
        result.append(float(change.sum()) / (side * step))
    return tuple(result)


def smooth(row: Any) -> bool:
    return callable(row.adjoint) and row.elementwise and not row.kink and row.name not in ("cast", "ldexp")


@pytest.mark.parametrize("row", [row for row in ROWS if smooth(row)], ids=lambda row: row.name)
def test_no_other_row_has_a_kink(row: Any) -> None:
    """At round numbers and ties the slopes of both sides are one number, and the gradient is that."""
    count = sum(p.is_operand for p in row.params)
    tried = 0
    for numbers in itertools.product(ROUND, repeat=count):
        at = [np.array([x]) for x in numbers]
        op = op_of(row.name, at, {})
        with np.errstate(all="ignore"):
            if not np.isfinite(meaning(op, *at)).all():
                continue
            found = derived(op, at, np.ones(1))
            for n in range(count):
                left_far, left, right_far, right = slopes(op, at, n)
                size = 1e-4 * (1 + abs(left_far))
                assert abs(left_far - right_far) <= size, f"{row.name} has a kink at {numbers} by operand {n}"
                assert max(abs(left - left_far), abs(right - right_far)) <= size, f"{row.name} is steep at {numbers}"
                gradient = 0.0 if found[n] is None else float(found[n].sum())  # type: ignore[union-attr]
                assert abs(gradient - (left_far + right_far) / 2) <= size, f"{row.name} at {numbers}, operand {n}"
                tried += 1
    assert tried
