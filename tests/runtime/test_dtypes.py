"""Element types: names, what they say of themselves, and how annotations of parameters state them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import pypto as pto
from pypto.errors.launch import UnsupportedArgument
from pypto.ir.types import ALL_DTYPES, DTYPES, FLOAT8, DType, PtrType, TileType, float32, from_numpy, written_type
from pypto.runtime.arrays import scalar_bits
from pypto.runtime.launch import to_bits
from tests.conformance.sources import define


@pytest.mark.parametrize("dtype", [*ALL_DTYPES, pto.void], ids=str)
def test_names(dtype: DType) -> None:
    for name in (dtype.mnemonic, dtype.public, dtype.triton):
        assert pto.dtype(name) == dtype and hash(pto.dtype(name)) == hash(dtype)
    assert getattr(pto, dtype.public) is dtype


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="'fp17' is no element type; there are int1, int8"):
        pto.dtype("fp17")


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOAT8], ids=str)
def test_numpy(dtype: DType) -> None:
    assert from_numpy(dtype.numpy) is dtype and dtype.numpy.itemsize == dtype.itemsize
    if dtype.is_float:
        assert dtype.fp_mantissa_width == ml_dtypes.finfo(dtype.numpy).nmant
        one = np.ones(1, dtype.numpy).view(f"u{dtype.itemsize}")[0]
        assert int(one) >> dtype.fp_mantissa_width == dtype.exponent_bias


def test_aliases() -> None:
    assert pto.float8e4nv is pto.float8_e4m3fn and pto.float8e5 is pto.float8_e5m2
    assert pto.float8e4b8 is pto.float8_e4m3fnuz and pto.float8e5b16 is pto.float8_e5m2fnuz


def asked(x: Any, names: str) -> list[bool]:
    return [getattr(x, name)() for name in names.split()]


def test_questions() -> None:
    """Ours are properties, Triton's are methods; of `is_int` and `is_bool` both work."""
    yes, no = [True] * 3, [False] * 3
    assert asked(pto.float16, "is_fp16 is_floating is_standard_floating is_fp8 is_bf16 is_int") == yes + no
    assert asked(pto.float8e5, "is_fp8 is_fp8e5 is_floating is_standard_floating is_fp8e4nv is_bool") == yes + no
    assert asked(pto.uint8, "is_int is_int_unsigned is_uint8 is_int_signed is_ptr is_block") == yes + no
    assert asked(pto.int1, "is_bool is_int is_int_unsigned") == yes
    assert pto.int1.is_bool and not pto.int1.is_int and pto.int8.is_int and not pto.int8.is_float
    assert pto.float32.scalar is pto.float32 and pto.int64.primitive_bitwidth == pto.int64.int_bitwidth == 64
    assert pto.void.is_void() and not pto.int8.is_void()
    assert repr(pto.int8.is_int) == "True" and str(pto.int8.is_float) == "False"
    with pytest.raises(AttributeError, match="is_complex"):
        pto.int8.is_complex()  # type: ignore[attr-defined]  # what is tried


def test_pointers_and_tiles() -> None:
    pointer = pto.pointer_type(pto.float16)
    assert pointer == PtrType(pto.float16) and pointer.element_ty is pto.float16 and pointer.scalar is pointer
    assert asked(pointer, "is_ptr is_const is_int is_fp16 is_block") == [True] + [False] * 4
    assert pto.pointer_type(pto.float16, 1, True).is_const()
    tile = TileType((4, 8), float32)
    assert tile.is_block() and not tile.is_ptr() and tile.scalar is tile.element_ty is float32
    assert TileType((4,), pointer).is_ptr and not TileType((4,), pointer).is_ptr()
    with pytest.raises(TypeError, match="elements of a type"):
        pto.pointer_type(np.float32)  # type: ignore[arg-type]  # what is tried


