"""Random kernels of products: chains of them, transposed results, sums, float8 operands, extremes with a number.

``python -m tests.backends_ascend.random_products --count 200 --seed 7 --chip ascend950`` tries so many on the simulated
device, compares each with float64, and shows those that differ.
"""

from __future__ import annotations

import random
import sys
import traceback
from dataclasses import dataclass, field
from typing import Any, Final

import ml_dtypes
import numpy as np

from pypto.errors import Diagnostic
from tests.backends_ascend.units import search, units
from tests.conformance.sources import define

Array = np.ndarray[Any, Any]
EACH: Final = 24  # that are compiled and compared before the next ones are
SIZES: Final = (16, 24, 32, 40, 48)
EIGHT: Final = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
DTYPES: Final = (np.float32, np.float32, np.float16, ml_dtypes.bfloat16, *EIGHT)
NUMBERS: Final = (float("nan"), 0.25, -0.125)
NEAR: Final = 0.02  # of the greatest element: operands are rounded to 8 bits on the way


@dataclass
class Node:
    """A variable of the kernel: its name, what it is in float64, and its dtype. All are square."""

    name: str
    value: Array
    dtype: Any


@dataclass
class Case:
    """A kernel under construction, with its arguments and what it should give."""

    name: str
    dice: random.Random
    size: int
    lines: list[str] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    inputs: list[Array] = field(default_factory=list)
    wanted: list[Array] = field(default_factory=list)
    number: float = 0.25
    loops: bool = False
    kernel: Any = None
    refused: str = ""

    def add(self, text: str, value: Array, dtype: Any = np.float32) -> Node:
        node = Node(f"t{len(self.nodes)}", value, dtype)
        self.lines.append(f"{node.name} = {text}")
        self.nodes.append(node)
        return node

    def load(self, dtype: Any = None) -> Node:
        dtype = dtype or self.dice.choice(DTYPES)
        rng = np.random.default_rng(self.dice.randrange(1 << 30))
        array = (rng.standard_normal((self.size, self.size)) / np.sqrt(self.size)).astype(dtype)
        self.inputs.append(array)
        return self.add(f"a{len(self.inputs) - 1}[:, :]", array.astype(np.float64), dtype)

    def some(self, dtype: Any = None) -> Node:
        found = [node for node in self.nodes if dtype is None or node.dtype == dtype]
        return self.dice.choice(found) if found else self.load(dtype)

    def transposed(self, node: Node) -> tuple[str, Array]:
        """A name for a node or its transposed, with the value."""
        if self.dice.random() < 0.4:
            return f"pto.trans({node.name})", node.value.T
        return node.name, node.value

    def product(self) -> None:
        first = self.some()
        second = self.some(first.dtype)
        (a, left), (b, right) = self.transposed(first), self.transposed(second)
        total = left @ right
        sums = [node for node in self.nodes if node.dtype == np.float32]
        if sums and self.dice.random() < 0.25:
            acc = self.dice.choice(sums)
            self.add(f"pto.dot({a}, {b}, {acc.name})", total + acc.value)
        else:
            self.add(f"pto.dot({a}, {b})", total)

    def loop(self) -> None:
        """A sum over slices of two arguments, in a loop."""
        dtype = self.dice.choice(DTYPES)
        a, b = self.load(dtype), self.load(dtype)
        x, y = (f"a{len(self.inputs) - n}" for n in (2, 1))
        name = f"acc{len(self.nodes)}"
        self.lines += [f"{name} = pto.zeros(({self.size}, {self.size}), pto.float32)",
            f"for k in range(0, {self.size}, 8):",
            f"    {name} = pto.dot({x}[:, k : k + 8], {y}[k : k + 8, :], {name})"]  # fmt: skip
        self.add(name, a.value @ b.value)

    def arithmetic(self) -> None:
        node, other = self.some(np.float32), self.some(np.float32)
        kind = self.dice.choice(["+", "-", "scaled", "abs"])
        if kind in "+-":
            self.add(f"{node.name} {kind} {other.name}", node.value + other.value * (1 if kind == "+" else -1))
        elif kind == "scaled":
            self.add(f"{node.name} * 0.5", node.value * 0.5)
        else:
            self.add(f"pto.abs({node.name})", np.abs(node.value))

    def half(self) -> None:
        node = self.some(np.float32)
        self.add(f"{node.name}.to(pto.float16)", node.value, np.float16)

    def store(self, node: Node) -> None:
        self.lines.append(f"y{len(self.wanted)}[:, :] = {node.name}")
        self.wanted.append(node.value)

    def extreme(self, node: Node) -> None:
        name = self.dice.choice(["maximum", "minimum"])
        value = (np.maximum if name == "maximum" else np.minimum)(node.value, self.number)
        self.store(self.add(f"pto.{name}({node.name}, s, propagate_nan=True)", value))

    @property
    def text(self) -> str:
        names = [*(f"a{i}" for i in range(len(self.inputs))), *(f"y{i}" for i in range(len(self.wanted))), "s"]
        return "\n".join([f"def {self.name}({', '.join(names)}):", *(f"    {line}" for line in self.lines), ""])

    def launch(self) -> list[Array]:
        outs = [np.full((self.size, self.size), 7, np.float32) for _ in self.wanted]
        self.kernel[1](*self.inputs, *outs, self.number)
        return outs

    def __str__(self) -> str:
        return f"{self.text}\nsize {self.size}, inputs {[x.dtype.name for x in self.inputs]}, s = {self.number}"


def made(name: str, seed: int) -> Case:
    """The case of a seed."""
    dice = random.Random(seed)
    case = Case(name, dice, dice.choice(SIZES), number=dice.choice(NUMBERS))
    case.load()
    if dice.random() < 0.3:
        case.loop()
    for _ in range(dice.randint(2, 5)):
        dice.choice([case.product, case.product, case.product, case.arithmetic, case.half, case.load])()
    case.product()
    last = [node for node in case.nodes if node.dtype == np.float32][-2:]
    for node in last:
        case.store(node)
    if dice.random() < 0.4:
        case.extreme(last[-1])
    return case


def drawn(count: int, seed: int) -> list[Case]:
    return [made(f"products_{i}", 100003 * seed + i) for i in range(count)]


def compare(case: Case) -> None:
    for i, (found, wanted) in enumerate(zip(case.launch(), case.wanted, strict=True)):
        scale = np.nanmax(np.abs(wanted), initial=1e-3)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted), f"y{i}")
        np.testing.assert_allclose(found / scale, wanted / scale, rtol=0, atol=NEAR, err_msg=f"y{i}")


def differing(cases: list[Case], chip: str) -> list[tuple[Case, str]]:
    """The cases that differ or fail, with the words."""
    found = []
    with units(chip) as (unit, device):
        for builds in (True, False):
            for case in cases:
                if case.refused:
                    continue
                case.kernel = case.kernel or define(case.text, name=case.name)
                try:
                    with device:
                        case.launch() if builds else compare(case)
                except Diagnostic as error:
                    case.refused = error.message if type(error).__module__ == "pypto.errors.ascend" else "failed"
                    found += [(case, traceback.format_exc(limit=-3))] if case.refused == "failed" else []
                except Exception:  # whatever it is, it is shown beside the kernel
                    found.append((case, traceback.format_exc(limit=-3)))
                    case.refused = "failed"
            if builds:
                unit.build()
    return found


if __name__ == "__main__":
    sys.exit(search(__doc__, drawn, differing, EACH, 0))
