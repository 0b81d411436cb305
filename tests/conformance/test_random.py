"""Random kernels give the same on the CPU and in the interpreter, as near as their ops say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

import pypto as pto
from pypto.ops.table import TABLE
from tests.conformance.expressions import LAYOUTS, Program, programs
from tests.conformance.fences import Fences
from tests.conformance.sources import define
from tests.conftest import LEVELS
from tests.ops.samples import Array, assert_same, finfo, ulp_errors, wide

LAYOUT_LISTS = st.lists(st.sampled_from(list(LAYOUTS)), min_size=3, max_size=3)
COMMON = {"deadline": None, "suppress_health_check": list(HealthCheck)}


def launch(kernel: Any, program: Program, arrays: list[Array], n: int) -> list[Array]:
    grid = tuple(-(-(size + program.shift) // block) for size, block in zip(program.sizes, program.blocks, strict=True))
    count = len(program.inputs)
    with Fences() as fences:
        outputs = [fences.around(array) for array in arrays[count:]]
        kernel[grid](*arrays[:count], *outputs, n, *program.blocks)
    return outputs


def check(program: Program, layouts: list[str], n: int, level: str) -> None:
    text = program.text()
    note(f"{text}\nsizes {program.sizes}, blocks {program.blocks}, n = {n}, inputs {program.inputs}, layouts {layouts}")
    found = launch(define(text, level), program, program.arrays(7, layouts), n)
    wanted = launch(pto.interpret(define(text)), program, program.arrays(7, layouts), n)
    for index, (a, b, term, kind) in enumerate(zip(found, wanted, program.outputs, program.checks, strict=True)):
        what = f"y{index} = {term.name}, {level or 'host'}"
        if kind == "exact":
            assert_same(a, b, what)
        elif kind == "sum":
            check_sum(a, b, wanted[index - 1], program, what)
        else:
            ulp = 0.51 if term.dtype.bits == 16 else TABLE[kind].ulp[term.dtype.mnemonic]
            errors = ulp_errors(a, wide(b), term.dtype)
            assert errors.max() <= ulp + 1, f"{what} is {errors.max():.2f} ulp off"


def check_sum(found: Array, wanted: Array, terms: Array, program: Program, what: str) -> None:
    """Sums of a tile may be added up in any order, so where infinities cancel or overflow they are left out."""
    dtype = program.outputs[-1].dtype
    unit = 2.0**-53 if dtype.bits == 64 else 2.0**-24
    size = float(np.max(np.abs(wide(terms)), initial=0.0, where=np.isfinite(wide(terms))))
    bound = 4 * unit * max(program.blocks) ** 2 * size
    with np.errstate(all="ignore"):
        near = np.abs(wide(found) - wide(wanted)) <= bound + float(finfo(dtype).eps) * np.abs(wide(wanted))
    fine = np.isfinite(wide(wanted)) & (np.abs(wide(wanted)) < float(finfo(dtype).max) / 1e3) & (size < 1e30)
    assert np.all(near | ~fine), what


@settings(max_examples=40, derandomize=True, **COMMON)
@given(programs(), LAYOUT_LISTS, st.integers(0, 3), st.sampled_from(LEVELS))
def test_random_kernels(program: Program, layouts: list[str], n: int, level: str) -> None:
    check(program, layouts, n, level)


@pytest.mark.first
@pytest.mark.slow
@settings(max_examples=500, **COMMON)
@given(programs(), LAYOUT_LISTS, st.integers(0, 3), st.sampled_from(LEVELS))
def test_many_random_kernels(program: Program, layouts: list[str], n: int, level: str) -> None:
    check(program, layouts, n, level)


def test_texts_are_kernels() -> None:
    """The generator makes text of both styles with the ops it is meant to."""
    texts: list[str] = []

    @settings(max_examples=40, derandomize=True, database=None, **COMMON)
    @given(programs())
    def collect(program: Program) -> None:
        texts.append(program.text())

    collect()
    whole = "\n".join(texts)
    assert all(word in whole for word in ("pto.load(", "pto.where(", "for k in", "BM, j : j + BN]", "axis=1"))
