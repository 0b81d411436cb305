"""Random kernels with a product of matrices, in the forms that passes over products know."""

from __future__ import annotations

import random

from pypto.ir.core import Function
from pypto.ir.parser import parse_function
from tests.passes.matrices import PRELUDE, load, store

ARGS = "%lhs: array<f32, 2>, %rhs: array<f32, 2>, %out: array<f32, 2>, %n: i32, %k: i64"
# Ops between a load and its product: `{0}` is the operand, `{1}` its shape.
BETWEEN = (
    *("", "", ""),
    "%v{0}: tile<{1}xf32> = neg %{0}",
    "%c{0}: tile<{1}xf32> = constant {{value = 1.0}} %v{0}: tile<{1}xf32> = add %{0}, %c{0}",
)


class ProductMaker:
    """Builds one kernel: a tile of C = A B, or the loop of attention; equal seeds give equal kernels."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice
        self.rows, self.columns, self.depth = self.pick((8, 32)), self.pick((16, 32)), self.pick((8, 16))
        self.row_axis, self.column_axis = self.pick(((None, 0), (None, 1), (0, None), (0, 1), (1, 0)))

    def function(self) -> Function:
        form = self.pick((self.flat, self.convolution, self.wrapped, self.counted, self.moving, self.attention))
        body = form()
        return parse_function(f"kernel @f({ARGS}) {{ {PRELUDE} {self.places()} {body} yield }}")

    def grid(self) -> tuple[int, int, int]:
        """Several programs along the axes on which the place of a tile depends."""
        axes = (self.row_axis, self.column_axis)
        return 3 if 0 in axes else 1, 2 if 1 in axes else 1, 1

    def places(self) -> str:
        """Where the program's tile begins."""
        return self.place("row", self.row_axis, self.rows) + self.place("column", self.column_axis, self.columns)

    def place(self, name: str, axis: int | None, size: int) -> str:
        if axis is None:
            return f"%{name}: i64 = constant {{value = 0}}"
        return f"""
            %{name}1: i32 = program_id {{axis = {axis}}}
            %{name}2: i64 = cast %{name}1 {{dtype = i64}}
            %{name}3: i64 = constant {{value = {size}}}
            %{name}: i64 = mul %{name}2, %{name}3
        """

    def store(self, value: str, columns: int = 0, rows: str = "%ro") -> str:
        shape = self.rows, columns or self.columns
        return store(value, "%row", "%column", shape, rows=rows, columns=self.pick(("%co", "%k")))

    def between(self, name: str, shape: str) -> tuple[str, str]:
        """An op on an operand, perhaps, and the value that is multiplied."""
        text = self.pick(BETWEEN)
        return text.format(name, shape), f"%v{name}" if text else f"%{name}"

    def dot(self, depth: int, more: str = "", result: str = "%result") -> str:
        """The product of `%left` and `%right`."""
        left, a = self.between("left", f"{self.rows}x{depth}")
        right, b = self.between("right", f"{depth}x{self.columns}")
        return f"{left} {right} {result}: tile<{self.rows}x{self.columns}xf32> = dot {a}, {b}{more}"

    def convolution(self) -> str:
        """A left side that all programs share."""
        self.rows, self.columns = 32, 32
        self.row_axis, self.column_axis = None, self.pick((0, 1))
        return self.flat(256)

    def flat(self, depth: int = 16) -> str:
        return f"""
            {load("%left", "a", "%row", "%zero", (self.rows, depth))}
            {load("%right", "b", "%zero", "%column", (depth, self.columns))}
            {self.dot(depth)}
            {self.store("%result")}
        """

    def wrapped(self) -> str:
        """Rows of A from the `%k`th on are its first one."""
        inside = load("%left", "a", "%zero", "%zero", (self.rows, 16), rows="%k")
        beyond = load("%gather", "a", "%zero", "%zero", (self.rows, 16), rows="%ends")
        return f"""
            %each: tile<{self.rows}x1xptr<f32>> = broadcast_to %pa {{shape = [{self.rows}, 1]}}
            %size: i64 = constant {{value = {self.rows}}}
            %short: i1 = lt %k, %size
            %ends: i64 = where %short, %ra, %zero
            {beyond.replace("%pa", "%each").replace("%sa", "%zero")}
            {inside.replace("%k, %ca", "%k, %ca, %gather")}
            {load("%right", "b", "%zero", "%column", (16, self.columns))}
            {self.dot(16)}
            %stored: i64 = cast %n {{dtype = i64}}
            {self.store("%result", rows=self.pick(("%ro", "%stored", "%k")))}
        """

    def loop(self, bounds: str, head: str, body: str, yields: str) -> str:
        kind = f"tile<{self.rows}x{self.columns}xf32>"
        lead = head.replace(":", "_result:")  # results of what is carried beside the sum
        args = f"%i: {'i64' if '%far' in bounds else 'i32'}, {head}%sum: {kind}"
        return f"""
            %acc: {kind} = constant {{value = {self.pick(("0.0", "2.0"))}}}
            {lead}%total: {kind} = for {bounds}, %acc {{ ({args})
              {body} {self.dot(self.depth, ", %sum", "%next")}
              yield {yields}%next
            }}
            {self.store("%total")}
        """

    def counted(self) -> str:
        """Loads at the loop's index."""
        far = self.pick((16, 64, 80))
        numbers = f"""
            %lo: i64 = constant {{value = 0}} %st: i64 = constant {{value = {self.depth}}}
            %far: i64 = constant {{value = {far}}}
        """
        a = load("%left", "a", "%row", "%i", (self.rows, self.depth), columns=self.pick(("%ca", "%k")))
        b = load("%right", "b", "%i", "%column", (self.depth, self.columns), rows=self.pick(("%rb", "%k")))
        text = numbers + self.loop("%lo, %far, %st", "", a + b, "")
        return text.replace("%lo, %far, %st", f"%lo, {self.pick(('%far', '%k'))}, %st")

    def moving(self) -> str:
        """Loads whose pointers and ends move."""
        a = load("%left", "a", "%row", "%zero", (self.rows, self.depth), columns="%rest").replace("%pa", "%xa")
        b = load("%right", "b", "%zero", "%column", (self.depth, self.columns), rows="%rest").replace("%pb", "%xb")
        body = f"""
            %index: i64 = cast %i {{dtype = i64}}
            %done: i64 = mul %index, %d
            %rest: i64 = sub %k, %done
            {a} {b}
            %ya: ptr<f32> = addptr %xa, %d
            %yb: ptr<f32> = addptr %xb, %jump
        """
        numbers = f"""
            %lo: i32 = constant {{value = 0}} %st: i32 = constant {{value = 1}}
            %d: i64 = constant {{value = {self.depth}}} %jump: i64 = mul %sb, %d
        """
        head = "%xa: ptr<f32>, %xb: ptr<f32>, "
        return numbers + self.loop("%lo, %n, %st, %pa, %pb", head, body, "%ya, %yb, ")

    def attention(self) -> str:
        self.rows = rows = self.pick((8, 32, 32))
        keep = self.pick(("true", "false"))
        top = f"tile<{rows}x1xf32>" if keep == "true" else f"tile<{rows}xf32>"
        shaped = "" if keep == "true" else f"%shaped: tile<{rows}x1xf32> = reshape %top {{shape = [{rows}, 1]}}"
        return f"""
            %lo: i64 = constant {{value = 0}} %far: i64 = constant {{value = 64}} %st: i64 = constant {{value = 32}}
            {load("%q", "a", "%row", "%zero", (rows, 16))}
            %acc: tile<{rows}x16xf32> = constant {{value = 0.0}}
            %total: tile<{rows}x16xf32> = for %lo, %far, %st, %acc {{ (%i: i64, %sum: tile<{rows}x16xf32>)
              {load("%keys", "b", "%i", "%zero", (32, 16))}
              %turned: tile<16x32xf32> = permute %keys {{dims = [1, 0]}}
              %s: tile<{rows}x32xf32> = dot %q, %turned
              %top: {top} = max %s {{axes = [1], keep_dims = {keep}}}
              {shaped}
              %tops: tile<{rows}x32xf32> = broadcast_to {"%shaped" if shaped else "%top"} {{shape = [{rows}, 32]}}
              %d: tile<{rows}x32xf32> = sub %s, %tops
              %next: tile<{rows}x16xf32> = dot %d, %keys, %sum
              yield %next
            }}
            {self.store("%total", 16)}
        """
