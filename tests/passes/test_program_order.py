"""The option `affinity`: programs that share what they read of an array follow one another."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto.debug.explain import explain
from pypto.errors.launch import WrongOption
from pypto.passes.program_order import order_programs
from tests.sim.device import needs_compiler


@pto.jit
def matmul(a, b, c, BM: pto.constexpr, BN: pto.constexpr, BK: pto.constexpr):
    i, j = pto.program_id(0) * BM, pto.program_id(1) * BN
    acc = pto.zeros((BM, BN), pto.float32)
    for k in range(0, a.shape[1], BK):
        acc = pto.dot(a[i : i + BM, k : k + BK], b[k : k + BK, j : j + BN], acc)
    c[i : i + BM, j : j + BN] = acc


@pto.jit
def heads_of_groups(q, k, out, GROUP: pto.constexpr):
    part, b, h = pto.program_id(0), pto.program_id(1), pto.program_id(2)
    out[b, h, part] = pto.sum(q[b, h, :] * k[b, h // GROUP, part, :]) + pto.num_programs(0) + 10 * pto.num_programs(2)


BODY = """
        %i: i32 = program_id {{axis = {0}}}
        %count: i32 = num_programs {{axis = {0}}}
        %j: i32 = program_id {{axis = {1}}}
        %p: ptr<f32> = array_ptr %x
        %q: ptr<f32> = addptr %p, {2}
        %1: f32 = load %q
        %2: i32 = add %i, %count
        %3: i32 = add %2, %j
        print_ %3 {{hex = false, prefix = ""}}
        print_ %1 {{hex = false, prefix = ""}}
    """


@pytest.mark.parametrize(("place", "axes"), [("%i", (1, 0)), ("%j", (0, 1)), ("%n", (0, 1))])
def test_axes_along_which_an_address_stays_run_fastest(becomes, place, axes):
    before, after = BODY.format(0, 1, place), BODY.format(*axes, place)
    becomes(order_programs, before, after, 'attributes {affinity = "x"}')
    becomes(order_programs, before, before)


def product(affinity: str, m: int, n: int, k: int, threads: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(m + n)
    a, b = rng.standard_normal((m, k), np.float32), rng.standard_normal((k, n), np.float32)
    c = np.full((m, n), np.nan, np.float32)
    sizes = {"BM": 32, "BN": 64, "BK": 64}
    matmul[pto.cdiv(m, 32), pto.cdiv(n, 64)](a, b, c, affinity=affinity, num_threads=threads, **sizes)
    return c, a.astype(np.float64) @ b


@pytest.mark.covering(quick=1, slow=2)
@pytest.mark.parametrize("affinity", ["a", "b", "c"])
@pytest.mark.parametrize(("m", "n", "k"), [(257, 300, 130), (1, 900, 700), (70, 33, 1100), (600, 700, 200)])
def test_products_are_the_same_in_any_order(affinity: str, m: int, n: int, k: int) -> None:
    plain, right = product("", m, n, k, 2)
    for threads in (1, 2):
        found, _ = product(affinity, m, n, k, threads)
        np.testing.assert_allclose(found, right, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(found, plain, rtol=1e-5, atol=1e-5)


def heads(parts: int, batch: int, groups: int) -> tuple[Any, Any, Any, Any]:
    rng = np.random.default_rng(parts)
    q = rng.standard_normal((batch, 3 * groups, 40), np.float32)
    k = rng.standard_normal((batch, groups, parts, 40), np.float32)
    out = np.full((batch, 3 * groups, parts), np.nan, np.float32)
    right = (q[:, :, None, :] * k.repeat(3, axis=1)).sum(-1) + parts + 30 * groups
    return q, k, out, right


@pytest.mark.parametrize("affinity", ["", "q", "k"])
@pytest.mark.parametrize("sizes", [(7, 2, 3), (1, 5, 1), (16, 1, 2)])
def test_grids_of_three_axes(affinity: str, sizes: tuple[int, int, int]) -> None:
    q, k, out, right = heads(*sizes)
    grid = sizes[0], sizes[1], 3 * sizes[2]
    heads_of_groups[grid](q, k, out, GROUP=3, affinity=affinity)
    np.testing.assert_allclose(out, right, rtol=1e-4, atol=1e-4)
    with pto.checked():
        heads_of_groups[grid](q, k, out, GROUP=3, affinity=affinity)


@needs_compiler
@pytest.mark.parametrize("affinity", ["a", "b"])
def test_orders_on_the_simulated_device(affinity: str) -> None:
    with pto.device("ascend-sim"):
        found, right = product(affinity, 100, 150, 64, 0)
        np.testing.assert_allclose(found, right, rtol=1e-3, atol=1e-3)
        q, k, out, right = heads(7, 2, 3)
        heads_of_groups[7, 2, 9](q, k, out, GROUP=3, affinity="k")
        np.testing.assert_allclose(out, right, rtol=1e-4, atol=1e-4)


def said(affinity: str) -> str:
    arrays = (np.zeros((64, 64), np.float32) for _ in range(3))
    found = explain(matmul.with_options(affinity=affinity), *arrays, BM=32, BN=64, BK=64)
    return "\n".join(finding.text for finding in found.about("order"))


def test_what_was_decided_is_explained() -> None:
    assert said("") == ""
    assert said("a") == "affinity to `a`: programs along axis 1 read the same of it; the order of axes is 1, 0, 2"
    assert said("b") == "affinity to `b`: programs along axis 0 read the same of it; the order is that of the grid"
    assert said("c").startswith("affinity to `c`: along no axis of the grid do programs read the same of it")


def test_heads_of_a_group_follow_one_another() -> None:
    q, k, out, _ = heads(7, 2, 3)
    found = explain(heads_of_groups.with_options(affinity="k"), q, k, out, GROUP=3).about("order")
    assert (
        found[0].text == "affinity to `k`: programs along axis 2 may read the same of it; the order of axes is 2, 0, 1"
    )


def test_programs_are_named_by_the_grid_of_the_launch() -> None:
    with pytest.raises(pto.errors.Diagnostic, match=re.escape("program (0, 1, 0)")), pto.checked():
        arrays = np.zeros((32, 64), np.float32), np.zeros((64, 128), np.float32), np.zeros((32, 128), np.float32)
        out_of_bounds[1, 2](*arrays, affinity="x")


@pto.jit
def out_of_bounds(x, y, z):
    i, j = pto.program_id(0), pto.program_id(1)
    pto.store(z + i + j * z.shape[0] * z.shape[1], pto.load(x + i))


def keyed(keys, y):
    y[:] = keys[:]


def test_an_affinity_to_no_parameter_is_refused() -> None:
    with pytest.raises(WrongOption, match="no parameter `keyz`"):
        matmul.with_options(affinity="keyz")
    with pytest.raises(WrongOption, match="did you mean `keys`"):
        pto.jit(keyed, affinity="keyz")
