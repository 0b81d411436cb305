"""What a launch is recognised by, which arrays overlap, grids and argument blocks."""

from __future__ import annotations

import ctypes
import itertools
import struct
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pypto.backends.base import PAGE, Artifact, Slot
from pypto.errors.launch import WrongGrid
from pypto.ir.types import DTYPE_BY_NAME, float32, int1, int8, int32, int64, uint64
from pypto.runtime.arrays import array_info, data_offset
from pypto.runtime.launch import Plan, Scratch, check_grid, disjoint, fingerprint, overlaps, to_bits
from pypto.runtime.signature import Signature
from pypto.runtime.specialization import Specialization


def key(*values: Any, constant: bool = False) -> Any:
    return fingerprint(values, (constant,) * len(values))[0]


X = np.zeros((4, 6), np.float32)
ALIKE = [
    (X, X.copy()), (X[1:3], X[2:4]), (2, 3), (-5, 2**31 - 1), (2**31, 2**40), (2**63, 2**64 - 1), (1.5, -0.0),
    (True, True), (None, None), ("a", "a"), (np.float32(2), np.float32(3)), (np.int8(2), np.int8(3)),
    ((2, X), (3, X.copy())), ((1, (2, None)), (1, (5, None))),
]  # fmt: skip
DIFFERENT = [
    X, X.T, X[:, ::2], X[::-1], X[:2], X.astype(np.float64), X.astype(">f4"), X[0], 1, 2, 2**31, 2**63, -(2**63) - 1,
    1.0, None, "a", "b", np.float32(2), np.float64(2), np.int32(1), np.int32(2), np.int64(1), np.bool_(True),
    float32, (1, 2), (2, 2, 2), (2, (2, 2)), (2, 2.0), (X, 2), (X.T, 2), ml_dtypes.bfloat16(1),
]  # fmt: skip
CONSTANTS = [0, 1, -1, True, False, 0.0, -0.0, 1.0, None, "", "a", "b", float32, int32, (), (1,), (1.0,), (True,), len]


@pytest.mark.parametrize(("a", "b"), ALIKE)
def test_what_a_version_cannot_depend_on_is_not_in_the_key(a: Any, b: Any) -> None:
    assert key(a) == key(b) and hash(key(a)) == hash(key(b))


@pytest.mark.parametrize("values", [DIFFERENT, CONSTANTS], ids=["arguments", "constants"])
def test_what_it_can_depend_on_is(values: list[Any]) -> None:
    keys = [key(value, constant=values is CONSTANTS) for value in values]
    for (n, a), (m, b) in itertools.combinations(enumerate(keys), 2):
        assert a != b, (values[n], values[m])


def test_constants_nested_in_tuples_keep_their_types() -> None:
    forms = [(1, (2,)), (1, (2.0,)), (True, (2,)), (1, (2, ())), ((1, 2),), (1, (-0.0,)), (1, (0.0,))]
    assert len({key(form, constant=True) for form in forms}) == len(forms)


def test_a_nan_is_one_constant() -> None:
    assert key(float("nan"), constant=True) == key(float("nan"), constant=True)


def test_addresses_are_those_of_the_arrays() -> None:
    views = (X, X[1:, 2:], X[::-1, ::-1], X.view(type("Sub", (np.ndarray,), {})))
    assert data_offset() > 0
    assert fingerprint((1, *views, 2.5), (False,) * 6)[1] == [view.ctypes.data for view in views]


def test_an_unknown_array_has_no_key() -> None:
    class Strange:
        __array_interface__: Any = None

    with pytest.raises(LookupError):
        key(Strange())


def test_arrays_for_constants_have_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(key(X, constant=True))


@st.composite
def view(draw: st.DrawFn) -> Any:
    """A strided view into a small memory, with the bytes that it reaches."""
    memory = np.arange(60, dtype=np.int16)
    start, stop = draw(st.integers(0, 60)), draw(st.integers(0, 60))
    step = draw(st.sampled_from([1, 2, 3, -1, -2]))
    part = memory[start:stop:step]
    if draw(st.booleans()) and part.size % 2 == 0 and part.size:
        part = part.reshape(2, -1)
    return part


MEMORY = np.zeros(60, np.int16)


def elements(part: Any) -> tuple[int, int]:
    return (int(part.min()), int(part.max())) if part.size else (0, -1)


@given(view(), view())
def test_arrays_overlap_when_their_ranges_do(a: Any, b: Any) -> None:
    def placed(part: Any) -> Any:
        """The same view in the common memory."""
        if not part.size:
            return MEMORY[:0]
        strides = part.strides
        return np.lib.stride_tricks.as_strided(MEMORY[int(part.flat[0]) :], part.shape, strides)

    infos = {name: array_info(placed(part), "k", name) for name, part in (("a", a), ("b", b))}
    pairs, addresses = overlaps(frozenset({"a"}), infos)
    (low_a, high_a), (low_b, high_b) = elements(a), elements(b)
    touching = a.size and b.size and low_a <= high_b and low_b <= high_a
    assert disjoint(pairs, addresses) is not bool(touching)
    assert disjoint(*overlaps(frozenset(), infos))


