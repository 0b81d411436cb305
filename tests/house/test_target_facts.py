"""Kernels of the library read facts of the chip from `pto.target`: no number of cores or bytes of L2 stands in them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from pypto.backends.ascend.target import TARGETS
from tests.house.measure import python_files, relative, syntax

POWERS = {1 << n for n in range(40)}  # which are sizes of tiles as well
CORES = {count for chip in TARGETS.values() for count in (chip.cube_cores, chip.vector_cores)} - POWERS
CACHES = {chip.l2_bytes // part for chip in TARGETS.values() for part in (1, 2)} - POWERS
KERNELS = python_files("pypto/library/kernels")


def numbers(node: ast.AST) -> Iterator[tuple[int, int]]:
    """Integers of a module with their lines; a shift of two, as in ``96 << 20``, is one number."""
    match node:
        case ast.BinOp(ast.Constant(int(a)), ast.LShift(), ast.Constant(int(b))):
            yield a << b, node.lineno
        case ast.BinOp(ast.Constant(int()), ast.Pow(), _):
            return
        case ast.Constant(int(a)):
            yield a, node.lineno
        case _:
            for child in ast.iter_child_nodes(node):
                yield from numbers(child)


def facts_in(text: ast.AST) -> list[tuple[int, int]]:
    return [(number, line) for number, line in numbers(text) if number in CORES | CACHES]


def test_no_kernel_has_a_number_of_cores_or_bytes_of_l2() -> None:
    assert {24, 48} <= CORES and 96 << 20 in CACHES
    found = {relative(path): facts for path in KERNELS if (facts := facts_in(syntax(path)))}
    assert not found, "read `pto.target.cores`, `.cube_cores` or `.l2_bytes`"


@pytest.mark.parametrize("text", ["CORES = 48", "WAVE_BYTES = 96 << 20", "n = min(24, k)"])
def test_such_numbers_are_found(text: str) -> None:
    assert len(facts_in(ast.parse(text))) == 1
