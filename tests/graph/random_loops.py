"""Random functions with loops as text, and their comparison with plain numpy.

`python -m tests.graph.random_loops 1000` runs a thousand of them, and prints how many agree, how many are refused and
why, and the text of those that differ. Numbers are small multiples of powers of two, so that sums are exact in any
order. What raises an error in numpy is drawn again.
"""

from __future__ import annotations

import argparse
import linecache
import random
import warnings
from collections import Counter
from typing import Any, Final

import numpy as np

import pypto as pto
from pypto.errors import Diagnostic

DTYPES: Final = ("float64", "float64", "float32", "int64", "int32", "int16", "uint8")
SIZE: Final = 9


class LoopProgram:
    """A random function of two vectors, a matrix and a number.

    Parameters
    ----------
    seed : int
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.seed = seed
        self.dtype = self.random.choice(DTYPES)
        self.is_float = self.dtype.startswith("float")
        self.lines: list[str] = []
        self.indices: list[str] = []
        self.numbers = ["s", "n"]
        self.loops = 0

    def text(self) -> str:
        """Return the function's text."""
        self.lines = ["def function(x, y, m, s):", "    n = 0", "    z = np.zeros_like(x)"]
        self.indices = []
        for _ in range(self.random.randint(1, 2)):
            self.loop(1)
        self.lines.append("    return z, s, n, x")
        return "\n".join(self.lines) + "\n"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    # --- statements --------------------------------------------------------------------------------------------------

    def loop(self, depth: int) -> None:
        index = f"i{self.loops}"
        self.loops += 1
        kind = self.pick("range", "range", "range", "while", "elements")
        if kind == "while":
            self.line(depth, f"{index} = {self.pick('0', '2', '5')}")
            self.line(depth, f"while {index} < {self.pick('7', '8', '9')}:")
            self.indices.append(index)
            self.body(depth + 1)
            self.line(depth + 1, f"{index} += {self.pick('1', '1', '2')}")
        elif kind == "elements":
            self.line(
                depth,
                f"for {index}, e{index} in ((0, 1), (2, 3)):" if self.random.random() < 0.1 else f"for e{index} in y:",
            )
            self.body(depth + 1, f"e{index}")
        else:
            self.line(depth, f"for {index} in range({self.bounds()}):")
            self.indices.append(index)
            self.body(depth + 1)
        if kind != "elements":
            self.indices.remove(index)

    def bounds(self) -> str:
        inner = self.random.choice(self.indices) if self.indices else "4"
        return self.pick(
            str(SIZE), f"1, {SIZE}", f"{SIZE - 1}, -1, -1", f"{SIZE - 2}, 0, -2", f"{inner}", f"{inner} + 1, {SIZE}",
            f"{SIZE - 1}, {inner}, -1", "len(x)", "x.shape[0] - 1", f"0, {SIZE}, 2",
        )  # fmt: skip

    def body(self, depth: int, element: str = "") -> None:
        numbers = list(self.numbers)
        if element:
            self.numbers.append(element)
        for _ in range(self.random.randint(1, 4)):
            self.statement(depth)
        self.numbers = numbers

    def statement(self, depth: int) -> None:
        kind = self.random.random()
        if kind < 0.12 and depth < 3:
            self.loop(depth)
        elif kind < 0.27 and depth < 4:
            self.line(depth, f"if {self.condition()}:")
            self.statement(depth + 1)
            if self.random.random() < 0.5:
                self.line(depth, "else:")
                self.statement(depth + 1)
        elif kind < 0.32 and depth > 1:
            self.line(depth, f"if {self.condition()}:")
            self.line(depth + 1, self.pick("break", "continue") if "while" not in "".join(self.lines) else "break")
        elif kind < 0.45:
            self.line(depth, f"s = {self.damped(self.number())}")
        elif kind < 0.52:
            self.line(depth, f"n {self.pick('+= 1', '-= 1', '+= 2')}")
        elif kind < 0.6:
            name = f"t{len(self.numbers)}"
            self.line(depth, f"{name} = {self.damped(self.number())}")
            self.numbers.append(name)
        elif kind < 0.78:
            self.line(depth, f"{self.element()} = {self.damped(self.number())}")
        elif kind < 0.84:
            self.line(depth, f"{self.element()} {self.pick('+=', '-=')} {self.pick('1', 's', self.element())}")
        else:
            self.line(depth, f"{self.vector_target()} = {self.damped_vector(self.vector())}")

    # --- expressions -------------------------------------------------------------------------------------------------

    def damped(self, text: str) -> str:
        if self.is_float:
            return f"min(max({text}, -8.0), 8.0) * 0.5"
        return self.pick(f"({text}) % 11", f"min({text}, 7)", f"({text}) // 2")

    def damped_vector(self, text: str) -> str:
        return f"np.minimum(np.maximum({text}, -8), 8) * 0.5" if self.is_float else f"({text}) % 7"

    def index(self) -> str:
        if not self.indices:
            return self.pick("0", "3", "-1", "-2", "n % 5")
        i = self.random.choice(self.indices)
        j = self.random.choice(self.indices)
        return self.pick(i, i, f"{i} - 1", f"{i} - {j}", f"({i} + 1) % {SIZE}", "0", "-1", f"-{i}", f"{i} // 2")

    def element(self) -> str:
        name = self.pick("x", "y", "z", "m")
        return f"m[{self.index()}, {self.index()}]" if name == "m" else f"{name}[{self.index()}]"

    def number(self) -> str:
        left, right = self.leaf(), self.leaf()
        return self.pick(
            f"{left} + {right}", f"{left} - {right}", f"{left} * 2 - {right}", left, f"max({left}, {right})",
            f"min({left}, {right})", f"abs({left}) + {right}", f"({left} if {self.condition()} else {right})",
            f"np.sum({self.vector()})", self.pick(f"np.dot({self.vector()}, {self.vector()})", left),
            f"np.max(m[:, {self.index()}])", f"{left} * {right}",
        )  # fmt: skip

    def leaf(self) -> str:
        kind = self.random.random()
        if kind < 0.35:
            return self.random.choice(self.numbers)
        if kind < 0.5 and self.indices:
            return self.random.choice(self.indices)
        if kind < 0.65:
            return (
                self.pick("1", "3", "0", "2") if not self.is_float or kind < 0.58 else self.pick("0.5", "1.25", "0.0")
            )
        return self.element()

    def condition(self) -> str:
        left, right = self.leaf(), self.leaf()
        test = f"{left} {self.pick('<', '>', '<=', '>=', '==', '!=')} {right}"
        return self.pick(test, test, test, f"{test} and n < 6", f"not {test}", f"{test} or s > 2")

    def slice(self) -> str:
        if not self.indices:
            return self.pick(":", "1:", ":-1", "2:6")
        i = self.random.choice(self.indices)
        return self.pick(":", "1:", ":-1", f":{i}", f"{i}:", f"{i} + 1:", f"{i}:{i} + 3", f":{i} - 1", f"-{i}:")

    def vector_target(self) -> str:
        part = self.slice()
        self.part = part
        return self.pick(f"x[{part}]", f"z[{part}]", f"m[{self.index()}, {part}]", f"m[{part}, {self.index()}]")

    def vector(self) -> str:
        part = getattr(self, "part", ":")
        one = self.pick(
            f"x[{part}]", f"y[{part}]", f"z[{part}]", f"m[{self.index()}, {part}]", f"m[{part}, {self.index()}]"
        )
        two = self.pick(f"y[{part}]", f"m[{part}, {self.index()}]", f"x[{part}][::-1]", self.leaf())
        return self.pick(
            one, f"{one} + {two}", f"{one} - {two}", f"np.abs({one})", f"np.where({one} > {two}, {one}, {two})"
        )


