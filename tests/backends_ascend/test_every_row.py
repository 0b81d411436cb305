"""Each row of the op table, in each dtype that it takes: it is lowered for a chip, or says why not and what to write.

Elementwise rows are tried so by `test_cells`, without a kernel around them. The device runs some of these kernels in
`test_every_op`; here they only become Ascend C, which costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from zlib import crc32

import numpy as np
import pytest

from pypto.backends.ascend.block.verify import instruction_problems
from pypto.backends.ascend.pipeline import lower_to_text
from pypto.backends.ascend.rules.table import rule_for
from pypto.backends.ascend.target import ascend_target
from pypto.backends.ascend.vector.lower import HANDLERS
from pypto.debug.simulate import function_of
from pypto.errors.ascend import NoForm, NotOnAscend
from pypto.ir.types import DTYPES, DType, bfloat16, float16, float32, int8
from pypto.ops.row import OpRow, Unsupported
from pypto.ops.table import ROWS, TABLE
from tests.conformance.sources import define
from tests.ops import test_axes as axes
from tests.ops.rows import COMPUTING, calls, takes

B2: Final = ascend_target("ascend910b2")
MOVING: Final = tuple(row for row in COMPUTING if not row.elementwise)

# What is refused: the row, and in which dtypes.
REFUSED: Final = {"ptr_cast": DTYPES, "atomic_cas": (float16, bfloat16)}

# Rows that are memory, control flow, or what the frame of a kernel gives: a body that uses them, and the others that it
# has beside the one it is named after. `x` and `y` are arrays of the dtype that is tried, `k` one of 37 int32.
BODIES: Final = {
    "constant": ("y[0:16] = pto.full((16,), 1, x.dtype) + x[0:16]", "tile_load", "tile_store"),
    "undef": ("y[0:16] = found(x, k)", "if", "while"),
    "arange": ("y[0:16] = pto.arange(3, 19).to(x.dtype)",),
    "program_id": ("i = pto.program_id(0) + pto.program_id(1)\n    y[i : i + 5] = x[i : i + 5]",),
    "num_programs": ("y[0:16] = x[0:16] + pto.num_programs(0).to(x.dtype)",),
    "sort_keys": ("y[0:32] = pto.sort(x[0:32])",),
    "slice": ("t = x[0:32] + x[1:33]\n    y[0:8] = t[3:19:2]",),
    "array_ptr": ("pto.store(y + 3, pto.load(x + 5))", "addptr", "load", "store"),
    "array_shape": ("n = x.shape[0]\n    y[n - 3 : n] = x[0:3]",),
    "array_stride": ("y[0:3] = x[0:3] + y.strides[0].to(x.dtype)",),
    "load": ("y[0] = pto.load(x + k[0], k[1] > 2, x[1])", "addptr", "array_ptr"),
    "store": ("pto.store(y + k[0], x[1], k[1] > 2)", "addptr"),
    "tile_load": ("at = pto.load(k + pto.arange(0, 16))\n    y[0:16] = pto.load(x + at, at < 9, 1)", "addptr"),
    "tile_store": ("at = pto.load(k + pto.arange(0, 16))\n    pto.store(y + at, x[0:16], at < 9)", "addptr"),
    "ptr_cast": ("y[0] = (x + 3).to(pto.int64).to(x.dtype)",),
    "for": ("t = x[0:9]\n    for i in range(k[0]):\n        t = pto.where(k[0:9] > i, t, x[i : i + 9])\n"
            "    y[0:9] = t", "yield"),
    "while": ("i, t = 0, x[0:9]\n    while k[i] > 0:\n        i, t = i + 1, pto.where(k[0:9] > i, t, x[i : i + 9])\n"
              "    y[0:9] = t",),
    "assert_": ("pto.device_assert(k[0] > 0, 'none')\n    y[0:16] = x[0:16]",),
    "print_": ("pto.device_print('x', x[0:16])\n    y[0:16] = x[0:16]",),
    "breakpoint_": ("breakpoint()\n    y[0:16] = x[0:16]",),
    **{row.name: (f"pto.{row.name}(y + pto.arange(0, 16), x[0:16], pto.arange(0, 16) < k[0])",)
       for row in ROWS if row.effect.value == "atomic" and row.name != "atomic_cas"},
    "atomic_cas": ("y[20] = pto.atomic_cas(y + 2, x[0], x[1])",),
}  # fmt: skip
HEAD: Final = """
@pto.jit
def found(x, k):
    for i in range(9):
        if k[i] > 2:
            return x[i : i + 16]
    return x[0:16]

