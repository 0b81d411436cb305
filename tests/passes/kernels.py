"""Random kernels with nested control flow, for tests of what passes keep."""

from __future__ import annotations

import random

from pypto.ir.core import Function, Region, Value
from pypto.ir.types import ArrayType, TileType, Type, float32, int1, int32, scalar
from pypto.ops.build import OpBuilder

INT, FLOAT, BOOL, TILE = scalar(int32), scalar(float32), scalar(int1), TileType((4,), int32)
ARGS = (("ints", ArrayType(int32, 1)), ("floats", ArrayType(float32, 1)), ("n", INT), ("f", FLOAT), ("b", BOOL))
OUTPUTS = 8
BINARY = {
    INT: ("add", "sub", "mul", "and_", "or_", "xor", "shl", "floordiv", "rem", "maximum", "minimum"),
    FLOAT: ("add", "sub", "mul", "div"),  # which zero `minimum` gives of 0.0 and -0.0 is open
    BOOL: ("and_", "or_", "xor"),
    TILE: ("add", "sub", "mul", "xor"),
}
NUMBERS = {
    INT: (-1, 0, 1, 2, 7, 2**31 - 1),
    FLOAT: (-0.0, 0.0, 1.0, 0.25, float("inf")),
    BOOL: (False, True),
    TILE: (0, 1, 3),
}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Maker:
    """Builds one kernel; equal seeds give equal kernels."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.b = OpBuilder(Region([Value(t, name) for name, t in ARGS]))
        self.visible: list[Value] = list(self.b.region.args[2:])
        self.pointers: list[Value] = []

    def function(self) -> Function:
        body = self.b.region
        self.pointers = [self.b.emit("array_ptr", v) for v in body.args[:2]]
        self.ops(12, 0)
        for place in range(OUTPUTS):
            self.store(place)
        self.b.create("yield")
        return Function("random", body, {"noalias": self.random.random() < 0.5})

    def value(self, wanted: Type) -> Value:
        """A visible value, mostly a recent one, or a new constant."""
        values = [v for v in self.visible if v.type == wanted][-6:]
        if not values or self.random.random() < 0.2:
            assert isinstance(wanted, TileType)
            return self.b.constant(self.random.choice(NUMBERS[wanted]), wanted.dtype, wanted.shape)
        return self.random.choice(values)

    def place(self, pointer: Value, place: int) -> Value:
        return self.b.emit("addptr", pointer, self.b.constant(place, int32))

    def store(self, place: int) -> None:
        which = self.random.randrange(2)
        self.b.op("store", self.place(self.pointers[which], place), self.value((INT, FLOAT)[which]))

    def load(self) -> Value:
        return self.b.emit("load", self.place(self.random.choice(self.pointers), self.random.randrange(OUTPUTS)))

    def ops(self, count: int, depth: int) -> None:
        makers = [self.binary] * 5 + [self.unary] * 3 + [self.choice, self.load, self.effect]
        makers += [self.branch, self.loop, self.turns] if depth < 3 else []
        for _ in range(count):
            made = self.random.choice(makers)
            results = made() if made not in (self.branch, self.loop, self.turns) else made(depth + 1)
            self.visible += results if isinstance(results, list) else [results] if results is not None else []

    def effect(self) -> None:
        self.store(self.random.randrange(OUTPUTS))

    def binary(self) -> Value:
        wanted = self.random.choice((INT, INT, FLOAT, BOOL, TILE))
        name = self.random.choice(BINARY[wanted])
        attrs = {"propagate_nan": False} if name in ("maximum", "minimum") else {}
        return self.b.emit(name, self.value(wanted), self.value(wanted), **attrs)

    def unary(self) -> Value:
        b, pick = self.b, self.random.randrange(6)
        if pick == 0:
            return b.emit(self.random.choice(COMPARISONS), self.value(INT), self.value(INT))
        if pick == 1:
            return b.emit("broadcast_to", self.value(INT), shape=(4,))
        if pick == 2:
            return b.emit("sum", self.value(TILE), axes=(0,), keep_dims=False)
        if pick == 3:
            return b.emit(
                "cast", self.value(self.random.choice((INT, FLOAT, BOOL))), dtype=self.random.choice((int32, float32))
            )
        if pick == 4:
            return b.emit("not_", self.value(self.random.choice((INT, BOOL, TILE))))
        return b.emit("neg", self.value(self.random.choice((INT, FLOAT, TILE))))

    def choice(self) -> Value:
        wanted = self.random.choice((INT, FLOAT, BOOL))
        return self.b.emit("where", self.value(BOOL), self.value(wanted), self.value(wanted))

    def types(self) -> list[TileType]:
        return [self.random.choice((INT, FLOAT, BOOL, TILE)) for _ in range(self.random.randrange(3))]

    def region(self, args: list[Type], yields: list[TileType], depth: int) -> tuple[Region, list[Value]]:
        """A region with some ops; its values are forgotten at its end."""
        region, outside = Region([Value(t) for t in args]), len(self.visible)
        self.visible += region.args
        with self.b.inside(region):
            self.ops(self.random.randrange(5), depth)
            ends = [self.value(t) for t in yields]
        del self.visible[outside:]
        return region, ends

    def end(self, region: Region, values: list[Value]) -> Region:
        with self.b.inside(region):
            self.b.create("yield", tuple(values))
        return region

    def branch(self, depth: int) -> list[Value]:
        types, condition = self.types(), self.value(BOOL)
        regions = tuple(self.end(*self.region([], types, depth)) for _ in range(2))
        return list(self.b.create("if", (condition,), {}, tuple(types), regions).results)

    def loop(self, depth: int) -> list[Value]:
        types = self.types()
        bounds = [self.b.constant(self.random.choice(n), int32) for n in ((0, 1), (0, 1, 2, 3), (1, 2))]
        inits = [self.value(t) for t in types]
        region = self.end(*self.region([INT, *types], types, depth))
        return list(self.b.create("for", (*bounds, *inits), {}, tuple(types), (region,)).results)

    def turns(self, depth: int) -> list[Value]:
        """A `while` with a counter that ends it."""
        types, b = self.types(), self.b
        start = b.constant(self.random.randrange(3), int32)
        inits = [self.value(t) for t in types]
        head, _ = self.region([INT, *types], [], depth)
        with b.inside(head):
            b.create("yield", (b.emit("lt", head.args[0], b.constant(2, int32)),))
        body, ends = self.region([INT, *types], types, depth)
        with b.inside(body):
            b.create("yield", (b.emit("add", body.args[0], b.constant(1, int32)), *ends))
        return list(b.create("while", (start, *inits), {}, (INT, *types), (head, body)).results)
