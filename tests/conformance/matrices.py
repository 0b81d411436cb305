"""Random kernels of matrix products: transposes, operands that several products share, loops, branches, stores.

Numbers stay near 1 and all functions are smooth, so that results of another order of sums are near; integers are exact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pypto.ir.types import DType, bfloat16, float16, float32, float64, int8, int32

SIZES = (16, 16, 32, 32, 8, 12, 17, 24, 33, 48, 64, 1, 4)
FLOATS = (*(float32,) * 8, float16, float16, bfloat16, bfloat16, float64)
DEAR = ("pto.exp2(-pto.abs({}))", "pto.tanh({})", "pto.sigmoid({})", "{} / (1.5 + pto.abs({}))", "pto.sin({})",
        "{} * pto.exp2(-pto.abs({}))", "pto.sqrt(pto.abs({}) + 0.25)")  # fmt: skip
CHEAP = ("{} * 0.5", "-{}", "pto.abs({})", "pto.maximum({}, 0.0)", "{} - 0.25")
DEAR_INTS, CHEAP_INTS = ("{} // 3", "{} % 7"), ("-{}", "{} ^ 5", "pto.maximum({}, 1)", "{} & 27")
LESS = ((0, 0), (0, 0), (1, 0), (3, 5))  # rows and columns of a block that do not exist
INDENT = "    "


@dataclass(frozen=True)
class Tile:
    """A variable of the kernel; a stack of matrices has one more dimension in front."""

    name: str
    rows: int
    cols: int
    dtype: DType

    @property
    def kind(self) -> tuple[int, int, DType]:
        return self.rows, self.cols, self.dtype


@dataclass(frozen=True)
class Matrix:
    """An array. Each program has rows of its own, or all have the same; `less` rows and columns are not there."""

    rows: int
    cols: int
    dtype: DType
    own: bool = False
    less: tuple[int, int] = (0, 0)
    turned: bool = False  # its columns lie side by side in memory


@dataclass
class Program:
    """A kernel's text, the arrays that it takes, and what it is launched with."""

    text: str
    inputs: list[Matrix]
    outputs: list[Matrix]
    stack: int
    programs: int
    n: int

    def arrays(self) -> list[Any]:
        rng = np.random.default_rng(len(self.text))
        return [self.array(m, rng) for m in self.inputs] + [self.array(m, None) for m in self.outputs]

    def array(self, m: Matrix, rng: np.random.Generator | None) -> Any:
        shape = max(1, m.rows * (self.programs if m.own else 1) - m.less[0]), max(1, m.cols - m.less[1])
        shape = (*((self.stack,) if self.stack else ()), *(shape[::-1] if m.turned else shape))
        if rng is None:
            made = np.zeros(shape, m.dtype.numpy)
        elif m.dtype.is_float:
            made = rng.standard_normal(shape).astype(m.dtype.numpy)
        else:
            made = rng.integers(-50, 50, shape).astype(m.dtype.numpy)
        return made.swapaxes(-1, -2) if m.turned else made

    @property
    def tolerance(self) -> float:
        """How far results may be apart, of numbers near 1; 0 where there are integers alone."""
        bits = [m.dtype for m in (*self.inputs, *self.outputs)]
        if not any(d.is_float for d in bits):
            return 0.0
        return 0.15 if bfloat16 in bits else 0.03 if float16 in bits else 1e-3


