"""Random programs of Block IR, and their meaning in numpy: loops, conditions, stages, scalars, all units."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.backends.ascend.blockir.evaluation import value_of
from pypto.backends.ascend.blockir.ir import (
    Assign,
    BlockKernel,
    Buffer,
    Expr,
    If,
    Instr,
    Item,
    Let,
    Loop,
    Read,
    Scalar,
    View,
    While,
    fold,
)
from pypto.ir.types import float32, int32
from tests.backends_ascend.kernels import X, Y, load, store, ub

Array = np.ndarray[Any, Any]
SIZE, TILES = 64, 8
BINARY = {"Add": np.add, "Sub": np.subtract, "Max": np.maximum, "Min": np.minimum}


@dataclass
class Programs:
    """Makes programs. All buffers hold `SIZE` numbers in each stage, arrays `TILES` times as many."""

    chance: random.Random
    buffers: list[Buffer] = field(default_factory=list)
    loops: int = 0
    numbers: int = 0

    def kernel(self) -> BlockKernel:
        for i in range(self.chance.randint(2, 5)):
            self.buffers.append(ub(f"b{i}", SIZE, self.chance.choice((1, 1, 2, 3))))
        first = [Instr("Duplicate", (View(b, 0, s), float(i), SIZE))
                 for i, b in enumerate(self.buffers) for s in range(b.stages)]  # fmt: skip
        last = [store(View(Y, i * SIZE), View(b), SIZE) for i, b in enumerate(self.buffers)]
        return BlockKernel("k", "vector", (X, Y), tuple(self.buffers), (*first, *self.items((), 0), *last))

    def items(self, names: tuple[str, ...], depth: int) -> tuple[Item, ...]:
        found: list[Item] = []
        for _ in range(self.chance.randint(1, 5)):
            found += self.one(names, depth)
        return tuple(found)

    def one(self, names: tuple[str, ...], depth: int) -> list[Item]:
        kind = self.chance.random()
        if depth < 3 and kind < 0.18:
            return [self.loop(names, depth)]
        if depth < 3 and kind < 0.26:
            return [self.condition(names, depth)]
        if depth < 3 and kind < 0.31:
            return self.repeated(names, depth)
        if kind < 0.4:
            return self.scalars(names)
        return [self.instruction(names)]

    def loop(self, names: tuple[str, ...], depth: int) -> Loop:
        self.loops += 1
        name = f"i{self.loops}"
        return Loop(name, 0, self.chance.randint(0, 4), 1, self.items((*names, name), depth + 1))

    def condition(self, names: tuple[str, ...], depth: int) -> If:
        number: Scalar = Read(self.view(names, self.chance.randrange(SIZE)))
        test = Expr("<", (number, 1.0)) if self.chance.random() < 0.5 or not names else Expr("==", (names[-1], 1))
        orelse = self.items(names, depth + 1) if self.chance.random() < 0.5 else ()
        return If(test, self.items(names, depth + 1), orelse)

    def repeated(self, names: tuple[str, ...], depth: int) -> list[Item]:
        self.numbers += 1
        name = f"n{self.numbers}"
        test = self.items(names, depth + 1) if self.chance.random() < 0.5 else ()
        often = Expr("<", (name, self.chance.randint(0, 3)))
        often = (
            Expr("&&", (often, Expr("<", (Read(self.view(names, 3)), 9.0)))) if self.chance.random() < 0.5 else often
        )
        body = (*self.items(names, depth + 1), Assign(name, Expr("+", (name, 1))))
        return [Let(name, int32, 0), While(test, often, body)]

    def scalars(self, names: tuple[str, ...]) -> list[Item]:
        self.numbers += 1
        name = f"s{self.numbers}"
        at = self.chance.randrange(SIZE)
        value = Read(self.view(names, at))
        write = Instr("SetValue", (self.view(names, self.chance.randrange(SIZE)), name))
        return [Let(name, float32, value), write if self.chance.random() < 0.7 else self.filled(names, name)]

    def filled(self, names: tuple[str, ...], value: Scalar) -> Instr:
        return Instr("Duplicate", (self.view(names), value, SIZE))

    def instruction(self, names: tuple[str, ...]) -> Instr:
        kind = self.chance.random()
        place = Expr("*", (self.turn(names, TILES), SIZE))
        if kind < 0.25:
            return load(self.view(names), View(X, place), SIZE)
        if kind < 0.45:
            return store(View(Y, place), self.view(names), SIZE)
        if kind < 0.6:
            half, at = SIZE // 2, self.chance.choice((0, SIZE // 2))
            return Instr("Adds", (self.view(names, at), self.view(names, at), 1.0, half))
        if kind < 0.7:
            return self.filled(names, float(self.chance.randint(-3, 3)))
        name = self.chance.choice(list(BINARY))
        to, *sources = (self.view(names) for _ in range(3))
        return Instr(name, (to, *sources, SIZE))

    def turn(self, names: tuple[str, ...], stages: int) -> Scalar:
        if not names or self.chance.random() < 0.2:
            return self.chance.randrange(stages)
        name = self.chance.choice(names)
        shifted = fold("+", name, self.chance.choice((0, 0, 0, 1)))
        return Expr("%", (shifted, stages))

    def view(self, names: tuple[str, ...], at: int = 0) -> View:
        b = self.chance.choice(self.buffers)
        return View(b, at, self.turn(names, b.stages) if b.stages > 1 else 0)


@dataclass
class Meaning:
    """What a program does, one item after the other."""

    arrays: dict[str, Array]
    memory: dict[str, Array]
    values: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def run(kernel: BlockKernel, x: Array, y: Array) -> None:
        memory = {b.name: np.zeros((b.stages, SIZE), np.float32) for b in kernel.buffers}
        Meaning({"x": x, "y": y}, memory).items(kernel.body)

    def at(self, view: View) -> Array:
        offset = self.number(view.offset)
        if isinstance(view.of, Buffer):
            return self.memory[view.of.name][self.number(view.stage), offset:]
        return self.arrays[view.of.name][offset:]

    def number(self, value: Scalar) -> Any:
        if isinstance(value, Read):
            return self.at(value.view)[0]
        if isinstance(value, float):
            return value
        if isinstance(value, Expr) and value.op in ("<", "&&"):
            a, b = (self.number(x) for x in value.args)
            return a < b if value.op == "<" else a and b
        return self.values[value] if isinstance(value, str) else value_of(value, self.values)

    def items(self, items: tuple[Item, ...]) -> None:
        for item in items:
            match item:
                case Instr():
                    self.instruction(item)
                case Let() | Assign():
                    self.values[item.name] = self.number(item.value)
                case Loop():
                    for i in range(self.number(item.start), self.number(item.stop)):
                        self.values[item.name] = i
                        self.items(item.body)
                case While():
                    self.items(item.test)
                    while self.number(item.condition):
                        self.items(item.body)
                        self.items(item.test)
                case If():
                    self.items(item.body if self.number(item.condition) else item.orelse)

    def instruction(self, item: Instr) -> None:
        views = [self.at(a) for a in item.args if isinstance(a, View)]
        if item.name == "DataCopyPad":
            views[0][:SIZE] = views[1][:SIZE]
        elif item.name == "SetValue":
            views[0][0] = self.number(item.args[1])  # type: ignore[arg-type]  # a number
        elif item.name == "Duplicate":
            views[0][:SIZE] = self.number(item.args[1])  # type: ignore[arg-type]  # a number
        elif item.name == "Adds":
            views[0][: SIZE // 2] = views[1][: SIZE // 2] + np.float32(1)
        else:
            views[0][:SIZE] = BINARY[item.name](views[1][:SIZE], views[2][:SIZE])


def program(seed: int) -> BlockKernel:
    return Programs(random.Random(seed)).kernel()
