"""Elementwise ops on the simulated device: many of them in one kernel, each from arrays in GM to arrays in GM."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.backends.ascend.blockir.ir import (
    BlockKernel,
    Buffer,
    If,
    Instr,
    Item,
    Loop,
    Param,
    Record,
    Scalar,
    View,
    While,
    Word,
)
from pypto.backends.ascend.emit.ascendc import emit
from pypto.backends.ascend.rules.lane_rules import Lanes, elementwise
from pypto.backends.ascend.rules.temporaries import rebuilt
from pypto.backends.ascend.target import ascend_target
from pypto.ir.core import Op
from pypto.ir.types import DType, uint8, uint16
from tests.sim.device import compiled, launched

Array = np.ndarray[Any, Any]
COUNT = 768
_X, _Y = Param("x", uint8, True), Param("y", uint8, True)


@dataclass
class UbSink:
    """Memory of UB one piece after the other."""

    count: int = COUNT
    line: int = 0
    items: list[Item] = field(default_factory=list)
    before: list[Item] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    used: int = 0
    names: int = 0

    def emit(self, item: Item) -> None:
        self.items.append(item)

    def temporary(self, dtype: DType, count: int = 0) -> View:
        count = count or self.count
        elements, dtype = (count // 8, uint8) if dtype.is_bool else (count, dtype)
        made = Buffer(self.name("t"), "UB", dtype, elements, address=self.used)
        self.used += made.bytes
        self.buffers.append(made)
        return View(made)

    def filled(self, value: Scalar, dtype: DType, count: int = 0) -> View:
        view = self.temporary(dtype, count)
        assert isinstance(view.of, Buffer) and isinstance(value, int | float)
        if dtype.bits <= 8:
            words, byte = View(view.of, dtype=uint16), 0xFF * bool(value) if dtype.is_bool else int(value) % 256
            self.before.append(Instr("Duplicate", (words, byte * 257, view.of.elements // 2)))
        else:
            self.before.append(Instr("Duplicate", (view, value, view.of.elements)))
        return view

    def name(self, hint: str) -> str:
        self.names += 1
        return f"{hint}{self.names}"

    @contextmanager
    def nested(self) -> Iterator[list[Item]]:
        outer, self.items = self.items, []
        yield self.items
        self.items = outer


def stored_bytes(a: Array, dtype: DType) -> bytes:
    """COUNT elements as UB has them."""
    padded = np.concatenate([a, np.repeat(a[-1:], COUNT - len(a))])
    return np.packbits(padded, bitorder="little").tobytes() if dtype.is_bool else padded.tobytes()


def restored(raw: bytes, dtype: DType, count: int) -> Array:
    if dtype.is_bool:
        return np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")[:count].astype(bool)
    return np.frombuffer(raw, dtype.numpy)[:count]


def stored_size(dtype: DType) -> int:
    return COUNT // 8 if dtype.is_bool else COUNT * dtype.itemsize


def copied(to: View, source: View, size: int) -> Instr:
    pads = (Record((False, 0, 0, 0)),) if isinstance(source.of, Param) else ()
    return Instr("DataCopyPad", (to, source, Record((1, size, 0, 0, 0)), *pads))


def fenced(items: list[Item]) -> tuple[Item, ...]:
    """Items that each wait for all units."""
    made: list[Item] = []
    for item in items:
        if isinstance(item, Loop | If | While):
            made.append(rebuilt(item, lambda v: v, lambda body: fenced(list(body))))
        else:
            made.append(item)
            if isinstance(item, Instr):
                made.append(Instr("PipeBarrier", (Word("PIPE_ALL"),)))
    return tuple(made)


def in_bytes(view: View) -> View:
    assert isinstance(view.of, Buffer)
    return View(view.of, dtype=None if view.of.dtype == uint8 else uint8)


@dataclass
class Cells:
    """A kernel that grows by ops."""

    source: bytes = b""
    size: int = 0
    items: list[Item] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)
    results: list[tuple[int, DType]] = field(default_factory=list)
    names: int = 0
    instructions: int = 0

    def add(self, op: Op, arrays: list[Array], numbers: tuple[Scalar | None, ...] = ()) -> None:
        """An op whose operands are arrays, or numbers where these are not None."""
        sink = UbSink(names=self.names)
        lanes = []
        for i, (v, a) in enumerate(zip(op.operands, arrays, strict=True)):
            number = numbers[i] if i < len(numbers) else None
            lanes.append(self.loaded(sink, v.dtype, a) if number is None else Lanes(v.dtype, number))
        loads = len(sink.items)
        (made,) = elementwise(op, lanes, sink)
        assert made.dtype == op.result.dtype
        view = made.at if isinstance(made.at, View) else sink.filled(made.at, made.dtype)
        size = stored_size(made.dtype)
        self.instructions = len(sink.items) - loads
        sink.emit(copied(View(_Y, self.size), in_bytes(view), size))
        self.results.append((self.size, made.dtype))
        self.size += size
        self.items += [*sink.before, *sink.items]
        self.buffers += sink.buffers
        self.names = sink.names

    def loaded(self, sink: UbSink, dtype: DType, a: Array) -> Lanes:
        view, raw = sink.temporary(dtype), stored_bytes(a, dtype)
        sink.emit(copied(in_bytes(view), View(_X, len(self.source)), len(raw)))
        self.source += raw
        return Lanes(dtype, view)

    def text(self, name: str) -> str:
        kernel = BlockKernel(name, "vector", (_X, _Y), tuple(self.buffers), fenced(self.items))
        return emit(kernel, ascend_target("ascend910b2")).split("using namespace AscendC;\n", 1)[1]

    def launch(self, binary: bytes, name: str, count: int) -> list[Array]:
        x, y = np.frombuffer(self.source, np.uint8).copy(), np.zeros(self.size, np.uint8)
        launched("", [x, y], binary=binary, name=name)
        return [restored(y[at : at + stored_size(d)].tobytes(), d, count) for at, d in self.results]

    def run(self, count: int) -> list[Array]:
        """What the device makes of all ops."""
        return run_all([self], count)


def run_all(kernels: list[Cells], count: int) -> list[Array]:
    """What the device makes of the ops of several kernels, which are compiled as one unit.

    A compiler's time for a kernel grows faster than the kernel, so that many short ones take less than a long one.
    """
    names = {f"k{i}": kernel for i, kernel in enumerate(kernels) if kernel.items}
    binary = compiled("\n".join(kernel.text(name) for name, kernel in names.items()))
    return [array for name, kernel in names.items() for array in kernel.launch(binary, name, count)]
