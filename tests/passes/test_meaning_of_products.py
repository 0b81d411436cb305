"""Passes over products keep the meaning: random kernels give the same matrix in the interpreter before and after."""

import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pypto import interp
from pypto.ir.printer import print_function
from pypto.ir.rewrite import rewrite
from pypto.ir.types import int32
from pypto.ops.build import OpBuilder
from pypto.ops.table import TABLE
from pypto.ops.verify import verify
from pypto.passes.coarsen_2d import coarsen_second_axis
from pypto.passes.coarsening import CoarsenAxis, coarsen_programs
from pypto.passes.k_blocking import retile_reductions
from pypto.passes.normalize_loops import normalize_pointer_loops
from pypto.passes.swap_operands import swap_operands
from pypto.passes.transpose_attention import transpose_attention
from pypto.passes.unswitch_modulo import unswitch_modulo
from pypto.runtime.arrays import array_info
from tests.passes.products import ProductMaker
from tests.passes.targets import AVX512


def result(function, seed, grid):
    """The matrix that a launch gives. All numbers are small integers, so that sums are exact in any order."""
    pick = random.Random(seed)
    numbers = np.random.default_rng(seed)
    shapes = ((pick.randrange(70, 100), pick.randrange(100, 300)), (pick.randrange(100, 300), pick.randrange(70, 100)))
    lhs, rhs = (numbers.integers(-2, 3, shape).astype(np.float32) for shape in shapes)
    out = np.full((pick.randrange(40, 100), pick.randrange(40, 100)), 7, np.float32)
    arrays = [array_info(x, "kernel", "x") for x in (lhs, rhs, out)]
    n, k = pick.randrange(0, 5), pick.randrange(1, 40)
    interp.run(function, [*arrays, np.int32(n), np.int64(k)], grid)
    return out.tobytes()


def expanded(function, factors, grid):
    """A coarsened function as a kernel of its own: program p covers the programs from p * factor on."""

    def rule(rewriter, op):
        axis = op.attrs["axis"] if op.name in ("program_id", "num_programs") else None
        if axis not in factors:
            return None
        b = rewriter.builder
        factor = b.constant(factors[axis], int32)
        first = b.emit("mul", b.emit("program_id", axis=axis), factor)
        if op.name == "program_id":
            return (first,)
        total = b.constant(grid[axis], int32)
        return (b.emit("minimum", b.emit("add", first, factor), total, propagate_nan=False),)

    return rewrite(function, rule, OpBuilder)


def coarse_grid(factors, grid):
    return tuple(-(-count // factors.get(axis, 1)) for axis, count in enumerate(grid))


def retiled(seed):
    step = random.Random(seed).choice((8, 16, 24, 32, 64, 128))
    return lambda function: retile_reductions(function, lambda function, loop: step)


def passes(seed):
    """Pairs of a name and a pass."""
    return (
        ("unswitch_modulo", unswitch_modulo),
        ("normalize_loops", normalize_pointer_loops),
        ("k_blocking", retiled(seed)),
        ("swap_operands", lambda function: swap_operands(function, AVX512)),
        ("transpose_attention", lambda function: transpose_attention(function, AVX512)),
    )


def coarsened(function):
    """Coarsened versions, with the factor of each axis: those that pay, and whatever is possible along an axis."""
    for made in coarsen_programs(function, AVX512):
        yield made, {made.programs.axis: made.programs.factor}
    dots = [op for op in function.walk() if op.name == "dot"]
    for axis in (0, 1):
        for size in {size for dot in dots for size in dot.result.shape}:
            found = CoarsenAxis(function, axis, size, 2 * size)
            if found.is_coarsenable():
                yield found.rewrite("coarse"), {axis: 2}
    for d in (0, 1) if len(dots) == 1 else ():
        found = coarsen_second_axis(function, dots[0].result, d, replace(AVX512, has_amx=True))
        if found is not None:
            yield found.rewrite("strip"), {1: found.coarse_extent // found.width}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
@example(4072507)  # a smaller step, and an end that is no multiple of the old one
def test_every_pass_over_products_keeps_the_result(seed):
    maker = ProductMaker(seed)
    function, grid = maker.function(), maker.grid()
    verify(function, TABLE)
    expected = result(function, seed, grid)
    for made, factors in coarsened(function):
        verify(made, TABLE)
        assert result(expanded(made, factors, grid), seed, coarse_grid(factors, grid)) == expected, (
            f"coarsening by {factors}"
        )
    for name, run in passes(seed):
        function = run(function)
        verify(function, TABLE)
        assert result(function, seed, grid) == expected, f"{name} changed the result"


@pytest.mark.parametrize("name", [name for name, _ in passes(0)])
def test_random_products_reach_every_pass(name):
    def changes(seed):
        function = ProductMaker(seed).function()
        return print_function(dict(passes(seed))[name](function)) != print_function(function)

    assert sum(map(changes, range(100))) >= 3


def test_random_products_reach_coarsening():
    found = [factors for seed in range(60) for _, factors in coarsened(ProductMaker(seed).function())]
    assert {axis for factors in found for axis, factor in factors.items() if factor > 1} == {0, 1}
