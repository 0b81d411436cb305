"""A small evaluator of Tile IR for the tests of the front end: one program, numpy, no checks."""

from __future__ import annotations

from typing import Any

import numpy as np

from pypto.frontend import ArgSpec, Built, ConstSpec, KernelSource
from pypto.frontend.build import build
from pypto.ir.core import Function, Op, Region, Value
from pypto.ir.types import ArrayType, PtrType, TileType, from_numpy, int32, scalar
from pypto.language import METHODS
from pypto.ops.memory import Access
from pypto.ops.table import TABLE
from pypto.ops.target import TargetConstants
from pypto.ops.verify import verify
from pypto.options import KernelOptions


class Facts:
    """Everything stays at run time, but for what a test gives; `asked` records the questions."""

    target = TargetConstants

    def __init__(self, shapes: dict[tuple[str, int], int] | None = None, ones: tuple[str, ...] = ()) -> None:
        self.shapes = shapes or {}
        self.ones = ones
        self.asked: list[tuple[Any, ...]] = []

    def shape(self, arg: str, dim: int) -> int | None:
        self.asked.append(("shape", arg, dim))
        return self.shapes.get((arg, dim))

    def require_shape(self, arg: str, dim: int) -> int:
        self.asked.append(("require_shape", arg, dim))
        return self.shapes[arg, dim]

    def stride(self, arg: str, dim: int) -> int | None:
        self.asked.append(("stride", arg, dim))
        return None

    def equals_one(self, arg: str) -> bool:
        self.asked.append(("equals_one", arg))
        return arg in self.ones

    def is_weak(self, arg: str) -> bool:
        return False


def spec(x: Any) -> ArgSpec:
    if isinstance(x, np.ndarray):
        elem = from_numpy(x.dtype)
        assert elem is not None
        return ArrayType(elem, x.ndim)
    return scalar(int32) if isinstance(x, int) and not isinstance(x, bool) else ConstSpec(x)


def built(fn: Any, facts: Facts | None = None, **args: Any) -> Built:
    """Build for example arguments: arrays and ints are run-time arguments, specs are taken as they are."""
    specs = {n: x if isinstance(x, ArrayType | TileType | ConstSpec | tuple) else spec(x) for n, x in args.items()}
    result = build(KernelSource.of(fn), specs, facts or Facts(), METHODS, KernelOptions().max_ops)
    verify(result.function, TABLE)
    return result


def run(fn: Any, **args: Any) -> None:
    """Build and evaluate one program of a kernel."""
    shapes = {(n, d): k for n, x in args.items() if isinstance(x, np.ndarray) for d, k in enumerate(x.shape)}
    evaluate(built(fn, Facts(shapes), **args).function, [x for x in args.values() if isinstance(x, int | np.ndarray)])


def evaluate(function: Function, inputs: list[Any]) -> None:
    env: dict[Value, Any] = {}
    for value, x in zip(function.args, inputs, strict=True):
        env[value] = x if isinstance(x, np.ndarray) else np.asarray(x, value.dtype.numpy)
    run_region(function.body, env)


def run_region(region: Region, env: dict[Value, Any]) -> list[Any]:
    for op in region.ops:
        if op.name == "yield":
            return [env[v] for v in op.operands]
        results = run_op(op, env)
        for value, x in zip(op.results, results, strict=True):
            env[value] = x
    raise AssertionError("a region without terminator")


def enter(region: Region, values: list[Any], env: dict[Value, Any]) -> list[Any]:
    env.update(zip(region.args, values, strict=True))
    return run_region(region, env)


def run_op(op: Op, env: dict[Value, Any]) -> list[Any]:
    operands = [env[v] for v in op.operands]
    if op.name in CONTROL:
        return CONTROL[op.name](op, operands, env)
    if op.name in MEMORY:
        return MEMORY[op.name](op, operands, env)
    reference = TABLE[op.name].reference
    assert reference is not None, op.name
    elem = op.result.tile.elem
    result = np.asarray(reference(op, *operands))
    return [result if isinstance(elem, PtrType) else result.astype(elem.numpy)]


def run_if(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    return run_region(op.regions[0 if operands[0] else 1], env)


def run_for(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    low, high, step, *carried = operands
    for index in range(int(low), int(high), int(step)):
        carried = enter(op.regions[0], [np.asarray(index, low.dtype), *carried], env)
    return carried


def run_while(op: Op, carried: list[Any], env: dict[Value, Any]) -> list[Any]:
    while enter(op.regions[0], carried, env)[0]:
        carried = enter(op.regions[1], carried, env)
    return carried


def positions(op: Op, env: dict[Value, Any]) -> tuple[Access, np.ndarray[Any, Any], tuple[Any, ...]]:
    """Which elements of an access exist, and the indices of these in the array."""
    access = Access.of(op)
    grid = np.indices(access.shape).reshape(len(access.shape), -1)
    offsets = np.asarray([int(env[v]) for v in access.offsets]).reshape(-1, 1)
    extents = np.asarray([int(env[v]) for v in access.extents]).reshape(-1, 1)
    index = grid + offsets
    return access, np.all((index >= 0) & (index < extents), axis=0), tuple(index)


def tile_load(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    access, inside, index = positions(op, env)
    array = env[access.base][0]
    result = np.zeros(inside.size, array.dtype) if access.other is None else env[access.other].reshape(-1).copy()
    result[inside] = array[tuple(i[inside] for i in index)]
    return [result.reshape(access.shape)]


def tile_store(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    access, inside, index = positions(op, env)
    assert access.value is not None
    env[access.base][0][tuple(i[inside] for i in index)] = env[access.value].reshape(-1)[inside]
    return []


def load(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    array, offsets = operands[0]
    mask = operands[1] if len(operands) > 1 else np.ones(np.shape(offsets), bool)
    other = operands[2] if len(operands) > 2 else np.zeros(np.shape(offsets), array.dtype)
    return [np.where(mask, array.reshape(-1)[np.where(mask, offsets, 0)], other)]


def store(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    (array, offsets), value = operands[:2]
    mask = operands[2] if len(operands) > 2 else np.ones(np.shape(offsets), bool)
    array.reshape(-1)[np.asarray(offsets)[mask]] = np.asarray(value)[mask]
    return []


def broadcast(op: Op, operands: list[Any], env: dict[Value, Any]) -> list[Any]:
    shape: Any = op.attrs["shape"]
    x = operands[0]
    return [(x[0], np.broadcast_to(x[1], shape)) if isinstance(x, tuple) else np.broadcast_to(x, shape)]


CONTROL = {"if": run_if, "for": run_for, "while": run_while}
MEMORY = {
    "array_ptr": lambda op, xs, env: [(xs[0], np.int64(0))],
    "array_shape": lambda op, xs, env: [np.int64(xs[0].shape[op.attrs["dim"]])],
    "array_stride": lambda op, xs, env: [np.int64(xs[0].strides[op.attrs["dim"]] // xs[0].itemsize)],
    "addptr": lambda op, xs, env: [(xs[0][0], xs[0][1] + xs[1])],
    "program_id": lambda op, xs, env: [np.int32(0)],
    "num_programs": lambda op, xs, env: [np.int32(1)],
    "broadcast_to": broadcast,
    "tile_load": tile_load,
    "tile_store": tile_store,
    "load": load,
    "store": store,
    "where": lambda op, xs, env: [(xs[1] if xs[0] else xs[2]) if isinstance(xs[1], tuple) else np.where(*xs)],
    "assert_": lambda op, xs, env: [],
    "undef": lambda op, xs, env: [np.full(op.result.shape, 77, op.result.dtype.numpy)],
}