def test_in_a_kernel() -> None:
    define("""
def kernel(x, y, s):
    i = pto.arange(0, 4)
    t = pto.load(x + i)
    assert x.dtype.is_ptr() and x.type.is_ptr() and x.type.element_ty == pto.float16 and x.dtype == pto.float16
    assert (x + i).dtype.is_ptr() and (x + i).dtype.element_ty.is_fp16() and (x + i).type.scalar.is_ptr()
    assert t.dtype.is_fp16() and not t.dtype.is_ptr() and t.type.is_block() and t.type.shape == (4,)
    assert t.type.scalar == t.type.element_ty == t.dtype and t.dtype.is_floating() and not t.dtype.is_int()
    assert s.dtype.is_int() and s.type.is_int32() and s.dtype.primitive_bitwidth == 32 and not s.type.is_block()
    assert y.dtype.element_ty.is_bool() and (i < 2).dtype.is_int_unsigned()
    assert pto.pointer_type(t.dtype).element_ty == pto.dtype("fp16")
    if t.dtype.is_fp8():
        pto.no_such_name
""")[1](np.zeros(4, np.float16), np.zeros(4, bool), 3)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("i32", "i32"), ("u1", "i1"), ("fp16", "f16"), ("bf16", "bf16"), ("fp8e5", "f8e5m2"), ("*fp32", "ptr<f32>"),
        ("*const i64", "ptr<const i64>"), ("*ki8", "ptr<const i8>"), ("*fp8e4nv", "ptr<f8e4m3fn>"), ("*Tensor", "None"),
        ("Tensor", "None"), ("int", "None"),
    ],
)  # fmt: skip
def test_annotations_as_text(text: str, wanted: str) -> None:
    assert str(written_type(text)) == wanted


STATED = """
def kernel(out, n: {annotation}):
    assert n.dtype == {wanted}
    pto.store(out, n)
"""


@pytest.mark.parametrize(
    ("annotation", "wanted", "value", "stored"),
    [
        ("pto.int64", "pto.int64", 3, 3), ("'i64'", "pto.int64", -3, -3), ("pto.float32", "pto.float32", 7, 7),
        ("'fp64'", "pto.float64", 0.1, 0.1), ("pto.float16", "pto.float16", 0.1, np.float16(0.1)),
        ("'pto.uint8'", "pto.uint8", 300, 44), ("'u1'", "pto.int1", 2, 1), ("pto.int32", "pto.int32", True, 1),
        ("pto.int64", "pto.int64", np.int8(-5), -5), ("pto.float64", "pto.float64", np.float32(0.5), 0.5),
        ("pto.float8e5", "pto.float8e5", 1.1, 1.0), ("int", "pto.int32", 5, 5), ("bool", "pto.int32", 5, 5),
    ],
)  # fmt: skip
def test_stated_scalars(annotation: str, wanted: str, value: Any, stored: float) -> None:
    kernel = define(STATED.format(annotation=annotation, wanted=wanted))
    for how in (kernel, kernel, pto.interpret(kernel)):
        out = np.zeros(1)
        how[1](out, value)
        assert out[0] == stored


def test_stated_types_that_do_not_fit() -> None:
    with pytest.raises(UnsupportedArgument, match=r"1\.5, annotated i64"):
        define(STATED.format(annotation="pto.int64", wanted="pto.int64"))[1](np.zeros(1), 1.5)
    kernel = define("\ndef kernel(x: '*fp16'):\n    pto.store(x, 1.0)\n")
    kernel[1](np.zeros(1, np.float16))
    with pytest.raises(UnsupportedArgument, match="an array of f32, annotated ptr<f16>"):
        kernel[1](np.zeros(1, np.float32))


def test_none_in_place_of_a_number() -> None:
    kernel = define("\ndef kernel(out, n: pto.int64):\n    pto.store(out, 1 if n is None else n)\n")
    for value, stored in ((None, 1), (5, 5)):
        out = np.zeros(1)
        kernel[1](out, value)
        assert out[0] == stored


@pytest.mark.parametrize("dtype", [*DTYPES, *FLOAT8], ids=str)
def test_numpy_scalars(dtype: DType) -> None:
    kernel = define("\ndef kernel(out, n):\n    out[0] = n\n")
    value = np.ones(1, dtype.numpy)[0]
    for how in (kernel, pto.interpret(kernel)):
        out = np.zeros(1, dtype.numpy)
        how[1](out, value)
        assert out[0] == value
    assert to_bits(type(value), dtype)(value) == scalar_bits(value, dtype)


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn", "float6_e2m3fn"])
def test_packed_types_name_the_remedy(name: str) -> None:
    with pytest.raises(UnsupportedArgument, match=r"\.astype\(np\.\w+\)` of it, or pack"):
        define("\ndef kernel(x):\n    x[0] = 0\n")[1](np.zeros(4, getattr(ml_dtypes, name)))


def test_scales_are_bytes() -> None:
    kernel = define("\ndef kernel(x, y):\n    y[:] = x[:]\n    assert x.dtype == pto.uint8\n")
    for how in (kernel, pto.interpret(kernel)):
        y = np.zeros(2, np.uint8)
        how[1](np.array([1.0, 4.0]).astype(ml_dtypes.float8_e8m0fnu), y)
        assert y.tolist() == [127, 129]
