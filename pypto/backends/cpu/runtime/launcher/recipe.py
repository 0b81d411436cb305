"""Guards for native launches: when a compiled version may be used again, as the steps that `guards.h` takes.

A step has six words: its kind, the number of a parameter, and the operands `a` to `d` of `guards.h`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CellType, MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.backends.base import FIXED_SLOTS, Slot
from pypto.backends.cpu.runtime.launcher.tensors import Layout, UnknownLayoutError, is_torch, signed, tensor_layout
from pypto.ir.types import DType, PtrType
from pypto.ops.public import constexpr

STEPS: Final = MappingProxyType({name: n for n, name in enumerate((
    "END", "IS", "NUMPY", "TENSOR", "KEYS", "DISTINCT", "UNDISPATCHED", "UNPROFILED", "UNRECORDED", "NOTE_WRITE",
    "PLAIN", "SIZE", "STRIDE", "INT", "BOOL", "FLOAT32", "FLOAT64", "EQUAL", "GLOBAL", "CELL",
    "PUT_WORD", "PUT_ADDRESS", "PUT_SIZE", "PUT_STRIDE", "MEET", "MET",
))})  # fmt: skip
PUTS: Final = MappingProxyType({"ptr": "PUT_ADDRESS", "shape": "PUT_SIZE", "stride": "PUT_STRIDE"})
SLOTS: Final = 512
_WRITEABLE: Final = 0x400
_INT32: Final = (-(2**31), 2**31 - 1)
_INT64: Final = (-(2**63), 2**63 - 1)
_OTHER_STRIDE: Final = 2  # a stride that is neither 0 nor 1
_IMMUTABLE: Final = (type(None), bool, int, float, str, bytes, DType, PtrType)
_EXCHANGE: Final = "__dlpack_c_exchange_api__"
_DESCRIBE: Final = 40  # where DLPackExchangeAPI has `dltensor_from_py_object_no_sync`


class Unfit(Exception):
    """Native code cannot guard these arguments; Python launches with them every time."""


class DLTensor(ctypes.Structure):
    """DLPack's view of an array."""

    _fields_ = (("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("axes", ctypes.c_int32),
        ("kind", ctypes.c_uint32), ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64))  # fmt: skip


@dataclass
class Recipe:
    """The steps of a guard, and the objects whose addresses are in them."""

    names: Sequence[str]
    abi: Sequence[Slot]
    free: int  # the first unused slot
    slots: dict[str, int]  # of the numbers among the arguments
    steps: list[tuple[int, ...]] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)

    def add(self, what: str, *words: int) -> None:
        """Add a step."""
        self.steps.append((STEPS[what], *words, *(0,) * (5 - len(words))))

    def object(self, value: Any) -> int:
        """The address of an object, which is kept alive."""
        self.keep.append(value)
        return id(value)

    def slot(self, arg: str) -> int:
        """The slot that receives the value of a number: one of the argument block, or one behind them all."""
        if arg not in self.slots:
            self.slots[arg] = self.free
            self.free += 1
        if self.free > SLOTS:
            raise Unfit
        return self.slots[arg]

    def dtype(self, arg: str) -> DType | None:
        """The type in which the kernel takes a number; None where it takes none."""
        return next((slot.dtype for slot in self.abi if slot.kind == "scalar" and slot.arg == arg), None)

    def words(self) -> list[int]:
        """The steps as words."""
        return [signed(word) for step in (*self.steps, (STEPS["END"],) + (0,) * 5) for word in step]


def recipe(version: Any, infos: Mapping[str, Any], values: Sequence[Any], signature: Any, overlapping: bool) -> Recipe:
    """The steps for a compiled version, from arguments that it was chosen for.

    Parameters
    ----------
    version : Specialization
        The compiled version.
    infos : dict
        What is known of the arguments by name: arrays as `ArrayInfo`, others as they are.
    values : sequence
        The arguments, in the order of the parameters.
    signature : Signature
        The kernel's.
    overlapping : bool
        Whether an array that is written shares memory with another one.

    Raises
    ------
    Unfit
        When an argument is of a kind that native code does not know.
    """
    steps = start(version.program.artifact.abi, signature.names)
    if infos.keys() != set(signature.names):
        raise Unfit
    rows = list(zip(range(len(values)), signature.names, values, signature.constant, strict=True))
    arrays = {name: n for n, name, _, _ in rows if hasattr(infos[name], "reach")}
    numbers = {name for _, name, value, constant in rows if isinstance(value, int | float) and not constant}
    for n, name, value, _ in rows:
        if name not in arrays and name not in numbers:
            add_constant(steps, n, value)
    for name, n in arrays.items():
        add_array(steps, n, infos[name], values[n], name in version.program.written)
    add_distinct(steps, [(n, infos[name]) for name, n in arrays.items() if name in version.program.written])
    if any(map(is_torch, values)):
        steps.add("UNDISPATCHED", 0, known_layout().modes)
        steps.add("UNPROFILED", 0, known_layout().profiled)
    for n, name, value, _ in rows:
        if name in numbers:
            add_number(steps, n, name, value, signature.typed.get(name))
    add_facts(steps, version.guard, infos, arrays)
    for capture in version.captures:
        add_capture(steps, capture)
    add_places(steps, arrays, version.program.written)
    steps.add("MET", 0, overlapping)
    add_writes(steps, [n for name, n in arrays.items() if name in version.program.written and is_torch(values[n])])
    return steps


