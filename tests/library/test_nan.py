"""NaN in an operand is NaN in what is computed from it, or an error: no row makes a number of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pypto as pto
from pypto import library as lib
from pypto.errors.library import UnstoredNaN
from pypto.ir.types import DType

# Keys that no query sees: the reference multiplies their values by 0, the kernel does not read them.
UNREAD = {("block_sparse_attention", "v")}


# Rows that lost NaN once are tried in every run, others in the long one.
LOST = ("quantize", "sepia", "conv_bn_relu", "block_sparse", "mla_prolog_quant")


def float_operands() -> list[Any]:
    found = []
    for name, row in lib.rows.items():
        for spec in row.signature.inputs:
            if any(d.is_float for d in spec.dtypes or row.signature.main_dtypes) and (name, spec.name) not in UNREAD:
                marks = () if any(part in name for part in LOST) else pytest.mark.slow
                found.append(pytest.param(name, spec.name, marks=marks))
    return found


def with_nan(name: str, operand: str) -> dict[str, Any]:
    """Arguments of a case that has the operand, with NaN in one element of it."""
    row = lib.rows[name]
    first = next(str(d) for d in reversed(row.signature.main_dtypes) if d.is_float or operand != "rows")
    dtype = first if DType(first).is_float else ""
    for case in row.cases:
        values = row.sample(np.random.default_rng(3), case, dtype)
        if values.get(operand) is not None:
            changed = np.array(values[operand])
            changed.reshape(-1)[changed.size // 3] = np.nan
            return {**values, operand: changed}
    raise AssertionError(f"no case of {name} has `{operand}`")


@pytest.mark.parametrize(("name", "operand"), float_operands())
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_nan_is_not_lost(name: str, operand: str) -> None:
    row, values = lib.rows[name], with_nan(name, operand)
    expected = row.expected({key: np.array(x) if isinstance(x, np.ndarray) else x for key, x in values.items()})
    if name in {"quantize_static", "quantize_image"}:
        with pytest.raises(UnstoredNaN, match=f"{name}: row"):
            row(**values)
        return
    found = row.results(values)
    for key, right in expected.items():
        lost = np.isnan(np.asarray(right, np.float64)) & ~np.isnan(np.asarray(found[key]).astype(np.float64))
        assert not lost.any(), f"{key}: {np.argwhere(lost)[:3].tolist()}"


@pytest.mark.parametrize("mode", [None, pto.interpreter])
@pytest.mark.parametrize("name", ["quantize_per_token", "quantize_per_group", "quantize_per_channel", "gelu_quantize"])
def test_scales_say_that_a_row_is_not_finite(name: str, mode: Any) -> None:
    x = np.random.default_rng(0).standard_normal((8, 64), np.float32)
    x[2, 5], x[4, 7] = np.nan, np.inf
    given = np.ascontiguousarray(x.T) if name == "quantize_per_channel" else x
    if mode is None:
        q, scale = lib.rows[name](given)
    else:
        with mode():
            q, scale = lib.rows[name](given)
    scales = scale.reshape(8, -1)
    q = q.T if name == "quantize_per_channel" else q
    assert np.isnan(scales[2]).any() and np.isinf(scales[4]).any()
    assert np.isfinite(np.delete(scales, [2, 4], 0)).all()
    with np.errstate(invalid="ignore"):
        back = q.reshape(8, scales.shape[1], -1) * scales[..., None]
    assert np.isnan(back[2]).any(axis=0).all() and np.isnan(back[4]).any(axis=0).all()


def test_relu_of_nan_is_nan() -> None:
    one = np.ones((2, 64), np.float32)
    q, scale = lib.quantize_mx(one)
    q[1, 3] = np.nan
    y = lib.mx_matmul(q, scale, q[:1], scale[:1], relu=1)
    assert np.isnan(y[1, 0]) and y[0, 0] == 64
