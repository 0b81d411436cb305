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
from pypto.ops.atomic import COMBINE
from pypto.ops.memory import Access
from pypto.ops.table import TABLE


@dataclass
class Machine:
    """One program under way: its values, and the memory that all programs share."""

    memory: Memory
    arrays: dict[Value, tuple[ArrayArg, int]]
    grid: tuple[int, int, int]
    program: tuple[int, int, int] = (0, 0, 0)
    values: dict[Value, Any] = field(default_factory=dict)

    def get(self, v: Value) -> Any:
        return self.values[v]

    def region(self, region: Region, arguments: Sequence[Any] = ()) -> list[Any]:
        """Run a region; gives what it yields."""
        self.values.update(zip(region.args, arguments, strict=True))
        for op in region.body:
            self.step(op)
        return [self.values[v] for v in region.terminator.operands]

    def step(self, op: Op) -> None:
        handler = HANDLERS.get(op.name)
        if handler is not None:
            results = handler(self, op)
        else:
            meaning = TABLE[op.name].meaning
            assert meaning is not None, f"{op.name} has neither a meaning nor a handler"
            outcome = meaning(op, *(self.values[v] for v in op.operands))
            results = outcome if isinstance(outcome, tuple) else (outcome,)
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
    others: Sequence[ArrayArg] = (),
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
    others : sequence of ArrayArg
        Arrays that are no arguments, but that programs reach through their addresses.

    Raises
    ------
    OutOfBounds, UninitializedRead, WriteRace, KernelAssertion
        With the line, the array, the index and the program.
    """
    memory = Memory(grid=grid)
    machine = Machine(memory, {}, grid)
    for v, given in zip(function.args, arguments, strict=True):
        if isinstance(v.type, ArrayType):
            machine.arrays[v] = given, memory.add(given, given.name in uninitialized)
        else:
            machine.values[v] = settle(given, v.tile)
    for array in others:
        memory.add(array, array.name in uninitialized)
    for number, (z, y, x) in enumerate(itertools.product(*(range(n) for n in reversed(grid)))):
        memory.program = number
        machine.program = (x, y, z)
        machine.region(function.body, [machine.values.get(v) for v in function.args])


# --- ops whose meaning needs the machine ---------------------------------------------------------------------------


def program_id(m: Machine, op: Op) -> tuple[Any, ...]:
    return (m.program[op.attrs["axis"]],)


def num_programs(m: Machine, op: Op) -> tuple[Any, ...]:
    return (m.grid[op.attrs["axis"]],)


def array_ptr(m: Machine, op: Op) -> tuple[Any, ...]:
    return (m.arrays[op.operands[0]][1],)


def array_shape(m: Machine, op: Op) -> tuple[Any, ...]:
    return (m.arrays[op.operands[0]][0].shape[op.attrs["dim"]],)


def array_stride(m: Machine, op: Op) -> tuple[Any, ...]:
    arg = m.arrays[op.operands[0]][0]
    return (arg.strides[op.attrs["dim"]] // arg.dtype.itemsize,)


def addptr(m: Machine, op: Op) -> tuple[Any, ...]:
    elem = op.results[0].tile.elem
    assert isinstance(elem, PtrType)
    base, offset = (m.get(v) for v in op.operands)
    return (base + offset.astype(np.int64) * elem.pointee.itemsize,)


def ptr_cast(m: Machine, op: Op) -> tuple[Any, ...]:
    value, (source,), memory = m.get(op.operands[0]), op.operands, m.memory
    if source.tile.is_ptr and op.result.tile.is_ptr:
        return (value,)
    return (memory.addresses_of(value) if source.tile.is_ptr else memory.pointers_of(value),)


def load(m: Machine, op: Op) -> tuple[Any, ...]:
    pointers, *rest = (m.get(v) for v in op.operands)
    mask = rest[0] if rest else np.ones(pointers.shape, bool)
    other = rest[1] if len(rest) > 1 else np.zeros(pointers.shape, op.results[0].dtype.numpy)
    return (m.memory.load(pointers, mask, other, op.loc),)


def store(m: Machine, op: Op) -> tuple[Any, ...]:
    pointers, value, *rest = (m.get(v) for v in op.operands)
    m.memory.store(pointers, rest[0] if rest else np.ones(pointers.shape, bool), value, op.loc)
    return ()


def access_pointers(m: Machine, access: Access) -> tuple[Array, Array]:
    """Pointers of a structured access and the mask of the elements that exist."""
    elem = access.base.tile.elem
    assert isinstance(elem, PtrType)
    pointers = np.broadcast_to(m.get(access.base), access.shape).astype(np.int64)
    exists = np.ones(access.shape, bool)
    for d, size in enumerate(access.shape):
        at = (np.arange(size) + int(m.get(access.offsets[d]))).reshape([-1 if k == d else 1
            for k in range(len(access.shape))])
        pointers = pointers + at * int(m.get(access.strides[d])) * elem.pointee.itemsize
        exists &= (at >= 0) & (at < int(m.get(access.extents[d])))
    return pointers, exists if access.mask is None else exists & m.get(access.mask)


def tile_load(m: Machine, op: Op) -> tuple[Any, ...]:
    access = Access.of(op)
    pointers, exists = access_pointers(m, access)
    other = m.get(access.other) if access.other is not None else np.zeros(access.shape, op.results[0].dtype.numpy)
    return (m.memory.load(pointers, exists, other, op.loc),)


def tile_store(m: Machine, op: Op) -> tuple[Any, ...]:
    access = Access.of(op)
    assert access.value is not None
    pointers, exists = access_pointers(m, access)
    m.memory.store(pointers, exists, m.get(access.value), op.loc)
    return ()


def atomic(m: Machine, op: Op) -> tuple[Any, ...]:
    """Element by element, in row-major order, as if no other program ran."""
    pointers, value, *rest = (m.get(v) for v in op.operands)
    mask = rest[0] if rest else np.ones(pointers.shape, bool)
    old = np.zeros(pointers.shape, op.results[0].dtype.numpy)
    for place in map(tuple, np.argwhere(mask)):
        at, on = np.asarray(pointers[place]), np.asarray(True)
        old[place] = m.memory.load(at, on, old[place], op.loc)
        with np.errstate(all="ignore"):
            new = COMBINE[op.attrs["kind"]](old[place], value[place])
        m.memory.store(at, on, np.asarray(new, value.dtype), op.loc, atomic=True)
    return (old,)


def compare_and_swap(m: Machine, op: Op) -> tuple[Any, ...]:
    pointers, expected, value = (m.get(v) for v in op.operands)
    old = np.zeros(pointers.shape, op.results[0].dtype.numpy)
    for place in np.ndindex(pointers.shape):
        at, on = np.asarray(pointers[place]), np.asarray(True)
        old[place] = m.memory.load(at, on, old[place], op.loc)
        if old[place] == expected[place]:
            m.memory.store(at, on, value[place], op.loc, atomic=True)
    return (old,)


def branch(m: Machine, op: Op) -> tuple[Any, ...]:
    return tuple(m.region(op.regions[0 if m.get(op.operands[0]) else 1]))


def for_loop(m: Machine, op: Op) -> tuple[Any, ...]:
    start, stop, step = (int(m.get(v)) for v in op.operands[:3])
    if step == 0:
        raise ZeroStep(op.loc, program=m.memory.program_text(m.memory.program))
    state = [m.get(v) for v in op.operands[3:]]
    kind = op.regions[0].args[0].tile
    for i in range(start, stop, step):
        state = m.region(op.regions[0], [settle(i, kind), *state])
    return tuple(state)


def while_loop(m: Machine, op: Op) -> tuple[Any, ...]:
    state = [m.get(v) for v in op.operands]
    while m.region(op.regions[0], state)[0]:
        state = m.region(op.regions[1], state)
    return tuple(state)


def check(m: Machine, op: Op) -> tuple[Any, ...]:
    if not np.all(m.get(op.operands[0])):
        message = op.attrs["message"]
        raise KernelAssertion(op.loc, program=m.memory.program_text(m.memory.program),
            message=f": {message}" if message else "")
    return ()


def show(m: Machine, op: Op) -> tuple[Any, ...]:
    where = m.memory.program_text(m.memory.program)
    parts = [str(op.attrs["prefix"])] if op.attrs["prefix"] else []
    values = [m.get(v) for v in op.operands]
    if op.attrs["hex"]:
        as_hex: Any = {"int": lambda x: hex(int(x) & (1 << 8 * x.nbytes) - 1)}
        values = [np.array2string(x, formatter=as_hex) for x in values]
    print(f"program {where}:", *parts, *values)
    return ()


def stop(m: Machine, op: Op) -> tuple[Any, ...]:
    """Hand over to the debugger; `tiles` holds the kernel's variables by name."""
    tiles = {v.hint: value for v, value in m.values.items() if v.hint}
    program = m.program
    breakpoint()  # the kernel's author asked for it
    del tiles, program
    return ()


HANDLERS: Final[Mapping[str, Callable[[Machine, Op], tuple[Any, ...]]]] = MappingProxyType({
    "program_id": program_id, "num_programs": num_programs, "array_ptr": array_ptr, "array_shape": array_shape,
    "array_stride": array_stride, "addptr": addptr, "ptr_cast": ptr_cast, "load": load, "store": store,
    "tile_load": tile_load, "tile_store": tile_store, "atomic_cas": compare_and_swap,
    **{f"atomic_{kind}": atomic for kind in COMBINE},
    "if": branch, "for": for_loop, "while": while_loop, "assert_": check, "print_": show, "breakpoint_": stop,
})
