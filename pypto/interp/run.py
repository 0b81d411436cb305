"""Runs a function for every program of a grid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from pypto.errors.interp import KernelAssertion, ZeroStep
from pypto.interp.memory import Array, ArrayArg, Memory
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, PtrType, TileType
from pypto.ops.atomic import COMBINE, takes_turns
from pypto.ops.memory import Access, pointee
from pypto.ops.table import TABLE


@dataclass
class Machine:
    """One program under way: its values, and the memory that all programs share."""

    memory: Memory
    arrays: dict[Value, tuple[ArrayArg, int]]
    grid: tuple[int, int, int]
    program: tuple[int, int, int] = (0, 0, 0)
    values: dict[Value, Any] = field(default_factory=dict)

    def get(self, *values: Value) -> list[Any]:
        return [self.values[v] for v in values]

    def region(self, region: Region, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run a region; gives what it yields."""
        self.values.update(zip(region.args, arguments, strict=True))
        for op in region.body:
            self.step(op)
        return self.get(*region.terminator.operands)

    def step(self, op: Op) -> None:
        if op.name in HANDLERS:
            outcome = HANDLERS[op.name](self, op)
        else:
            reference = TABLE[op.name].reference
            assert reference is not None, f"{op.name} has neither a reference nor a handler"
            outcome = reference(op, *self.get(*op.operands))
        results = outcome if isinstance(outcome, tuple) else (outcome,) if op.results else ()
        for v, result in zip(op.results, results, strict=True):
            self.values[v] = settle(result, v.tile)


def settle(result: Any, kind: TileType) -> Array:
    """A result as an array of just the type that the value has."""
    dtype = np.dtype(np.int64) if isinstance(kind.elem, PtrType) else kind.elem.numpy
    with np.errstate(all="ignore"):
        return np.asarray(result).astype(dtype, copy=False).reshape(kind.shape)


def run(
    function: Function,
    arguments: Sequence[Any],
    grid: tuple[int, int, int],
    uninitialized: tuple[str, ...] = (),
    others: Mapping[str, ArrayArg] = MappingProxyType({}),
    on_store: Callable[..., None] | None = None,
) -> None:
    """Run every program of the grid, one after the other.

    Parameters
    ----------
    function : Function
        The kernel, before any lowering.
    arguments : sequence of ArrayArg or number
        In the order of the function's arguments.
    grid : (int, int, int)
        Programs along each axis.
    uninitialized : tuple of str
        Names of array arguments that hold nothing before the launch: reading what no program wrote is an error.
    others : mapping from str to ArrayArg
        Arrays that are no arguments, but that programs reach through their addresses.
    on_store : function, optional
        Told of every store: the segment, the numbers of the elements, which of the tile they are, place and program.

    Raises
    ------
    OutOfBounds, UninitializedRead, WriteRace, KernelAssertion
        With the line, the array, the index and the program.
    """
    memory = Memory(grid=grid, on_store=on_store, races=not takes_turns(function.walk()))
    machine = Machine(memory, {}, grid)
    for v, given in zip(function.args, arguments, strict=True):
        if isinstance(v.type, ArrayType):
            machine.arrays[v] = given, memory.add(v.hint, given, v.hint in uninitialized)
        else:
            machine.values[v] = settle(given, v.tile)
    for name, array in others.items():
        memory.add(name, array, name in uninitialized)
    for number, (z, y, x) in enumerate(itertools.product(*(range(n) for n in reversed(grid)))):
        memory.program = number
        machine.program = (x, y, z)
        machine.region(function.body, [machine.values.get(v) for v in function.args])


# --- ops whose meaning needs the machine ---------------------------------------------------------------------------


def addptr(m: Machine, op: Op) -> Array:
    base, offset = m.get(*op.operands)
    address: Array = base + offset.astype(np.int64) * pointee(op.result.type).dtype.itemsize
    return address


def ptr_cast(m: Machine, op: Op) -> Any:
    (value,), source, target = m.get(*op.operands), op.operands[0].tile, op.result.tile
    if source.is_ptr and target.is_ptr:
        return value
    return m.memory.addresses_of(value) if source.is_ptr else m.memory.pointers_of(value)


def load(m: Machine, op: Op) -> Array:
    pointers, *others = m.get(*op.operands)
    other = others[1] if len(others) > 1 else np.zeros(pointers.shape, op.result.dtype.numpy)
    return m.memory.load(pointers, others[0] if others else everywhere(pointers), other, op.loc)


def store(m: Machine, op: Op) -> None:
    pointers, value, *others = m.get(*op.operands)
    m.memory.store(pointers, others[0] if others else everywhere(pointers), value, op.loc)


def everywhere(pointers: Array) -> Array:
    return np.ones(pointers.shape, bool)


def access_pointers(m: Machine, access: Access) -> tuple[Array, Array]:
    """Pointers of a structured access and the mask of the elements that exist."""
    item = pointee(access.base.type).dtype.itemsize
    pointers = np.broadcast_to(m.values[access.base], access.shape).astype(np.int64)
    exists, dims = everywhere(pointers), zip(access.offsets, access.strides, access.extents, strict=True)
    for d, values in enumerate(dims):
        offset, stride, extent = map(int, m.get(*values))
        at = np.expand_dims(np.arange(access.shape[d]) + offset, [k for k in range(len(access.shape)) if k != d])
        pointers = pointers + at * stride * item
        exists &= (at >= 0) & (at < extent)
    return pointers, exists if access.mask is None else exists & m.values[access.mask]


