"""Random kernels: text in either style over arrays of several dtypes and layouts.

All but the last statements are exact: results do not depend on how they are computed. What rounds in its own way
(functions with a stated ulp, sums of floats) comes last and is stored together with its operand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pypto.ir.types import (
    DType,
    bfloat16,
    float16,
    float32,
    float64,
    int1,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
)
from pypto.ops.build import join_dtypes
from pypto.ops.table import ROWS
from tests.ops.samples import random_values, specials

DTYPES = (float32, float32, float64, float16, bfloat16, int32, int64, int8, int16, uint8, uint32, uint64, int1)
FUNCTIONS = tuple(row.name for row in ROWS if row.public and row.ulp and len(row.params) == 1)
MOST_PROGRAMS = 6  # along an axis: the interpreter runs one after the other
FULL, ROW, COLUMN, SCALAR = "full", "row", "column", "scalar"
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda a: a,
    "transposed": lambda a: np.ascontiguousarray(a.T).T,
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "every third": lambda a: np.repeat(a, 3, 1)[:, ::3],
}


@dataclass(frozen=True)
class Term:
    """A variable of the kernel."""

    name: str
    dtype: DType
    shape: str


@dataclass
class Program:
    """A kernel under construction."""

    draw: Any
    pointers: bool
    shift: int
    sizes: tuple[int, int]
    blocks: tuple[int, int]
    inputs: list[DType] = field(default_factory=list)
    outputs: list[Term] = field(default_factory=list)
    checks: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)

    def pick(self, choices: Any) -> Any:
        return self.draw(st.sampled_from(list(choices)))

    def add(self, text: str, dtype: DType, shape: str) -> Term:
        term = Term(f"t{len(self.terms)}", dtype, shape)
        self.lines.append(f"{term.name} = {text}")
        self.terms.append(term)
        return term

    def some(self, fits: Callable[[Term], bool] = lambda t: True) -> Term | None:
        found = [t for t in self.terms[-8:] if fits(t)]
        return self.pick(found) if found else None

    # --- memory -----------------------------------------------------------------------------------------------------

    def load(self) -> None:
        dtype, name = self.pick(DTYPES), f"a{len(self.inputs)}"
        self.inputs.append(dtype)
        shape = self.pick((FULL, FULL, FULL, ROW, COLUMN))
        rows, cols = ("i : i + BM", "j : j + BN")
        if not self.pointers:
            index = {FULL: f"{rows}, {cols}", ROW: f"1:2, {cols}", COLUMN: f"{rows}, 2:3"}[shape]
            self.add(f"{name}[{index}]", dtype, shape)
            return
        at = {FULL: ("ii", "jj"), ROW: ("ii * 0 + 1", "jj"), COLUMN: ("ii", "jj * 0 + 2")}[shape]
        other = self.pick(("", ", other=1"))
        text = f"pto.load({name} + {at[0]} * {name}.strides[0] + {at[1]} * {name}.strides[1], mask=inside{other})"
        self.add(text, dtype, FULL)

    def store(self, term: Term, check: str) -> None:
        name = f"y{len(self.outputs)}"
        self.outputs.append(term)
        self.checks.append(check)
        if self.pointers:
            where = f"{name} + ii * {name}.strides[0] + jj * {name}.strides[1]"
            self.lines.append(f"pto.store({where}, {term.name}, mask=inside)")
        else:
            self.lines.append(f"{name}[i : i + BM, j : j + BN] = {term.name}")

    # --- exact statements -------------------------------------------------------------------------------------------

    def binary(self) -> None:
        a, b = self.some(), self.some()
        assert a is not None and b is not None
        dtype = join_dtypes(a.dtype, b.dtype)
        dtype = int32 if dtype.is_bool else dtype
        symbol = self.pick(["+", "-", "*", "/", "max", "min"])
        right = b.name if self.draw(st.integers(0, 3)) else self.constant(dtype)
        shape = joined(a.shape, b.shape) if right == b.name else a.shape
        dtype = dtype if right == b.name else int32 if a.dtype.is_bool else a.dtype
        right = right if right == b.name else self.constant(dtype)
        if symbol == "/" and {a.dtype.kind, b.dtype.kind} == {"int", "uint"}:
            symbol = "-"  # such a division is refused
        if symbol == "/":
            self.add(f"{a.name} / {right}", dtype if dtype.is_float and dtype.bits > 16 else float32, shape)
        elif symbol in ("max", "min"):
            zero = " + 0.0" if dtype.is_float else ""  # which zero it gives is open
            bools = a.dtype.is_bool and (b.dtype.is_bool or right != b.name)
            self.add(
                f"pto.{symbol}imum({a.name} + 0, {right}){zero}"
                if bools
                else f"pto.{symbol}imum({a.name}, {right}){zero}",
                dtype,
                shape,
            )
        else:
            self.add(f"{a.name} {symbol} {right}", dtype, shape)

    def constant(self, dtype: DType) -> str:
        return str(self.pick((0.5, -2.0, 3.0, 1e3)) if dtype.is_float else self.pick((1, 2, 3, 7, 100)))

    def integers(self) -> None:
        """Operators that take integers of one sign alone."""
        a = self.some(lambda t: t.dtype.is_int)
        b = a and self.some(lambda t: t.dtype.kind == a.dtype.kind)
        if a is None or b is None:
            return self.binary()
        symbol = self.pick(("//", "%", "&", "|", "^", "<<", ">>"))
        self.add(f"{a.name} {symbol} {b.name}", join_dtypes(a.dtype, b.dtype), joined(a.shape, b.shape))
        return None

    def compare(self) -> None:
        a, b = self.some(), self.some()
        assert a is not None and b is not None
        symbol = self.pick(("<", "<=", "==", "!=", ">", ">="))
        self.add(f"{a.name} {symbol} {b.name}", int1, joined(a.shape, b.shape))

    def where(self) -> None:
        condition, a, b = self.some(lambda t: t.dtype.is_bool), self.some(), self.some()
        if condition is None or a is None or b is None:
            return self.compare()
        shape = joined(condition.shape, joined(a.shape, b.shape))
        self.add(f"pto.where({condition.name}, {a.name}, {b.name})", join_dtypes(a.dtype, b.dtype), shape)
        return None

    def unary(self) -> None:
        a = self.some()
        assert a is not None
        dtype = int32 if a.dtype.is_bool else a.dtype
        if dtype.is_float and self.draw(st.booleans()):
            self.add(f"pto.{self.pick(('floor', 'ceil', 'sqrt'))}({a.name})", dtype, a.shape)
        else:
            self.add(self.pick(("-{}", "pto.abs({})")).format(a.name), dtype, a.shape)

    def cast(self) -> None:
        a, dtype = self.some(), self.pick(DTYPES)
        assert a is not None
        self.add(f"{a.name}.to(pto.{dtype.public})", dtype, a.shape)

    def reduce(self) -> None:
        """Greatest, least, where they are, and sums of integers."""
        a = self.some(lambda t: t.shape == FULL and not t.dtype.is_bool)
        if a is None:
            return self.unary()
        axis, shape = self.pick(((0, ROW), (1, COLUMN), (None, SCALAR)))
        name = self.pick(("max", "min", "argmax", "argmin") if a.dtype.is_float else ("max", "min", "argmax", "sum"))
        dtype = int32 if name.startswith("arg") else sum_type(a.dtype) if name == "sum" else extreme_type(a.dtype)
        keep = "" if shape == SCALAR else ", keep_dims=True"
        zero = " + 0.0" if dtype.is_float else ""
        self.add(f"pto.{name}({a.name}, axis={axis}{keep}){zero}", dtype, shape)
        return None

    def scan(self) -> None:
        """Running sums of integers, and running extremes of any numbers."""
        a = self.some(lambda t: t.shape == FULL and not t.dtype.is_bool)
        if a is None:
            return self.reduce()
        name = self.pick(("cummax", "cummin") if a.dtype.is_float else ("cumsum", "cumsum", "cummax", "cummin"))
        zero = " + 0.0" if a.dtype.is_float else ""
        dtype = sum_type(a.dtype) if name == "cumsum" else a.dtype
        self.add(f"pto.{name}({a.name}, {self.along()}){zero}", dtype, FULL)
        return None

    def along(self) -> str:
        """The axis and the direction of a scan."""
        return f"axis={self.pick((0, 1))}, reverse={self.pick((False, True))}"

    def move(self) -> None:
        a = self.some(lambda t: t.shape == FULL)
        if a is None:
            return self.unary()
        forms = ("pto.trans(pto.trans({}))", "pto.reshape(pto.ravel({}), (BM, BN))", "pto.trans(pto.trans({}) + 0)",
                 "pto.reshape(pto.reshape({}, (BM, 1, BN)), (BM, BN))")  # fmt: skip
        form = self.pick(forms if not a.dtype.is_bool else forms[:2])
        self.add(form.format(a.name), a.dtype, FULL)
        return None

    def control(self) -> None:
        """A branch, or a loop that carries a tile."""
        a = self.some()
        assert a is not None
        b = self.some(lambda t: (t.dtype, t.shape) == (a.dtype, a.shape))
        assert b is not None
        if self.draw(st.booleans()):
            self.add(f"{a.name} if n > {self.draw(st.integers(1, 5))} else {b.name}", a.dtype, a.shape)
            return
        term = self.add(a.name, a.dtype, a.shape)
        step = f"{term.name} - {b.name}" if not a.dtype.is_bool else f"{term.name} ^ {b.name}"
        self.lines += ["for k in range(n):", f"    {term.name} = {step}"]

    def dot(self) -> None:
        """A product of integer matrices, as the greatest of each row."""
        a = self.some(lambda t: t.shape == FULL and t.dtype.is_int)
        b = a and self.some(lambda t: t.shape == FULL and t.dtype == a.dtype)
        if a is None or b is None:
            return self.scan()
        acc = self.pick(("", ", pto.full((BM, BM), 5, pto.int32)"))
        self.add(f"pto.max(pto.dot({a.name}, pto.trans({b.name}){acc}), axis=1, keep_dims=True)", int32, COLUMN)
        return None

    def gather(self) -> None:
        """Rows by index, through pointers."""
        index = self.some(lambda t: t.dtype.kind == "int")
        if index is None:
            return self.move()
        number = self.draw(st.integers(0, len(self.inputs) - 1))
        row = f"({index.name} % {min(self.sizes[0], 100)}).to(pto.int64)"
        where = f"a{number} + pto.abs({row}) * a{number}.strides[0] + jj * a{number}.strides[1]"
        self.add(f"pto.load({where}, mask=inside)", self.inputs[number], FULL)
        return None

    def store_and_load(self) -> None:
        """What was stored is what is loaded afterwards; nothing is beyond the edges."""
        a = self.some()
        assert a is not None
        self.store(a, "exact")
        name = f"y{len(self.outputs) - 1}"
        if self.draw(st.booleans()):
            self.add(f"{name}[i : i + BM, j : j + BN]", a.dtype, FULL)
        else:
            where = f"{name} + ii * {name}.strides[0] + jj * {name}.strides[1]"
            self.add(f"pto.load({where}, mask=inside)", a.dtype, FULL)

    # --- the last statements ----------------------------------------------------------------------------------------

    def rounding(self) -> None:
        """A function or a sum of floats, stored with its operand."""
        a = self.some(lambda t: t.dtype.is_float)
        if a is None:
            return
        self.store(a, "exact")
        if a.shape == FULL and self.draw(st.booleans()):
            inside = f"pto.where(inside, {a.name}, 0)"
            if self.draw(st.booleans()):
                self.store(self.add(f"pto.cumsum({inside}, {self.along()})", a.dtype, FULL), "sum")
            else:
                self.store(self.add(f"pto.sum({inside}, axis=1, keep_dims=True)", a.dtype, COLUMN), "sum")
            return
        name = self.pick(FUNCTIONS)
        self.store(self.add(f"pto.{name}({a.name})", a.dtype, a.shape), name)

    def text(self) -> str:
        names = [f"a{k}" for k in range(len(self.inputs))] + [f"y{k}" for k in range(len(self.outputs))]
        head = [f"def kernel({', '.join(names)}, n, BM: pto.constexpr, BN: pto.constexpr):"]
        body = [f"i, j = pto.program_id(0) * BM - {self.shift}, pto.program_id(1) * BN - {self.shift}"]
        body += ["ii, jj = i + pto.arange(0, BM)[:, None], j + pto.arange(0, BN)[None, :]",
                 f"inside = (ii >= 0) & (ii < {self.sizes[0]}) & (jj >= 0) & (jj < {self.sizes[1]})"]  # fmt: skip
        return "\n".join([*head, *(f"    {line}" for line in [*body, *self.lines]), ""])

    def arrays(self, seed: int, layouts: list[str]) -> list[Any]:
        """Inputs with special values among random ones, and empty outputs."""
        rng = np.random.default_rng(seed)
        count = self.sizes[0] * self.sizes[1]
        made = []
        for dtype, layout in zip(self.inputs, layouts, strict=False):
            values = random_values(rng, dtype, count, (-10.0, 10.0))
            values = np.where(rng.random(count) < 0.1, rng.choice(specials(dtype), count), values)
            made.append(LAYOUTS[layout](values.reshape(self.sizes)))
        return made + [np.zeros(self.sizes, t.dtype.numpy) for t in self.outputs]


def joined(a: str, b: str) -> str:
    """Shape that two shapes broadcast to."""
    if b in (a, SCALAR):
        return a
    return b if a == SCALAR else FULL


def extreme_type(dtype: DType) -> DType:
    return int32 if dtype.is_int and dtype.bits < 32 else dtype


def sum_type(dtype: DType) -> DType:
    if dtype.bits >= 32:
        return dtype
    return uint32 if dtype.kind == "uint" else int32


STATEMENTS = ("binary", "binary", "binary", "integers", "compare", "where", "where", "unary", "cast", "reduce", "scan",
              "move", "control", "dot", "gather", "store_and_load")  # fmt: skip


@st.composite
def programs(draw: Any) -> Program:
    sizes = draw(st.tuples(st.integers(3, 40), st.integers(3, 70)))
    least = [-(-size // MOST_PROGRAMS) for size in sizes]
    blocks = draw(st.tuples(st.integers(least[0], 17), st.integers(least[1], 40)))
    program = Program(draw, draw(st.booleans()), draw(st.sampled_from((0, 0, 3))), sizes, blocks)
    for _ in range(draw(st.integers(1, 3))):
        program.load()
    for _ in range(draw(st.integers(1, 8))):
        getattr(program, program.pick(STATEMENTS))()
    program.store(program.terms[-1], "exact")
    program.rounding()
    return program
