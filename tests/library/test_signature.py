"""Signatures as text, and arguments that do not fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pypto import library as lib
from pypto.errors import Diagnostic
from pypto.errors.launch import ReadOnlyArgument
from pypto.errors.library import (
    NoImplementation,
    NoSuchCase,
    NoSuchOperator,
    OperandDtype,
    OperandShape,
    WrongOperands,
    WrongSignature,
)
from pypto.library.binding import Binder
from pypto.library.row import Implementation, Operator
from pypto.library.signature import Signature

X = np.ones((3, 8), np.float32)
G = np.ones(8, np.float32)


def test_text_is_read() -> None:
    found = Signature.parse("x[t, 2*d + 1] bf16|f32, b[d]? f32, k=3, eps=1e-6 -> y[t], i[t, k] i32")
    assert [spec.name for spec in found.inputs] == ["x", "b"]
    assert [spec.is_optional for spec in found.inputs] == [False, True]
    assert dict(found.numbers) == {"k": 3, "eps": 1e-6}
    assert found.inputs[0].shape({"t": 4, "d": 5}) == (4, 11)
    assert found.outputs[1].shape({"t": 4, "k": 3}) == (4, 3)
    assert found.names == ("x", "b", "k", "eps")


@pytest.mark.parametrize(
    "text",
    [
        "x[t] f32",
        "x[t] f33 -> y[t]",
        "x[t -> y[t]",
        "x[t] -> y[t]",
        "x[t] f32, k=z -> y[t]",
        "x[t+] f32 -> y[t]",
        "-> y",
    ],
)
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(WrongSignature) as error:
        Signature.parse(text)
    assert text in str(error.value)


@pytest.mark.parametrize(
    ("args", "given", "kind", "says"),
    [
        ((X,), {}, WrongOperands, "`g` is missing"),
        ((X, G, 1e-6, 4), {}, WrongOperands, "4 arguments were given, and it takes 3"),
        ((X, G), {"g": G}, WrongOperands, "`g` was given twice"),
        ((X, G), {"gain": G}, WrongOperands, "no argument `gain`"),
        ((X, 3.0), {}, WrongOperands, "`g` is a float, and it must be an array"),
        ((X, G[:7]), {}, OperandShape, r"`g` has shape \(7,\), and the signature asks for \[d\], with d = 8"),
        ((X, X), {}, OperandShape, r"`g` has shape \(3, 8\)"),
        ((X, G.astype(np.float64)), {}, OperandDtype, "`g` has elements of type f64, and the signature allows bf16 or"),
        ((X.astype(np.int32), G), {}, OperandDtype, "allows bf16 or f16 or f32"),
    ],
)
def test_arguments_are_checked(args: Any, given: Any, kind: type[Diagnostic], says: str) -> None:
    with pytest.raises(kind, match=says):
        lib.rms_norm(*args, **given)


def test_what_is_written_in_place_must_be_writable() -> None:
    binder = Binder("f", Signature.parse("x[t] f32 -> "), effects=("x",))
    fixed = np.ones(3, np.float32)
    fixed.flags.writeable = False
    with pytest.raises(ReadOnlyArgument, match="f writes to `x`"):
        binder.bind((fixed,), {})
    assert binder.bind((np.ones(3, np.float32),), {}).dims == {"t": 3}


def test_numbers_are_dimensions_too() -> None:
    found = Binder("f", Signature.parse("x[t, k] f32, k=2 -> y[k]"), ()).bind((X[:, :2],), {})
    assert found.dims == {"t": 3, "k": 2}
    with pytest.raises(OperandShape, match="with t = 3, k = 2"):
        Binder("f", Signature.parse("x[t, k] f32, k=2 -> y[k]"), ()).bind((X,), {})


def test_no_rows_need_no_launch() -> None:
    found = lib.rms_norm(X[:0], G)
    assert found.shape == (0, 8)


def test_unknown_names_are_refused_with_a_suggestion() -> None:
    with pytest.raises(NoSuchOperator, match="rms_norm"):
        lib.rows["rmsnorm"]
    with pytest.raises(AttributeError, match=r"no attribute 'rmsnorm'; did you mean rms_norm\?"):
        _ = lib.rmsnorm
    with pytest.raises(AttributeError, match=r"no attribute '__path_of__'$"):
        _ = lib.__path_of__
    with pytest.raises(NoImplementation, match="version 'fast'"):
        lib.rms_norm(X, G, version="fast")


def test_a_check_of_what_is_not_there_is_an_error() -> None:
    row = lib.rows["rms_norm"]
    with pytest.raises(NoSuchCase, match=r"no edge case 'zero'; did you mean zeros\?"):
        row.check(case="zero")
    with pytest.raises(OperandDtype, match="type f64, and the signature allows bf16 or f16 or f32"):
        row.check(dtype="f64")
    with pytest.raises(NoImplementation, match="version 'fast'"):
        row.check(version="fast")
    assert {one.dtype for one in row.check("interpreter", "small", dtype="float32")} == {"f32"}


def test_a_row_of_the_user_is_called_by_its_name() -> None:
    registry = lib.Registry()
    row = Operator(
        "twice", "Twice", "x[t] f32 -> y[t]", "`2x`", "here", lambda x: 2 * x.astype(np.float64),
        (Implementation("numpy", lambda x, y: np.multiply(x, 2, out=y)),), {"small": {"t": 3}, "model": {"t": 9}},
    )  # fmt: skip
    assert registry.register(row) is row
    assert registry["twice"](np.ones(2, np.float32)).tolist() == [2, 2]
    assert "twice" in registry
    assert "twice" not in lib.rows
    assert row.check()


def test_no_operator_is_hidden_by_a_module_of_its_name() -> None:
    assert lib.attention is lib.rows["attention"]
    assert not {*lib.rows} & {path.stem for path in Path(lib.__file__).parent.glob("*.py")}
    assert {*lib.rows} <= {*dir(lib)}


def test_pairs() -> None:
    """One number stands for two, also in calls that are found; other things are refused."""
    signature = Signature.parse("x[h, w] f32, stride=(1,2) -> y[h//stride_h, w//stride_w] where 1 <= stride_h")
    assert signature.numbers == {"stride": (1, 2)}
    assert signature.sizes({"stride": 3}) == {"stride_h": 3, "stride_w": 3}
    x, ones = np.ones((1, 2, 6, 7), np.float32), np.ones(3, np.float32)
    filters = np.ones((1, 1, 3, 2), np.float32)
    for given, shape in ((2, (3, 4)), ((2, 1), (3, 7)), ([1, 2], (6, 4)), (np.int64(2), (3, 4))):
        for _ in range(7):
            assert lib.conv_bn_relu(x, filters, ones, ones, given, 0).shape == (1, 3, *shape)  # type: ignore[arg-type]
    for bad in ("same", 1.5, (1, 2, 3), (1, 2.0)):
        with pytest.raises(WrongOperands, match="an integer or two"):
            lib.conv_bn_relu(x, filters, ones, ones, bad)  # type: ignore[arg-type]