def kernel(x, y, k):
    """
OLD_VALUES: Final = tuple(name for name in BODIES if name.startswith("atomic_") and name != "atomic_cas")


def outcome(text: str, arguments: list[Any], *ops: str) -> str:
    """Ascend C that breaks no rule of an instruction, or a refusal that says why and what to write."""
    kernel = define(text)
    function = function_of(kernel, kernel.signature.bind(tuple(arguments), {}))
    assert {op.name for op in function.walk()} >= set(ops)
    try:
        made, written = lower_to_text(function, B2)
        assert list(instruction_problems(made, B2)) == []
        return written
    except (NotOnAscend, NoForm) as refused:
        reason = refused.fields["reason" if isinstance(refused, NotOnAscend) else "problem"]
        assert refused.loc is not None and refused.loc.user.line > 1
        assert min(len(reason.split()), len(refused.fields["way"].split())) > 2
        return ""


def kernels(name: str) -> Iterator[str]:
    yield f"{HEAD}{BODIES[name][0]}\n"
    if name in OLD_VALUES:
        yield f"{HEAD}y[20:36] = {BODIES[name][0]}\n"


def is_taken(row: OpRow, dtype: DType) -> bool:
    if row.name in ("atomic_add", "atomic_xchg", "atomic_cas") or row.effect.value != "atomic":
        return not (dtype.is_bool and row.effect.value == "atomic")
    return dtype.is_int and not dtype.is_bool if row.name[7:] in ("and", "or", "xor") else not dtype.is_bool


def some_of(dtypes: Iterable[DType], name: str, part: str) -> list[DType]:
    """The dtypes of a part of the tests: two that all rows have and a third of the others are quick."""
    quick = (float32, int8)
    return [d for d in dtypes if (d in quick or crc32(f"{name} {d}".encode()) % 3 == 0) == (part == "quick")]


PARTS: Final = pytest.mark.parametrize("part", ["quick", pytest.param("slow", marks=pytest.mark.slow)])


@PARTS
@pytest.mark.parametrize("row", MOVING, ids=lambda row: row.name)
def test_rows_that_move_or_join_elements(row: OpRow, part: str) -> None:
    for dtype in some_of(takes(row), row.name, part):
        tried = calls(row, dtype)[: None if dtype in (float32, int8) else 1]  # a dimension is one in all dtypes
        made = axes.outputs(tried)
        assert outcome(axes.apart(tried), axes.arguments(tried, made)), f"{row.name} of {dtype}"


@PARTS
@pytest.mark.parametrize("name", BODIES)
def test_rows_of_memory_and_control(name: str, part: str) -> None:
    taken = [d for d in DTYPES if is_taken(TABLE[name], d)]
    assert len(taken) * (1 + (name in OLD_VALUES)) >= 8
    for dtype in some_of(taken, name, part):
        x, y = np.ones(37, dtype.numpy), np.ones(74, dtype.numpy)[::2]
        for text in kernels(name):
            written = outcome(text, [x, y, np.ones(37, np.int32)], name, *BODIES[name][1:])
            assert (not written) == (dtype in REFUSED.get(name, ())), f"{name} of {dtype}"


def test_no_row_is_left_out() -> None:
    tried = {row.name for row in COMPUTING} | BODIES.keys() | {n for body in BODIES.values() for n in body[1:]}
    assert tried == TABLE.keys()
    rules = {row.name: rule_for(row) for row in ROWS}
    unsupported = {name: rule.reason for name, rule in rules.items() if isinstance(rule, Unsupported)}
    assert all("; " in reason for reason in unsupported.values())  # why, and what to write instead
    elementwise = {row.name for row in ROWS if row.elementwise}
    assert TABLE.keys() - elementwise - unsupported.keys() - {"yield"} == HANDLERS.keys()
