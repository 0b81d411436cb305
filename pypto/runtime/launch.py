"""The launch: from arguments to a filled argument block, as little as possible for a call that was seen before."""

from __future__ import annotations

import ctypes
import operator
import threading
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
from numpy import ndarray

from pypto.backends.base import FIXED_SLOTS, PAGE
from pypto.errors import PyptoError
from pypto.errors.launch import WrongGrid
from pypto.ir.types import DTYPES, FLOAT8, float32, float64
from pypto.loc import Loc
from pypto.ops.public import constexpr
from pypto.options import suggestion
from pypto.runtime.arrays import ArrayInfo, data_offset, scalar_bits
from pypto.runtime.signature import Signature, flatten
from pypto.runtime.specialization import Specialization
from pypto.runtime.tensors import is_recorded, is_tensor, note_writes

Grid = int | tuple[int, ...] | Callable[[Mapping[str, Any]], Any]
Sizes = tuple[int, int, int]
Values = tuple[Any, ...]
Pairs = list[tuple[int, int, int, int]]
_MOST: Final = 2**31 - 1  # programs per axis: program_id is an int32
_SCALARS: Final = frozenset(d.public for d in (*DTYPES, *FLOAT8)) | {"bool"}
_DATA: Final = data_offset()
_POINTER: Final = ctypes.c_int64.from_address


def check_grid(grid: Any, signature: Signature, values: Values) -> Sizes:
    """A grid as three sizes; a function of the arguments gives them.

    Raises
    ------
    WrongGrid
        When it is none: not whole numbers, negative, more than three, absurdly large.
    """
    sizes = grid
    if type(grid) is not tuple:
        grid = grid_of(grid, signature, values) if callable(grid) else grid
        sizes = tuple(grid) if isinstance(grid, tuple | list) else (grid,)
    problem = "" if 1 <= len(sizes) <= 3 else f"it has {len(sizes)} axes"
    x, y, z = (*sizes, 1, 1, 1)[:3]
    if not (type(x) is type(y) is type(z) is int):
        if any(getattr(type(n), "stands_in", False) for n in (x, y, z)):
            return x, y, z  # sizes of a traced function, which are checked when its plan runs
        try:
            x, y, z = map(operator.index, (x, y, z))
        except TypeError:
            problem = problem or "its sizes must be whole numbers"
    if not problem and not (0 <= x <= _MOST and 0 <= y <= _MOST and 0 <= z <= _MOST):
        problem = f"{next(n for n in (x, y, z) if not 0 <= n <= _MOST)} is not between 0 and {_MOST}"
    if problem:
        raise WrongGrid(kernel=signature.kernel, grid=grid, problem=problem)
    return x, y, z


class Named(dict[str, Any]):
    """The arguments of a launch by name, as a grid function gets them."""

    def __missing__(self, name: str) -> Any:
        raise NoSuchArgument(name, suggestion(name, self, "did you mean {!r}?") or f"there are {', '.join(self)}")


class NoSuchArgument(KeyError):
    """A function of the arguments by name asks for one that the kernel has not."""

    def __init__(self, name: str, way: str) -> None:
        super().__init__(name)
        self.name, self.way = name, way


def grid_of(grid: Callable[[Mapping[str, Any]], Any], signature: Signature, values: Values) -> Any:
    """What a grid function gives for these arguments.

    Raises
    ------
    WrongGrid
        When it asks for what the kernel has not, or takes its argument for something else than a mapping.
    """
    named = Named(zip(signature.names, values, strict=True))
    try:
        return grid(named)
    except NoSuchArgument as error:
        problem = f"it asks for {error.name!r}, which is no parameter; {error.way}"
    except (AttributeError, TypeError) as error:
        if not is_about(error, named):
            raise
        problem = f"{type(error).__name__}: {error}; it takes one mapping, from names to arguments"
    code = getattr(grid, "__code__", None)
    place = (("the function", Loc.of_code(code)),) if code is not None else ()
    raise WrongGrid(None, place, kernel=signature.kernel, grid="function", problem=problem)


