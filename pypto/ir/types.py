"""Types of Tile IR: element types, pointers, tiles of any rank (a scalar is a tile of rank 0) and arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import MappingProxyType
from typing import Any, ClassVar, Final

import numpy as np

from pypto.ir.type_queries import NO, OURS, TypeQueries, answer


@dataclass(frozen=True, eq=False)
class DType(TypeQueries):
    """An element type. By name alone it is the one that pypto, numpy or Triton call so.

    `mnemonic` is its name in the IR. Triton's name is `name`, and the lists of the class hold such names.

    Examples
    --------
    >>> str(float32), float32.bits, float32.is_float, float32.is_fp32(), float32.name
    ('f32', 32, True, True, 'fp32')
    >>> DType("fp16") == DType("float16") == float16
    True
    """

    SINT_TYPES: ClassVar[list[str]] = []
    UINT_TYPES: ClassVar[list[str]] = []
    FP_TYPES: ClassVar[list[str]] = []
    STANDARD_FP_TYPES: ClassVar[list[str]] = []
    OTHER_TYPES: ClassVar[list[str]] = []
    module: ClassVar[str] = "pto"

    mnemonic: str
    kind: str = ""  # "bool", "int", "uint", "float", "bits" (casts alone have a meaning) or "void"
    bits: int = 0
    public: str = ""
    triton: str = ""

    def __post_init__(self) -> None:
        if not self.kind:
            dtype = named(self.mnemonic)
            if dtype is None:
                known = ", ".join(d.public for d in ALL_DTYPES)
                raise ValueError(f"{self.mnemonic!r} is no element type; there are {known}")
            self.__dict__.update(vars(dtype))

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DType) and self.mnemonic == other.mnemonic)

    def __hash__(self) -> int:
        return hash(self.mnemonic)

    def __str__(self) -> str:
        return self.mnemonic

    def __repr__(self) -> str:
        return f"{self.module}.{self.public}"

    @property
    def expression(self) -> str:
        """The type in generated kernels, whatever name a program has for it."""
        return f"pto.{self.public}"

    @cached_property
    def is_float(self) -> bool:
        return answer(self.kind == "float")

    @cached_property
    def is_int(self) -> bool:
        """True for signed and unsigned integers; a bool is no integer, though it is one of Triton's."""
        return answer(self.kind in ("int", "uint"), self.kind in ("int", "uint", "bool"))

    @cached_property
    def is_bool(self) -> bool:
        return answer(self.kind == "bool")

    @property
    def is_narrow(self) -> bool:
        """True for floats that are computed with in float32 and rounded after each op."""
        return self.kind == "float" and self.bits < 32

    @property
    def itemsize(self) -> int:
        """Bytes of one element in memory; a bool takes one."""
        return max(1, self.bits // 8)

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The numpy dtype that arrays of this element type have."""
        if self.is_narrow and self.mnemonic != "f16":
            import ml_dtypes

            dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, self.public))
            return dtype
        return np.dtype("bool" if self.is_bool else "uint8" if self.kind == "bits" else self.public)

    @property
    def integer_range(self) -> tuple[int, int]:
        """Least and greatest value of an integer or bool type."""
        if self.kind == "int":
            return -(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1
        return 0, (1 << self.bits) - 1

    @staticmethod
    def is_dtype(name: str) -> bool:
        """Whether Triton calls an element type so."""
        return any(name == d.triton for d in (*ALL_DTYPES, void))

    @property
    def format(self) -> tuple[int, int]:
        """Bits of a float's fraction, and the bias of its exponent."""
        return _FORMATS[self.mnemonic]


int1 = DType("i1", "bool", 1, "int1", "int1")
int8 = DType("i8", "int", 8, "int8", "int8")
int16 = DType("i16", "int", 16, "int16", "int16")
int32 = DType("i32", "int", 32, "int32", "int32")
int64 = DType("i64", "int", 64, "int64", "int64")
uint8 = DType("u8", "uint", 8, "uint8", "uint8")
uint16 = DType("u16", "uint", 16, "uint16", "uint16")
uint32 = DType("u32", "uint", 32, "uint32", "uint32")
uint64 = DType("u64", "uint", 64, "uint64", "uint64")
float16 = DType("f16", "float", 16, "float16", "fp16")
bfloat16 = DType("bf16", "float", 16, "bfloat16", "bf16")
float32 = DType("f32", "float", 32, "float32", "fp32")
float64 = DType("f64", "float", 64, "float64", "fp64")
# Of 8 bits. `fn` has no infinities; `fnuz` has no negative zero either, whose code is the only NaN.
float8_e4m3fn = DType("f8e4m3fn", "float", 8, "float8_e4m3fn", "fp8e4nv")
float8_e5m2 = DType("f8e5m2", "float", 8, "float8_e5m2", "fp8e5")
float8_e4m3fnuz = DType("f8e4m3fnuz", "float", 8, "float8_e4m3fnuz", "fp8e4b8")
float8_e5m2fnuz = DType("f8e5m2fnuz", "float", 8, "float8_e5m2fnuz", "fp8e5b16")
float8e4b15 = DType("f8e4b15", "bits", 8, "float8e4b15", "fp8e4b15")  # numpy has none; every code is a number
void = DType("void", "void", 0, "void", "void")

DTYPES = (int1, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64)
FLOAT8 = (float8_e4m3fn, float8_e5m2, float8_e4m3fnuz, float8_e5m2fnuz)
ALL_DTYPES = (*DTYPES, *FLOAT8, float8e4b15)
DType.SINT_TYPES += [d.triton for d in DTYPES if d.kind == "int"]
DType.UINT_TYPES += [d.triton for d in DTYPES if d.kind in ("bool", "uint")]
DType.FP_TYPES += [d.triton for d in ALL_DTYPES if d.kind in ("float", "bits")]
DType.STANDARD_FP_TYPES += [d.triton for d in DTYPES if d.is_float]
DType.OTHER_TYPES += [void.triton]
DTYPE_BY_NAME = {d.mnemonic: d for d in ALL_DTYPES}
_NAMED = {n: d for d in (*ALL_DTYPES, void) for n in (d.mnemonic, d.public, d.triton, d.triton.replace("fp", "float"))}
_FORMATS: Final[Mapping[str, tuple[int, int]]] = MappingProxyType({
    "f16": (10, 15), "bf16": (7, 127), "f32": (23, 127), "f64": (52, 1023), "f8e4m3fn": (3, 7), "f8e5m2": (2, 15),
    "f8e4m3fnuz": (3, 8), "f8e5m2fnuz": (2, 16), "f8e4b15": (3, 15),
})  # fmt: skip


def named(name: str) -> DType | None:
    """The element type of a name of ours, numpy's or Triton's, or None."""
    return _NAMED.get("i1" if name in ("bool", "u1") else name)


@dataclass(frozen=True)
class PtrType(TypeQueries):
    """Address of an element. It is an element type: a tile may hold pointers."""

    pointee: DType
    const: bool = False

    def __str__(self) -> str:
        return f"ptr<{'const ' if self.const else ''}{self.pointee}>"


def pointer_type(element_ty: DType, address_space: int = 1, const: bool = False) -> PtrType:
    """The type of pointers to elements of a type, for casts: `x.to(pto.pointer_type(pto.float16))`.

    Examples
    --------
    >>> str(pointer_type(float16))
    'ptr<f16>'
    """
    if not isinstance(element_ty, DType):
        raise TypeError(f"a pointer points at elements of a type such as pto.float32, not at {element_ty!r}")
    return PtrType(element_ty, bool(const))


setattr(pointer_type, "instances_of", PtrType)  # noqa: B010  # what `isinstance` in a kernel takes it for


def written_type(text: str) -> DType | PtrType | None:
    """The type that an annotation such as "i32", "fp16", "*fp32" or "*const fp32" means, or None."""
    if not text.startswith("*"):
        return named(text)
    const = text.startswith(("*const ", "*k"))
    pointee = named(text.removeprefix("*").removeprefix("const ").removeprefix("k").strip())
    return PtrType(pointee, const) if pointee else None


Elem = DType | PtrType


@dataclass(frozen=True)
class TileType(TypeQueries):
    """A tile: any number of dimensions, any sizes. `shape == ()` is a scalar.

    Examples
    --------
    >>> str(TileType((128, 64), float32)), str(TileType((), int32))
    ('tile<128x64xf32>', 'i32')
    """

    shape: tuple[int, ...]
    elem: Elem

    def __str__(self) -> str:
        if not self.shape:
            return str(self.elem)
        return f"tile<{'x'.join(map(str, self.shape))}x{self.elem}>"

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type, where it is no pointer."""
        if isinstance(self.elem, PtrType):
            raise TypeError(f"{self} holds pointers")
        return self.elem

    @property
    def is_ptr(self) -> bool:
        """Whether it holds pointers; Triton says so of the elements alone."""
        return OURS if isinstance(self.elem, PtrType) else NO

    def with_elem(self, elem: Elem) -> TileType:
        return TileType(self.shape, elem)

    def with_shape(self, shape: tuple[int, ...]) -> TileType:
        return TileType(tuple(shape), self.elem)


@dataclass(frozen=True)
class ArrayType:
    """An array argument: a base pointer with a shape and strides known at launch."""

    elem: DType
    ndim: int
    const: bool = False

    def __str__(self) -> str:
        return f"array<{'const ' if self.const else ''}{self.elem}, {self.ndim}>"

    @property
    def pointer(self) -> PtrType:
        return PtrType(self.elem, self.const)


Type = TileType | ArrayType


def scalar(elem: Elem) -> TileType:
    return TileType((), elem)


@lru_cache(maxsize=64)
def from_numpy(dtype: Any) -> DType | None:
    """The element type of a numpy dtype, or None when there is no such element type."""
    dt = np.dtype(dtype)
    name = "int1" if dt == np.bool_ else dt.name
    return next((d for d in (*DTYPES, *FLOAT8) if d.public == name and dt.isnative), None)