def arguments(program: LoopProgram) -> tuple[Any, ...]:
    """Return arguments of a program: multiples of a quarter, or small integers."""
    rng = np.random.default_rng(program.seed)
    scale = 4 if program.is_float else 1
    low = 0 if program.dtype == "uint8" else -6
    x, y, m = (
        (rng.integers(low * scale, 7 * scale, shape) / scale).astype(program.dtype)
        for shape in ((SIZE,), (SIZE,), (SIZE, SIZE))
    )
    return x, y, m, 0.25 if program.is_float else 1


def defined(text: str, seed: int) -> Any:
    """Return the function of a text, which the tracer finds through `linecache`."""
    file = f"<random loops {seed}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names: dict[str, Any] = {"np": np, "__name__": "random_loops"}
    exec(compile(text, file, "exec"), names)
    return names["function"]


def copied(args: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(x.copy() if isinstance(x, np.ndarray) else x for x in args)


def outcome(seed: int) -> tuple[str, str, str]:
    """Return what became of a program (`agrees`, `refused`, `differs` or `invalid`), why, and its text."""
    program = LoopProgram(seed)
    text = program.text()
    function, args = defined(text, seed), arguments(program)
    wanted_args = copied(args)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wanted = function(*wanted_args)
        except Exception as error:
            return "invalid", type(error).__name__, text
        try:
            given = copied(args)
            found = pto.fuse(function)(*given)
        except Diagnostic as error:
            return "refused", f"{error.code} {str(error).splitlines()[0]}"[:100], text
    pairs = list(zip((*wanted, *wanted_args), (*found, *given), strict=True))
    for number, (a, b) in enumerate(pairs):
        if isinstance(a, np.ndarray) and (a.dtype != b.dtype or a.shape != b.shape):
            return "differs", f"result {number}: {a.dtype}{a.shape} is {b.dtype}{b.shape}", text
        if not np.allclose(np.asarray(a, float), np.asarray(b, float), rtol=1e-5, atol=1e-6, equal_nan=True):
            return "differs", f"result {number}: {a} is {b}", text
    return "agrees", "", text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for seed in range(options.first, options.first + options.count):
        kind, reason, text = outcome(seed)
        kinds[kind] += 1
        if kind == "refused":
            reasons[reason] += 1
        if kind == "differs":
            print(f"--- {seed}: {reason}\n{text}", flush=True)
    print(dict(kinds), *reasons.most_common(12), sep="\n")


if __name__ == "__main__":
    main()