def is_about(error: AttributeError | TypeError, named: Named) -> bool:
    """Whether an error of a grid function comes from how it takes its argument."""
    if isinstance(error, AttributeError):
        return error.obj is named
    trace = error.__traceback__
    return (trace is not None and trace.tb_next is None) or f"'{Named.__name__}'" in str(error)


def fingerprint(values: Values, constant: tuple[bool, ...]) -> tuple[tuple[Any, ...], list[int], Values]:
    """All that a compiled version can depend on, the addresses of the arrays, and the leaves of the values.

    What is frequent is written out.

    Raises
    ------
    LookupError
        When only a close look tells what an argument is.
    """
    key: list[Any] = []
    addresses: list[int] = []
    for value, fixed in zip(values, constant):  # noqa: B905  # both as long as the signature, and `strict` costs
        kind = type(value)
        if (kind is ndarray or issubclass(kind, ndarray)) and not fixed:
            key += kind, value.dtype, value.shape, value.strides
            addresses.append(_POINTER(id(value) + _DATA).value if _DATA else value.ctypes.data)
        elif kind is int:
            key.append(value if fixed else value == 1 if -(2**31) <= value < 2**31 else str(value >> 63))
        elif fixed:
            key.append(constant_key(value))
        elif kind is float:
            key.append(kind)
        elif is_tensor(kind):
            address = value.data_ptr()
            if not address and value.numel():  # what this is, the refusal of it says
                raise LookupError(kind)
            key += kind, value.dtype, value.layout, value.device, value.shape, value.stride(), value.is_neg()
            addresses.append(address)
        elif hasattr(kind, "as_array_info"):
            key += kind, value.device, value.elem, value.shape, value.steps, value.flags
            addresses.append(value.address)
        elif issubclass(kind, tuple) or hasattr(kind, "as_argument"):
            nesting, values, constant = flatten(values, constant)
            inner, addresses, _ = fingerprint(values, constant)
            return (nesting, inner), addresses, values
        else:
            key.append(scalar_key(kind, value))
    return tuple(key), addresses, values


def scalar_key(kind: type, value: Any) -> Any:
    if issubclass(kind, np.generic) and kind.__name__ in _SCALARS:
        return kind, bool(value == 1)
    if any(hasattr(kind, name) for name in ("__array_interface__", "__dlpack__", "data_ptr")):
        raise LookupError(kind)
    return constant_key(value)


def constant_key(value: Any) -> Any:
    """Equal for equal constants alone: 1, 1.0 and True are three, and so are 0.0 and -0.0."""
    if isinstance(value, tuple):
        return type(value), *map(constant_key, value)
    if isinstance(value, constexpr):
        return constexpr, constant_key(value.value)
    return type(value), repr(value) if isinstance(value, float) else value


def overlaps(written: frozenset[str], infos: Mapping[str, Any]) -> tuple[Pairs, list[int]]:
    """Pairs of arrays of which one is written, by number, with the range that the distance of overlapping ones is in.

    Also gives the addresses of all arrays.
    """
    arrays = [(name, x) for name, x in infos.items() if isinstance(x, ArrayInfo)]
    pairs = []
    for a, (name, x) in enumerate(arrays):
        for b, (other, y) in enumerate(arrays[:a]):
            (low_x, high_x), (low_y, high_y) = x.reach, y.reach
            if (name in written or other in written) and low_x < high_x and low_y < high_y:
                pairs.append((a, b, low_y - high_x, high_y - low_x))
    return pairs, [x.address for _, x in arrays]


def disjoint(pairs: Pairs, addresses: list[int]) -> bool:
    overlapping = 0
    for a, b, low, high in pairs:
        overlapping += low < addresses[a] - addresses[b] < high
    return not overlapping


class Scratch(threading.local):
    """Scratch memory of the calling thread's launches; it grows and is kept."""

    memory: Any = None
    bytes = 0
    address = 0

    def at_least(self, size: int) -> int:
        if size > self.bytes:
            self.memory, self.bytes = np.empty(size + PAGE, np.uint8), size
            self.address = self.memory.ctypes.data + -self.memory.ctypes.data % PAGE
        return self.address


