"""The example of every row with a name runs, on the CPU and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import pypto as pto
from pypto.ops.row import Effect, OpRow
from pypto.ops.table import ROWS
from tests.conformance.sources import define
from tests.ops.rows import home, is_hidden

PUBLIC = [row for row in ROWS if row.public or is_hidden(row)]
X = {"broadcast_to": "pto.zeros((1, 8), pto.float32)", "permute": "pto.ones((5, 3), pto.float32)"}
SUM = "p[0] = pto.sum(result.to(pto.float32)).to(p.dtype)"
NAMES = {
    "offsets": "pto.arange(0, 128)",
    "n": "100",
    "mask": "offsets < n",
    "value": "pto.load(p + pto.arange(0, 128))",
    "x": "value",
    "y": "value * 2",
    "z": "value + 1",
    "indices": "127 - offsets",
    "a": "pto.ones((3, 5), pto.float32)",
    "b": "pto.ones((5, 7), pto.float32)",
    "acc": "pto.ones((3, 7), pto.float32)",
}


def kernel_text(row: OpRow) -> str:
    """The example, in a kernel where its names have a meaning; of arrays, where the row reads or writes memory."""
    arrays = {"x": "q", "y": "q"} if row.effect is not Effect.PURE else {}
    names = NAMES | ({"x": X[row.name]} if row.name in X else {}) | arrays
    lines = [f"{name} = {value}" for name, value in names.items()]
    call = f"{home(row)}.{row.example}"
    result = [call] if row.name == "store" else [f"result = {call}", SUM]
    return "\n".join(["def kernel(p, q):", *(f"    {line}" for line in [*lines, *result]), ""])


def run_example(row: OpRow, interpreted: bool) -> tuple[np.ndarray, np.ndarray]:
    kernel = define(kernel_text(row))
    integers = row.dtypes == "int"
    p = (np.arange(128) + 1).astype(np.int32) if integers else np.linspace(0.5, 2, 128, dtype=np.float32)
    q = np.full(128, 5, p.dtype)
    (pto.interpret(kernel) if interpreted else kernel)[1](p, q)
    return p, q


@pytest.mark.parametrize("row", PUBLIC, ids=lambda row: row.name)
def test_example_runs(row: OpRow) -> None:
    assert row.example.startswith(f"{row.name}(")
    names = pto if row.public else pto.language.libdevice
    assert row.example in (getattr(names, row.name).__doc__ or "")
    for found, wanted in zip(run_example(row, False), run_example(row, True), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_example_of_store_stores() -> None:
    p, q = run_example(next(row for row in PUBLIC if row.name == "store"), False)
    np.testing.assert_array_equal(q, np.where(np.arange(128) < 100, p, 5))