@dataclass
class Maker:
    """Writes one kernel; equal seeds give equal kernels."""

    seed: int
    inputs: list[Matrix] = field(default_factory=list)
    outputs: list[Matrix] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    tiles: list[Tile] = field(default_factory=list)
    depth: int = 1
    count: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.pick = self.random.choice
        self.sizes = [self.pick(SIZES) for _ in range(self.pick((1, 2, 2, 3)))]
        self.ints = self.random.random() < 0.08
        self.dtypes = (int8,) if self.ints else tuple(self.pick(FLOATS) for _ in range(self.pick((1, 1, 1, 2))))
        self.stack = 2 if self.random.random() < 0.1 else 0
        self.programs = 1 if self.stack else self.pick((1, 1, 3))

    def program(self) -> Program:
        self.load()
        for _ in range(self.random.randint(3, 9)):
            self.statement()
        for tile in self.random.sample(self.tiles, min(2, len(self.tiles))) + self.tiles[-1:]:
            self.store(tile)
        names = [f"a{k}" for k in range(len(self.inputs))] + [f"y{k}" for k in range(len(self.outputs))]
        head = [f"def kernel({', '.join(names)}, n):", f"{INDENT}p = pto.program_id(0)"]
        text = "\n".join([*head, *self.lines, ""])
        return Program(text, self.inputs, self.outputs, self.stack, self.programs, self.pick((1, 2, 3)))

    # --- parts --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append(INDENT * self.depth + text)

    def add(self, text: str, rows: int, cols: int, dtype: DType) -> Tile:
        tile = Tile(f"t{self.count}", rows, cols, dtype)
        self.count += 1
        self.line(f"{tile.name} = {text}")
        self.tiles.append(tile)
        return tile

    def some(self, fits: Callable[[Tile], bool] = lambda t: True) -> Tile | None:
        found = [t for t in self.tiles if fits(t)]
        return self.pick(found[-5:] if self.random.random() < 0.7 else found) if found else None

    def any(self) -> Tile:
        found = self.some()
        assert found is not None
        return found

    def trans(self, name: str) -> str:
        return f"pto.permute({name}, (0, 2, 1))" if self.stack else f"pto.trans({name})"

    def index(self, rows: str, cols: str) -> str:
        return f"[:, {rows}, {cols}]" if self.stack else f"[{rows}, {cols}]"

    def axis(self, n: int) -> int:
        return n + bool(self.stack)

    # --- memory -------------------------------------------------------------------------------------------------------

    def load(self, rows: int = 0, cols: int = 0, dtype: DType | None = None) -> Tile:
        own = self.programs > 1 and self.random.random() < 0.5
        kind = rows or self.pick(self.sizes), cols or self.pick(self.sizes), dtype or self.pick(self.dtypes)
        matrix = Matrix(*kind, own, self.pick(LESS), self.random.random() < 0.15)
        self.inputs.append(matrix)
        return self.read(f"a{len(self.inputs) - 1}", matrix)

    def read(self, name: str, m: Matrix) -> Tile:
        rows = f"p * {m.rows} : p * {m.rows} + {m.rows}" if m.own else f"0:{m.rows}"
        plain = not m.own and m.less == (0, 0) and self.random.random() < 0.5
        text = name + (self.index(":", ":") if plain else self.index(rows, f"0:{m.cols}"))
        if self.random.random() < 0.2:
            return self.add(self.trans(text), m.cols, m.rows, m.dtype)
        return self.add(text, m.rows, m.cols, m.dtype)

    def store(self, tile: Tile) -> None:
        turned = self.random.random() < 0.3
        rows, cols = (tile.cols, tile.rows) if turned else (tile.rows, tile.cols)
        matrix = Matrix(rows, cols, tile.dtype, True, self.pick(LESS), self.random.random() < 0.15)
        self.outputs.append(matrix)
        where = self.index(f"p * {rows} : p * {rows} + {rows}", f"0:{cols}")
        self.line(f"y{len(self.outputs) - 1}{where} = {self.trans(tile.name) if turned else tile.name}")

    def store_some(self) -> None:
        self.store(self.any())

    def read_back(self) -> None:
        """What has been stored, or what is to be overwritten."""
        if not self.outputs:
            return self.store_some()
        number = self.random.randrange(len(self.outputs))
        self.read(f"y{number}", self.outputs[number])
        return None

    def overwrite(self) -> None:
        """An input of which each program has its own rows."""
        found = [(k, m) for k, m in enumerate(self.inputs) if m.own or self.programs == 1]
        k, m = self.pick(found) if found else (0, None)
        tile = m and self.some(lambda t: t.kind == (m.rows, m.cols, m.dtype))
        if m is None or tile is None:
            return self.store_some()
        rows = f"p * {m.rows} : p * {m.rows} + {m.rows}" if m.own else f"0:{m.rows}"
        self.line(f"a{k}{self.index(rows, f'0:{m.cols}')} = {tile.name}")
        return None

    # --- element by element -------------------------------------------------------------------------------------------

    def unary(self, forms: Sequence[str]) -> None:
        t = self.any()
        form = self.pick(forms)
        text = form.format(*(t.name,) * form.count("{}"))
        divides = "/" in form and t.dtype in (float16, bfloat16)
        self.add(f"({text}).to(pto.{t.dtype.public})" if divides else text, *t.kind)

    def dear(self) -> None:
        self.unary(DEAR if not self.ints else DEAR_INTS)

    def cheap(self) -> None:
        self.unary(CHEAP if not self.ints else CHEAP_INTS)

    def binary(self) -> None:
        a = self.any()
        b = self.some(lambda t: t.kind == a.kind)
        c = self.some(lambda t: (t.cols, t.rows, t.dtype) == a.kind)
        if c is not None and self.random.random() < 0.4:
            right = self.trans(c.name)
        else:
            right = b.name if b is not None else a.name
        symbols = ("({} + {}) * 0.5", "({} - {}) * 0.5", "{} * {}") if not self.ints else ("({} ^ {})", "({} & {})")
        self.add(self.pick(symbols).format(a.name, right), *a.kind)

    def row(self) -> None:
        """With a number for each row or column."""
        t = self.any()
        n, name = self.pick((0, 1)), self.pick(("max", "min") if self.ints else ("max", "sum", "min"))
        scale = f" * {1 / (t.rows, t.cols)[n]}" if name == "sum" else ""
        number = f"pto.{name}({t.name}, axis={self.axis(n)}, keep_dims=True){scale}"
        text = f"{t.name} - {number}" if not self.ints else f"({t.name} ^ {number}).to(pto.int8)"
        self.add(text if t.dtype.bits > 16 or self.ints else f"({text}).to(pto.{t.dtype.public})", *t.kind)

    def scan(self) -> None:
        t = self.any()
        if self.ints:
            return self.cheap()
        n = self.pick((0, 1))
        text = f"pto.cumsum({t.name}, axis={self.axis(n)}) * {1 / (t.rows, t.cols)[n]}"
        self.add(f"({text}).to(pto.{t.dtype.public})", *t.kind)
        return None

    def mask(self) -> None:
        t = self.any()
        lead = "None, " if self.stack else ""
        below = f"pto.arange(0, {t.rows})[{lead}:, None] >= pto.arange(0, {t.cols})[{lead}None, :]"
        self.add(f"pto.where({below}, {t.name}, 0)", *t.kind)

    def cast(self) -> None:
        t = self.any()
        dtype = self.pick(self.dtypes)
        if not self.ints:
            self.add(f"{t.name}.to(pto.{dtype.public})", t.rows, t.cols, dtype)

    # --- other places -------------------------------------------------------------------------------------------------

    def turn(self) -> None:
        t = self.any()
        self.add(self.trans(t.name), t.cols, t.rows, t.dtype)

    def regroup(self) -> None:
        """The same elements in order under another shape."""
        t = self.any()
        lead = f"{self.stack}, " if self.stack else ""
        self.add(f"pto.reshape({t.name}, ({lead}{t.cols}, {t.rows}))", t.cols, t.rows, t.dtype)

    # --- products -----------------------------------------------------------------------------------------------------

    def right(self, a: Tile) -> tuple[str, int]:
        """A right side for a product, and its columns."""
        lies = [t for t in self.tiles if t.rows == a.cols and t.dtype == a.dtype]
        turned = [t for t in self.tiles if t.cols == a.cols and t.dtype == a.dtype]
        forms = [(t.name, t.cols) for t in lies[-4:]] + [(self.trans(t.name), t.rows) for t in turned[-4:]]
        if forms and self.random.random() < 0.85:
            return self.pick(forms)
        b = self.load(a.cols, self.pick(self.sizes), a.dtype)
        return (b.name, b.cols) if b.rows == a.cols else (self.trans(b.name), b.rows)

    def dot(self) -> None:
        a = self.any()
        b, cols = self.right(a)
        self.product(a, b, cols)

    def product(self, a: Tile, b: str, cols: int) -> None:
        wide = int32 if self.ints else a.dtype if a.dtype.bits > 16 else float32
        before = self.some(lambda t: t.kind == (a.rows, cols, wide)) if self.random.random() < 0.25 else None
        scale, more = f"{a.cols**-0.5:.3f}", f", {before.name}" if before is not None else ""
        text = f"pto.dot({a.name}, {b}{more})"
        if self.ints:
            self.add(f"({text} & 63).to(pto.int8)", a.rows, cols, int8)
            return
        is_bare = self.random.random() < 0.4  # what follows reads the product itself
        text = f"pto.dot({a.name} * {scale}, {b}{more})" if is_bare else f"{text} * {scale}"
        t = self.add(text, a.rows, cols, wide)
        if self.random.random() < 0.5 and wide != a.dtype:
            self.add(f"{t.name}.to(pto.{a.dtype.public})", a.rows, cols, a.dtype)

    def several(self) -> None:
        """Products that share a side, with something else between."""
        a = self.any()
        b, cols = self.right(a)
        for _ in range(self.pick((2, 2, 3))):
            self.product(a, b, cols)
            if self.random.random() < 0.5:
                self.simple()
            alike = [t for t in self.tiles if (t.cols, t.dtype) == (a.cols, a.dtype)]
            a = self.pick(alike)

    # --- control flow -------------------------------------------------------------------------------------------------

    def simple(self) -> None:
        self.pick((self.dear, self.dear, self.cheap, self.binary, self.turn, self.row))()

    def joined(self, tile: Tile) -> str:
        """A new value for a variable that control flow hands on."""
        other = self.some(lambda t: t.kind == tile.kind and t.name != tile.name)
        if other is None:
            return f"{tile.name} * 0.75" if not self.ints else f"{tile.name} ^ 3"
        forms = ("({} + {}) * 0.5", "{1}", "{} * 0.25 + {}") if not self.ints else ("({} ^ {})", "{1}")
        return self.pick(forms).format(tile.name, other.name)

    def block(self, head: str, carried: list[Tile]) -> None:
        self.line(head)
        outside, self.depth = list(self.tiles), self.depth + 1
        for _ in range(self.random.randint(1, 4)):
            self.statement()
        for tile in carried:
            self.line(f"{tile.name} = {self.joined(tile)}")
        self.tiles, self.depth = outside, self.depth - 1

    def loop(self) -> None:
        heads = ("for {} in range(n):", "for {} in range(3):", "for {} in range(n, 0, -1):",
                 "for {} in pto.static_range(2):")  # fmt: skip
        self.block(self.pick(heads).format(f"k{self.depth}"), [self.copied() for _ in range(self.pick((1, 1, 2)))])

    def branch(self) -> None:
        self.block(f"if n > {self.pick((1, 2))}:", [self.copied() for _ in range(self.pick((1, 2)))])

    def copied(self) -> Tile:
        """A variable that is assigned again, as a name of its own."""
        t = self.any()
        text = t.name if self.random.random() < 0.5 else f"{t.name} + 0" if self.ints else f"{t.name} * 0.5"
        return self.add(text, *t.kind)

    def along(self) -> None:
        """A loop along K, over blocks of two arrays."""
        if self.ints or self.stack:
            return self.several()
        step, rows, cols = self.pick((8, 16, 32)), self.pick(self.sizes), self.pick(self.sizes)
        dtype, depth = self.pick(self.dtypes), step * 3 - self.pick((0, 0, 5))
        a, b = len(self.inputs), len(self.inputs) + 1
        self.inputs += [Matrix(rows, depth, dtype), Matrix(cols, depth, dtype)]
        wide = float64 if dtype == float64 else float32
        total = self.add(f"pto.zeros(({rows}, {cols}), pto.{wide.public})", rows, cols, wide)
        work = self.pick(("{}", "{}", "pto.tanh({})"))
        left, right = (work.format(f"a{k}[0:{n}, k : k + {step}]") for k, n in ((a, rows), (b, cols)))
        self.line(f"for k in range(0, {depth}, {step}):")
        self.line(f"{INDENT}{total.name} += pto.dot({left}, pto.trans({right})) * 0.125")
        return None

    def statement(self) -> None:
        if len(self.lines) > 40:
            return
        choices = [self.dot] * 4 + [self.several] * 3 + [self.dear] * 3 + [self.turn] * 3 + [self.binary] * 2
        choices += [self.cheap, self.row, self.row, self.scan, self.mask, self.cast, self.regroup, self.load]
        choices += [self.store_some, self.read_back, self.overwrite]
        choices += [self.loop, self.loop, self.branch, self.along] if self.depth < 3 else []
        self.pick(choices)()
