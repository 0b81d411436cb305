"""Arrays that a traced function makes itself, and elements that masks pick, beside numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy import zeros

import pypto as pto
import pypto.arrays as pt
from pypto.errors.graph import EmptyMask, NotTraced, WrongShapes
from pypto.graph import trace
from tests.graph.test_trace import same

X = np.random.default_rng(0).random((6, 5))


def shifted(x: Any) -> Any:
    result = np.zeros(x.shape, x.dtype)
    result[1:] = x[:-1]
    return result


def row_by_row(x: Any) -> Any:
    result = np.empty((6, 5))
    for n in range(6):
        result[n] = x[n] * n
    return result


def views_of_memory_that_changes(x: Any) -> Any:
    b = np.zeros((6, 5))
    part, turned, flat = b[1:3], b.T, b.reshape(-1)
    part[:] = x[:2]
    return b, turned + 0, flat * 2, part


def a_table_with_a_condition(x: Any) -> Any:
    table = np.zeros(6)
    for n in range(6):
        table[n] = n * n
    if table[3] > 8:
        table[0] = 7
    return x * table[:, None]


def written_by_numpy_after_use(x: Any) -> Any:
    t = np.arange(5.0)
    first = x + t
    t[0] = 100
    second = x + t
    t[1:3] += 1
    return first, second, x * t


def written_by_the_graph_after_use(x: Any) -> Any:
    t = np.ones(5)
    first = x * t
    t[2:] = x[0, 2:]
    return first, x * t, t


def joined_numbers(x: Any) -> Any:
    return np.array([x.sum(), x.max(), 1.0]), np.array([[x[0, 0], 2], [3, x[1, 1]]]), np.array(x), np.asarray(x)


def filled(x: Any) -> Any:
    return np.full((3,), x.mean()), np.full(4, 2.5), np.full((2, 2), 3), np.full(2, [1, 2])


def imported_by_name(x: Any) -> Any:
    b = zeros(5)
    b[0] = x.sum()
    return b


def imported_in_the_function(x: Any) -> Any:
    import numpy as numpy_of_this_function

    b = numpy_of_this_function.zeros(5)
    b[0] = x.sum()
    return b


def made_by_pypto(x: Any) -> Any:
    b = pt.zeros(5)
    b[0] = x[0, 0]
    return b


def as_out(x: Any) -> Any:
    b = np.empty((6, 5))
    np.multiply(x, 2, out=b)
    np.add(b, 1, out=b)
    return b


def updated_in_place(x: Any) -> Any:
    b, c = np.zeros((6, 5)), np.zeros(5)
    b += x
    b *= 2
    c += x.sum(0)
    return b, c


def a_product_with_a_changed_identity(x: Any) -> Any:
    e = np.eye(5)
    e[0] = x[0]
    return x @ e


def constants_of_numpy(x: Any) -> Any:
    g, m = np.linspace(0, 1, 5), np.zeros(5, bool)
    m[2] = True
    return x * g, np.where(m, x, 0), x[:, g > 0.4]


def known_indices(x: Any) -> Any:
    n = np.arange(3)
    return x[n], x[:, n], x[n, n]


def integers(x: Any) -> Any:
    c = np.zeros(3, int)
    c[1] = (x > 0.5).sum()
    return c


def numbers_of_a_table(x: Any) -> Any:
    a, total = np.array([1.0, 2.0, 3.0]), 0
    for v in a:
        total = total + v * x
    return total + float(a[0]) * len(a) + a.shape[0]


def two_names(x: Any) -> Any:
    a = np.zeros(4)
    b = a
    b[1] = x[0, 0]
    c = a.copy()
    c[0] = 5
    return a, b, c


def like_another(x: Any) -> Any:
    a = np.zeros_like(x)
    a[0] = 1
    b = np.zeros_like(a)
    b[1] = x[1]
    return a, b


def added_at(x: Any) -> Any:
    h = np.zeros(4)
    np.add.at(h, np.array([0, 1, 1, 3, 0]), x[0])
    return h


def methods_that_write(x: Any) -> Any:
    a = np.empty(3)
    a.fill(2)
    a.sort()
    b = a + x[0, 0]
    a.fill(3)
    return a, b


def narrow(x: Any) -> Any:
    a = np.zeros((2, 3), dtype=np.float32)
    a[0] = x[0, :3]
    a[1] = [1, 2, 3]
    return a.sum(), a


def rows_exchanged(x: Any) -> Any:
    a = np.zeros((3, 3))
    a[:, 0] = x[0, :3]
    a[[0, 1]] = a[[1, 0]]
    return a


def a_view_that_is_written(x: Any) -> Any:
    a = np.zeros(9)
    a.reshape(3, 3)[1] = x[0, :3]
    return a


def joined(x: Any) -> Any:
    return np.concatenate([np.zeros(2), x[0], np.ones(1)]), np.vstack([x, np.zeros((1, 5))])


def known_masks(x: Any) -> Any:
    m = np.zeros(5, bool)
    m[1] = m[3] = True
    y, z = x.copy(), x.copy()
    y[:, m] = x[:, :2]
    z[0][m] = 9
    return x[:, m], x[0][m], y, z, x[[True, False] * 3]


def masks_of_several_dimensions(x: Any) -> Any:
    m, none = np.eye(6, 5) > 0, np.zeros(5, bool)
    return x[m], x[..., none], x[m.any(1), 2]


def reductions_under_a_mask(x: Any) -> Any:
    m = x > 0.5
    return (
        x[m].sum(), x[m].mean(), np.mean(x[x < 0.3]), x[x > 0.2].std(), x[x > 0.2].var(ddof=1), x[m].max(),
        np.min(x[m]), (x[m] > 0.7).sum(), (x[m] > 0.7).any(), (x[m] > 0.4).all(), np.sum(x[m] ** 2), x[m].prod(),
    )  # fmt: skip


def stores_under_a_mask(x: Any) -> Any:
    m, y = x > 0.5, x.copy()
    y[m] = np.sqrt(x[m]) * 2
    y[~m] *= 3
    y[y > 1.5] -= 1
    return y


def rows_under_a_mask(x: Any) -> Any:
    m = x[:, 0] > 0.5
    return x[m].sum(0), x[m].mean(axis=0), x[m].sum(), x[m].max(0), x[m].std(axis=0)


def counts_under_a_mask(x: Any) -> Any:
    y = (x * 10).astype(np.int32)
    return np.count_nonzero(x[x > 0.2] > 0.5), x[x > 0.2].astype(np.float32).sum(), y[y > 3].sum(), y[y > 3].max()


def masked_before_a_change(x: Any) -> Any:
    y = x.copy()
    high = y[y > 0.5]
    y[:] = 0
    return high.sum(), y


FUNCTIONS = [
    shifted, row_by_row, views_of_memory_that_changes, a_table_with_a_condition, written_by_numpy_after_use,
    written_by_the_graph_after_use, joined_numbers, filled, imported_by_name, imported_in_the_function, made_by_pypto,
    as_out, updated_in_place, a_product_with_a_changed_identity, constants_of_numpy, known_indices, integers,
    numbers_of_a_table, two_names, like_another, added_at, methods_that_write, narrow, rows_exchanged,
    a_view_that_is_written, joined, known_masks, masks_of_several_dimensions, reductions_under_a_mask,
    stores_under_a_mask, rows_under_a_mask, counts_under_a_mask, masked_before_a_change,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_arrays_made_in_a_function_are_as_in_numpy(function: Any) -> None:
    expected = function(X.copy())
    fused = pto.fuse(function)
    for _ in range(2):  # constants of a plan stay as they are
        same(fused(X.copy()), expected)


def test_numpy_alone_leaves_no_nodes() -> None:
    def f(x: Any) -> Any:
        table = np.zeros(100)
        for n in range(100):
            table[n] = n % 7
        return x + table.max()

    assert [node.op for node in trace(f, np.ones(3)).graph.live()] == ["input", "constant", "add"]


def test_the_results_of_two_calls_share_no_memory() -> None:
    f = pto.fuse(lambda x: (np.zeros(3), x + 1))
    first = f(np.ones(3))[0]
    first[:] = 5
    np.testing.assert_array_equal(f(np.ones(3))[0], np.zeros(3))


def test_shapes_with_names_are_filled() -> None:
    n = pt.Dim("n")
    f = pto.fuse(lambda x: np.zeros((x.shape[0], 2)) + np.ones(x.shape[0])[:, None] + x[:, None], dims={"x": (n,)})
    for size in (3, 8):
        x = np.arange(float(size))
        np.testing.assert_array_equal(f(x), np.zeros((size, 2)) + 1 + x[:, None])


def test_the_maximum_of_no_element_is_an_error_as_in_numpy() -> None:
    f = pto.fuse(lambda x: x[x > 2].max())
    assert f(np.array([1.0, 3.0])) == 3
    with pytest.raises(EmptyMask, match="picks none"):
        f(np.array([1.0, 2.0]))


REFUSED = {
    "its size": lambda x: x[x > 0].size,
    "a loop": lambda x: list(x[x > 0]),
    "another mask": lambda x: x[x > 0] + x[x < 0],
    "the result": lambda x: x[x > 0],
    "an index": lambda x: x[x > 0][0],
    "np.sort": lambda x: np.sort(x[x > 0]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_the_number_of_masked_elements_is_refused(name: str) -> None:
    with pytest.raises(NotTraced, match="this index by a mask") as caught:
        trace(REFUSED[name], X)
    assert "np.where(mask, a, b)" in str(caught.value)


def test_a_known_mask_of_another_size_is_refused() -> None:
    with pytest.raises(WrongShapes, match="a mask of shape"):
        trace(lambda x: x[:, np.array([True, False])], X)
