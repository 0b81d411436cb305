"""Random programs on arrays as people write them: text of a function of an object, arrays and a number.

They have loops in loops, `while`, `break`, `continue`, branches, masks, attributes of an object, slices with steps,
views, arrays made in the function, and updates in place. Numbers are multiples of a half and bounded, so that sums are
exact in any order. `compare_programs` runs them.
"""

from __future__ import annotations

import random
from typing import Any, Final

DTYPES: Final = ("float64", "float64", "float32", "int64", "int32", "int16", "uint8")
N: Final = 7  # the size of vectors, and of each side of matrices


class State:
    """An object whose attributes a program reads, and whose array it may update."""

    def __init__(self, w: Any, k: Any, count: int) -> None:
        self.w = w
        self.k = k
        self.count = count


class Program:
    """A random function of an object, two vectors, a matrix and a number.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.dtype = self.random.choice(DTYPES)
        self.is_float = self.dtype.startswith("float")
        self.lines = ["def function(self, x, y, m, s):", "    n, w, k = 0, self.w, self.k"]
        self.vectors = ["x", "y", "w"]
        self.matrices = ["m"]
        self.numbers = ["s", "k"]
        self.indices: list[str] = []
        self.loops = self.names = 0
        self.inside: list[str] = []  # the kinds of the loops around

    def text(self) -> str:
        """Return the function's text."""
        for _ in range(self.random.randint(3, 7)):
            self.statement(1)
        results = [name for name in (*self.vectors, *self.matrices) if name not in ("x", "y", "m", "w")]
        self.lines.append(f"    return [{', '.join([*results, 's', 'n', 'x'])}]")
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def name(self, stem: str) -> str:
        self.names += 1
        return f"{stem}{self.names}"

    @property
    def is_compiled(self) -> bool:
        """Whether the loops around become kernels, in which conditions on values are legal."""
        return bool(self.inside) and set(self.inside) <= {"range", "while", "rows"}

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        kinds = [self.vector_update, self.vector_update, self.mask, self.matrix_update, self.number, self.element]
        if depth == 1:
            kinds += [self.new_vector, self.new_vector, self.new_matrix, self.view, self.loop, self.loop, self.loop]
        if depth < 4:
            kinds += [self.branch]
        if 1 < depth < 3:
            kinds += [self.loop]
        if self.is_compiled:
            kinds += [self.element, self.number, self.leave]
        if not self.inside:
            kinds += [self.attribute]
        self.random.choice(kinds)(depth)

    def block(self, depth: int, most: int = 3) -> None:
        vectors, matrices, numbers = list(self.vectors), list(self.matrices), list(self.numbers)
        for _ in range(self.random.randint(1, most)):
            self.statement(depth)
        self.vectors, self.matrices, self.numbers = vectors, matrices, numbers

    def attribute(self, depth: int) -> None:
        part, factor = self.slice(), self.pick("self.count", "len(self.w)", "1")
        self.line(depth, f"self.w[{part}] {self.pick('=', '+=', '-=')} {self.vector()}[{part}]")
        self.line(depth, f"self.w[:] = {self.damped(f'self.w + self.k * {factor}')}")

    def new_vector(self, depth: int) -> None:
        name, d = self.name("v"), f"dtype=np.{self.dtype}"
        kinds = (
            f"np.zeros({N}, {d})", "np.zeros_like(x)", f"np.ones({N}, np.{self.dtype})", f"np.full({N}, 2, {d})",
            f"np.arange({N}, {d})", "x.copy()", f"np.empty(len(x), {d})", "np.array(y)", "np.empty_like(y)",
            self.vector(), f"np.cumsum({self.vector()}).astype(np.{self.dtype})", f"np.sort({self.vector()})",
            f"np.roll({self.vector()}, {self.pick('1', '-2')})", f"np.concatenate([{self.vector()}[2:], y[:2]])",
            f"np.where({self.test()}, {self.vector()}, {self.vector()})", f"np.flip({self.vector()})",
            f"np.maximum.accumulate({self.vector()})", f"{self.matrix()}.sum({self.pick('0', '1')})",
            f"{self.matrix()} @ {self.vector()}", f"{self.matrix()}.max(axis=0)", "np.diagonal(m).copy()",
        )  # fmt: skip
        made = self.pick(*kinds)
        self.line(depth, f"{name} = {made}")
        if "empty" in made:
            self.line(depth, f"{name}[:] = {self.damped(self.vector())}")
        elif "@" in made or "sum" in made:
            self.line(depth, f"{name} = {self.damped(name)}")
        self.vectors.append(name)

    def new_matrix(self, depth: int) -> None:
        name = self.name("m")
        made = self.pick(
            f"np.zeros(({N}, {N}), np.{self.dtype})", "m.copy()", f"np.eye({N}, dtype=m.dtype)", "np.ones_like(m)",
            f"{self.matrix()}.T.copy()", f"{self.vector()}[:, None] + {self.vector()}", f"np.outer({self.vector()}, y)",
            f"np.where({self.matrix()} > {self.constant()}, m, {self.vector()})", f"np.stack([{self.vector()}] * {N})",
            f"np.tril({self.matrix()})", f"np.full(m.shape, {self.constant()}, m.dtype)", f"m @ {self.matrix()}",
        )  # fmt: skip
        self.line(depth, f"{name} = {made}")
        if "outer" in made or "@" in made or "None" in made:
            self.line(depth, f"{name} = {self.damped(name)}")
        self.matrices.append(name)

    def view(self, depth: int) -> None:
        matrix = self.random.choice(self.matrices)
        if self.random.random() < 0.3:
            name = self.name("m")
            self.line(depth, f"{name} = {matrix}{self.pick('.T', '[::-1]', '[:, ::-1]')}")
            self.matrices.append(name)
            return
        name, source = self.name("v"), self.random.choice(self.vectors)
        self.line(depth, f"{name} = {self.pick(f'{matrix}[2]', f'{matrix}[:, -1]', f'{source}[::-1]', source)}")
        self.vectors.append(name)

    def vector_update(self, depth: int) -> None:
        target, part = self.random.choice(self.vectors), self.slice()
        if self.random.random() < 0.2:
            target, part = f"{self.random.choice(self.matrices)}[{self.index()}]", self.slice()
        if self.random.random() < 0.4:
            value = self.pick("1", f"{self.vector()}[{part}]", "y[" + part + "]")
            self.line(depth, f"{target}[{part}] {self.pick('+=', '-=')} {value}")
            self.line(depth, f"{target}[:] = {self.damped(target)}")
        elif self.random.random() < 0.3:
            self.line(depth, f"{target}[1:] = {self.damped(f'{target}[:-1] + {self.vector()}[1:]')}")
        else:
            value = f"{self.vector()}[{part}]"
            other = self.pick(f" + {self.vector()}[{part}]", " * 2", f" - {self.leaf()}", "")
            self.line(depth, f"{target}[{part}] = {self.damped(value + other)}")

    def mask(self, depth: int) -> None:
        target = self.random.choice(self.vectors)
        other = self.pick(target, "x", "y")
        test = f"{other} {self.pick('<', '>', '>=', '!=')} {self.constant()}"
        kind = self.random.random()
        if kind < 0.3:
            self.line(depth, f"{target}[{test}] = {self.constant()}")
        elif kind < 0.5:
            self.line(depth, f"{target}[{test}] {self.pick('+=', '*=')} {self.pick('1', '2')}")
            self.line(depth, f"{target}[:] = {self.damped(target)}")
        elif kind < 0.65:
            mask = self.name("b")
            self.line(depth, f"{mask} = ({test}) & {self.pick(f'(x != {self.constant()})', f'~({self.test()})')}")
            self.line(depth, f"{target}[{mask}] = {self.vector()}[{mask}]")
        elif kind < 0.8:
            self.line(depth, f"s = {self.damped_number(f's + {target}[{test}].sum()')}")
        elif kind < 0.9:
            matrix = self.random.choice(self.matrices)
            self.line(depth, f"{matrix}[{matrix} > {self.constant()}] = {self.leaf()}")
        else:
            self.line(depth, f"n = n + np.count_nonzero({test})")

    def matrix_update(self, depth: int) -> None:
        matrix, other = self.random.choice(self.matrices), self.matrix()
        kind = self.random.random()
        if kind < 0.3:
            inner = f"{other}[:-2, 1:-1] + {other}[2:, 1:-1] - {other}[1:-1, {self.pick(':-2', '2:')}]"
            self.line(depth, f"{matrix}[1:-1, 1:-1] = {self.damped(inner)}")
        elif kind < 0.5:
            self.line(depth, f"{matrix}[{self.index()}, :] = {self.damped(f'{self.vector()} + {self.vector()}')}")
        elif kind < 0.65:
            self.line(depth, f"{matrix}[:, {self.index()}] = {self.damped(f'{self.vector()} - {self.leaf()}')}")
        elif kind < 0.8:
            i, j = self.index(), self.index()
            self.line(depth, f"{matrix}[{i}, {j}] = {self.damped_number(f'{matrix}[{j}, {i}] + {self.leaf()}')}")
        else:
            self.line(depth, f"{matrix}[::2] = {self.damped(f'{other}[::2] + {self.vector()}')}")

    def number(self, depth: int) -> None:
        kind = self.random.random()
        if kind < 0.2:
            self.line(depth, f"n {self.pick('+= 1', '-= 1', '+= 2')}")
        elif kind < 0.35:
            name = self.name("t")
            self.line(depth, f"{name} = {self.damped_number(self.sum())}")
            self.numbers.append(name)
        else:
            self.line(depth, f"s = {self.damped_number(self.sum())}")

    def element(self, depth: int) -> None:
        target = f"{self.random.choice(self.vectors)}[{self.index()}]"
        self.line(depth, f"{target} = {self.damped_number(self.sum())}")

    def branch(self, depth: int) -> None:
        known = [f"n > {self.random.randint(0, 3)}", "self.count > 2", "len(x) > 3"]
        test = self.condition() if self.is_compiled else self.random.choice(known[1:])
        self.line(depth, f"if {test}:")
        self.block(depth + 1, 2)
        if self.random.random() < 0.5:
            self.line(
                depth, f"elif {self.condition()}:" if self.is_compiled and self.random.random() < 0.3 else "else:"
            )
            self.block(depth + 1, 2)

    def leave(self, depth: int) -> None:
        self.line(depth, f"if {self.condition()}:")
        self.line(depth + 1, "break" if self.inside[-1] == "while" else self.pick("break", "continue"))

    def loop(self, depth: int) -> None:
        index = f"i{self.loops}"
        self.loops += 1
        kind = self.pick("range", "range", "range", "while", "rows", "enumerate", "zip", "few")
        numbers, vectors = list(self.numbers), list(self.vectors)
        self.inside.append(kind)
        if kind == "while":
            self.line(depth, f"{index} = {self.pick('0', '1', '3')}")
            self.line(depth, f"while {index} < {self.pick('5', '6', str(N))}:")
            self.indices.append(index)
            self.block(depth + 1)
            self.line(depth + 1, f"{index} += {self.pick('1', '1', '2')}")
        elif kind == "rows":
            self.line(depth, f"for {index} in {self.random.choice(self.matrices)}:")
            self.vectors.append(index)
            self.block(depth + 1)
        elif kind in ("enumerate", "zip"):
            item = f"e{index}"
            pairs = f"enumerate({self.pick('x', 'y')})" if kind == "enumerate" else f"zip(range({N}), y)"
            self.line(depth, f"for {index}, {item} in {pairs}:")
            self.indices.append(index)
            self.numbers.append(item)
            self.block(depth + 1)
        else:
            self.line(depth, f"for {index} in range({'2' if kind == 'few' else self.bounds()}):")
            self.indices.append(index)
            self.block(depth + 1)
        self.inside.pop()
        self.indices = [i for i in self.indices if i != index]
        self.numbers, self.vectors = numbers, vectors

    def bounds(self) -> str:
        inner = self.random.choice(self.indices) if self.indices else "3"
        return self.pick(
            str(N), f"1, {N}", f"{N - 1}, -1, -1", f"{inner}", f"{inner} + 1, {N}", f"{N - 1}, {inner}, -1", "len(x)",
            "m.shape[0]", f"0, {N}, 2", "self.count", "40",
        )  # fmt: skip

    # --- expressions -------------------------------------------------------------------------------------------------

    def damped(self, text: str) -> str:
        """Return an expression with bounded multiples of a half, in the program's type."""
        if self.is_float:
            return f"np.floor(np.clip({text}, -8, 8) * 2) * 0.5"
        return self.pick(f"({text}) % 7", f"np.minimum({text}, 9)", f"({text}) // 2")

    def damped_number(self, text: str) -> str:
        if not self.is_compiled:
            return self.damped(text)
        if self.is_float:
            return f"np.floor(min(max({text}, -8.0), 8.0) * 2) * 0.5"
        return self.pick(f"({text}) % 11", f"min({text}, 7)", f"({text}) // 2")

    def constant(self) -> str:
        return self.pick("0", "1", "2", "-1" if self.dtype != "uint8" else "3", "0.5" if self.is_float else "4")

    def index(self) -> str:
        if not self.indices:
            return self.pick("0", "3", "-1", "-2", "n % 5")
        i, j = self.random.choice(self.indices), self.random.choice(self.indices)
        return self.pick(f"{i} % {N}", f"({i} + 1) % {N}", "0", "-1", f"({i} - {j}) % {N}", f"-({i} % {N})", "-2")

    def slice(self) -> str:
        fixed = (":", "1:", ":-1", "2:6", "::2", "1::3", "::-1", "-3:", "5:1:-2", "-1:2:-1", ":-4:-1")
        if not self.indices:
            return self.pick(*fixed)
        i = f"{self.random.choice(self.indices)} % {N}"
        return self.pick(*fixed, f":{i}", f"{i}:", f"({i}) + 1:", f"{i}:({i}) + 2", f":({i}):2", f"-({i}):")

    def vector(self) -> str:
        one = self.random.choice(self.vectors)
        matrix = self.random.choice(self.matrices)
        return self.pick(one, one, one, f"{matrix}[{self.index()}]", f"{matrix}[:, {self.index()}]")

    def matrix(self) -> str:
        return self.random.choice(self.matrices)

    def test(self) -> str:
        return f"{self.vector()} {self.pick('<', '>=', '==')} {self.pick(self.vector(), self.constant())}"

    def leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.4:
            return self.random.choice(self.numbers)
        if kind < 0.5 and self.indices:
            return self.random.choice(self.indices)
        return self.constant() if kind < 0.6 else f"{self.vector()}[{self.index()}]"

    def sum(self) -> str:
        a, b = self.leaf(), self.leaf()
        return self.pick(
            f"{a} + {b}", f"{a} - {b}", f"{a} * 2 - {b}", a, f"abs({a}) + {b}", f"{a} * {b}",
            f"max({a}, {b})" if self.is_compiled else f"np.maximum({a}, {b})",
            f"np.sum({self.vector()})", f"{self.vector()} @ {self.vector()}", f"np.max({self.matrix()})",
            f"({a} if {self.condition()} else {b})" if self.is_compiled else f"np.where({a} > {b}, {a}, {b})",
            f"{self.vector()}[{self.slice()}].sum()",
        )  # fmt: skip

    def condition(self) -> str:
        test = f"{self.leaf()} {self.pick('<', '>', '<=', '>=', '==', '!=')} {self.leaf()}"
        return self.pick(test, test, f"{test} and n < 6", f"not {test}", f"{test} or s > 2")
