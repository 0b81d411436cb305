"""`vmap`: a function over an axis of its arguments is what a loop over the axis gives, stacked."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import IndexOutside, NotTraced, WrongShapes
from tests.graph.test_random_graphs import steps

COUNT = 5
RNG = np.random.default_rng(7)
X, Y = RNG.standard_normal((2, COUNT, 4, 6))
M = RNG.standard_normal((COUNT, 4, 4))
INDICES = RNG.integers(0, 4, (COUNT, 3))
V = RNG.standard_normal((COUNT, 20))
TABLE = RNG.standard_normal((9, 6))


def updated(x: Any, how: Any) -> Any:
    result = x.copy()
    how(result)
    return result


def add_to_columns(x: Any, i: Any) -> None:
    key: Any = (slice(None), i)
    np.add.at(x, key, 1.5)


def smoothed(x: Any) -> Any:
    y = np.zeros_like(x)
    y[0] = x[0]
    for n in range(1, len(x)):
        y[n] = 0.25 * x[n] + 0.75 * y[n - 1]
    return y


def by_sign(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return -x if x[0] > 0 else x


def counted(i: Any) -> Any:
    result = np.zeros(5)
    np.add.at(result, i, 1.5)
    return result


def set_item(key: Any, value: Any) -> Any:
    return lambda x: x.__setitem__(key, value)


# A row is a function of one element, its arrays, what `explain` names, and the relative tolerance: sums may be in
# another order, and where they are not, results are equal bit for bit.
CASES: dict[str, tuple[Any, tuple[Any, ...], str, float]] = {
    "elementwise": (lambda x, y: np.sqrt(np.abs(x)) * y + 1, (X, Y), "", 0),
    "elementwise of other ranks": (lambda x, y: x * y, (X, Y[:, 0]), "", 0),
    "elementwise with what is not mapped": (lambda x: x * TABLE[:4] - TABLE[0], (X,), "", 0),
    "reduction": (lambda x: x.max(axis=0) - x.min(axis=0), (X,), "", 0),
    "sum": (lambda x: x.sum(), (X,), "", 1e-12),
    "reduction with dimensions kept": (lambda x: x / x.max(axis=-1, keepdims=True), (X,), "", 0),
    "position": (lambda x: np.argmax(x, axis=1), (X,), "", 0),
    "position among all": (np.argmin, (X,), "", 0),
    "scan": (lambda x: np.cumsum(x, axis=0), (X,), "", 1e-12),
    "product of two stacks": (lambda a, b: a @ b, (M, X), "", 1e-12),
    "product with a matrix on the right": (lambda x: x @ TABLE.T, (X,), "", 1e-12),
    "product with a matrix on the left": (lambda x: TABLE[:, :4] @ x, (X,), "", 1e-12),
    "product with a vector": (lambda x: x @ TABLE[0], (X,), "", 1e-12),
    "product of stacks": (lambda x: np.stack([x, x]) @ np.stack([TABLE.T, TABLE.T]), (X,), "", 1e-12),
    "einsum": (lambda x: np.einsum("ij,kj->ik", x, TABLE), (X,), "", 1e-12),
    "views": (lambda x: x[::-1, 1:3].T.reshape(-1), (X,), "", 0),
    "broadcast": (lambda x: np.broadcast_to(x[0], (3, 6)), (X,), "", 0),
    "padding": (lambda x: np.pad(x, 1), (X,), "", 0),
    "rotation": (lambda x: np.roll(x, 2, axis=1), (X,), "", 0),
    "join": (lambda x: np.concatenate([x, TABLE]), (X,), "", 0),
    "sort": (lambda x: np.sort(x, axis=0), (X,), "", 0),
    "argsort": (lambda x: np.argsort(x, axis=1, kind="stable"), (X,), "", 0),
    "greatest": (lambda x: pt.topk(x, 3)[0], (X,), "", 0),
    "where": (lambda x, y: np.where(x > y, x, 0), (X, Y), "", 0),
    "equal indices": (lambda x: np.take(x, [0, 2], axis=1), (X,), "", 0),
    "indices of a common array": (lambda i: TABLE[i], (INDICES,), "", 0),
    "indices of columns of a common array": (lambda i: np.take(TABLE, i, axis=1), (INDICES,), "", 0),
    "indices of each array": (lambda x, i: x[i], (X, INDICES), "", 0),
    "indices of columns of each array": (lambda x, i: np.take(x, i, axis=1), (X, INDICES), "", 0),
    "indices along an axis": (lambda x: np.take_along_axis(x, np.argsort(x, axis=1), axis=1), (X,), "", 0),
    "update of a slice": (lambda x: updated(x, set_item(slice(1, None), TABLE[:3])), (X,), "", 0),
    "update by equal indices": (lambda x: updated(x, set_item([1, 1, 2], TABLE[:3])), (X,), "", 0),
    "update by indices": (lambda x, i: updated(x, set_item(i, 7)), (X, INDICES), "", 0),
    "update of columns": (lambda x, i: updated(x, lambda v: add_to_columns(v, i)), (X, INDICES), "", 0),
    "counts": (counted, (INDICES,), "", 0),
    "a number": (lambda x: 3, (X,), "", 0),
    "an array from outside": (lambda x: TABLE, (X,), "", 0),
    "an array that it makes": (lambda x: np.ones(3), (X,), "", 0),
    "conditions on values": (by_sign, (V,), "", 0),
    "a compiled loop": (smoothed, (V,), "a loop over the mapped axis of smoothed_loop", 0),
    "a loop of steps": (lambda x: pt.fori_loop(0, 5, lambda n, s: s / 2 + n, x), (X,), "loop of <lambda>", 0),
    "loops of several lengths": (
        lambda x: pt.fori_loop(0, np.argmax(x), lambda n, s: s / 2 + n, x),
        (V,),
        "a loop over the mapped axis of loop of",
        0,
    ),
    "a loop while a condition holds": (
        lambda x: pt.while_loop(lambda s: s.max() < 10, lambda s: s + 1, x),
        (X,),
        "a loop over the mapped axis of loop of",
        0,
    ),
    "scan of elements": (lambda x: pt.scan(lambda s, e: (s + e, s * e), np.zeros(6), x)[1], (X,), "scan of", 0),
    "one of two functions": (
        lambda x: pt.cond(x[0] > 0, lambda x: x * 2, lambda x: -x, x),
        (V,),
        "a loop over the mapped axis of <lambda> or <lambda>",
        0,
    ),
    "a step of numpy for stacks": (np.linalg.inv, (M,), "0 linalg.inv, run by numpy", 0),
    "systems of equations": (lambda a: np.linalg.solve(a, a[0]), (M,), "linalg.solve, run by numpy", 0),
    "systems of a common matrix": (lambda b: np.linalg.solve(M[0], b), (X,), "linalg.solve, run by numpy", 0),
    "a step of numpy": (
        lambda x: np.interp(x, np.arange(3.0), np.arange(3.0) ** 2),
        (V,),
        "a loop over the mapped axis of interp",
        0,
    ),
    "complex numbers": (lambda x: (x * 1j + x[0]) * TABLE[0, 0], (X,), "", 0),
    "a transform": (lambda x: np.abs(np.fft.fft(x)), (V,), "", 1e-12),
}


def looped(function: Any, arrays: Any) -> Any:
    return np.stack([function(*elements) for elements in zip(*arrays, strict=True)])


@pytest.mark.parametrize("name", CASES)
def test_kinds_of_nodes(name: str) -> None:
    function, arrays, told, tolerance = CASES[name]
    mapped = pto.vmap(function)
    with np.errstate(all="ignore"):
        plain = pto.fuse(function) if "pt." in name or told.startswith(("loop", "scan", "a loop")) else function
        wanted = looped(plain, arrays)
        found = mapped(*arrays)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)
    assert told in pt.explain(mapped, *arrays)


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(st.data())
def test_random_graphs(data: Any) -> None:
    check_random_graph(data)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_many_random_graphs(data: Any) -> None:
    check_random_graph(data)


def check_random_graph(data: Any) -> None:
    """The second argument is the same for all elements."""
    sizes = data.draw(st.lists(st.sampled_from((1, 2, 3, 5, 8)), min_size=2, max_size=3))
    count, rng = data.draw(st.sampled_from((1, 4))), np.random.default_rng(data.draw(st.integers(0, 99)))
    first, last = rng.standard_normal((count, *sizes)), rng.standard_normal((count, sizes[-1]))
    common = rng.standard_normal(sizes[::-1])
    program = steps(data, [first[0], common, last[0]])

    def function(*given: Any) -> Any:
        values = list(given)
        for fn, numbers in program:
            values.append(fn(*(values[k] for k in numbers)))
        return values[-1], values[-2]

    found = pto.vmap(function, in_axes=(0, None, 0))(first, common, last)
    results = [function(x, common, z) for x, z in zip(first, last, strict=True)]
    for number, array in enumerate(found):
        wanted = np.stack([row[number] for row in results])
        assert array.shape == wanted.shape
        np.testing.assert_allclose(array, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axis", [1, -1])
def test_axes(axis: int) -> None:
    mapped = pto.vmap(lambda x, w: x * w, in_axes=(axis, None), out_axes=-axis)
    moved = np.moveaxis(X, axis, 0)
    weight = moved[0]
    np.testing.assert_array_equal(mapped(X, weight), np.stack([x * weight for x in moved], axis=-axis))


@dataclass
class Point:
    position: Any
    charge: Any


def test_nested_arguments_and_results() -> None:
    function = lambda p, d: {"force": p.position * p.charge, "others": (d["x"] + 1, None)}  # noqa: E731
    axes = (Point(0, None), {"x": 1})
    mapped = pto.vmap(function, in_axes=axes, out_axes={"force": 0, "others": (1, None)})
    found = mapped(Point(X[:, 0], Y[0, 0]), {"x": V.T})
    np.testing.assert_array_equal(found["force"], X[:, 0] * Y[0, 0])
    np.testing.assert_array_equal(found["others"][0], V.T + 1)
    assert found["others"][1] is None


def test_keyword_arguments_are_mapped_over_their_first_axis() -> None:
    mapped = pto.vmap(lambda x, *, w, axis=0: (x * w).max(axis=axis))
    np.testing.assert_array_equal(mapped(X, w=V[:, 0], axis=1), (X * V[:, :1, None]).max(axis=2))


def test_a_mapped_function_of_a_mapped_function() -> None:
    distance = lambda x, y: np.abs(x - y).max()  # noqa: E731
    mapped = pto.vmap(pto.vmap(distance, in_axes=(None, 0)), in_axes=(0, None))
    np.testing.assert_array_equal(mapped(V, V + 1), np.abs(V[:, None] - (V + 1)[None]).max(axis=-1))


WEIGHTS = {"w": np.ones(20)}


@pto.fuse
def composed(x: Any) -> Any:
    return pto.vmap(lambda row: smoothed(row) if row[0] > 0 else row * WEIGHTS["w"])(x).max(axis=0)


def test_composes_with_fuse_and_sees_what_it_reads_from_outside() -> None:
    wanted = [smoothed(x) if x[0] > 0 else x for x in V]
    np.testing.assert_array_equal(composed(V), np.max(wanted, axis=0))
    WEIGHTS["w"] = np.zeros(20)
    wanted = [smoothed(x) if x[0] > 0 else x * 0 for x in V]
    np.testing.assert_array_equal(composed(V), np.max(wanted, axis=0))
    assert len(composed.versions) == 1
    WEIGHTS["w"] = np.ones(20)


class Model:
    def __init__(self, weight: Any) -> None:
        self.weight = weight

    def row(self, x: Any) -> Any:
        return x * self.weight


@pytest.mark.parametrize("make", [pto.vmap, lambda f: pto.vmap(pto.fuse(f)), lambda f: pto.fuse(pto.vmap(f))])
def test_a_method_sees_new_attributes(make: Any) -> None:
    model = Model(TABLE[0])
    mapped = make(model.row)
    np.testing.assert_array_equal(mapped(X[:, 0]), X[:, 0] * TABLE[0])
    model.weight = TABLE[1]
    np.testing.assert_array_equal(mapped(X[:, 0]), X[:, 0] * TABLE[1])


def test_arguments_are_updated_in_place() -> None:
    def function(x: Any) -> Any:
        x[0] += 1
        return x.max()

    given, wanted = X.copy(), X.copy()
    found = pto.vmap(function, in_axes=1)(given)
    np.testing.assert_array_equal(found, [function(wanted[:, n]) for n in range(4)])
    np.testing.assert_array_equal(given, wanted)


def test_dimensions_by_name() -> None:
    mapped = pto.fuse(pto.vmap(lambda x: np.tanh(x).max(axis=0)), dims={"x": (pt.Dim("n", 1, 64), None, None)})
    for count in (1, 3, 40):
        x = RNG.standard_normal((count, 4, 6))
        np.testing.assert_allclose(mapped(x), np.tanh(x).max(axis=1), rtol=1e-12)
    assert len(mapped.versions) == 1


def test_lazy_arrays_and_no_elements() -> None:
    mapped = pto.vmap(lambda x: x + 1)
    np.testing.assert_array_equal(np.asarray(mapped(pt.lazy(X))), X + 1)
    assert mapped(np.zeros((0, 3))).shape == (0, 3)


def test_is_pickled_by_name() -> None:
    assert pickle.loads(pickle.dumps(doubled)) is doubled


@pto.vmap
def doubled(x: Any) -> Any:
    return x * 2


def test_an_index_out_of_range_is_an_error() -> None:
    with pytest.raises((IndexError, IndexOutside)):
        pto.vmap(lambda x, i: updated(x, set_item(i, 7)))(X, np.full((COUNT, 1), 4))


COMMON = np.zeros(3)


def to_common(x: Any, common: Any) -> Any:
    common += x
    return x


def to_array_of_caller(x: Any) -> Any:
    total = np.zeros(4)

    def add(row: Any) -> Any:
        total[0] += 1
        return row

    return pto.vmap(add)(x), total


def leaking(x: Any) -> Any:
    rows: list[Any] = []
    pto.vmap(lambda row: rows.append(row) or row)(x)  # type: ignore[func-returns-value]
    return rows[0]


@pytest.mark.parametrize(
    ("error", "text", "call"),
    [
        (WrongShapes, "differ: `x` has 5 along axis 0, `y` has 3", lambda: pto.vmap(lambda x, y: x)(X, Y[:3])),
        (WrongShapes, "`y` has no axis 0: it is 2.0", lambda: pto.vmap(lambda x, y: x)(X, 2.0)),
        (WrongShapes, "out of range", lambda: pto.vmap(lambda x: x, in_axes=3)(X)),
        (WrongShapes, "no argument has an axis", lambda: pto.vmap(lambda x: x, in_axes=None)(X)),
        (WrongShapes, "`in_axes`", lambda: pto.vmap(lambda x: x, in_axes=((0, 1),))(X)),
        (WrongShapes, "`out_axes`", lambda: pto.vmap(lambda x: x, out_axes=(0, 1))(X)),
        (WrongShapes, "`out_axes`", lambda: pto.vmap(lambda x: x, out_axes=None)(X)),
        (NotTraced, "it is a str", lambda: pto.vmap(lambda x: "x")(X)),
        (NotTraced, "share this array", lambda: pto.vmap(to_common, in_axes=(0, None))(V[:, 0], COMMON)),
        (NotTraced, "share this array", lambda: pto.fuse(to_array_of_caller)(X)),
        (NotTraced, "used outside", lambda: pto.fuse(leaking)(X)),
    ],
)
def test_refusals(error: Any, text: str, call: Any) -> None:
    with pytest.raises(error, match=text):
        call()
    assert not COMMON.any()