@dataclass(slots=True)
class Plan:
    """How to launch one compiled version for arguments that are alike.

    `slots` is the argument block with all that these have in common. The rest comes from the arrays and the numbers
    among the arguments, each given by slot and number. `written` are the numbers of arrays that say themselves whether
    they can be written, and `tensors` those of torch's that are. `watch` is what a checked kernel's launch happens in.
    """

    version: Specialization
    slots: list[int]
    pointers: list[tuple[int, int]]
    numbers: list[tuple[int, int, Callable[[Any], int]]]
    written: list[int]
    tensors: list[int]
    watch: Callable[..., Any] | None = None

    @staticmethod
    def of(version: Specialization, infos: Mapping[str, Any]) -> Plan:
        """The plan for a version and the arguments, arrays as `ArrayInfo`."""
        artifact, names = version.program.artifact, list(infos)
        arrays = [name for name in names if isinstance(infos[name], ArrayInfo)]
        flagged = [name for name in arrays if hasattr(infos[name].owner, "flags")]  # numpy's, and those of devices
        written = [names.index(name) for name in flagged if name in version.program.written]
        stored = [names.index(name) for name in arrays if name in version.program.written]
        tensors = [n for n in stored if is_tensor(type(infos[names[n]].owner))]
        plan = Plan(version, [0] * (FIXED_SLOTS + len(artifact.abi)), [], [], written, tensors)
        plan.slots[4] = artifact.pages
        for i, slot in enumerate(artifact.abi, FIXED_SLOTS):
            info: Any = infos.get(slot.arg)
            if slot.kind == "ptr":
                plan.pointers.append((i, arrays.index(slot.arg)))
            elif slot.kind == "scalar":
                plan.numbers.append((i, names.index(slot.arg), to_bits(type(info), slot.dtype)))
            elif slot.kind in ("shape", "stride"):
                plan.slots[i] = info.shape[slot.dim] if slot.kind == "shape" else info.strides[slot.dim]
        return plan

    def fits(self, values: Values) -> bool:
        """What no key can tell: that written arrays can be written, and captured variables are unchanged."""
        fits = True
        for i in self.written:
            fits = fits and values[i].flags.writeable
        for i in self.tensors:
            fits = fits and not is_recorded(values[i])
        for capture in self.version.captures:
            fits = fits and capture.read() is capture.value
        return fits

    def run(self, grid: Sizes, values: Values, addresses: list[int], scratch: int, threads: int) -> None:
        """Fill an argument block and run all programs."""
        slots = [*grid, scratch, *self.slots[4:]]
        for i, n in self.pointers:
            slots[i] = addresses[n]
        for i, n, bits in self.numbers:
            slots[i] = bits(values[n])
        if self.tensors:
            note_writes([values[n] for n in self.tensors])
        with nullcontext() if self.watch is None else self.watch(slots, grid, addresses, threads):
            block = (ctypes.c_int64 * len(slots))(*slots)
            try:
                self.version.program.run(ctypes.addressof(block), grid[0] * grid[1] * grid[2], threads)
            except BaseException as error:
                if isinstance(error, PyptoError):
                    raise
                stopped(self.version.program, error)


def stopped(program: Any, error: BaseException) -> None:
    """Raise the exception that ended a launch before all programs had run, and say what that means."""
    arrays = ", ".join(f"`{name}`" for name in sorted(program.written)) or "arrays"
    said = f"{program.artifact.name} was stopped before all programs had run: {arrays} may be half written"
    if type(error) is KeyboardInterrupt:
        raise KeyboardInterrupt(said) from None
    error.add_note(said)
    raise error


def to_bits(kind: type, dtype: Any) -> Callable[[Any], int]:
    """From numbers of a Python type to the contents of a slot."""
    if kind is float and dtype in (float32, float64):
        if dtype == float64:
            return lambda value: ctypes.c_int64.from_buffer(ctypes.c_double(value)).value
        return lambda value: ctypes.c_int32.from_buffer(ctypes.c_float(value)).value
    return int if kind in (int, bool) and not dtype.is_float else partial(scalar_bits, dtype=dtype)