def test_a_plan_takes_new_addresses_into_account() -> None:
    x = np.zeros(10, np.float32)
    pairs, _ = overlaps(frozenset({"out"}), {"x": array_info(x[:5], "k", "x"), "out": array_info(x[5:], "k", "out")})
    start = x.ctypes.data
    assert disjoint(pairs, [start, start + 20]) and disjoint(pairs, [start, start - 20])
    assert not disjoint(pairs, [start, start + 16]) and not disjoint(pairs, [start, start - 16])


SIGNATURE = Signature("k", ("x", "n"), (False, False), {}, {})


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [(4, (4, 1, 1)), ((4,), (4, 1, 1)), ([4, 5], (4, 5, 1)), ((4, 5, 6), (4, 5, 6)), (0, (0, 1, 1)), (True, (1, 1, 1)),
     (np.int8(3), (3, 1, 1)), ((2**31 - 1, np.uint64(2)), (2**31 - 1, 2, 1)), (lambda meta: meta["n"] + 1, (8, 1, 1)),
     (lambda meta: (2, meta["n"]), (2, 7, 1))],
)  # fmt: skip
def test_grids(grid: Any, sizes: tuple[int, ...]) -> None:
    found = check_grid(grid, SIGNATURE, ("x", 7))
    assert found == sizes and {type(n) for n in found} == {int}


@pytest.mark.parametrize(
    ("grid", "problem"),
    [((), "0 axes"), ((1,) * 4, "4 axes"), (-1, "-1 is not between"), ((1, 2**31), "2147483648 is not between"),
     (1.0, "whole numbers"), ((1, 2.0), "whole numbers"), (None, "whole numbers"), ("12", "whole numbers"),
     (np.zeros(2), "whole numbers"), (lambda meta: 0.5, "whole numbers"), (float("nan"), "whole numbers")],
)  # fmt: skip
def test_what_is_no_grid(grid: Any, problem: str) -> None:
    with pytest.raises(WrongGrid, match=problem):
        check_grid(grid, SIGNATURE, ("x", 7))


@pytest.mark.parametrize(
    ("value", "dtype", "raw"),
    [
        (5, int32, struct.pack("<q", 5)), (-5, int32, struct.pack("<q", -5)), (True, int1, struct.pack("<q", 1)),
        (-(2**63), int64, struct.pack("<q", -(2**63))), (2**64 - 1, uint64, b"\xff" * 8),
        (1.5, float32, struct.pack("<f", 1.5)), (-0.0, float32, struct.pack("<f", -0.0)),
        (1e300, float32, struct.pack("<f", float("inf"))), (np.int8(-2), int8, struct.pack("<q", -2)),
        (np.float64(0.1), DTYPE_BY_NAME["f64"], struct.pack("<d", 0.1)),
        (np.float16(2), DTYPE_BY_NAME["f16"], np.float16(2).tobytes()),
        (ml_dtypes.bfloat16(2), DTYPE_BY_NAME["bf16"], ml_dtypes.bfloat16(2).tobytes()),
        (np.uint64(2**63), uint64, struct.pack("<Q", 2**63)),
    ],
)  # fmt: skip
def test_numbers_fill_their_slot(value: Any, dtype: Any, raw: bytes) -> None:
    slot = (ctypes.c_int64 * 1)(to_bits(type(value), dtype)(value))
    assert bytes(slot)[: len(raw)] == raw


class Program:
    """Notes what it is launched with."""

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        self.written = frozenset({"out"})
        self.seen: list[Any] = []

    def run(self, address: int, programs: int, threads: int) -> None:
        block = (ctypes.c_int64 * (5 + len(self.artifact.abi))).from_address(address)
        self.seen.append((list(block), programs, threads))


def planned(scratch: int = 0) -> tuple[Plan, Program]:
    abi = (Slot("shape", "x", 1), Slot("ptr", "out"), Slot("scalar", "n", 0, int32), Slot("stride", "x", 0),
           Slot("ptr", "x"))  # fmt: skip
    program = Program(Artifact("k", abi, scratch, 1.0, b""))
    found = Specialization((), {}, True, "", {}, (), program)
    infos = {"x": array_info(X, "k", "x"), "n": 7, "out": array_info(X[0], "k", "out")}
    return Plan.of(found, infos), program


def test_a_plan_fills_the_argument_block() -> None:
    plan, program = planned()
    for n, grid in ((7, (2, 3, 4)), (-1, (5, 1, 1))):
        plan.run(grid, (None, n, None), [1000, 2000], 0, 8)
        assert program.seen.pop() == ([*grid, 0, 0, 6, 2000, n, 6, 1000], grid[0] * grid[1] * grid[2], 8)


def test_scratch_memory_comes_in_pages() -> None:
    plan, program = planned(scratch=5000)
    assert plan.slots[4] == 2 * PAGE
    plan.run((1, 1, 1), (None, 0, None), [0, 0], 4096, 1)
    assert program.seen[0][0][3:5] == [4096, 2 * PAGE]
    scratch = Scratch()
    first = scratch.at_least(100)
    assert first % PAGE == 0 and scratch.at_least(50) == first
    ctypes.memset(scratch.at_least(10**6), 1, 10**6)


def test_a_plan_fits_as_long_as_its_results_can_be_written() -> None:
    plan, _ = planned()
    out = X[0].copy()
    assert plan.fits((X, 7, out))
    out.flags.writeable = False
    assert not plan.fits((X, 7, out))