def check_element(m: Machine, op: Op, access: Access) -> None:
    """What an index of integers alone names is there; slices are clipped."""
    if not op.attrs.get("element"):
        return
    index, extents = ([int(x) for x in m.get(*values)] for values in (access.offsets, access.extents))
    if not all(0 <= at < extent for at, extent in zip(index, extents, strict=True)):
        raise m.memory.beyond(m.values[access.base], index, op.name.removeprefix("tile_"), op.loc)


def tile_load(m: Machine, op: Op) -> Array:
    access = Access.of(op)
    check_element(m, op, access)
    pointers, exists = access_pointers(m, access)
    other = np.zeros(access.shape, op.result.dtype.numpy) if access.other is None else m.values[access.other]
    return m.memory.load(pointers, exists, other, op.loc)


def tile_store(m: Machine, op: Op) -> None:
    access = Access.of(op)
    assert access.value is not None
    check_element(m, op, access)
    m.memory.store(*access_pointers(m, access), m.values[access.value], op.loc)


def atomic(m: Machine, op: Op) -> Array:
    """Element by element, in row-major order, as if no other program ran."""
    pointers, value, *others = m.get(*op.operands)
    combine = COMBINE[op.attrs["kind"]]
    with np.errstate(all="ignore"):
        return one_by_one(m, op, others[0] if others else everywhere(pointers), lambda old, k: combine(old, value[k]))


def compare_and_swap(m: Machine, op: Op) -> Array:
    pointers, expected, value = m.get(*op.operands)
    return one_by_one(m, op, everywhere(pointers), lambda old, k: value[k] if old == expected[k] else None)


def one_by_one(m: Machine, op: Op, mask: Array, change: Callable[[Any, tuple[int, ...]], Any]) -> Array:
    """What was there; `change` says what comes in its place, if anything does."""
    pointers = m.values[op.operands[0]]
    old = np.zeros(pointers.shape, op.result.dtype.numpy)
    for place in map(tuple, np.argwhere(mask)):
        at, on = np.asarray(pointers[place]), np.asarray(True)
        old[place] = m.memory.load(at, on, old[place], op.loc)
        new = change(old[place], place)
        if new is not None:
            m.memory.store(at, on, np.asarray(new, old.dtype), op.loc, atomic=True)
    return old


def branch(m: Machine, op: Op) -> tuple[Any, ...]:
    return tuple(m.region(op.regions[0 if m.values[op.operands[0]] else 1]))


def for_loop(m: Machine, op: Op) -> tuple[Any, ...]:
    start, stop, step = map(int, m.get(*op.operands[:3]))
    if step == 0:
        raise ZeroStep(op.loc, program=m.memory.program_text(m.memory.program))
    state = m.get(*op.operands[3:])
    for i in range(start, stop, step):
        state = m.region(op.regions[0], [settle(i, op.regions[0].args[0].tile), *state])
    return tuple(state)


def while_loop(m: Machine, op: Op) -> tuple[Any, ...]:
    state = m.get(*op.operands)
    while m.region(op.regions[0], state)[0]:
        state = m.region(op.regions[1], state)
    return tuple(state)


def check(m: Machine, op: Op) -> None:
    if not np.all(m.values[op.operands[0]]):
        message = f": {op.attrs['message']}" if op.attrs["message"] else ""
        raise KernelAssertion(op.loc, program=m.memory.program_text(m.memory.program), message=message)


def show(m: Machine, op: Op) -> None:
    where = m.memory.program_text(m.memory.program)
    print(print_text(where, str(op.attrs["prefix"]), bool(op.attrs["hex"]), m.get(*op.operands)))


def print_text(program: str, prefix: str, as_hex: bool, values: Sequence[Array]) -> str:
    """A line that a program prints."""
    texts = [str(x) for x in values]
    if as_hex:
        digits: Any = {"int": lambda x: hex(int(x) & (1 << 8 * x.nbytes) - 1)}
        texts = [np.array2string(x, formatter=digits) for x in values]
    return " ".join([f"program {program}:", *([prefix] if prefix else []), *texts])


def stop(m: Machine, op: Op) -> None:
    """Hand over to the debugger; `tiles` holds the kernel's variables by name."""
    tiles = {v.hint: value for v, value in m.values.items() if v.hint}
    program = m.program
    breakpoint()  # the kernel's author asked for it
    del tiles, program


# What an op gives: its result, a tuple of all of them, or None.
HANDLERS: Final[Mapping[str, Callable[[Machine, Op], Any]]] = MappingProxyType(
    {
        "program_id": lambda m, op: m.program[op.attrs["axis"]],
        "num_programs": lambda m, op: m.grid[op.attrs["axis"]],
        "array_ptr": lambda m, op: m.arrays[op.operands[0]][1],
        "array_shape": lambda m, op: m.arrays[op.operands[0]][0].shape[op.attrs["dim"]],
        "array_stride": lambda m, op: m.arrays[op.operands[0]][0].strides[op.attrs["dim"]],
        "addptr": addptr,
        "ptr_cast": ptr_cast,
        "load": load,
        "store": store,
        "tile_load": tile_load,
        "tile_store": tile_store,
        "atomic_cas": compare_and_swap,
        **{f"atomic_{kind}": atomic for kind in COMBINE},
        "if": branch,
        "for": for_loop,
        "while": while_loop,
        "assert_": check,
        "print_": show,
        "breakpoint_": stop,
    }
)