def start(abi: Sequence[Slot], names: Sequence[str]) -> Recipe:
    """A guard without steps; more places than an argument block has are Python's."""
    if FIXED_SLOTS + len(abi) > SLOTS:
        raise Unfit
    slots = {slot.arg: n for n, slot in enumerate(abi, FIXED_SLOTS) if slot.kind == "scalar"}
    return Recipe(names, abi, FIXED_SLOTS + len(abi), slots)


def add_places(steps: Recipe, arrays: Mapping[str, int], written: frozenset[str]) -> None:
    """Steps that fill in the argument block for arrays, and compare the memory of arrays."""
    for n, slot in enumerate(steps.abi, FIXED_SLOTS):
        if slot.kind in PUTS:
            steps.add(PUTS[slot.kind], arrays[slot.arg], n, slot.dim)
    for x, y in meetings(list(arrays), written):
        steps.add("MEET", arrays[x], arrays[y])


def meetings(arrays: list[str], written: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Pairs of arrays of which one is written."""
    pairs = ((a, b) for n, a in enumerate(arrays) for b in arrays[:n])
    return ((a, b) for a, b in pairs if a in written or b in written)


def add_constant(steps: Recipe, n: int, value: Any) -> None:
    """Guard a value that is part of the code: small ones by value, others by identity."""
    if type(value) is int and _INT64[0] <= value <= _INT64[1]:
        steps.add("INT", n, value, value, steps.slot(f"={n}"))
    elif type(value) is float:
        steps.add("FLOAT64", n, 0, 0, steps.slot(f"={n}"))
        steps.add("EQUAL", 0, steps.slot(f"={n}"), bits(value), 1)
    elif is_fixed(value):
        steps.add("IS", n, steps.object(value))
    else:
        raise Unfit


def is_fixed(value: Any) -> bool:
    """Whether identity of the object means equality of the constant."""
    if isinstance(value, tuple):
        return all(map(is_fixed, value))
    if isinstance(value, constexpr):
        return is_fixed(value.value)
    return isinstance(value, _IMMUTABLE) or getattr(type(value), "__eq__", None) is object.__eq__


def bits(value: float) -> int:
    """The bits of a float64."""
    return int.from_bytes(struct.pack("<d", value), "little")


def add_array(steps: Recipe, n: int, info: Any, value: Any, written: bool) -> None:
    """Guard an array."""
    if info.owner is not value:
        raise Unfit
    shift = info.dtype.itemsize.bit_length() - 1
    axes = len(info.shape)
    if isinstance(value, np.ndarray):
        flags = shift << 32 | (_WRITEABLE if written else 0)
        steps.add("NUMPY", n, steps.object(type(value)), steps.object(value.dtype), axes, flags)
        return
    if is_torch(value) and known_layout().can_read(value, written):
        add_plain(steps, n, value, written)
        return
    describe = exchange_function(steps, type(value))
    view = DLTensor()
    call = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_void_p)(describe)
    if call(value, ctypes.addressof(view)) or view.device[0] != 1 or not is_same(view, info):
        raise Unfit
    steps.add("TENSOR", n, steps.object(type(value)), axes, shift << 32 | view.kind, describe)
    if is_torch(value):
        layout = known_layout()
        steps.add("KEYS", n, layout.impl, layout.keys, layout.keys_of(value))


def add_plain(steps: Recipe, n: int, value: Any, written: bool) -> None:
    """Guard a tensor by its own fields."""
    layout = known_layout()
    record = layout.record(value, written)
    steps.keep.append(record)
    words = len(value.shape), layout.kind_of(value), ctypes.addressof(record)
    steps.add("PLAIN", n, steps.object(type(value)), *words)


def add_distinct(steps: Recipe, written: Sequence[tuple[int, Any]]) -> None:
    """Steps that no two elements of a written array are one in memory."""
    for n, info in written:
        if info.shape:
            steps.add("DISTINCT", n, len(info.shape))


def add_writes(steps: Recipe, tensors: Sequence[int]) -> None:
    """Steps that ask autograd about written tensors, and tell it of the write."""
    for n in tensors:
        layout = known_layout()
        steps.add("UNRECORDED", n, layout.impl, layout.requires_grad, layout.gradients_on)
    for n in tensors:
        layout = known_layout()
        steps.add("NOTE_WRITE", n, layout.impl, layout.counter, layout.version)


def known_layout() -> Layout:
    """The layout of torch's tensors."""
    try:
        return tensor_layout()
    except UnknownLayoutError:
        raise Unfit from None


def exchange_function(steps: Recipe, kind: type) -> int:
    """The function that fills in a `DLTensor`, of a type with DLPack's exchange API."""
    capsule = getattr(kind, _EXCHANGE, None)
    if type(capsule).__name__ != "PyCapsule":
        raise Unfit
    open_ = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    try:
        api = open_(capsule, b"dlpack_exchange_api")
    except ValueError:
        raise Unfit from None
    major = ctypes.c_uint32.from_address(api).value
    function = ctypes.c_void_p.from_address(api + _DESCRIBE).value if major == 1 else None
    if function is None:
        raise Unfit
    steps.keep.append(capsule)
    return function


def is_same(view: DLTensor, info: Any) -> bool:
    """Whether DLPack describes an array as the array does itself."""
    axes = view.axes
    if axes != len(info.shape) or (axes and not view.strides):
        return False
    address = (view.data or 0) + view.offset
    shape = view.sizes[:axes]
    strides = view.strides[:axes]
    return (address, *shape, *strides) == (info.address, *info.shape, *info.strides)


def add_number(steps: Recipe, n: int, name: str, value: Any, stated: Any) -> None:
    """Guard a number that is an argument of the code, by its type."""
    at, slot = steps.slot(name), steps.dtype(name)
    is_float = slot is not None and slot.is_float
    if type(value) is bool and not is_float:
        steps.add("BOOL", n, steps.object(True), 0, at)
    elif type(value) is int and not is_float:
        steps.add("INT", n, *integer_range(value, stated), at)
    elif type(value) is float and (slot is None or slot.mnemonic == "f32"):
        steps.add("FLOAT32", n, 0, 0, at)
    elif type(value) is float and slot is not None and slot.mnemonic == "f64":
        steps.add("FLOAT64", n, 0, 0, at)
    else:
        raise Unfit


def integer_range(value: int, stated: Any) -> tuple[int, int]:
    """The integers that have the same type as this one."""
    if not _INT64[0] <= value <= _INT64[1]:
        raise Unfit
    if isinstance(stated, DType):
        return _INT64
    if _INT32[0] <= value <= _INT32[1]:
        return _INT32
    return (_INT32[1] + 1, _INT64[1]) if value > 0 else (_INT64[0], _INT32[0] - 1)


def add_facts(steps: Recipe, guard: Mapping[Any, Any], infos: Mapping[str, Any], arrays: Mapping[str, int]) -> None:
    """Guard what the front end asked about the arguments."""
    for (kind, arg, dim), expected in guard.items():
        if kind == "shape":
            steps.add("SIZE", arrays[arg], dim, expected)
        elif kind == "stride":
            stride = _OTHER_STRIDE if expected is None else expected
            steps.add("STRIDE", arrays[arg], dim, stride, dim == len(infos[arg].shape) - 1)
        elif kind == "weak":  # the step of a float asks for a Python one
            if not expected:
                raise Unfit
        elif arg in steps.slots:
            value = infos[arg]
            if isinstance(value, float):
                raise Unfit
            steps.add("EQUAL", 0, steps.slots[arg], 1, expected)


def add_capture(steps: Recipe, capture: Any) -> None:
    """Guard a captured variable, in the dict or the cell that holds it."""
    read = capture.read
    if not isinstance(read, partial) or read.keywords:
        raise Unfit
    owner = getattr(read.func, "__self__", None)
    steps.keep.append(read)
    if type(owner) is dict and isinstance(read.args[0], str):
        steps.add("GLOBAL", 0, id(owner), id(read.args[0]), steps.object(capture.value))
    elif isinstance(read.args[0], CellType):
        steps.add("CELL", 0, id(read.args[0]), steps.object(capture.value))
    else:
        raise Unfit
